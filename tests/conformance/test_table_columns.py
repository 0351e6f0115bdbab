"""Tables of every other kind: its columns, and what stands in them."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.grounds import Server
from tests.conformance.objects import CRDS, NAMESPACES, lease, leases, secret, secrets
from tests.conformance.tables import ask, cells, shown
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.rows import each

NODES = path_of("v1", "nodes")


async def test_columns_of_namespaces(server: Server, namespace: str) -> None:
    table = await ask(server, f"{NAMESPACES}/{namespace}")
    assert shown(table, wide=True) == ["Name", "Status", "Age"]
    assert cells(table) == [[namespace, "Active", "AGE"]]


@pytest.fixture
async def node(server: Server, namespace: str) -> AsyncIterator[str]:
    """A node that takes no pods."""
    name = f"node-{namespace}"
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}
    await server.api.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": True}})
    yield name
    await server.api.delete(f"{NODES}/{name}")


async def test_columns_of_nodes(server: Server, node: str) -> None:
    table = await ask(server, f"{NODES}/{node}")
    assert shown(table) == ["Name", "Status", "Roles", "Age", "Version"]
    assert shown(table, wide=True)[5:] == [
        *("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")
    ]
    assert cells(table) == [
        [node, "Unknown,SchedulingDisabled", "gpu,worker", "AGE", "", "<none>", "<none>", *["<unknown>"] * 3]
    ]
    info = dict.fromkeys(("machineID", "systemUUID", "bootID", "kubeProxyVersion", "operatingSystem"), "x")
    info |= {"kubeletVersion": "v1", "osImage": "os", "kernelVersion": "k", "containerRuntimeVersion": "r"}
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        # Since 1.36 the architecture stands behind the kernel.
        "nodeInfo": {**info, "architecture": ""},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }
    await server.api.patch(f"{NODES}/{node}/status", {"status": status})
    (row,) = cells(await ask(server, f"{NODES}/{node}"))
    assert row[1:] == ["Ready,SchedulingDisabled", "gpu,worker", "AGE", "v1", "10.0.0.1", "<none>", "os", "k", "r"]


async def test_columns_of_config_maps_secrets_and_leases(server: Server, namespace: str) -> None:
    await server.api.create(secrets(namespace), secret("a", stringData={"k": "v", "l": "w"}))
    table = await ask(server, secrets(namespace))
    assert (shown(table, wide=True), cells(table)) == (["Name", "Type", "Data", "Age"], [["a", "Opaque", 2, "AGE"]])

    await server.api.create(leases(namespace), {**lease("a"), "spec": {"holderIdentity": "me"}})
    await server.api.create(leases(namespace), lease("b"))
    table = await ask(server, leases(namespace))
    assert (shown(table, wide=True), cells(table)) == (
        ["Name", "Holder", "Age"],
        [["a", "me", "AGE"], ["b", "", "AGE"]],
    )

    accounts = path_of("v1", "serviceaccounts", namespace=namespace)
    await server.api.create(accounts, {"metadata": {"name": "a"}})
    table = await ask(server, f"{accounts}/a")
    assert (shown(table, wide=True), cells(table)) == (["Name", "Age"], [["a", "AGE"]])


@each(
    ("spec", "row"),
    [
        (
            {"ports": [{"port": 80}, {"name": "b", "port": 1, "protocol": "UDP"}], "selector": {"b": "2", "a": "1"}},
            ["ClusterIP", "IP", "<none>", "80/TCP,1/UDP", "AGE", "a=1,b=2"],
        ),
        ({"clusterIP": "None"}, ["ClusterIP", "None", "<none>", "<none>", "AGE", "<none>"]),
        (
            {"type": "ExternalName", "externalName": "example.com"},
            ["ExternalName", "<none>", "example.com", "<none>", "AGE", "<none>"],
        ),
    ],
)
async def test_columns_of_services(server: Server, namespace: str, spec: Object, row: list[str]) -> None:
    services = path_of("v1", "services", namespace=namespace)
    ports = {"ports": [{"name": "a", **each} for each in spec["ports"]]} if "ports" in spec else {}
    created = await server.api.create(services, {"metadata": {"generateName": "s-"}, "spec": {**spec, **ports}})
    table = await ask(server, f"{services}/{created['metadata']['name']}")
    assert shown(table) == ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"]
    assert shown(table, wide=True)[6:] == ["Selector"]
    (found,) = cells(table)
    assert found[1:] == [created["spec"].get("clusterIP", "<none>") if each == "IP" else each for each in row]


async def test_columns_of_events(server: Server, namespace: str) -> None:
    regarding = {"kind": "Pod", "namespace": namespace, "name": "p", "fieldPath": "spec.containers{c}"}
    event = {
        "metadata": {"name": "a"},
        "involvedObject": regarding,
        "reason": "R",
        "type": "Normal",
        "message": " said \n",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 3,
    }
    await server.api.create(path_of("v1", "events", namespace=namespace), event)
    for version in ("v1", "events.k8s.io/v1"):
        table = await ask(server, path_of(version, "events", namespace=namespace))
        assert shown(table) == ["Last Seen", "Type", "Reason", "Object", "Message"]
        assert shown(table, wide=True) == [
            *("Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message", "First Seen", "Count", "Name")
        ]
        assert cells(table) == [
            ["AGE", "Normal", "R", "pod/p", "spec.containers{c}", "kubelet, n", "said", "AGE", 3, "a"]
        ]


async def test_columns_of_rights(server: Server, namespace: str) -> None:
    rbac = "rbac.authorization.k8s.io/v1"
    await server.api.create(path_of(rbac, "roles", namespace=namespace), {"metadata": {"name": "a"}})
    table = await ask(server, path_of(rbac, "roles", namespace=namespace))
    created = table["rows"][0]["object"]["metadata"]["creationTimestamp"]
    assert (shown(table, wide=True), cells(table)) == (["Name", "Created At"], [["a", created]])
    assert table["columnDefinitions"][1]["type"] == "date"

    subjects = [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"},
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "v"},
        {"kind": "ServiceAccount", "name": "s", "namespace": namespace},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}
    bindings = path_of(rbac, "rolebindings", namespace=namespace)
    await server.api.create(bindings, {"metadata": {"name": "b"}, "roleRef": role, "subjects": subjects})
    table = await ask(server, bindings)
    assert shown(table) == ["Name", "Role", "Age"]
    assert shown(table, wide=True)[3:] == ["Users", "Groups", "ServiceAccounts"]
    assert cells(table) == [["b", "Role/a", "AGE", "u, v", "", f"{namespace}/s"]]


async def test_columns_of_priority_classes_and_registrations(server: Server, namespace: str) -> None:
    classes = path_of("scheduling.k8s.io/v1", "priorityclasses")
    await server.api.create(classes, {"metadata": {"name": namespace}, "value": 7, "preemptionPolicy": "Never"})
    table = await ask(server, f"{classes}/{namespace}")
    assert shown(table) == ["Name", "Value", "Global-Default", "Age", "PreemptionPolicy"]
    assert [each["type"] for each in table["columnDefinitions"]] == ["string", "integer", "boolean", "string", "string"]
    assert cells(table) == [[namespace, 7, False, "AGE", "Never"]]
    await server.api.delete(f"{classes}/{namespace}")

    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        path = path_of("admissionregistration.k8s.io/v1", plural)
        await server.api.create(path, {"metadata": {"name": namespace}})
        table = await ask(server, f"{path}/{namespace}")
        assert (shown(table, wide=True), cells(table)) == (["Name", "Webhooks", "Age"], [[namespace, 0, "AGE"]])
        await server.api.delete(f"{path}/{namespace}")


DEFINITIONS = {
    "1.35": ["Name", "Created At"],
    "1.36": ["Name", "Created At"],
    "1.37": ["Name", "Scope", "Versions", "Created At", "Group", "Kind", "ShortNames", "Established"],
}


@pytest.mark.differs("1.36")
async def test_columns_of_definitions_and_of_their_objects(server: Server, namespace: str) -> None:
    group_name = f"{namespace}.example.com"
    fields = {name: {"type": kind} for name, kind in (("size", "integer"), ("on", "boolean"), ("at", "string"))}
    names = {"type": "array", "items": {"type": "string"}}
    spec_schema = {"type": "object", "properties": {**fields, "names": names}}
    schema = {"type": "object", "properties": {"spec": spec_schema}}
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on", "priority": 1},
        {"name": "Text", "type": "string", "jsonPath": ".spec.size"},
        {"name": "First", "type": "string", "jsonPath": ".spec.names[0]"},
        {"name": "Names", "type": "string", "jsonPath": ".spec.names"},
        {"name": "Since", "type": "date", "jsonPath": ".spec.at"},
        {"name": "Owner", "type": "string", "jsonPath": r".metadata.annotations.example\.com/owner"},
    ]
    version: Object = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group_name}"},
        "spec": {
            "group": group_name,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
            "versions": [{**version, "additionalPrinterColumns": columns}, {**version, "name": "v2", "storage": False}],
        },
    }
    await server.api.create(CRDS, definition)
    things = path_of(f"{group_name}/v1", "things", namespace=namespace)

    async def served() -> Object:
        try:
            annotations = {"example.com/owner": "me"}
            spec = {"size": 3, "on": True, "names": ["a", "b"], "at": "2026-01-01T00:00:00Z"}
            body = {"apiVersion": f"{group_name}/v1", "kind": "Thing", "spec": spec}
            return await server.api.create(things, {**body, "metadata": {"name": "a", "annotations": annotations}})
        except ApiFailure as failure:
            raise NotYet(str(failure)) from failure

    await wait_for(served, "things to be served")
    body = {"apiVersion": f"{group_name}/v1", "kind": "Thing", "metadata": {"name": "b"}}
    await server.api.create(things, body)
    # A time without a zone is none.
    await server.api.create(things, {**body, "metadata": {"name": "c"}, "spec": {"at": "2026-01-01T00:00:00"}})
    table = await ask(server, things)
    assert shown(table) == ["Name", "Size", "Text", "First", "Names", "Since", "Owner"]
    assert shown(table, wide=True) == ["Name", "Size", "On", "Text", "First", "Names", "Since", "Owner"]
    assert cells(table) == [
        ["a", 3, True, "3", "a", '["a","b"]', "AGE", "me"],
        ["b", *[None] * 7],
        ["c", *[None] * 5, "<invalid>", None],
    ]
    table = await ask(server, path_of(f"{group_name}/v2", "things", namespace=namespace))
    assert [(each["name"], each["type"]) for each in table["columnDefinitions"]] == [
        ("Name", "string"),
        ("Age", "date"),
    ]
    assert cells(table) == [["a", "AGE"], ["b", "AGE"], ["c", "AGE"]]

    table = await ask(server, f"{CRDS}/things.{group_name}")
    assert shown(table, wide=True) == DEFINITIONS[server.minor.name]
    assert table["rows"][0]["cells"][0] == f"things.{group_name}"
    if server.minor.name == "1.37":
        created = table["rows"][0]["object"]["metadata"]["creationTimestamp"]
        versions = "v1(storage),v2"
        assert table["rows"][0]["cells"][1:] == ["Namespaced", versions, created, group_name, "Thing", "th", True]
    await server.api.delete(f"{CRDS}/things.{group_name}")

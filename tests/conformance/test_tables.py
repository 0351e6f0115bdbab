"""Tables, which ``kubectl get`` asks for: the columns of each kind, and what stands in them."""

import json
import re
from typing import Any

import pytest

from tests.conformance.gangs import Shapes, group
from tests.conformance.grounds import Server, only
from tests.conformance.objects import (
    CRDS,
    NAMESPACES,
    configmap,
    configmaps,
    create_pod,
    job,
    jobs,
    jobset,
    jobsets,
    lease,
    leases,
    pod,
    pod_spec,
    podgroups,
    pods,
    secret,
    secrets,
    workloads,
)
from tests.controlplane.api import ApiFailure, Object, Parameter, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.rows import each

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ACCEPT = f"{TABLE},application/json"
NODES = path_of("v1", "nodes")


async def ask(server: Server, path: str, accept: str = ACCEPT, **parameters: Parameter) -> Object:
    answer = await server.api.exchange("GET", path, parameters=parameters, headers={"Accept": accept})
    assert answer.status == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    table: Object = answer.body
    return table


def shown(table: Object, *, wide: bool = False) -> list[str]:
    """The names of its columns."""
    return [each["name"] for each in table["columnDefinitions"] if wide or not each["priority"]]


def cells(table: Object) -> list[list[Any]]:
    """The cells of its rows; what says how old something is, is AGE."""
    return [[_aged(cell) for cell in row["cells"]] for row in table["rows"]]


def _aged(cell: Any) -> Any:
    return "AGE" if isinstance(cell, str) and re.fullmatch(r"\d+[smhdy](\d+[smhd])?", cell) else cell


async def test_a_table_has_the_metadata_of_what_it_shows(server: Server, namespace: str) -> None:
    for name in "abc":
        await server.api.create(configmaps(namespace), configmap(name, {"k": "v"}, labels={"l": name}))

    # A list has its version, and what continues it.
    table = await ask(server, configmaps(namespace), limit=2, labelSelector="l")
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"]["resourceVersion"].isdecimal()
    assert table["metadata"]["continue"]
    assert cells(table) == [["a", 1, "AGE"], ["b", 1, "AGE"]]
    assert [
        {key: value for key, value in each.items() if key != "description"} for each in table["columnDefinitions"]
    ] == [
        {"name": "Name", "type": "string", "format": "name", "priority": 0},
        {"name": "Data", "type": "string", "format": "", "priority": 0},
        {"name": "Age", "type": "string", "format": "", "priority": 0},
    ]

    # One object has its own version.
    table = await ask(server, configmaps(namespace, "a"))
    stored = await server.api.get(configmaps(namespace, "a"))
    assert table["metadata"] == {"resourceVersion": stored["metadata"]["resourceVersion"]}
    assert cells(table) == [["a", 1, "AGE"]]

    # What is created is shown, too.
    headers = {"Content-Type": "application/json", "Accept": ACCEPT}
    answer = await server.api.exchange("POST", configmaps(namespace), data=json.dumps(configmap("d")), headers=headers)
    assert (answer.status, cells(answer.body)) == (201, [["d", 0, "AGE"]])

    # A failure is no table.
    answer = await server.api.exchange("GET", configmaps(namespace, "nothing"), headers={"Accept": ACCEPT})
    assert (answer.status, answer.body["kind"]) == (404, "Status")


async def test_a_row_has_as_much_of_its_object_as_is_asked_for(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a", {"k": "v"}, labels={"l": "x"}))
    stored = await server.api.get(configmaps(namespace, "a"))
    for asked in ("", "Metadata"):
        (row,) = (await ask(server, configmaps(namespace, "a"), includeObject=asked))["rows"]
        assert row["object"] == {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": stored["metadata"],
        }
    (row,) = (await ask(server, configmaps(namespace, "a"), includeObject="Object"))["rows"]
    assert row["object"] == stored
    (row,) = (await ask(server, configmaps(namespace, "a"), includeObject="None"))["rows"]
    assert row["object"] is None
    answer = await server.api.exchange(
        "GET", configmaps(namespace), parameters={"includeObject": "All"}, headers={"Accept": ACCEPT}
    )
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"] == (
        'Unable to convert to Table as requested: includeObject: Invalid value: "All": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )


async def test_the_first_form_that_is_known_is_answered(server: Server, namespace: str) -> None:
    older = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
    unknown = "application/json;as=Table;v=v2;g=meta.k8s.io"
    for accept, kind, version in (
        (f"{older},application/json", "Table", "meta.k8s.io/v1beta1"),
        (f"{unknown},{TABLE}", "Table", "meta.k8s.io/v1"),
        (f"{unknown},application/json", "ConfigMapList", "v1"),
        (f"application/json,{TABLE}", "ConfigMapList", "v1"),
    ):
        table = await ask(server, configmaps(namespace), accept)
        assert (table["kind"], table["apiVersion"]) == (kind, version), accept


async def test_the_first_table_of_a_watch_has_the_columns(server: Server, namespace: str) -> None:
    for name in "ab":
        await server.api.create(configmaps(namespace), configmap(name))
    answer = await server.api.exchange(
        "GET",
        configmaps(namespace),
        parameters={"watch": "1", "timeoutSeconds": 1, "fieldSelector": "metadata.name!=kube-root-ca.crt"},
        headers={"Accept": ACCEPT},
    )
    events = [json.loads(line) for line in answer.text.splitlines()]
    assert [(event["type"], cells(event["object"])) for event in events] == [
        ("ADDED", [["a", 0, "AGE"]]),
        ("ADDED", [["b", 0, "AGE"]]),
    ]
    first, second = (event["object"] for event in events)
    assert shown(first) == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert all(event["object"]["metadata"]["resourceVersion"].isdecimal() for event in events)


CONTAINER = {"name": "c", "image": "i", "imageID": "", "restartCount": 0, "lastState": {}}
RUNNING = {**CONTAINER, "ready": True, "started": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
ENDED = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:00Z"}
READY = [{"type": each, "status": "True"} for each in ("Initialized", "Ready")]


def waiting(reason: str, restarts: int = 0) -> Object:
    return {**CONTAINER, "ready": False, "restartCount": restarts, "state": {"waiting": {"reason": reason}}}


def ended(code: int, reason: str = "", **fields: Any) -> Object:
    state = {"terminated": {"exitCode": code, "reason": reason, **ENDED, **fields}}
    return {**CONTAINER, "ready": False, "state": state}


@each(
    ("status", "row"),
    [
        pytest.param({}, ["0/1", "Pending", "0"], id="pending"),
        pytest.param(
            {"phase": "Running", "conditions": READY, "containerStatuses": [RUNNING]},
            ["1/1", "Running", "0"],
            id="runs",
        ),
        pytest.param(
            {"phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff")]},
            ["0/1", "ImagePullBackOff", "0"],
            id="waits",
        ),
        pytest.param(
            {"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff", 3)]},
            ["0/1", "CrashLoopBackOff", "3"],
            id="restarts",
        ),
        pytest.param(
            {"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}, ["0/1", "Completed", "0"], id="ended"
        ),
        pytest.param({"phase": "Failed", "containerStatuses": [ended(1, "Error")]}, ["0/1", "Error", "0"], id="failed"),
        pytest.param({"phase": "Failed", "containerStatuses": [ended(3)]}, ["0/1", "ExitCode:3", "0"], id="exit-code"),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [ended(137, signal=9)]}, ["0/1", "Signal:9", "0"], id="signal"
        ),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, ["0/1", "Evicted", "0"], id="reason-of-the-pod"),
        pytest.param(
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            ["0/1", "SchedulingGated", "0"],
            id="gated",
        ),
    ],
)
async def test_the_status_of_a_pod_is_that_of_its_containers(
    server: Server, namespace: str, status: Object, row: list[str]
) -> None:
    created = await create_pod(server, namespace, pod("", generateName="p-"))
    name = created["metadata"]["name"]
    await server.api.patch(f"{pods(namespace, name)}/status", {"status": status})
    table = await ask(server, pods(namespace, name))
    assert cells(table) == [[name, *row, "AGE", "<none>", "<none>", "<none>", "<none>"]]
    ends = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = status.get("phase", "")
    assert table["rows"][0].get("conditions") == (
        [{"type": "Completed", "status": "True", "reason": phase, "message": ends[phase]}] if phase in ends else None
    )


@each(
    ("inits", "row"),
    [
        pytest.param([], ["0/2", "Pending", "0"], id="not-begun"),
        pytest.param([{**waiting("PodInitializing"), "name": "one"}], ["0/2", "Init:0/2", "0"], id="first"),
        pytest.param([{**waiting("ErrImagePull"), "name": "one"}], ["0/2", "Init:ErrImagePull", "0"], id="pull"),
        pytest.param([{**ended(2, "Error"), "name": "one"}], ["0/2", "Init:Error", "0"], id="failed"),
        pytest.param([{**ended(2), "name": "one"}], ["0/2", "Init:ExitCode:2", "0"], id="exit-code"),
        pytest.param(
            [{**ended(0, "Completed"), "name": "one"}, {**RUNNING, "name": "side"}],
            ["1/2", "Pending", "0"],
            id="sidecar",
        ),
    ],
)
async def test_the_status_of_a_pod_before_its_containers(
    server: Server, namespace: str, inits: list[Object], row: list[str]
) -> None:
    spec = pod_spec(
        initContainers=[
            {"name": "one", "image": "i"},
            {"name": "side", "image": "i", "restartPolicy": "Always"},
        ]
    )
    created = await create_pod(server, namespace, pod("", spec, generateName="p-"))
    name = created["metadata"]["name"]
    await server.api.patch(f"{pods(namespace, name)}/status", {"status": {"initContainerStatuses": inits}})
    assert cells(await ask(server, pods(namespace, name)))[0][:4] == [name, *row]


async def test_columns_of_pods(server: Server, namespace: str) -> None:
    table = await ask(server, pods(namespace))
    assert shown(table) == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert shown(table, wide=True)[5:] == ["IP", "Node", "Nominated Node", "Readiness Gates"]
    spec = pod_spec(nodeName="n", readinessGates=[{"conditionType": "g"}, {"conditionType": "h"}])
    await create_pod(server, namespace, pod("a", spec, finalizers=["example.com/stays"]))
    status = {
        "podIP": "10.0.0.7",
        "podIPs": [{"ip": "10.0.0.7"}],
        "phase": "Running",
        "conditions": [{"type": "g", "status": "True"}],
    }
    await server.api.patch(f"{pods(namespace, 'a')}/status", {"status": status})
    (row,) = cells(await ask(server, pods(namespace)))
    assert row[5:] == ["10.0.0.7", "n", "<none>", "1/2"]
    await server.api.delete(pods(namespace, "a"), grace=0)
    assert cells(await ask(server, pods(namespace, "a")))[0][2] == "Terminating"
    await server.api.patch(pods(namespace, "a"), {"metadata": {"finalizers": None}})


async def test_columns_of_jobs(server: Server, namespace: str) -> None:
    await server.api.create(jobs(namespace), job("a", completions=3, parallelism=2))
    await server.api.create(jobs(namespace), job("b", parallelism=2))
    table = await ask(server, jobs(namespace))
    assert shown(table) == ["Name", "Status", "Completions", "Duration", "Age"]
    assert shown(table, wide=True)[5:] == ["Containers", "Images", "Selector"]
    rows = cells(table)
    assert [[*row[:1], *row[2:7]] for row in rows] == [
        ["a", "0/3", "", "AGE", "c", "i"],
        ["b", "0/1 of 2", "", "AGE", "c", "i"],
    ]
    created = await server.api.get(jobs(namespace, "a"))
    assert rows[0][7] == f"batch.kubernetes.io/controller-uid={created['metadata']['uid']}"


async def test_columns_of_jobsets(server: Server, namespace: str) -> None:
    await server.api.create(jobsets(namespace), jobset("a"))
    table = await ask(server, jobsets(namespace))
    assert shown(table) == ["Name", "TerminalState", "Restarts", "Completed", "Suspended", "Age"]
    assert [each["type"] for each in table["columnDefinitions"]] == ["string"] * 5 + ["date"]
    (row,) = cells(table)
    assert (row[0], row[3:]) == ("a", [None, "true", "AGE"])


async def test_columns_of_workloads(server: Server, workload: str) -> None:
    table = await ask(server, workload)
    assert shown(table, wide=True) == ["Name", "Age"]
    assert cells(table) == [["w", "AGE"]]


@pytest.mark.differs("1.36")
@only("1.36", "1.37")
async def test_columns_of_pod_groups(server: Server, namespace: str, shapes: Shapes) -> None:
    await server.api.create(workloads(server, namespace), shapes.workload(shapes.template("g")))
    await server.api.create(podgroups(server, namespace), group("a", **shapes.reference("w", "g")))
    await server.api.create(
        podgroups(server, namespace), {"metadata": {"name": "b"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    )
    table = await ask(server, podgroups(server, namespace))
    assert shown(table, wide=True) == ["Name", "Policy", "Workload", "Status", "Age"]
    assert cells(table) == [["a", "Gang", "w", "Pending", "AGE"], ["b", "Basic", "<none>", "Pending", "AGE"]]
    kind = {"1.36": "PodGroupScheduled", "1.37": "PodGroupInitiallyScheduled"}[server.minor.name]
    for status, word in (("False", "Unschedulable"), ("True", "Scheduled")):
        condition = {
            "type": kind,
            "status": status,
            "reason": word,
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        path = f"{podgroups(server, namespace, 'a')}/status"
        await server.api.patch(path, {"status": {"conditions": [condition]}})
        assert cells(await ask(server, podgroups(server, namespace, "a")))[0][3] == word


async def test_columns_of_namespaces_and_nodes(server: Server, namespace: str) -> None:
    table = await ask(server, f"{NAMESPACES}/{namespace}")
    assert shown(table, wide=True) == ["Name", "Status", "Age"]
    assert cells(table) == [[namespace, "Active", "AGE"]]

    name = f"node-{namespace}"
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}
    await server.api.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": True}})
    table = await ask(server, f"{NODES}/{name}")
    assert shown(table) == ["Name", "Status", "Roles", "Age", "Version"]
    assert shown(table, wide=True)[5:] == [
        *("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")
    ]
    assert cells(table) == [
        [name, "Unknown,SchedulingDisabled", "gpu,worker", "AGE", "", "<none>", "<none>", *["<unknown>"] * 3]
    ]
    info = dict.fromkeys(("machineID", "systemUUID", "bootID", "kubeProxyVersion", "operatingSystem"), "x")
    info |= {"kubeletVersion": "v1", "osImage": "os", "kernelVersion": "k", "containerRuntimeVersion": "r"}
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        # Since 1.36 the architecture stands behind the kernel.
        "nodeInfo": {**info, "architecture": ""},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }
    await server.api.patch(f"{NODES}/{name}/status", {"status": status})
    (row,) = cells(await ask(server, f"{NODES}/{name}"))
    assert row[1:] == [
        "Ready,SchedulingDisabled",
        "gpu,worker",
        "AGE",
        "v1",
        "10.0.0.1",
        "<none>",
        "os",
        "k",
        "r",
    ]
    await server.api.delete(f"{NODES}/{name}")


async def test_columns_of_what_is_stored(server: Server, namespace: str) -> None:
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
        pytest.param(
            {"ports": [{"port": 80}, {"name": "b", "port": 1, "protocol": "UDP"}], "selector": {"b": "2", "a": "1"}},
            ["ClusterIP", "IP", "<none>", "80/TCP,1/UDP", "AGE", "a=1,b=2"],
            id="cluster-ip",
        ),
        pytest.param({"clusterIP": "None"}, ["ClusterIP", "None", "<none>", "<none>", "AGE", "<none>"], id="headless"),
        pytest.param(
            {"type": "ExternalName", "externalName": "example.com"},
            ["ExternalName", "<none>", "example.com", "<none>", "AGE", "<none>"],
            id="external-name",
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
    table = await ask(server, things)
    assert shown(table) == ["Name", "Size", "Text", "First", "Names", "Since", "Owner"]
    assert shown(table, wide=True) == ["Name", "Size", "On", "Text", "First", "Names", "Since", "Owner"]
    assert cells(table) == [["a", 3, True, "3", "a", '["a","b"]', "AGE", "me"], ["b", *[None] * 7]]
    table = await ask(server, path_of(f"{group_name}/v2", "things", namespace=namespace))
    assert [(each["name"], each["type"]) for each in table["columnDefinitions"]] == [
        ("Name", "string"),
        ("Age", "date"),
    ]
    assert cells(table) == [["a", "AGE"], ["b", "AGE"]]

    table = await ask(server, f"{CRDS}/things.{group_name}")
    assert shown(table, wide=True) == DEFINITIONS[server.minor.name]
    assert table["rows"][0]["cells"][0] == f"things.{group_name}"
    if server.minor.name == "1.37":
        created = table["rows"][0]["object"]["metadata"]["creationTimestamp"]
        versions = "v1(storage),v2"
        assert table["rows"][0]["cells"][1:] == ["Namespaced", versions, created, group_name, "Thing", "th", True]
    await server.api.delete(f"{CRDS}/things.{group_name}")

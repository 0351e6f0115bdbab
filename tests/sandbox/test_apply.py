"""Lists with several keys; tests/conformance has the rest of server-side apply."""

from __future__ import annotations

import pytest

from gangctl.sandbox.api import Api, Caller, WriteOptions
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.managed import map_keys
from gangctl.sandbox.objects import Object
from tests.rows import each

ME = Caller("me")


@each(
    ("path", "keys"),
    [
        ("JobSet.spec.replicatedJobs.dependsOn", ("name",)),
        ("JobSet.spec.replicatedJobs.template.spec.template.spec.containers.env", ("name",)),
        ("Pod.spec.containers.resources.claims", ("name",)),
        ("Pod.spec.containers.ports", ("containerPort", "protocol")),
        ("Pod.spec.tolerations", None),
        ("Pod.status.hostIPs", None),
        ("Job.status.conditions", None),
        ("Job.status.uncountedTerminatedPods.failed", ()),
        ("ConfigMap.metadata.finalizers", ()),
        ("Gang.metadata.ownerReferences", ("uid",)),
        ("Gang.status.conditions", ("type",)),
    ],
)
def test_lists_have_the_keys_of_their_types(path: str, keys: tuple[str, ...] | None) -> None:
    assert map_keys(tuple(path.split("."))) == keys


async def test_list_items_are_owned_by_their_keys(api: Api) -> None:
    services = api.kind("services")

    async def apply(manager: str, *ports: Object) -> Object:
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": list(ports)}}
        options = WriteOptions(field_manager=manager)
        return await api.patch(services, "default", "s", body, "apply", ME, options)

    await apply("one", {"name": "a", "port": 1})
    both = await apply("two", {"name": "b", "port": 2})
    assert [each["port"] for each in both["spec"]["ports"]] == [1, 2]
    (owned,) = (each["fieldsV1"] for each in both["metadata"]["managedFields"] if each["manager"] == "two")
    assert list(owned["f:spec"]["f:ports"]) == ['k:{"port":2,"protocol":"TCP"}']
    with pytest.raises(StatusError, match=r'\.spec\.ports\[port=1,protocol="TCP"\]\.name'):
        await apply("two", {"name": "other", "port": 1}, {"name": "b", "port": 2})
    left = await apply("one")
    assert [each["port"] for each in left["spec"]["ports"]] == [2]

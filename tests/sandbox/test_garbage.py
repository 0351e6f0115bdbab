"""PodGroups that outlive their pods, and what only a sandbox does.

tests/conformance has groups whose pods are deleted, owners, and namespaces.
"""

from __future__ import annotations

import asyncio

import pytest

from gangctl.sandbox.api import Api
from gangctl.sandbox.controllers import GarbageCollector, NamespaceController, SandboxController
from gangctl.sandbox.errors import StatusError, bad_request
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import Attributes
from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.controlplane.wait import wait_until
from tests.rows import each
from tests.sandbox.asking import ME, create, patch
from tests.sandbox.stage import NoWebhooks

GROUPS = "podgroups.scheduling.k8s.io"
GANG: Object = {"schedulingPolicy": {"gang": {"minCount": 1}}}
POD: Object = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}}


@each("minor", ["1.37", "1.36"])
async def test_a_podgroup_is_deleted_when_its_pods_have_finished(minor: str) -> None:
    async with Sandbox(SandboxOptions(minor=minor, tls=False)) as sandbox:
        api = sandbox.api
        await create(api, GROUPS, "g", spec=GANG)
        await create(api, "pods", "p", spec=POD)
        await api.delete(api.kind(GROUPS), "default", "g", ME)
        await patch(api, "pods", {"status": {"phase": "Succeeded"}}, "p", subresource="status")

        await wait_until(lambda: not api.store.items(GROUPS), "the group to go")


class _Endless(SandboxController[str]):
    """A controller that is stopped in the middle of a reconcile."""

    name = "endless"

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.begun = asyncio.Event()

    async def reconcile(self, key: str) -> None:
        del key
        self.begun.set()
        await asyncio.Event().wait()


async def test_a_reconcile_that_is_stopped_is_queued_for_the_next_start(api: Api) -> None:
    controller = _Endless(api)
    controller.queue.add("key")
    task = asyncio.create_task(controller.run())
    await controller.begun.wait()
    task.cancel()
    await asyncio.wait({task})
    assert len(controller.queue) == 1


async def test_the_graph_forgets_what_is_gone(api: Api) -> None:
    collector = GarbageCollector(api)
    owner = (await create(api, "configmaps", "a"))["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner["uid"]}
    await create(api, "configmaps", "b", metadata={"ownerReferences": [reference]})
    for name in ("b", "a"):
        await api.delete(api.kind("configmaps"), "default", name, ME)
    assert (collector._there, collector._dependents) == ({}, {})


class _Missing(SandboxController[str]):
    """A controller whose write is refused with 404, as a webhook may."""

    name = "missing"

    async def reconcile(self, key: str) -> None:
        raise StatusError(404, "NotFound", key)


async def test_a_404_is_tried_again(api: Api) -> None:
    controller = _Missing(api)
    controller.queue.add("key")
    task = asyncio.create_task(controller.run())
    await wait_until(lambda: controller.queue._failures.get("key") == 2, "the second try", interval=0.001)
    task.cancel()
    await asyncio.wait({task})


async def test_a_denied_deletion_does_not_keep_other_kinds_in_a_namespace() -> None:
    class Denying(NoWebhooks):
        async def validate(self, attributes: Attributes, obj: Object | None) -> None:
            del obj
            if attributes.operation == "DELETE" and attributes.kind.plural == "configmaps":
                raise bad_request("denied")

    api = Api(admission=Denying())
    controller = NamespaceController(api)
    await create(api, "namespaces", "n")
    for resource in ("configmaps", "secrets", "leases.coordination.k8s.io"):
        await api.create(api.kind(resource), "n", {"metadata": {"name": "a"}}, ME)
    await api.delete(api.kind("namespaces"), "", "n", ME)
    with pytest.raises(StatusError, match="denied"):
        await controller.reconcile("n")
    kinds = (kind for kind in api.registry if kind.namespaced and api.store.items(kind.storage, "n"))
    assert [kind.plural for kind in kinds] == ["configmaps"]

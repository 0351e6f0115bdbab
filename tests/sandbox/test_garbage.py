"""PodGroups that outlive their pods; tests/conformance has those whose pods are deleted, owners, and namespaces."""

from __future__ import annotations

from gangctl.sandbox.objects import Object
from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.controlplane.wait import wait_until
from tests.rows import each
from tests.sandbox.asking import ME, create, patch

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

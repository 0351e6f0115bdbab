"""Owners and dependents, the end of namespaces, and PodGroups that outlive their pods."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangctl.sandbox.api import Api, DeleteOptions, Propagation
from gangctl.sandbox.objects import Object
from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.controlplane.wait import wait_for
from tests.rows import each
from tests.sandbox.asking import ME, create, patch

MAPS, GROUPS = "configmaps", "podgroups.scheduling.k8s.io"
GANG: Object = {"schedulingPolicy": {"gang": {"minCount": 1}}}
POD: Object = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}}


def owned_by(owner: Object, **fields: object) -> Object:
    metadata = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"], **fields}
    return {"ownerReferences": [reference]}


async def delete(api: Api, resource: str, name: str, propagation: Propagation = "Background") -> None:
    kind = api.kind(resource)
    namespace = "default" if kind.namespaced else ""
    await api.delete(kind, namespace, name, ME, DeleteOptions(propagation=propagation))


def stored(api: Api, resource: str, name: str) -> Object | None:
    kind = api.kind(resource)
    found = api.store.get(kind.storage, ("default" if kind.namespaced else "", name))
    return None if found is None else found.obj


def finalizers(api: Api, resource: str, name: str) -> list[str]:
    found: list[str] = (stored(api, resource, name) or {"metadata": {}})["metadata"].get("finalizers", [])
    return found


async def until(condition: Callable[[], bool], what: str) -> None:
    async def probe() -> bool:
        return condition()

    await wait_for(probe, what)


async def test_dependents_are_deleted_with_their_owner(sandbox: Sandbox) -> None:
    api = sandbox.api
    owner = await create(api, MAPS, "owner")
    child = await create(api, MAPS, "child", metadata=owned_by(owner))
    await create(api, MAPS, "grandchild", metadata=owned_by(child))
    await delete(api, MAPS, "owner")
    await until(lambda: stored(api, MAPS, "grandchild") is None, "the grandchild to go")
    assert stored(api, MAPS, "child") is None


@pytest.mark.parametrize("gone", [{"uid": "another"}, {"name": "another"}], ids=["uid", "name"])
async def test_a_dependent_of_an_absent_owner_is_deleted(sandbox: Sandbox, gone: dict[str, str]) -> None:
    api = sandbox.api
    owner = await create(api, MAPS, "owner")
    await create(api, MAPS, "child", metadata=owned_by(owner, **gone))
    await until(lambda: stored(api, MAPS, "child") is None, "the child to go")
    assert stored(api, MAPS, "owner") is not None


async def test_a_dependent_stays_while_one_owner_exists(sandbox: Sandbox) -> None:
    api = sandbox.api
    first, second = await create(api, MAPS, "first"), await create(api, MAPS, "second")
    references = owned_by(first)["ownerReferences"] + owned_by(second)["ownerReferences"]
    await create(api, MAPS, "child", metadata={"ownerReferences": references})
    await delete(api, MAPS, "first")

    def left() -> bool:
        child = stored(api, MAPS, "child")
        return child is not None and [each["name"] for each in child["metadata"]["ownerReferences"]] == ["second"]

    await until(left, "the first owner to be forgotten")
    await delete(api, MAPS, "second")
    await until(lambda: stored(api, MAPS, "child") is None, "the child to go")


async def test_foreground_deletion_waits_for_blocking_dependents(sandbox: Sandbox) -> None:
    api = sandbox.api
    owner = await create(api, MAPS, "owner")
    held = {"finalizers": ["example.com/wait"]}
    await create(api, MAPS, "child", metadata={**owned_by(owner, blockOwnerDeletion=True), **held})
    await delete(api, MAPS, "owner", "Foreground")

    def is_ending() -> bool:
        child = stored(api, MAPS, "child")
        return child is not None and "deletionTimestamp" in child["metadata"]

    await until(is_ending, "the child to be deleted")
    assert finalizers(api, MAPS, "owner") == ["foregroundDeletion"]
    await patch(api, MAPS, {"metadata": {"finalizers": None}}, "child")
    await until(lambda: stored(api, MAPS, "owner") is None, "the owner to go")
    assert stored(api, MAPS, "child") is None


async def test_orphaned_dependents_stay_without_an_owner_reference(sandbox: Sandbox) -> None:
    api = sandbox.api
    owner = await create(api, MAPS, "owner")
    await create(api, MAPS, "child", metadata=owned_by(owner))
    await delete(api, MAPS, "owner", "Orphan")
    await until(lambda: stored(api, MAPS, "owner") is None, "the owner to go")
    child = stored(api, MAPS, "child")
    assert child is not None
    assert "ownerReferences" not in child["metadata"]


async def test_a_terminating_namespace_is_deleted_when_it_is_empty(sandbox: Sandbox) -> None:
    api = sandbox.api
    await create(api, "namespaces", "n")
    kind = api.kind(MAPS)
    await api.create(kind, "n", {"metadata": {"name": "free"}}, ME)
    await api.create(kind, "n", {"metadata": {"name": "held", "finalizers": ["example.com/wait"]}}, ME)
    await delete(api, "namespaces", "n")
    await until(lambda: api.store.get(MAPS, ("n", "free")) is None, "the content to go")
    namespace = stored(api, "namespaces", "n")
    assert namespace is not None
    assert namespace["status"]["phase"] == "Terminating"
    await api.patch(kind, "n", "held", {"metadata": {"finalizers": None}}, "merge", ME)
    await until(lambda: stored(api, "namespaces", "n") is None, "the namespace to go")


@each("minor", ["1.37", "1.36"])
@each("end", ["deleted", "finished"])
async def test_a_podgroup_is_deleted_after_its_pods(minor: str, end: str) -> None:
    async with Sandbox(SandboxOptions(minor=minor, tls=False)) as sandbox:
        api = sandbox.api
        await create(api, GROUPS, "g", spec=GANG)
        await create(api, "pods", "p", spec=POD)
        await delete(api, GROUPS, "g")
        # Another group without pods is deleted, so the controller has processed the first one.
        await create(api, GROUPS, "free", spec=GANG)
        await delete(api, GROUPS, "free")
        await until(lambda: stored(api, GROUPS, "free") is None, "the group that nobody needs to go")
        assert finalizers(api, GROUPS, "g") == ["scheduling.k8s.io/podgroup-protection"]
        if end == "deleted":
            await delete(api, "pods", "p")
        else:
            await patch(api, "pods", {"status": {"phase": "Succeeded"}}, "p", subresource="status")
        await until(lambda: stored(api, GROUPS, "g") is None, "the group to go")

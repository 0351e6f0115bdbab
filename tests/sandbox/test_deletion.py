from __future__ import annotations

import pytest

from gangctl.sandbox.api import SYSTEM, Api, Caller, DeleteOptions, Propagation
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.reads import WatchQuery
from gangctl.sandbox.watches import Watch
from tests.rows import each
from tests.sandbox.bodies import SPECS

ME = Caller("me")


async def _create(api: Api, resource: str, **metadata: object) -> Object:
    kind = api.kind(resource)
    body: Object = {"metadata": {"name": "x", **metadata}}
    if resource in SPECS:
        body["spec"] = SPECS[resource]
    return await api.create(kind, "default", body, ME)


async def _create_bound(api: Api, **metadata: object) -> None:
    created = await _create(api, "pods", **metadata)
    await api.bind("default", "x", created["metadata"]["uid"], "n", SYSTEM)


async def _gone(api: Api, resource: str) -> bool:
    return api.store.get(api.kind(resource).storage, ("default", "x")) is None


@each(
    ("resource", "propagation", "finalizers"),
    [
        ("configmaps", "Foreground", ["foregroundDeletion"]),
        ("configmaps", "Orphan", ["orphan"]),
        ("jobs.batch", None, ["orphan"]),
        ("jobs.batch", "Background", None),
        ("configmaps", None, None),
    ],
)
async def test_the_propagation_policy_sets_finalizers(
    resource: str, propagation: Propagation | None, finalizers: list[str] | None
) -> None:
    api = Api()
    await _create(api, resource)
    options = DeleteOptions(propagation=propagation)
    answer = await api.delete(api.kind(resource), "default", "x", ME, options)
    assert (answer.get("metadata") or {}).get("finalizers") == finalizers
    assert await _gone(api, resource) is (finalizers is None)


async def test_watches_receive_the_deletion_timestamp_and_the_last_state(api: Api) -> None:
    pods = api.kind("pods")
    await _create(api, "pods")
    watch = Watch(api.store, pods, None, WatchQuery(resource_version=str(api.store.revision)))
    await api.delete(pods, "default", "x", ME)
    (marked, _), (gone, last) = watch.take()
    assert (marked, gone) == ("MODIFIED", "DELETED")
    assert last.obj["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_removing_a_finalizer_does_not_shorten_a_pods_grace(api: Api) -> None:
    pods = api.kind("pods")
    await _create_bound(api, finalizers=["x/a"])
    await api.delete(pods, "default", "x", ME)
    await api.patch(pods, "default", "x", {"metadata": {"finalizers": None}}, "merge", ME)
    assert not await _gone(api, "pods")


async def test_a_namespace_stays_until_it_is_finalized(api: Api) -> None:
    kind = api.kind("namespaces")
    await api.create(kind, "", {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}}, ME)
    marked = await api.delete(kind, "", "n", ME)
    assert marked["status"]["phase"] == "Terminating"
    assert "deletionGracePeriodSeconds" not in marked["metadata"]
    marked["spec"] = {}
    await api.update(kind, "", "n", marked, SYSTEM, subresource="finalize")
    with pytest.raises(StatusError, match="404"):
        await api.get(kind, "", "n")

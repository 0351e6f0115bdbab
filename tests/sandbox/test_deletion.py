from __future__ import annotations

import pytest

from gangctl.sandbox.api import SYSTEM, Api, Caller, DeleteOptions, Propagation
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.watches import Watch, WatchQuery
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


async def test_an_object_without_finalizers_is_deleted_at_once(api: Api) -> None:
    created = await _create(api, "leases.coordination.k8s.io")
    answer = await api.delete(api.kind("leases.coordination.k8s.io"), "default", "x", ME)
    assert answer["status"] == "Success"
    assert answer["details"] == {
        "name": "x",
        "group": "coordination.k8s.io",
        "kind": "leases",
        "uid": created["metadata"]["uid"],
    }
    assert await _gone(api, "leases.coordination.k8s.io")
    with pytest.raises(StatusError, match="404 NotFound"):
        await api.delete(api.kind("leases.coordination.k8s.io"), "default", "x", ME)


async def test_an_object_is_deleted_with_its_last_finalizer(api: Api) -> None:
    kind = api.kind("configmaps")
    await _create(api, "configmaps", finalizers=["x/a", "x/b"])
    marked = await api.delete(kind, "default", "x", ME)
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    again = await api.delete(kind, "default", "x", ME)
    assert again == marked
    await api.patch(kind, "default", "x", {"metadata": {"finalizers": ["x/b"]}}, "merge", ME)
    assert not await _gone(api, "configmaps")
    last = await api.patch(kind, "default", "x", {"metadata": {"finalizers": []}}, "merge", ME)
    assert "finalizers" not in last["metadata"]
    assert await _gone(api, "configmaps")


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


@each(
    ("options", "message"),
    [
        (DeleteOptions(uid="other"), r"the UID in the precondition \(other\) does not match the UID in record"),
        (DeleteOptions(resource_version="1"), r"the ResourceVersion in the precondition \(1\) does not match"),
    ],
)
async def test_a_delete_with_a_failed_precondition_is_a_conflict(
    api: Api, options: DeleteOptions, message: str
) -> None:
    created = await _create(api, "configmaps")
    with pytest.raises(StatusError, match=f'409 Conflict: Operation cannot be fulfilled on ConfigMap "x": {message}'):
        await api.delete(api.kind("configmaps"), "default", "x", ME, options)
    metadata = created["metadata"]
    right = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    await api.delete(api.kind("configmaps"), "default", "x", ME, right)
    assert await _gone(api, "configmaps")


async def test_a_dry_run_deletes_nothing(api: Api) -> None:
    await _create(api, "configmaps")
    answer = await api.delete(api.kind("configmaps"), "default", "x", ME, DeleteOptions(dry_run=True))
    assert answer["status"] == "Success"
    assert not await _gone(api, "configmaps")


async def test_a_bound_pod_ends_gracefully(api: Api) -> None:
    pods = api.kind("pods")
    await _create_bound(api)
    marked = await api.delete(pods, "default", "x", ME, DeleteOptions(grace_seconds=20))
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 20
    assert marked["metadata"]["generation"] == 2
    longer = await api.delete(pods, "default", "x", ME, DeleteOptions(grace_seconds=60))
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 20
    last = await api.delete(pods, "default", "x", ME, DeleteOptions(grace_seconds=0))
    assert last["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await _gone(api, "pods")


async def test_watches_receive_the_deletion_timestamp_and_the_last_state(api: Api) -> None:
    pods = api.kind("pods")
    await _create(api, "pods")
    watch = Watch(api.store, pods, None, WatchQuery(resource_version=str(api.store.revision)))
    await api.delete(pods, "default", "x", ME)
    (marked, _), (gone, last) = watch.take()
    assert (marked, gone) == ("MODIFIED", "DELETED")
    assert last.obj["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_the_initial_namespaces_cannot_be_deleted(api: Api) -> None:
    with pytest.raises(StatusError, match=r"403 Forbidden: .*this namespace may not be deleted"):
        await api.delete(api.kind("namespaces"), "", "kube-system", ME)


async def test_removing_a_finalizer_does_not_shorten_a_pods_grace(api: Api) -> None:
    pods = api.kind("pods")
    await _create_bound(api, finalizers=["x/a"])
    await api.delete(pods, "default", "x", ME)
    await api.patch(pods, "default", "x", {"metadata": {"finalizers": None}}, "merge", ME)
    assert not await _gone(api, "pods")


@pytest.mark.parametrize("why", ["unbound", "finished"])
async def test_a_pod_that_is_not_running_is_deleted_at_once(api: Api, why: str) -> None:
    pods = api.kind("pods")
    created = await _create(api, "pods")
    if why == "finished":
        await api.bind("default", "x", created["metadata"]["uid"], "n", SYSTEM)
        await api.patch(pods, "default", "x", {"status": {"phase": "Succeeded"}}, "merge", SYSTEM, subresource="status")
    await api.delete(pods, "default", "x", ME)
    assert await _gone(api, "pods")


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

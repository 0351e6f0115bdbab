from __future__ import annotations

import asyncio

import pytest

from gangctl.sandbox import writes
from gangctl.sandbox.api import SYSTEM, Api, Caller, WriteOptions
from gangctl.sandbox.errors import StatusError, bad_request
from gangctl.sandbox.objects import Object
from gangctl.sandbox.reads import WatchQuery
from gangctl.sandbox.requests import Attributes
from gangctl.sandbox.watches import Watch
from gangctl.sandbox.writes import Write
from tests.sandbox.stage import NoWebhooks

ME = Caller("me")
DRY = WriteOptions(dry_run=True)
POD: Object = {"containers": [{"name": "c", "image": "i"}]}


async def _configmap(api: Api, name: str = "c", **more: object) -> Object:
    return await api.create(api.kind("configmaps"), "default", {"metadata": {"name": name}, **more}, ME)


async def test_a_change_of_a_returned_object_does_not_change_the_store(api: Api) -> None:
    created = await _configmap(api, data={"a": "1"})
    created["data"]["a"] = "2"
    (await api.list(api.kind("configmaps"), "default")).items[0]["data"]["a"] = "3"
    assert (await api.get(api.kind("configmaps"), "default", "c"))["data"] == {"a": "1"}


class _Meanwhile(NoWebhooks):
    """Something else is written while the first update is with the webhooks."""

    def __init__(self) -> None:
        super().__init__()
        self.api: Api
        self.asked = 0

    async def mutate(self, attributes: Attributes, obj: Object) -> Object:
        if attributes.operation == "UPDATE" and attributes.caller != SYSTEM:
            self.asked += 1
            if self.asked == 1:
                await self.api.patch(attributes.kind, "default", "c", {"data": {"b": "1"}}, "merge", SYSTEM)
        return obj


async def test_a_write_during_admission_survives_or_is_a_conflict() -> None:
    admission = _Meanwhile()
    admission.api = api = Api(admission=admission)
    first = await _configmap(api)
    patched = await api.patch(api.kind("configmaps"), "default", "c", {"data": {"a": "1"}}, "merge", ME)
    assert patched["data"] == {"a": "1", "b": "1"}
    assert admission.asked == 2
    admission.asked = 0
    await api.patch(api.kind("configmaps"), "default", "c", {"data": None}, "merge", SYSTEM)
    current = await api.get(api.kind("configmaps"), "default", "c")
    with pytest.raises(StatusError, match="409 Conflict"):
        await api.update(api.kind("configmaps"), "default", "c", {**current, "data": {"c": "1"}}, ME)
    assert first["metadata"]["uid"] == current["metadata"]["uid"]


class _Refusing(NoWebhooks):
    async def validate(self, attributes: Attributes, obj: Object | None) -> None:
        del obj
        attributes.warnings.append("think twice")
        raise bad_request(f"no {attributes.operation} {attributes.options.get('dryRun')}")


async def test_admission_applies_to_dry_runs_and_its_warnings_are_returned() -> None:
    api = Api(admission=_Refusing())
    warnings: list[str] = []
    write = Write(api.backend, api.kind("configmaps"), "default", ME, DRY, warnings)
    with pytest.raises(StatusError, match=r"no CREATE \['All'\]"):
        await writes.create(write, {"metadata": {"name": "c"}})
    assert warnings == ["think twice"]


async def _pod(api: Api, **metadata: object) -> Object:
    return await api.create(api.kind("pods"), "default", {"metadata": {"name": "p", **metadata}, "spec": POD}, ME)


async def test_a_pod_is_bound_once(api: Api) -> None:
    pods, created = api.kind("pods"), await _pod(api)
    await api.bind("default", "p", created["metadata"]["uid"], "n", SYSTEM)
    pod = await api.get(pods, "default", "p")
    assert pod["spec"]["nodeName"] == "n"
    assert pod["metadata"]["generation"] == 1
    assert [(each["type"], each["status"]) for each in pod["status"]["conditions"]] == [("PodScheduled", "True")]
    with pytest.raises(StatusError, match=r'409 Conflict: .*pod p is already assigned to node "n"'):
        await api.bind("default", "p", created["metadata"]["uid"], "n", SYSTEM)


async def test_concurrent_patches_are_all_kept(api: Api) -> None:
    kind = api.kind("configmaps")
    await _configmap(api)
    patches = [{"data": {f"k{number}": "1"}} for number in range(20)]
    await asyncio.gather(*(api.patch(kind, "default", "c", patch, "merge", ME) for patch in patches))
    assert len((await api.get(kind, "default", "c"))["data"]) == 20


async def test_a_custom_resource_of_another_kind_is_refused(api: Api) -> None:
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "Other", "metadata": {"name": "a"}}
    with pytest.raises(StatusError) as caught:
        await api.create(api.kind("jobsets.jobset.x-k8s.io"), "default", body, ME)
    message = 'Other in version "v1alpha2" cannot be handled as a JobSet'
    assert (caught.value.code, caught.value.message) == (400, message)


async def test_watches_receive_the_deletion_timestamp_and_the_last_state_of_a_pod(api: Api) -> None:
    pods = api.kind("pods")
    await _pod(api)
    watch = Watch(api.store, pods, None, WatchQuery(resource_version=str(api.store.revision)))
    await api.delete(pods, "default", "p", ME)
    (marked, _), (gone, last) = watch.take()
    assert (marked, gone) == ("MODIFIED", "DELETED")
    assert last.obj["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_removing_a_finalizer_does_not_shorten_a_pods_grace(api: Api) -> None:
    pods, created = api.kind("pods"), await _pod(api, finalizers=["x/a"])
    await api.bind("default", "p", created["metadata"]["uid"], "n", SYSTEM)
    await api.delete(pods, "default", "p", ME)
    await api.patch(pods, "default", "p", {"metadata": {"finalizers": None}}, "merge", ME)
    assert await api.get(pods, "default", "p")

from __future__ import annotations

import asyncio
import re

import pytest

from gangctl.sandbox.api import SYSTEM, Api, Caller, WriteOptions
from gangctl.sandbox.errors import StatusError, bad_request
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import Attributes
from tests.rows import each
from tests.sandbox.bodies import EVENT, JOB, POD
from tests.sandbox.stage import NoWebhooks

ME = Caller("me")
DRY = WriteOptions(dry_run=True)


async def _configmap(api: Api, name: str = "c", **more: object) -> Object:
    return await api.create(api.kind("configmaps"), "default", {"metadata": {"name": name}, **more}, ME)


async def test_create_sets_the_metadata_of_the_server(api: Api) -> None:
    created = await api.create(
        api.kind("pods"), "default", {"metadata": {"name": "p", "uid": "mine", "generation": 9}, "spec": POD}, ME
    )
    metadata = created["metadata"]
    assert (created["apiVersion"], created["kind"], metadata["namespace"]) == ("v1", "Pod", "default")
    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert metadata["resourceVersion"] == str(api.store.revision)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])


async def test_generated_names_are_distinct_and_within_the_limit(api: Api) -> None:
    kind = api.kind("configmaps")
    names = {
        (await api.create(kind, "default", {"metadata": {"generateName": prefix}}, ME))["metadata"]["name"]
        for prefix in ("a-", "a-", "x" * 80)
    }
    assert len(names) == 3
    assert max(map(len, names)) == 63


async def test_a_taken_name_is_refused_and_a_terminating_holder_is_named(api: Api) -> None:
    await _configmap(api, "c")
    with pytest.raises(StatusError, match=r'409 AlreadyExists: configmaps "c" already exists'):
        await _configmap(api, "c")
    going = await api.patch(api.kind("configmaps"), "default", "c", {"metadata": {"finalizers": ["x/y"]}}, "merge", ME)
    await api.delete(api.kind("configmaps"), "default", going["metadata"]["name"], ME)
    with pytest.raises(StatusError, match='object is being deleted: configmaps "c" already exists'):
        await _configmap(api, "c")


async def test_a_create_needs_a_namespace_that_is_not_terminating(api: Api) -> None:
    kind, namespaces = api.kind("configmaps"), api.kind("namespaces")
    with pytest.raises(StatusError, match='404 NotFound: namespaces "no" not found'):
        await api.create(kind, "no", {"metadata": {"name": "c"}}, ME)
    await api.create(namespaces, "", {"metadata": {"name": "going"}, "spec": {"finalizers": ["kubernetes"]}}, ME)
    await api.patch(namespaces, "", "going", {"metadata": {"finalizers": ["x/y"]}}, "merge", ME)
    await api.delete(namespaces, "", "going", ME)
    with pytest.raises(StatusError) as caught:
        await api.create(kind, "going", {"metadata": {"name": "c"}}, ME)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert caught.value.details is not None
    assert caught.value.details["causes"][0]["reason"] == "NamespaceTerminating"


async def test_an_update_with_an_old_version_is_a_conflict(api: Api) -> None:
    kind = api.kind("configmaps")
    first = await _configmap(api)
    await api.update(kind, "default", "c", {**first, "data": {"a": "1"}}, ME)
    with pytest.raises(StatusError, match=r"409 Conflict: .*the object has been modified"):
        await api.update(kind, "default", "c", {**first, "data": {"a": "2"}}, ME)
    unconditional = {"metadata": {"name": "c"}, "data": {"a": "3"}}
    assert (await api.update(kind, "default", "c", unconditional, ME))["data"] == {"a": "3"}


async def test_a_patch_with_an_old_version_is_a_conflict(api: Api) -> None:
    await _configmap(api)
    with pytest.raises(StatusError, match="409 Conflict"):
        await api.patch(api.kind("configmaps"), "default", "c", {"metadata": {"resourceVersion": "1"}}, "merge", ME)


@pytest.mark.parametrize(
    "resource", ["leases.coordination.k8s.io", "mutatingwebhookconfigurations.admissionregistration.k8s.io"]
)
async def test_some_kinds_require_a_version_in_an_update(api: Api, resource: str) -> None:
    kind = api.kind(resource)
    namespace = "default" if kind.namespaced else ""
    await api.create(kind, namespace, {"metadata": {"name": "x"}}, ME)
    with pytest.raises(StatusError) as caught:
        await api.update(kind, namespace, "x", {"metadata": {"name": "x"}}, ME)
    assert caught.value.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in caught.value.message


async def test_an_update_without_a_change_is_no_write(api: Api) -> None:
    first = await _configmap(api, data={"a": "1"})
    revision = api.store.revision
    assert await api.update(api.kind("configmaps"), "default", "c", {**first}, Caller("other")) == first
    assert await api.patch(api.kind("configmaps"), "default", "c", {"data": {"a": "1"}}, "merge", ME) == first
    assert api.store.revision == revision


async def test_spec_and_status_are_written_separately(api: Api) -> None:
    kind = api.kind("jobs.batch")
    job = await api.create(kind, "default", {"metadata": {"name": "j"}, "spec": {**JOB, "parallelism": 1}}, ME)
    main = await api.patch(kind, "default", "j", {"spec": {"parallelism": 2}, "status": {"active": 1}}, "merge", ME)
    assert main["spec"]["parallelism"] == 2
    assert (main.get("status") or {}).get("active") is None
    assert main["metadata"]["generation"] == job["metadata"]["generation"] + 1
    patch = {"spec": {"parallelism": 3}, "status": {"active": 1}}
    status = await api.patch(kind, "default", "j", patch, "merge", ME, subresource="status")
    assert status["spec"]["parallelism"] == 2
    assert status["status"]["active"] == 1
    assert status["metadata"]["generation"] == main["metadata"]["generation"]


async def test_uid_and_creation_time_cannot_be_changed(api: Api) -> None:
    first = await _configmap(api)
    changed = {**first, "metadata": {**first["metadata"], "creationTimestamp": "2000-01-01T00:00:00Z"}}
    updated = await api.update(api.kind("configmaps"), "default", "c", changed, ME)
    assert updated["metadata"]["creationTimestamp"] == first["metadata"]["creationTimestamp"]
    other = {"metadata": {"name": "c", "uid": "other"}}
    with pytest.raises(StatusError, match=r"409 Conflict: .*Precondition failed: UID in precondition: other"):
        await api.update(api.kind("configmaps"), "default", "c", other, ME)


async def test_a_dry_run_returns_the_result_and_changes_nothing(api: Api) -> None:
    kind = api.kind("configmaps")
    tried = await api.create(kind, "default", {"metadata": {"name": "c"}}, ME, DRY)
    assert tried["metadata"]["uid"]
    assert "resourceVersion" not in tried["metadata"]
    first = await _configmap(api)
    revision = api.store.revision
    changed = await api.patch(kind, "default", "c", {"data": {"a": "1"}}, "merge", ME, DRY)
    assert changed["data"] == {"a": "1"}
    assert changed["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert await api.get(kind, "default", "c") == first
    assert api.store.revision == revision


@each(
    ("body", "message"),
    [
        ({"kind": "Secret", "apiVersion": "v1"}, 'Secret in version "v1" cannot be handled as a ConfigMap'),
        ({"kind": "ConfigMap", "apiVersion": "v2"}, 'ConfigMap in version "v2" cannot be handled as a ConfigMap'),
        ({"metadata": {"name": "a", "namespace": "other"}}, "namespace of the provided object does not match"),
        ({"metadata": {"name": 5}}, "cannot unmarshal number into Go struct field ObjectMeta.metadata.name"),
        ({"metadata": {"labels": {"a": 1}}}, "field ObjectMeta.metadata.labels of type string"),
    ],
)
async def test_a_body_of_another_kind_or_name_is_refused(api: Api, body: Object, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        await api.create(api.kind("configmaps"), "default", body, ME)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert message in caught.value.message


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
    with pytest.raises(StatusError, match=r"no CREATE \['All'\]"):
        await api.create(api.kind("configmaps"), "default", {"metadata": {"name": "c"}}, ME, DRY, warnings=warnings)
    assert warnings == ["think twice"]


async def test_a_pod_is_bound_once(api: Api) -> None:
    pods = api.kind("pods")
    created = await api.create(pods, "default", {"metadata": {"name": "p"}, "spec": POD}, ME)
    await api.bind("default", "p", created["metadata"]["uid"], "n", SYSTEM)
    pod = await api.get(pods, "default", "p")
    assert pod["spec"]["nodeName"] == "n"
    assert pod["metadata"]["generation"] == 1
    assert [(each["type"], each["status"]) for each in pod["status"]["conditions"]] == [("PodScheduled", "True")]
    with pytest.raises(StatusError, match=r'409 Conflict: .*pod p is already assigned to node "n"'):
        await api.bind("default", "p", created["metadata"]["uid"], "n", SYSTEM)


async def test_events_are_shared_by_both_groups(api: Api) -> None:
    old, new = api.kind("events"), api.kind("events.events.k8s.io")
    await api.create(new, "default", {"metadata": {"name": "e"}, **EVENT}, ME)
    seen = await api.get(old, "default", "e")
    assert (seen["apiVersion"], seen["message"], seen["involvedObject"]["name"]) == ("v1", "hello", "p")
    assert (await api.list(old, fields="involvedObject.name=p")).items
    assert (await api.list(new, fields="regarding.name=p")).items
    assert (await api.get(new, "default", "e"))["note"] == "hello"


async def test_concurrent_patches_are_all_kept(api: Api) -> None:
    kind = api.kind("configmaps")
    await _configmap(api)
    patches = [{"data": {f"k{number}": "1"}} for number in range(20)]
    await asyncio.gather(*(api.patch(kind, "default", "c", patch, "merge", ME) for patch in patches))
    assert len((await api.get(kind, "default", "c"))["data"]) == 20


@each(
    ("minor", "version", "resources"),
    [
        ("1.35", "v1alpha1", {"workloads"}),
        ("1.36", "v1alpha2", {"workloads", "podgroups"}),
        ("1.37", "v1beta1", {"workloads", "podgroups"}),
    ],
)
def test_each_minor_serves_gangs_in_its_own_version(minor: str, version: str, resources: set[str]) -> None:
    group = "scheduling.k8s.io"
    served = {kind.plural for kind in Api(minor).registry if (kind.group, kind.version) == (group, version)}
    assert served == resources
    off = Api(minor, runtime_config={f"{group}/{version}": False})
    assert {kind.version for kind in off.registry if kind.group == group} == {"v1"}


async def test_a_custom_resource_of_another_kind_is_refused(api: Api) -> None:
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "Other", "metadata": {"name": "a"}}
    with pytest.raises(StatusError) as caught:
        await api.create(api.kind("jobsets.jobset.x-k8s.io"), "default", body, ME)
    message = 'Other in version "v1alpha2" cannot be handled as a JobSet'
    assert (caught.value.code, caught.value.message) == (400, message)

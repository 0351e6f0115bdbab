"""Creating, reading, replacing and deleting: what is answered, and what the server writes into metadata."""

import re

from tests.conformance.answers import details_of, refused, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, job, jobs, lease, leases
from tests.controlplane.api import path_of

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
ANOTHER_UID = "11111111-1111-1111-1111-111111111111"


async def test_create_answers_201_with_what_the_server_adds(server: Server, namespace: str) -> None:
    answer = await send(server.api, "POST", configmaps(namespace), configmap("a", {"k": "v"}))
    assert answer.status == 201
    created = answer.body
    metadata = created.pop("metadata")
    assert created == {"kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "v"}}
    assert metadata.keys() == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"}
    assert (metadata["name"], metadata["namespace"]) == ("a", namespace)
    assert UUID.fullmatch(metadata["uid"])
    assert metadata["resourceVersion"].isdecimal()
    assert TIME.fullmatch(metadata["creationTimestamp"])


async def test_a_body_need_not_repeat_kind_and_version(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), {"metadata": {"name": "a"}})
    assert (created["apiVersion"], created["kind"]) == ("v1", "ConfigMap")


async def test_get_answers_what_create_did(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a", {"k": "v"}))
    assert await server.api.get(configmaps(namespace, "a")) == created


async def test_the_user_agent_is_the_manager_of_what_it_wrote(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a", {"k": "v"}))
    (entry,) = created["metadata"]["managedFields"]
    assert TIME.fullmatch(entry.pop("time"))
    assert entry == {
        "manager": "controlplane-test",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
    }


async def test_create_of_what_is_there_is_409(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a"))
    failure = await refused(
        server.api.create(configmaps(namespace), configmap("a")), 409, "AlreadyExists", 'configmaps "a" already exists'
    )
    assert details_of(failure) == {"name": "a", "kind": "configmaps"}


async def test_details_name_the_group_of_a_resource(server: Server, namespace: str) -> None:
    failure = await refused(server.api.get(jobs(namespace, "a")), 404, "NotFound", 'jobs.batch "a" not found')
    assert details_of(failure) == {"name": "a", "group": "batch", "kind": "jobs"}


async def test_get_of_what_is_not_there_is_404(server: Server, namespace: str) -> None:
    failure = await refused(
        server.api.get(configmaps(namespace, "a")), 404, "NotFound", 'configmaps "a" not found', causes=[]
    )
    assert details_of(failure) == {"name": "a", "kind": "configmaps"}


async def test_put_of_what_is_not_there_is_404(server: Server, namespace: str) -> None:
    await refused(
        server.api.update(configmaps(namespace, "a"), configmap("a")), 404, "NotFound", 'configmaps "a" not found'
    )


async def test_put_creates_a_lease(server: Server, namespace: str) -> None:
    """A few old kinds may be created by PUT, and answer 201 then."""
    answer = await send(server.api, "PUT", leases(namespace, "a"), lease("a"))
    assert answer.status == 201
    assert answer.body["metadata"]["name"] == "a"


async def test_patch_of_what_is_not_there_is_404(server: Server, namespace: str) -> None:
    await refused(
        server.api.patch(configmaps(namespace, "a"), {"data": {}}), 404, "NotFound", 'configmaps "a" not found'
    )


async def test_put_replaces_everything(server: Server, namespace: str) -> None:
    created = await server.api.create(
        configmaps(namespace), configmap("a", {"k": "v"}, labels={"l": "1"}, annotations={"n": "1"})
    )
    replaced = await server.api.update(configmaps(namespace, "a"), configmap("a", {"j": "w"}))
    assert replaced["data"] == {"j": "w"}
    assert replaced["metadata"].keys() >= {"uid", "creationTimestamp"}
    assert not replaced["metadata"].keys() & {"labels", "annotations"}
    for kept in ("uid", "creationTimestamp"):
        assert replaced["metadata"][kept] == created["metadata"][kept]


async def test_put_of_the_same_changes_nothing(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a", {"k": "v"}))
    replaced = await server.api.update(configmaps(namespace, "a"), created)
    assert replaced["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_delete_answers_a_success_that_names_the_object(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a"))
    answer = await server.api.delete(configmaps(namespace, "a"))
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]},
    }


async def test_delete_of_what_is_not_there_is_404(server: Server, namespace: str) -> None:
    await refused(server.api.delete(configmaps(namespace, "a")), 404, "NotFound", 'configmaps "a" not found')


async def test_delete_needs_no_body(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a"))
    answer = await send(server.api, "DELETE", configmaps(namespace, "a"))
    assert (answer.status, answer.body["status"]) == (200, "Success")


async def test_deletecollection_deletes_what_is_selected_and_answers_it(server: Server, namespace: str) -> None:
    for name, group in (("a", "1"), ("b", "2"), ("c", "1")):
        await server.api.create(configmaps(namespace), configmap(name, labels={"group": group}))
    answer = await server.api.delete(configmaps(namespace), labelSelector="group=1")
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "c"]
    left = await server.api.list(configmaps(namespace), labelSelector="group")
    assert [item["metadata"]["name"] for item in left] == ["b"]


async def test_the_server_decides_uid_and_times(server: Server, namespace: str) -> None:
    body = configmap(
        "a",
        uid="mine",
        creationTimestamp="2020-01-01T00:00:00Z",
        deletionTimestamp="2020-01-01T00:00:00Z",
        deletionGracePeriodSeconds=5,
        selfLink="x",
    )
    metadata = (await server.api.create(configmaps(namespace), body))["metadata"]
    assert UUID.fullmatch(metadata["uid"])
    assert not metadata["creationTimestamp"].startswith("2020")
    assert not metadata.keys() & {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}


async def test_the_time_of_creation_is_kept_whatever_a_patch_says(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a"))
    patched = await server.api.patch(
        configmaps(namespace, "a"), {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}
    )
    assert patched["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


async def test_the_uid_of_a_patch_must_be_the_objects(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a"))
    await refused(
        server.api.patch(configmaps(namespace, "a"), {"metadata": {"uid": ANOTHER_UID}}),
        422,
        "Invalid",
        f'ConfigMap "a" is invalid: metadata.uid: Invalid value: "{ANOTHER_UID}": field is immutable',
    )


async def test_the_uid_of_a_put_must_be_the_objects(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a"))
    await refused(
        server.api.update(configmaps(namespace, "a"), configmap("a", uid=ANOTHER_UID)),
        409,
        "Conflict",
        saying=[
            'Operation cannot be fulfilled on configmaps "a": ',
            f"Precondition failed: UID in precondition: {ANOTHER_UID}, UID in object meta: ",
        ],
    )


async def test_an_object_may_be_in_one_namespace_only(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a"))
    other = path_of("v1", "configmaps", namespace="default", name="a")
    await refused(server.api.get(other), 404, "NotFound")


async def test_lists_over_all_namespaces_hold_the_objects_of_each(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a", labels={"in": namespace}))
    found = await server.api.list(path_of("v1", "configmaps"), labelSelector=f"in={namespace}")
    assert [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in found] == [(namespace, "a")]


async def test_generation_counts_changes_of_the_spec(server: Server, namespace: str) -> None:
    created = await server.api.create(jobs(namespace), job())
    assert created["metadata"]["generation"] == 1
    labelled = await server.api.patch(jobs(namespace, "a"), {"metadata": {"labels": {"l": "1"}}})
    assert labelled["metadata"]["generation"] == 1
    changed = await server.api.patch(jobs(namespace, "a"), {"spec": {"parallelism": 3}})
    assert changed["metadata"]["generation"] == 2


async def test_generation_is_the_servers_to_write(server: Server, namespace: str) -> None:
    await server.api.create(jobs(namespace), job())
    patched = await server.api.patch(jobs(namespace, "a"), {"metadata": {"generation": 9}})
    assert patched["metadata"]["generation"] == 1


async def test_kinds_without_a_spec_have_no_generation(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a", {"k": "v"}))
    changed = await server.api.patch(configmaps(namespace, "a"), {"data": {"k": "w"}})
    assert "generation" not in created["metadata"]
    assert "generation" not in changed["metadata"]


async def test_status_is_not_taken_at_creation(server: Server, namespace: str) -> None:
    created = await server.api.create(jobs(namespace), {**job(), "status": {"active": 5}})
    assert created["status"] == {}


async def test_status_is_not_taken_with_the_spec(server: Server, namespace: str) -> None:
    await server.api.create(jobs(namespace), job())
    patched = await server.api.patch(jobs(namespace, "a"), {"spec": {"parallelism": 3}, "status": {"active": 5}})
    assert patched["spec"]["parallelism"] == 3
    assert "active" not in patched["status"]


async def test_the_status_subresource_writes_the_status_alone(server: Server, namespace: str) -> None:
    created = await server.api.create(jobs(namespace), job())
    patched = await server.api.patch(
        f"{jobs(namespace, 'a')}/status",
        {"spec": {"parallelism": 3}, "metadata": {"labels": {"l": "1"}}, "status": {"ready": 0, "terminating": 0}},
    )
    assert patched["status"]["terminating"] == 0
    assert patched["spec"] == created["spec"]
    assert patched["metadata"]["generation"] == 1
    assert int(patched["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


async def test_the_status_subresource_can_be_read(server: Server, namespace: str) -> None:
    await server.api.create(jobs(namespace), job())
    read = await server.api.get(f"{jobs(namespace, 'a')}/status")
    assert (read["kind"], read["metadata"]["name"]) == ("Job", "a")

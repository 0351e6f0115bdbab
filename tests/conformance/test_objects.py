"""Creating, reading, replacing and deleting: what is answered, and what the server writes into metadata."""

import re

from tests.conformance.answers import already_exists, conflict, details_of, invalid, not_found, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, job, jobs, lease, leases
from tests.controlplane.api import path_of

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
ANOTHER_UID = "11111111-1111-1111-1111-111111111111"


async def test_a_create_returns_the_object_with_its_metadata(server: Server, namespace: str) -> None:
    # Create answers 201 with what the server adds.
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

    # Get answers what create did.
    created = await server.api.create(configmaps(namespace), configmap("b", {"k": "v"}))
    assert await server.api.get(configmaps(namespace, "b")) == created

    # A body need not repeat kind and version.
    created = await server.api.create(configmaps(namespace), {"metadata": {"name": "c"}})
    assert (created["apiVersion"], created["kind"]) == ("v1", "ConfigMap")

    # The user agent is the manager of what it wrote.
    created = await server.api.create(configmaps(namespace), configmap("d", {"k": "v"}))
    (entry,) = created["metadata"]["managedFields"]
    assert TIME.fullmatch(entry.pop("time"))
    assert entry == {
        "manager": "controlplane-test",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
    }

    # Create of what is there is 409.
    failure = await already_exists(
        server.api.create(configmaps(namespace), configmap("b")), 'configmaps "b" already exists'
    )
    assert details_of(failure) == {"name": "b", "kind": "configmaps"}


async def test_an_absent_object_is_404(server: Server, namespace: str) -> None:
    # Get of what is not there is 404.
    failure = await not_found(server.api.get(configmaps(namespace, "a")), 'configmaps "a" not found', causes=[])
    assert details_of(failure) == {"name": "a", "kind": "configmaps"}

    # Put of what is not there is 404.
    await not_found(server.api.update(configmaps(namespace, "a"), configmap("a")), 'configmaps "a" not found')

    # Patch of what is not there is 404.
    await not_found(server.api.patch(configmaps(namespace, "a"), {"data": {}}), 'configmaps "a" not found')

    # Delete of what is not there is 404.
    await not_found(server.api.delete(configmaps(namespace, "a")), 'configmaps "a" not found')

    # Details name the group of a resource.
    failure = await not_found(server.api.get(jobs(namespace, "a")), 'jobs.batch "a" not found')
    assert details_of(failure) == {"name": "a", "group": "batch", "kind": "jobs"}


async def test_a_put_replaces_the_object(server: Server, namespace: str) -> None:
    # Put replaces everything.
    created = await server.api.create(
        configmaps(namespace), configmap("a", {"k": "v"}, labels={"l": "1"}, annotations={"n": "1"})
    )
    replaced = await server.api.update(configmaps(namespace, "a"), configmap("a", {"j": "w"}))
    assert replaced["data"] == {"j": "w"}
    assert replaced["metadata"].keys() >= {"uid", "creationTimestamp"}
    assert not replaced["metadata"].keys() & {"labels", "annotations"}
    for kept in ("uid", "creationTimestamp"):
        assert replaced["metadata"][kept] == created["metadata"][kept]

    # Put of the same changes nothing.
    created = await server.api.create(configmaps(namespace), configmap("b", {"k": "v"}))
    replaced = await server.api.update(configmaps(namespace, "b"), created)
    assert replaced["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]

    # Put creates a lease. A few old kinds may be created by PUT, and answer 201 then.
    answer = await send(server.api, "PUT", leases(namespace, "a"), lease("a"))
    assert answer.status == 201
    assert answer.body["metadata"]["name"] == "a"


async def test_a_delete_returns_a_status(server: Server, namespace: str) -> None:
    # Delete answers a success that names the object.
    created = await server.api.create(configmaps(namespace), configmap("a"))
    answer = await server.api.delete(configmaps(namespace, "a"))
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]},
    }

    # Delete needs no body.
    await server.api.create(configmaps(namespace), configmap("d"))
    bare = await send(server.api, "DELETE", configmaps(namespace, "d"))
    assert (bare.status, bare.body["status"]) == (200, "Success")


async def test_uid_and_timestamps_are_set_by_the_server(server: Server, namespace: str) -> None:
    # The server decides uid and times.
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

    # A patch cannot change the creation timestamp.
    created = await server.api.create(configmaps(namespace), configmap("b"))
    patched = await server.api.patch(
        configmaps(namespace, "b"), {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}
    )
    assert patched["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]

    # The uid of a patch must be the objects.
    await server.api.create(configmaps(namespace), configmap("c"))
    await invalid(
        server.api.patch(configmaps(namespace, "c"), {"metadata": {"uid": ANOTHER_UID}}),
        f'ConfigMap "c" is invalid: metadata.uid: Invalid value: "{ANOTHER_UID}": field is immutable',
    )

    # The uid of a put must be the objects.
    await conflict(
        server.api.update(configmaps(namespace, "c"), configmap("c", uid=ANOTHER_UID)),
        saying=[
            'Operation cannot be fulfilled on configmaps "c": ',
            f"Precondition failed: UID in precondition: {ANOTHER_UID}, UID in object meta: ",
        ],
    )


async def test_an_object_is_in_one_namespace(server: Server, namespace: str) -> None:
    # An object may be in one namespace only.
    await server.api.create(configmaps(namespace), configmap("a"))
    other = path_of("v1", "configmaps", namespace="default", name="a")
    await not_found(server.api.get(other))

    # Lists over all namespaces hold the objects of each.
    await server.api.create(configmaps(namespace), configmap("b", labels={"in": namespace}))
    found = await server.api.list(path_of("v1", "configmaps"), labelSelector=f"in={namespace}")
    assert [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in found] == [(namespace, "b")]


async def test_generation_counts_changes_of_the_spec(server: Server, namespace: str) -> None:
    # Generation counts changes of the spec.
    created = await server.api.create(jobs(namespace), job())
    assert created["metadata"]["generation"] == 1
    labelled = await server.api.patch(jobs(namespace, "a"), {"metadata": {"labels": {"l": "1"}}})
    assert labelled["metadata"]["generation"] == 1
    changed = await server.api.patch(jobs(namespace, "a"), {"spec": {"parallelism": 3}})
    assert changed["metadata"]["generation"] == 2

    # Generation is the servers to write.
    await server.api.create(jobs(namespace), job("b"))
    patched = await server.api.patch(jobs(namespace, "b"), {"metadata": {"generation": 9}})
    assert patched["metadata"]["generation"] == 1

    # Kinds without a spec have no generation.
    created = await server.api.create(configmaps(namespace), configmap("a", {"k": "v"}))
    changed = await server.api.patch(configmaps(namespace, "a"), {"data": {"k": "w"}})
    assert "generation" not in created["metadata"]
    assert "generation" not in changed["metadata"]


async def test_status_is_written_by_its_subresource_alone(server: Server, namespace: str) -> None:
    # The status subresource writes the status alone.
    created = await server.api.create(jobs(namespace), job())
    patched = await server.api.patch(
        f"{jobs(namespace, 'a')}/status",
        {"spec": {"parallelism": 3}, "metadata": {"labels": {"l": "1"}}, "status": {"ready": 0, "terminating": 0}},
    )
    assert patched["status"]["terminating"] == 0
    assert patched["spec"] == created["spec"]
    assert patched["metadata"]["generation"] == 1
    assert int(patched["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])

    # The status subresource can be read.
    read = await server.api.get(f"{jobs(namespace, 'a')}/status")
    assert (read["kind"], read["metadata"]["name"]) == ("Job", "a")

    # Status is not taken at creation.
    created = await server.api.create(jobs(namespace), {**job("b"), "status": {"active": 5}})
    assert created["status"] == {}

    # Status is not taken with the spec.
    await server.api.create(jobs(namespace), job("c"))
    patched = await server.api.patch(jobs(namespace, "c"), {"spec": {"parallelism": 3}, "status": {"active": 5}})
    assert patched["spec"]["parallelism"] == 3
    assert "active" not in patched["status"]

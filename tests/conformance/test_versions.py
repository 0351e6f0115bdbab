"""resourceVersions: conflicts of writes, and deletes with preconditions."""

from tests.conformance.answers import Refusal, conflict, invalid, not_found, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, jobset, jobsets, lease, leases
from tests.controlplane.api import Object

ANOTHER_UID = "11111111-1111-1111-1111-111111111111"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def version_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


async def test_each_write_has_a_greater_version(server: Server, namespace: str) -> None:
    # Each write has a greater version.
    created = await server.api.create(configmaps(namespace), configmap("a"))
    replaced = await server.api.update(configmaps(namespace, "a"), configmap("a", {"k": "1"}))
    patched = await server.api.patch(configmaps(namespace, "a"), {"data": {"k": "2"}})
    other = await server.api.create(leases(namespace), lease("a"))
    assert version_of(created) < version_of(replaced) < version_of(patched) < version_of(other)

    # A list has the version it was read at.
    created = await server.api.create(configmaps(namespace), configmap("b"))
    found = await server.api.get(configmaps(namespace))
    assert version_of(found) >= version_of(created)


async def test_a_put_with_an_old_version_is_a_conflict(server: Server, namespace: str) -> None:
    # A put from the current version is taken.
    created = await server.api.create(configmaps(namespace), configmap("a"))
    replaced = await server.api.update(configmaps(namespace, "a"), {**created, "data": {"k": "v"}})
    assert replaced["data"] == {"k": "v"}

    # A put from an old version is a conflict.
    created = await server.api.create(configmaps(namespace), configmap("b"))
    await server.api.patch(configmaps(namespace, "b"), {"data": {"k": "v"}})
    await conflict(
        server.api.update(configmaps(namespace, "b"), created),
        f'Operation cannot be fulfilled on configmaps "b": {MODIFIED}',
    )

    # A put without a version is unconditional.
    await server.api.create(configmaps(namespace), configmap("c", {"k": "1"}))
    replaced = await server.api.update(configmaps(namespace, "c"), configmap("c", {"k": "2"}))
    assert replaced["data"] == {"k": "2"}

    # A version is a number.
    await Refusal(500, "")(
        server.api.update(configmaps(namespace, "a"), configmap("a", resourceVersion="abc")), saying="abc"
    )


async def test_some_kinds_require_the_version_in_a_put(server: Server, namespace: str) -> None:
    # Some kinds want the version in a put.
    await server.api.create(leases(namespace), lease("a"))
    await invalid(
        server.api.update(leases(namespace, "a"), lease("a")),
        saying="metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        causes=[("FieldValueInvalid", "metadata.resourceVersion")],
    )

    # Custom resources want the version in a put.
    await server.api.create(jobsets(namespace), jobset())
    await invalid(
        server.api.update(jobsets(namespace, "a"), jobset()),
        saying="metadata.resourceVersion: Invalid value: 0: must be specified for an update",
    )


async def test_versions_in_a_patch_and_a_create_are_checked(server: Server, namespace: str) -> None:
    # A patch from an old version is a conflict.
    created = await server.api.create(configmaps(namespace), configmap("a"))
    await server.api.patch(configmaps(namespace, "a"), {"data": {"k": "v"}})
    await conflict(
        server.api.patch(
            configmaps(namespace, "a"),
            {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"k": "w"}},
        ),
        f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}',
    )

    # What is created has no version yet.
    failure = await Refusal(500, "")(
        server.api.create(configmaps(namespace), configmap("b", resourceVersion="1")),
        "resourceVersion should not be set on objects to be created",
    )
    assert "reason" not in failure.body


async def test_a_delete_with_a_failed_precondition_is_a_conflict(server: Server, namespace: str) -> None:
    # Delete for another uid is a conflict.
    await server.api.create(configmaps(namespace), configmap("a"))
    answer = await send(server.api, "DELETE", configmaps(namespace, "a"), {"preconditions": {"uid": ANOTHER_UID}})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")

    # Delete for another version is a conflict.
    await server.api.create(configmaps(namespace), configmap("b"))
    answer = await send(server.api, "DELETE", configmaps(namespace, "b"), {"preconditions": {"resourceVersion": "1"}})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")

    # Delete for this uid and version deletes.
    metadata = (await server.api.create(configmaps(namespace), configmap("c")))["metadata"]
    preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    answer = await send(server.api, "DELETE", configmaps(namespace, "c"), {"preconditions": preconditions})
    assert answer.status == 200
    await not_found(server.api.get(configmaps(namespace, "c")))

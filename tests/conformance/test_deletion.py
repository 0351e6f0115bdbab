"""Deletion: finalizers, owners and dependents."""

from typing import Any

import pytest

from tests.conformance.answers import already_exists, invalid, not_found, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, gone, job, jobs
from tests.controlplane.api import Object, path_of
from tests.controlplane.wait import wait_for

HOLD = "example.com/hold"


def owned_by(*owners: Object, block: bool = False) -> dict[str, Any]:
    """The metadata with the owner references."""
    references: list[Object] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        for owner in owners
    ]
    if block:
        for reference in references:
            reference["blockOwnerDeletion"] = True
    return {"ownerReferences": references}


class Family:
    """ConfigMaps of one namespace that own each other."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.api = server.api
        self.namespace = namespace

    def path(self, name: str) -> str:
        return configmaps(self.namespace, name)

    async def make(self, name: str, **metadata: Any) -> Object:
        return await self.api.create(configmaps(self.namespace), configmap(name, **metadata))

    async def read(self, name: str) -> Object:
        metadata: Object = (await self.api.get(self.path(name)))["metadata"]
        return metadata

    async def release(self, name: str) -> None:
        await self.api.patch(self.path(name), {"metadata": {"finalizers": None}})

    async def leaving(self, name: str) -> None:
        """Wait until it is being deleted."""

        async def marked() -> bool:
            return "deletionTimestamp" in await self.read(name)

        await wait_for(marked, f"the deletion of {name}")


@pytest.fixture
def family(server: Server, namespace: str) -> Family:
    return Family(server, namespace)


async def test_an_object_with_a_finalizer_stays_terminating(family: Family) -> None:
    # A finalizer holds.
    created = await family.make("a", finalizers=[HOLD])
    answer = await family.api.delete(family.path("a"))
    assert answer["kind"] == "ConfigMap"
    for metadata in (answer["metadata"], await family.read("a")):
        assert metadata["deletionTimestamp"]
        assert metadata["deletionGracePeriodSeconds"] == 0
        assert metadata["finalizers"] == [HOLD]
        assert metadata["uid"] == created["metadata"]["uid"]

    # A second delete changes nothing.
    await family.make("b", finalizers=[HOLD])
    first = await family.api.delete(family.path("b"))
    second = await family.api.delete(family.path("b"))
    assert second["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"]

    # The last finalizer lets go.
    await family.make("c", finalizers=[HOLD, "example.com/other"])
    await family.api.delete(family.path("c"))
    await family.api.patch(family.path("c"), {"metadata": {"finalizers": [HOLD]}})
    assert (await family.read("c"))["finalizers"] == [HOLD]
    answer = await family.api.patch(family.path("c"), {"metadata": {"finalizers": []}})
    assert "finalizers" not in answer["metadata"]
    await not_found(family.api.get(family.path("c")))


async def test_a_terminating_object_can_be_changed(family: Family) -> None:
    # What is leaving can be changed.
    await family.make("a", finalizers=[HOLD])
    await family.api.delete(family.path("a"))
    assert (await family.api.patch(family.path("a"), {"data": {"k": "v"}}))["data"] == {"k": "v"}

    # What is leaving takes no new finalizer.
    await invalid(
        family.api.patch(family.path("a"), {"metadata": {"finalizers": [HOLD, "example.com/new"]}}),
        saying="metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/new"}',
        causes=[("FieldValueForbidden", "metadata.finalizers")],
    )

    # What is leaving holds its name.
    await already_exists(family.make("a"), 'object is being deleted: configmaps "a" already exists')


async def test_options_of_a_deletion_are_checked(family: Family) -> None:
    owner = await family.make("a")

    # They are those of the API, in its spelling.
    for options, field in (({"propagationPolicy": "foreground"}, "propagationPolicy"), ({"dryRun": ["No"]}, "dryRun")):
        answer = await send(family.api, "DELETE", family.path("a"), options)
        assert (answer.status, answer.body["reason"]) == (422, "Invalid"), field
        assert answer.body["message"].startswith(
            f'DeleteOptions.meta.k8s.io "" is invalid: {field}: Unsupported value: '
        )

    # And of its types.
    for wrong, words in (
        ({"gracePeriodSeconds": "1"}, "string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"),
        ({"preconditions": "x"}, "string into Go struct field DeleteOptions.preconditions of type v1.Preconditions"),
    ):
        answer = await send(family.api, "DELETE", family.path("a"), wrong)
        assert (answer.status, answer.body["reason"]) == (400, "BadRequest"), words
        assert f"json: cannot unmarshal {words}" in answer.body["message"]
    assert "deletionTimestamp" not in await family.read("a")

    # Preconditions name what is stored.
    uid, version = (owner["metadata"][field] for field in ("uid", "resourceVersion"))
    for named, words in (
        ({"uid": "x"}, f"the UID in the precondition (x) does not match the UID in record ({uid}). "),
        (
            {"resourceVersion": "1"},
            f"the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). ",
        ),
    ):
        answer = await send(family.api, "DELETE", family.path("a"), {"preconditions": named})
        assert (answer.status, answer.body["reason"]) == (409, "Conflict"), words
        assert answer.body["message"].startswith(f'Operation cannot be fulfilled on ConfigMap "a": {words}The object')

    # The field of earlier releases still means what it meant.
    child = await family.make("b", **owned_by(owner))
    await send(family.api, "DELETE", family.path("a"), {"orphanDependents": True})
    await gone(family.api, family.path("a"))
    assert (await family.read("b"))["uid"] == child["metadata"]["uid"]
    assert "ownerReferences" not in await family.read("b")


async def test_a_watch_receives_the_deletion_timestamp_and_then_the_deletion(family: Family) -> None:
    """The DELETED event has the last stored state, which still had the finalizer."""
    created = await family.make("a", finalizers=[HOLD])
    await family.api.delete(family.path("a"))
    await family.release("a")
    events = []
    path = configmaps(family.namespace)
    version = created["metadata"]["resourceVersion"]
    async for event in family.api.watch(
        path, resourceVersion=version, fieldSelector="metadata.name=a", timeoutSeconds=20
    ):
        events.append(
            (event.type, event.object["metadata"].get("finalizers"), "deletionTimestamp" in event.object["metadata"])
        )
        if event.type == "DELETED":
            break
    assert events == [("MODIFIED", [HOLD], True), ("DELETED", [HOLD], True)]


async def test_a_dependent_is_deleted_with_its_owner(family: Family) -> None:
    # What is owned goes with its owner.
    owner = await family.make("a")
    await family.make("b", **owned_by(owner))
    answer = await family.api.delete(family.path("a"), propagation="Background")
    assert answer["status"] == "Success"
    await gone(family.api, family.path("b"))

    # Background is the way of configmaps.
    owner = await family.make("c")
    await family.make("d", **owned_by(owner))
    await family.api.delete(family.path("c"))
    await gone(family.api, family.path("d"))

    # Grandchildren go too.
    owner = await family.make("e")
    child = await family.make("f", **owned_by(owner))
    await family.make("g", **owned_by(child))
    await family.api.delete(family.path("e"))
    await gone(family.api, family.path("g"))

    # What an owner that never was owns goes.
    never = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "never", "uid": "11111111-1111-1111-1111-111111111111"},
    }
    await family.make("h", **owned_by(never))
    await gone(family.api, family.path("h"))


async def test_an_owner_that_cannot_be_looked_up_keeps_its_dependents(family: Family) -> None:
    # One in a namespace of an object in none, and one of a kind that is not served.
    owner, role = await family.make("a"), f"owned-{family.namespace}"
    roles = path_of("rbac.authorization.k8s.io/v1", "clusterroles")
    await family.api.create(roles, {"metadata": {"name": role, **owned_by(owner)}})
    unserved = {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "n", "uid": "x"}}
    await family.make("b", **owned_by(unserved))
    # The collector has come to them when it has collected what is created later.
    never = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "never", "uid": "y"}}
    await family.make("c", **owned_by(never))
    await gone(family.api, family.path("c"))
    assert await family.read("b")
    assert await family.api.get(f"{roles}/{role}")
    await family.api.delete(f"{roles}/{role}")


async def test_foreground_deletion_waits_for_dependents(family: Family) -> None:
    # In the foreground the owner waits for whom it must.
    owner = await family.make("a")
    await family.make("b", finalizers=[HOLD], **owned_by(owner, block=True))
    answer = await family.api.delete(family.path("a"), propagation="Foreground")
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert answer["metadata"]["deletionTimestamp"]
    await family.leaving("b")
    assert (await family.read("a"))["finalizers"] == ["foregroundDeletion"]
    await family.release("b")
    await gone(family.api, family.path("a"))
    await gone(family.api, family.path("b"))

    # Foreground deletion does not wait for other dependents.
    owner = await family.make("c")
    await family.make("d", finalizers=[HOLD], **owned_by(owner))
    await family.api.delete(family.path("c"), propagation="Foreground")
    await gone(family.api, family.path("c"))
    await family.leaving("d")
    await family.release("d")


async def test_orphaned_dependents_stay_without_their_owner_reference(family: Family) -> None:
    owner = await family.make("a")
    await family.make("b", **owned_by(owner))
    answer = await family.api.delete(family.path("a"), propagation="Orphan")
    assert answer["metadata"]["finalizers"] == ["orphan"]
    await gone(family.api, family.path("a"))
    assert "ownerReferences" not in await family.read("b")


async def test_a_dependent_with_another_owner_stays(family: Family) -> None:
    first, second = await family.make("a"), await family.make("b")
    await family.make("c", **owned_by(first, second))
    await family.api.delete(family.path("a"))

    async def one_left() -> bool:
        return [owner["name"] for owner in (await family.read("c"))["ownerReferences"]] == ["b"]

    await wait_for(one_left, "the reference to go")
    await family.api.delete(family.path("b"))
    await gone(family.api, family.path("c"))


async def test_an_owner_of_the_same_name_is_not_the_owner(family: Family) -> None:
    owner = await family.make("a")
    await family.api.delete(family.path("a"), propagation="Orphan")
    await gone(family.api, family.path("a"))
    await family.make("a")
    await family.make("b", **owned_by(owner))
    await gone(family.api, family.path("b"))
    assert await family.read("a")


async def test_deleting_a_job_orphans_its_dependents_by_default(server: Server, namespace: str) -> None:
    created = await server.api.create(jobs(namespace), job())
    await server.api.create(configmaps(namespace), configmap("b", **owned_by(created)))
    answer = await server.api.delete(jobs(namespace, "a"))
    assert answer["metadata"]["finalizers"] == ["orphan"]
    await gone(server.api, jobs(namespace, "a"))
    assert "ownerReferences" not in (await server.api.get(configmaps(namespace, "b")))["metadata"]

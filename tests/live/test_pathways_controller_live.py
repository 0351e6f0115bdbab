"""PathwaysJobs in a real cluster: from the object to its JobSet's end, others that are in the way, and each right.

The definition is upstream's, as whoever moves to gangctl has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Final

import pytest

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.admission import install
from tests.live.admission_rights import granted
from tests.live.cluster import JOBSETS
from tests.live.gangctl import Gangctl, create_namespaces, prepare, shared, shared_gangctl
from tests.live.observe import gang_of, said
from tests.live.pathways_ground import open_ground, readable
from tests.live.pathways_place import ALL, PathwaysPlace, foreign_jobset, owner_of
from tests.live.rights import Right, missing
from tests.pathways.upstream_definition import upstream_definition

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("pathways")]

USER: Final = "pathways"
FLAGS: Final = ("--pathways", "--unregister-on-exit", "--policies=off", "--kueue=off", "--readiness=off")
POLICY: Final = "admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def pathways_plane() -> Iterator[ControlPlane]:
    """A plane whose garbage collector knows PathwaysJobs from the start: it looks for new kinds once in a while."""

    async def start() -> ControlPlane:
        started = await ControlPlane.start("1.37", ("jobset",), crds=[upstream_definition()])
        await prepare(started, USER)
        await install(started.api, "pathways", USER)
        return started

    yield from shared(start)


@pytest.fixture(scope="module")
def following(pathways_plane: ControlPlane) -> Iterator[Gangctl]:
    """gangctl that follows PathwaysJobs; a test that stops it starts it again."""
    yield from shared_gangctl(Gangctl(pathways_plane, *FLAGS, name=USER, user=USER))


@pytest.fixture
async def place(
    pathways_plane: ControlPlane, following: Gangctl, request: pytest.FixtureRequest
) -> AsyncIterator[PathwaysPlace]:
    assert following.process.running, "an earlier test left gangctl stopped"
    name = f"t-{hashlib.sha1(request.node.name.encode()).hexdigest()[:12]}"
    await create_namespaces(pathways_plane, [name])
    place = PathwaysPlace(pathways_plane, name, following)
    yield place
    # The namespace is deleted in whatever order, and what is not owned any more must not come again.
    for each in await place.api.list(ALL):
        if each["metadata"]["namespace"] == name:
            await place.delete_job(each["metadata"]["name"])
    await remove_namespace(place.api, name)


async def test_a_pathwaysjob_runs_from_creation_to_completion(place: PathwaysPlace) -> None:
    async with open_ground(place) as ground, Kubelet(place.api) as kubelet:
        raw = await place.submit()
        job = readable(raw)
        await place.stands("Pending")
        await ground.head_pool(1)
        await ground.slice_pool(job.slice)
        gangs = await gang_of(place, "pw")
        assert [each["spec"]["schedulingPolicy"]["gang"]["minCount"] for each in gangs.groups.values()] == [2]
        ground.look_at(job, await ground.started(job))
        await place.stands("Running HeadAndWorkersReady")
        await place.patch_jobset("pw", {"spec": {"suspend": True}})
        await place.stands("Suspended SuspendedJobs")
        await wait_for(partial(without_pods, place), what="its pods to be gone")
        await place.patch_jobset("pw", {"spec": {"suspend": False}})
        await place.stands("Running HeadAndWorkersReady")
        head = await wait_for(partial(running_head, place), what="its head to run")
        await kubelet.finish(head)
        status = await place.stands("Completed AllJobsCompleted")
        assert status["terminalState"] == "Completed"
        assert [each["type"] for each in status["conditions"]] == [
            *("Pending", "Running", "Suspended", "Completed", "Failed")
        ]
        for reason in ("JobSetCreated", "Suspended", "Resumed", "Completed"):
            await said(place, reason, "pw")
        await place.counted(1, phase="completed")
        (owner,) = (await place.jobset("pw"))["metadata"]["ownerReferences"]
        assert owner == {**owner_of(raw), "blockOwnerDeletion": True}
    await place.wrote(lambda written: written.count("create jobsets") == 1)


async def without_pods(place: PathwaysPlace) -> bool:
    pods = await place.pods()
    if pods:
        raise NotYet(f"{len(pods)} pods")
    return True


async def running_head(place: PathwaysPlace) -> Object:
    found = [pod for pod in await place.pods() if "pathways-head" in pod["metadata"]["name"]]
    if [pod["status"].get("phase") for pod in found] != ["Running"]:
        raise NotYet(str([pod["status"].get("phase") for pod in found]))
    return found[0]


async def test_a_foreign_jobset_is_left_alone(place: PathwaysPlace) -> None:
    theirs = await place.create_jobset(foreign_jobset())
    await place.submit()
    status = await place.stands("Failed NameConflict")
    assert "terminalState" not in status
    now = await place.jobset("pw")
    assert (now["metadata"]["uid"], now["spec"]) == (theirs["metadata"]["uid"], theirs["spec"])
    await place.wrote(lambda written: {*written} == {"patch pathwaysjobs"})
    await place.api.delete(place.path(JOBSETS, "jobsets", "pw"), propagation="Background")
    await place.stands("Pending")
    assert (await place.jobset("pw"))["metadata"]["uid"] != theirs["metadata"]["uid"]


async def test_a_denial_is_reported_with_its_message_until_the_policy_is_deleted(place: PathwaysPlace) -> None:
    name = f"no-heads-{place.namespace[-6:]}"
    rule = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["jobsets"], "operations": ["CREATE"]}
    validation = {"expression": "object.metadata.name != 'pw'", "message": "no Pathways on Sundays"}
    spec: Object = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}}
    policies, bindings = (path_of(POLICY, f"validatingadmissionpolic{each}") for each in ("ies", "ybindings"))
    await place.api.create(policies, {"metadata": {"name": name}, "spec": spec})
    bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
    await place.api.create(bindings, {"metadata": {"name": name}, "spec": bound})

    async def in_force() -> bool:
        try:
            await place.create_jobset(foreign_jobset(), dry_run=True)
        except ApiFailure as failure:
            return "Sundays" in failure.message
        raise NotYet("accepted")

    await wait_for(in_force, what="the policy to be in force")
    await place.submit()
    status = await place.stands("Failed AdmissionDenied")
    assert "terminalState" not in status
    assert any("no Pathways on Sundays" in each["message"] for each in status["conditions"])
    assert "no Pathways on Sundays" in (await said(place, "AdmissionDenied", "pw"))["note"]
    for path in (bindings, policies):
        await place.api.delete(f"{path}/{name}")
    await place.stands("Pending")
    assert "AdmissionDenied" not in str((await place.job())["status"])


def right(resource: str, verb: str) -> Right:
    (found,) = [each for each in granted("pathways") if (each.resource, each.verb) == (resource, verb)]
    return found


async def test_a_kill_between_jobset_and_status_loses_no_status(place: PathwaysPlace) -> None:
    """What is taken away meanwhile is the right to write the status."""
    lacking = right("pathwaysjobs/status", "patch")
    process = place.gangctl.process
    async with missing(place.api, USER, [lacking]):
        await place.submit()
        await place.misses([lacking], place.began)
        created = await place.jobset("pw")
        await process.kill()
    assert "status" not in await place.job()
    await process.start()
    await place.stands("Pending")
    assert (await place.jobset("pw"))["metadata"]["uid"] == created["metadata"]["uid"]
    await place.wrote(lambda written: written == ["create jobsets", "patch pathwaysjobs"])
    await said(place, "JobSetCreated", "pw")
    assert (await place.reasons("pw")).count("JobSetCreated") == 1
    # And once more, with nothing to be done.
    await process.restart()
    await place.counted(1, phase="pending")
    await place.submit("later")
    await place.stands("Pending", "later")
    await place.wrote(lambda written: written == ["create jobsets", "patch pathwaysjobs"] * 2)


async def test_pathwaysjobs_are_left_to_the_upstream_controller_and_then_adopted(place: PathwaysPlace) -> None:
    async with place.upstream():
        job = await place.submit()
        await place.submit("waiting")
        await place.counted(2, phase="new")
        made = await place.create_jobset(foreign_jobset(owner=owner_of(job)))
        old = {"status": "False", "reason": "R", "message": "m", "lastTransitionTime": "2025-01-01T00:00:00Z"}
        conditions = [{"type": each, **old} for each in ("Pending", "Running", "Suspended", "Running")]
        conditions.append({**old, "type": "Suspended", "status": "True", "lastTransitionTime": "2025-01-02T00:00:00Z"})
        await place.api.patch(f"{place.job_path()}/status", {"status": {"conditions": conditions}})
        await place.counted(1, phase="suspended")

        async def suspended() -> bool:
            return "SuspendedJobs" in str((await place.jobset("pw")).get("status"))

        await wait_for(suspended, what="JobSet to say that it is suspended")
        # It lists the JobSet with this status: its watch of JobSets may show it later than its watch of the Lease shows
        # that upstream has ended.
        await place.gangctl.process.restart()
        await place.stood_down(down=True)
        await place.counted(1, phase="suspended")
        assert place.written() == []
        assert await place.events() == []
    await place.stands("Pending", "waiting")
    status = await place.stands("Suspended SuspendedJobs")
    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert len(status["conditions"]) == len(times) == 5
    assert times["Suspended"] == "2025-01-02T00:00:00Z"
    now = await place.jobset("pw")
    assert (now["metadata"]["uid"], now["spec"]) == (made["metadata"]["uid"], made["spec"])
    await place.wrote(lambda written: written.count("create jobsets") == 1)
    await said(place, "JobSetCreated", "waiting")
    assert await place.events("pw") == []


@pytest.mark.full("that a right is missing in between is met above, when gangctl is killed")
@pytest.mark.parametrize(
    ("resource", "verb"), [("pathwaysjobs", "get"), ("jobsets", "get"), ("jobsets", "create")], ids=str
)
async def test_without_get_or_create_there_is_no_jobset(resource: str, verb: str, place: PathwaysPlace) -> None:
    lacking = right(resource, verb)
    async with missing(place.api, USER, [lacking]):
        await place.submit()
        await place.misses([lacking], place.began)
        assert await place.found_jobset() is None
        if verb == "create":
            await place.stands("Pending JobSetCreateFailed")
            assert lacking.words in (await said(place, "JobSetCreateFailed", "pw"))["note"].replace('\\"', '"')
    await place.stands("Pending WaitingForHead")


@pytest.mark.full("rights of the same kinds are looked at in test_rights_live")
@pytest.mark.parametrize(
    "lacking",
    [
        (("pathwaysjobs", "list"), ("leases", "watch")),
        (("leases", "list"), ("pathwaysjobs", "watch")),
    ],
    ids=lambda each: f"{each[0][0]}-{each[0][1]}",
)
async def test_without_list_or_watch_nothing_is_written(
    lacking: tuple[tuple[str, str], ...], place: PathwaysPlace
) -> None:
    """Without the list of either nothing is known; what is not watched is heard of by lists, late."""
    rights = [right(*each) for each in lacking]
    await place.gangctl.process.stop()
    await place.submit()
    async with missing(place.api, USER, rights[1:]):
        async with missing(place.api, USER, rights[:1]):
            since = place.plane.audit_position
            await place.gangctl.process.start()
            await place.misses(rights, since)
            assert place.written() == []
        await place.stands("Pending")
        assert rights[1].words in place.gangctl.log.replace('\\"', '"')


async def test_a_jobset_is_deleted_with_its_pathwaysjob(place: PathwaysPlace) -> None:
    await place.submit()
    await place.stands("Pending")
    await place.counted(1)
    await place.delete_job()
    await place.no_jobset()
    await place.counted(0)
    await place.submit("later")
    await place.stands("Pending", "later")
    await place.wrote(lambda written: written.count("create jobsets") == 2)
    assert await place.found_jobset() is None


def test_every_right_has_a_test_without_it() -> None:
    """That over owners is asked for on another plane, where it is enforced."""
    seen = {("pathwaysjobs", "list"), ("pathwaysjobs", "watch"), ("pathwaysjobs", "get"), ("jobsets", "get")}
    seen |= {("jobsets", "create"), ("leases", "list"), ("leases", "watch"), ("pathwaysjobs/status", "patch")}
    assert {(each.resource, each.verb) for each in granted("pathways")} == {
        *seen,
        ("pathwaysjobs/finalizers", "update"),
    }

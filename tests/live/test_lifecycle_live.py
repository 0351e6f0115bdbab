"""Lives of ganged JobSets on real Kubernetes, P19 to P25: suspended, restarted, finished, resized, at their tail."""

from __future__ import annotations

import asyncio

import pytest

from tests.cases import object_name
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import MODE, REF, jobset, rj
from tests.live.cluster import JOBSETS, Cluster, Gangs, reference_of, refused
from tests.live.gangctl import USER, Gangctl
from tests.live.observe import (
    foreign_workload,
    gang_of,
    jobs_with_references,
    live_min_counts,
    min_counts,
    no_gang,
    resize,
    running_pods,
    said,
)

pytestmark = pytest.mark.controlplane


async def wrote(cluster: Cluster, since: int, *expected: str) -> None:
    """Wait until gangctl has written this here, in this order, and see that it is all."""

    async def so_much() -> bool:
        if len(found := cluster.writes(USER, since)) < len(expected):
            raise NotYet(str(found))
        return True

    await wait_for(so_much, what="the audit log to have gangctl's writes")
    assert cluster.writes(USER, since) == [*expected]


async def test_p19_a_jobset_created_suspended_has_a_gang(cluster: Cluster) -> None:
    created = await cluster.create_jobset(jobset("js", rj("w", 1, 4, 4, mode="Gang"), suspend=True))
    before = await jobs_with_references(cluster, 1)
    uid = created["metadata"]["uid"]
    assert before == {"js-w-0": cluster.expected_reference("js", uid, "rj/w", "w")}
    assert (await cluster.jobs())["js-w-0"]["spec"]["suspend"] is True
    assert (await cluster.gangs()).names == set()
    await cluster.patch_jobset("js", {"spec": {"suspend": False}})
    gangs = await gang_of(cluster, "js")
    assert gangs.min_counts(object_name("js", uid, "workload")) == {"w": 4}
    assert gangs.references == before


@pytest.mark.usefixtures("kubelet")
async def test_p20_a_running_gang_is_suspended_and_resumed(cluster: Cluster) -> None:
    created = await cluster.create_jobset(jobset("js", rj("w", 1, 4, 4, mode="Gang", pod=cluster.room)))
    await running_pods(cluster, 4)
    before = await gang_of(cluster, "js")
    await cluster.patch_jobset("js", {"spec": {"suspend": True}})
    await no_gang(cluster)
    await without_pods(cluster)
    await said(cluster, "WorkloadDeleted")
    if cluster.has_groups:
        await said(cluster, "PodGroupDeleted")
    await cluster.patch_jobset("js", {"spec": {"suspend": False}})
    after = await gang_of(cluster, "js")
    assert after.names == before.names
    assert set(after.uids().values()).isdisjoint(before.uids().values())
    assert after.references == before.references
    await running_pods(cluster, 4)
    assert created["metadata"]["uid"]


async def without_pods(cluster: Cluster) -> None:
    """Wait until all pods have succeeded or are gone."""
    await read_until(
        cluster.pods, lambda pods: all(pod["status"].get("phase") == "Succeeded" for pod in pods), "pods to be gone"
    )


@pytest.mark.differs("1.36")
async def test_gangs_resume_after_their_first_pods_have_finished(cluster: Cluster, kubelet: Kubelet) -> None:
    """Twenty at once: a group that is made anew needs the pods that can still exist, not those of the manifest."""
    names = [f"js-{number}" for number in range(20)]
    nodes = await add_nodes(cluster.api, 2, cpu="64", labels=cluster.room["nodeSelector"], prefix=cluster.namespace)
    for name in names:
        jobs = (rj("init", 1, 1, 1, pod=cluster.room), rj("workers", 1, 3, 3, pod=cluster.room))
        await cluster.create_jobset(jobset(name, *jobs, mode="Gang"))
    first = [pod for pod in await running_pods(cluster, 4 * len(names)) if "-init-" in pod["metadata"]["name"]]
    await asyncio.gather(*map(kubelet.finish, first))
    await completed(cluster, *(f"{name}-init-0" for name in names))
    await asyncio.gather(*(cluster.patch_jobset(name, {"spec": {"suspend": True}}) for name in names))
    await no_gang(cluster)
    await without_pods(cluster)
    await asyncio.gather(*(cluster.patch_jobset(name, {"spec": {"suspend": False}}) for name in names))
    await running_pods(cluster, 3 * len(names))
    if cluster.has_groups:
        await live_min_counts(cluster, [3] * len(names))
    await remove_nodes(cluster.api, nodes)


async def completed(cluster: Cluster, *jobs: str) -> None:
    """Wait until these Jobs are complete."""

    async def so() -> bool:
        found = await cluster.jobs()
        if left := [name for name in jobs if not found[name].get("status", {}).get("completionTime")]:
            raise NotYet(f"{left} are not complete")
        return True

    await wait_for(so, what="Jobs to be complete")


async def test_p21_a_restart_is_a_separate_gang(cluster: Cluster, kubelet: Kubelet, running: Gangctl) -> None:
    plane = cluster.plane
    created = await cluster.create_jobset(
        jobset("js", rj("w", 2, 2, 2, mode="Gang", pod=cluster.room), failurePolicy={"maxRestarts": 1})
    )
    uid = created["metadata"]["uid"]
    pods = await running_pods(cluster, 4)
    before = await gang_of(cluster, "js")
    if cluster.has_groups:
        await exist(cluster, object_name("js", uid, "rj/w", 0), object_name("js", uid, "rj/w", 1))
    position = plane.audit_position
    await kubelet.fail(next(p for p in pods if p["metadata"]["name"].startswith("js-w-0")))

    await restarted(cluster, 1)
    await running_pods(cluster, 4)

    after = await exist(cluster, *([object_name("js", uid, "rj/w", 1)] if cluster.has_groups else []))
    assert after.workloads.keys() == before.workloads.keys()
    expected = cluster.expected_reference("js", uid, "rj/w", "w", 1)
    assert after.references == dict.fromkeys(("js-w-0", "js-w-1"), expected)
    await running.settle()
    await wrote(cluster, position, *(("delete podgroups",) if cluster.has_groups else ()))


async def exist(cluster: Cluster, *groups: str) -> Gangs:
    """Everything there is, once the PodGroups are these and no others."""
    return await read_until(
        cluster.gangs, lambda gangs: gangs.groups.keys() == {*groups}, f"PodGroups {', '.join(groups)}"
    )


async def test_p22_user_managed_group_is_left_alone(cluster: Cluster, running: Gangctl) -> None:
    if cluster.minor == "1.35":
        pytest.skip("JobSet 0.12 prunes workloadRef on 1.35: shown on the pure ground (tests/gang)")
    mine = {"schedulingGroup": {"podGroupName": "mine"}}
    await cluster.create_jobset(jobset("quiet", rj("w", 1, 2, 2, pod=mine)))
    await cluster.create_jobset(jobset("js", rj("w", 1, 2, 2, mode="Gang", pod=mine)))
    await said(cluster, "UserManagedSchedulingGroup")
    await running.settle()
    assert await jobs_with_references(cluster, 2) == {
        "js-w-0": {"podGroupName": "mine"},
        "quiet-w-0": {"podGroupName": "mine"},
    }
    assert (await cluster.gangs()).names == set()
    assert await cluster.reasons("quiet") == []


async def test_p23_foreign_workload_is_respected(cluster: Cluster) -> None:
    foreign = foreign_workload(cluster, "user-wl", "js")
    created = await cluster.api.create(cluster.scheduling("workloads"), foreign)
    raw = jobset("js", rj("w", 1, 2, 2, mode="Gang"))

    await read_until(
        lambda: cluster.create_jobset(raw, dry_run=True),
        lambda answer: "gangctl.dev/gang-ref" not in str(answer),
        "the webhook to know the foreign Workload",
    )
    await cluster.create_jobset(raw)
    await said(cluster, "ForeignWorkload")

    async def job() -> Object:
        return (await cluster.jobs())["js-w-0"]

    assert reference_of(await wait_for(job, what="the Job", tolerate=(KeyError,))) is None
    gangs = await cluster.gangs()
    assert gangs.names == {"user-wl"}
    assert gangs.workloads["user-wl"]["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


@pytest.mark.differs("1.36", "1.35")
@pytest.mark.usefixtures("kubelet")
async def test_p25_an_elastic_resize_changes_min_count(cluster: Cluster) -> None:
    created = await cluster.create_jobset(
        jobset("js", rj("w", 1, 4, 4, mode="Gang", pod=cluster.room), rj("free", 1, 1, 1, pod=cluster.room))
    )
    await running_pods(cluster, 5)
    before = await gang_of(cluster, "js")
    if cluster.minor != "1.37":
        failure = await refused(resize(cluster, created, 0, 6))
        assert failure.status == 422
        assert "minCount is immutable" in failure.message
        assert "spec.replicatedJobs[0].template.spec.parallelism" in failure.message
        assert (await gang_of(cluster, "js")).uids() == before.uids()
        await resize(cluster, await cluster.jobset("js"), 1, 2)
        await running_pods(cluster, 6)
        return
    workload, group = (object_name("js", created["metadata"]["uid"], scope) for scope in ("workload", "rj/w"))
    for pods, order in (
        (6, ("patch workloads", "patch podgroups")),
        (2, ("patch podgroups", "patch workloads")),
    ):
        position = cluster.plane.audit_position
        await resize(cluster, await cluster.jobset("js"), 0, pods)
        await min_counts(cluster, workload, group, pods)
        await running_pods(cluster, pods + 1)
        await wrote(cluster, position, *order)
    after = await gang_of(cluster, "js")
    assert after.uids() == before.uids()
    await said(cluster, "WorkloadUpdated")
    await said(cluster, "PodGroupUpdated")


async def test_the_number_of_writes_of_a_gang(cluster: Cluster, kubelet: Kubelet, running: Gangctl) -> None:
    """From CREATE over a restart to the end: two writes to begin, one to be ready for each restart that is left."""
    position = cluster.plane.audit_position
    created = await cluster.create_jobset(
        jobset("js", rj("w", 1, 2, 2, mode="Gang", pod=cluster.room), failurePolicy={"maxRestarts": 2})
    )
    first, second, third = (object_name("js", created["metadata"]["uid"], "rj/w", n) for n in range(3))
    pods = await running_pods(cluster, 2)
    if cluster.has_groups:
        await exist(cluster, first, second)
    await kubelet.fail(pods[0])
    await restarted(cluster, 1)
    again = await running_pods(cluster, 2)
    if cluster.has_groups:
        await exist(cluster, second, third)
    await asyncio.gather(*map(kubelet.finish, again))
    await no_gang(cluster)
    await running.settle()
    beginning = ["create workloads", "create podgroups", "create podgroups"]
    restart = ["delete podgroups", "create podgroups"]
    tail = ["patch podgroups"] if cluster.minor == "1.37" else []
    end = ["delete podgroups", "delete podgroups", "delete workloads"]
    if not cluster.has_groups:
        beginning, restart, end = beginning[:1], [], end[2:]

    async def wrote_all() -> bool:
        found = cluster.writes(USER, position)
        # Both pods may be seen to end at once: then there is no tail.
        if found not in ([*beginning, *restart, *end], [*beginning, *restart, *tail, *end]):
            raise NotYet(str(found))
        return True

    await wait_for(wrote_all, what="the audit log to have gangctl's writes")


async def restarted(cluster: Cluster, attempt: int) -> None:
    """Wait until every Job is of this attempt."""

    async def so() -> bool:
        labels = [job["metadata"]["labels"] for job in (await cluster.jobs()).values()]
        attempts = {each.get("jobset.sigs.k8s.io/restart-attempt") for each in labels}
        if attempts != {str(attempt)}:
            raise NotYet(f"attempts {attempts}")
        return True

    await wait_for(so, what=f"attempt {attempt}")


async def test_finished_jobset_leaves_nothing(cluster: Cluster, kubelet: Kubelet) -> None:
    await cluster.create_jobset(jobset("js", rj("w", 1, 2, 2, mode="Gang", pod=cluster.room)))
    await gang_of(cluster, "js")
    for pod in await running_pods(cluster, 2):
        await kubelet.finish(pod)
    await no_gang(cluster)
    await said(cluster, "WorkloadDeleted")


@pytest.mark.usefixtures("kubelet")
async def test_deleted_jobset_leaves_nothing_and_its_name_can_be_used_again(cluster: Cluster) -> None:
    raw = jobset("js", rj("w", 1, 2, 2, mode="ReplicatedGang", pod=cluster.room))
    await cluster.create_jobset(raw)
    first = await gang_of(cluster, "js")
    await running_pods(cluster, 2)
    await cluster.api.delete(cluster.path(JOBSETS, "jobsets", "js"), propagation="Foreground")

    async def free() -> bool:
        await cluster.create_jobset(raw)
        return True

    await wait_for(free, what="the name to be free", tolerate=(ApiFailure,))
    await running_pods(cluster, 2)

    async def replaced() -> bool:
        names = (await cluster.gangs()).names
        if names & first.names:
            raise NotYet(f"{names & first.names} still exist")
        return bool(names)

    await wait_for(replaced, what="new groups instead of the old")


@pytest.mark.differs("1.36")
@pytest.mark.usefixtures("kubelet")
async def test_an_orphaned_gang_makes_room_for_the_next_of_its_name(cluster: Cluster) -> None:
    raw = jobset("js", rj("w", 1, 2, 2, mode="Gang", pod=cluster.room))
    await cluster.create_jobset(raw)
    first = await gang_of(cluster, "js")
    await running_pods(cluster, 2)
    await cluster.api.delete(cluster.path(JOBSETS, "jobsets", "js"), propagation="Orphan")

    async def orphaned() -> bool:
        kept = [*(await cluster.gangs()).workloads.values(), *(await cluster.jobs()).values()]
        if owned := [raw["metadata"]["name"] for raw in kept if raw["metadata"].get("ownerReferences")]:
            raise NotYet(f"{owned} have an owner")
        return True

    await wait_for(orphaned, what="the dependents to be orphaned")
    await cluster.api.delete(cluster.path("batch/v1", "jobs", "js-w-0"), propagation="Foreground")

    async def without_job() -> bool:
        if await cluster.jobs() or await cluster.pods():
            raise NotYet("the Job or its pods exist")
        return True

    await wait_for(without_job, what="the orphaned Job to be gone")
    second = await cluster.create_jobset(raw)
    await jobs_with_references(cluster, 1)
    await running_pods(cluster, 2)

    scopes = ("workload", "rj/w") if cluster.has_groups else ("workload",)
    expected = {object_name("js", second["metadata"]["uid"], scope) for scope in scopes}
    if not cluster.has_groups:
        # gangctl keeps it: 1.35 does not protect a Workload that pods name.
        expected |= first.names

    async def replaced() -> bool:
        if (names := (await cluster.gangs()).names) != expected:
            raise NotYet(f"{names} exist")
        return True

    await wait_for(replaced, what="only the new gang's objects to be there, and what 1.35 keeps")


async def test_drift_is_repaired(cluster: Cluster) -> None:
    created = await cluster.create_jobset(jobset("js", rj("w", 1, 2, 2, mode="Gang")))
    before = await gang_of(cluster, "js")
    workload = object_name("js", created["metadata"]["uid"], "workload")
    await cluster.api.delete(cluster.scheduling("workloads", workload))

    async def recreated(name: str) -> bool:
        uids = (await cluster.gangs()).uids()
        if uids.get(name, before.uids()[name]) == before.uids()[name]:
            raise NotYet(f"UIDs {uids}")
        return True

    await wait_for(lambda: recreated(workload), what="the Workload to be created again")
    if not cluster.has_groups:
        return
    group = object_name("js", created["metadata"]["uid"], "rj/w")
    if cluster.minor == "1.37":
        await cluster.api.patch(
            cluster.scheduling("podgroups", group), {"spec": {"schedulingPolicy": {"gang": {"minCount": 7}}}}
        )
        await min_counts(cluster, workload, group, 2)
    await cluster.api.delete(cluster.scheduling("podgroups", group))
    # Its pods are pending, so the finalizer holds the group until they are gone: it is still usable.
    # All at once: when the first is gone the Job fails, and its controller deletes the other itself.
    await cluster.api.delete(cluster.path("v1", "pods"), grace=0)


@pytest.mark.differs("1.36")
async def test_a_replacement_in_a_partly_succeeded_gang_runs(cluster: Cluster, kubelet: Kubelet) -> None:
    """Kubernetes issue 142330: a finished pod leaves the count, and its gang can never be complete again."""
    created = await cluster.create_jobset(
        jobset(
            "js",
            rj("w", 1, 3, 3, mode="Gang", pod=cluster.room, job={"backoffLimit": 6}),
            failurePolicy={"maxRestarts": 0},
        )
    )
    pods = sorted(await running_pods(cluster, 3), key=lambda pod: str(pod["metadata"]["name"]))
    await kubelet.finish(pods[0])
    if cluster.minor == "1.37":
        group = object_name("js", created["metadata"]["uid"], "rj/w")

        await read_until(cluster.gangs, lambda gangs: gangs.group_min_count(group) == 2, "minCount to follow")
    await kubelet.fail(pods[1])
    if cluster.minor == "1.37":
        await running_pods(cluster, 2)
        assert object_name("js", created["metadata"]["uid"], "workload") in (await cluster.gangs()).workloads
    else:
        event = await said(cluster, "GangTailBlocked")
        assert event["type"] == "Warning"


async def test_name_conflict_is_reported_and_nothing_is_adopted(cluster: Cluster) -> None:
    created = await cluster.create_jobset(jobset("js", rj("w", 1, 2, 2, mode="Gang"), suspend=True))
    await jobs_with_references(cluster, 1)
    workload = object_name("js", created["metadata"]["uid"], "workload")
    stranger = await cluster.api.create(
        cluster.scheduling("workloads"), foreign_workload(cluster, workload, "somebody-else")
    )
    await cluster.patch_jobset("js", {"spec": {"suspend": False}})
    await said(cluster, "NameConflict")
    now = (await cluster.gangs()).workloads[workload]
    assert now["metadata"]["resourceVersion"] == stranger["metadata"]["resourceVersion"]
    assert (await cluster.gangs()).names == {workload}


async def test_gang_settings_are_immutable(cluster: Cluster) -> None:
    await cluster.create_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang")))
    await cluster.create_jobset(jobset("plain", rj("w", 1, 1, 1)))
    for name, mode in (("js", "Gang"), ("plain", "Gang")):
        failure = await refused(
            cluster.patch_jobset(name, {"metadata": {"annotations": {"gangctl.dev/gang-mode": mode}}})
        )
        assert failure.status == 422
        assert "settled when the JobSet is created" in failure.message
    await cluster.patch_jobset("plain", {"metadata": {"labels": {"team": "a"}}})
    await cluster.patch_jobset("js", {"metadata": {"labels": {"team": "a"}}})


async def test_full_put_without_stamp_and_mode_is_repaired(cluster: Cluster) -> None:
    """As `kubectl apply` of a file does, whose mode is from the defaults of a policy."""
    await cluster.create_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang")))
    written: list[Object] = []

    async def put() -> Object:
        live = await cluster.jobset("js")
        written.append(live["spec"]["replicatedJobs"][0]["template"]["metadata"].pop("annotations"))
        live["spec"]["suspend"] = True
        return await cluster.api.update(cluster.path(JOBSETS, "jobsets", "js"), live)

    # The JobSet controller writes the status meanwhile: a conflict is tried again.
    updated = await wait_for(put, what="the PUT to be accepted", tolerate=(ApiFailure,))
    assert updated["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"] == written[-1]
    assert written[-1].keys() == {MODE, REF}


async def test_a_skipped_namespace_is_not_sent_to_gangctl(cluster: Cluster) -> None:
    await cluster.api.patch(
        path_of("v1", "namespaces", name=cluster.namespace), {"metadata": {"labels": {"gangctl.dev/skip": "true"}}}
    )

    async def passes() -> Object:
        return await cluster.create_jobset(jobset("js", rj("w", 1, 1, 1), mode="nonsense"))

    # The API server notices the label a moment later.
    created = await wait_for(passes, what="the namespace to be skipped", tolerate=(ApiFailure,))
    assert "gang-ref" not in str(created["spec"])


async def test_a_jobset_without_a_gang_is_not_sent_to_gangctl(cluster: Cluster, running: Gangctl) -> None:
    """Nor do its Jobs: nobody answers for gangctl here, so that whatever is asked of it is refused."""
    await running.process.kill()
    try:
        failure = await refused(cluster.create_jobset(jobset("ganged", rj("w", 1, 2, 2, mode="Gang"))))
        assert "failed calling webhook" in failure.message
        await cluster.create_jobset(jobset("js", rj("w", 1, 2, 2)))
        jobs = await wait_for(cluster.jobs, what="its Job")
        await cluster.patch_jobset("js", {"metadata": {"labels": {"team": "a"}}})
        await cluster.api.delete(cluster.path("batch/v1", "jobs", "js-w-0"), propagation="Background")

        async def again() -> bool:
            return bool((await cluster.jobs())["js-w-0"]["metadata"]["uid"] != jobs["js-w-0"]["metadata"]["uid"])

        await wait_for(again, what="its Job to be made again", tolerate=(KeyError,))
        await cluster.patch_jobset("js", {"spec": {"suspend": True}})

        async def suspended() -> bool:
            return all(job["spec"]["suspend"] for job in (await cluster.jobs()).values())

        await wait_for(suspended, what="its Job to be suspended")
        await cluster.api.delete(cluster.path(JOBSETS, "jobsets", "js"), propagation="Background")
    finally:
        await running.process.start()

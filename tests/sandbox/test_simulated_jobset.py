"""The simulated JobSet controller: the whole life of JobSets without gangctl."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from typing import Any

from gangctl.api.meta import JOB_INDEX, RESTART_ATTEMPT
from gangctl.api.meta import JOB_RESTART_ATTEMPT as ALONE
from gangctl.sandbox.api import Api
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import Attributes
from gangctl.sandbox.simulated import add_nodes
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.sandbox.stage import NAMESPACE, NoWebhooks, Referring, Stage, stage
from tests.search import memory

JOBSETS = "jobsets.jobset.x-k8s.io"
JOBS = "jobs.batch"


def entry(obj: Object, name: str) -> dict[str, Any]:
    """One entry of status.replicatedJobsStatus."""
    (found,) = [each for each in obj["status"]["replicatedJobsStatus"] if each["name"] == name]
    return dict(found)


async def finish(on: Stage, labels: str = "") -> None:
    for pod in await on.pods(labels):
        if pod["status"]["phase"] == "Running":
            await on.simulated.kubelet.finish(pod)


def of(replicated_job: str) -> str:
    return f"jobset.sigs.k8s.io/replicatedjob-name={replicated_job}"


async def test_child_jobs_have_labels_of_their_own_place_and_of_the_coordinator() -> None:
    """All other labels: test_simulated_live.py."""
    async with stage() as on:
        await on.create_jobset(jobset("js", rj("a", 1, 1, 1), rj("b", 2, 2, 2), coordinator={"replicatedJob": "b"}))
        await on.idle()
        jobs = await on.jobs()
    assert list(jobs) == ["js-a-0", "js-b-0", "js-b-1"]
    expected = {
        "jobset.sigs.k8s.io/job-key": hashlib.sha1(f"{NAMESPACE}/js-b-1".encode()).hexdigest(),
        "jobset.sigs.k8s.io/coordinator": "js-b-0-0.js",
    }
    assert expected.items() <= jobs["js-b-1"]["metadata"]["labels"].items()


async def test_a_success_policy_of_any_completes_the_jobset_and_ends_the_rest() -> None:
    policy = {"operator": "Any", "targetReplicatedJobs": ["lead"]}
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create_jobset(jobset("js", rj("lead", 1, 1, 1), rj("w", 1, 2, 2), successPolicy=policy))
        await on.until_phase("Running", 3)
        await finish(on, of("lead"))
        await on.until_condition(JOBSETS, "js", "Completed")

        async def only_the_finished() -> bool:
            return list(await on.jobs()) == ["js-lead-0"]

        await on.until(only_the_finished, "the active Job to go")


async def test_a_failed_job_restarts_all_jobs_up_to_max_restarts() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        made = await on.create_jobset(
            jobset("js", rj("a", 1, 1, 1), rj("b", 1, 1, 1), failurePolicy={"maxRestarts": 1})
        )
        pods = await on.until_phase("Running", 2)
        before = {name: job["metadata"]["uid"] for name, job in (await on.jobs()).items()}
        await on.simulated.kubelet.fail(pods[0])

        async def recreated() -> bool:
            jobs = await on.jobs()
            return len(jobs) == 2 and all(
                job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == "1" for job in jobs.values()
            )

        await on.until(recreated, "both Jobs to be made again")
        after = {name: job["metadata"]["uid"] for name, job in (await on.jobs()).items()}
        assert after.keys() == before.keys()
        assert not set(after.values()) & set(before.values())
        restarting = await on.until_it_was("RestartingJobSet", made)
        assert restarting["status"]["restarts"] == 1
        assert restarting["metadata"]["uid"] == made["metadata"]["uid"]
        pods = await on.until_phase("Running", 2, "jobset.sigs.k8s.io/restart-attempt=1")
        await on.until_condition(JOBSETS, "js", "RestartingJobSet", "False")
        await on.simulated.kubelet.fail(pods[0])
        failed = await on.until_condition(JOBSETS, "js", "Failed")
    (condition,) = [c for c in failed["status"]["conditions"] if c["type"] == "Failed"]
    assert condition["reason"] == "ReachedMaxRestarts"
    assert failed["status"]["terminalState"] == "Failed"


async def test_each_restart_has_events_of_its_own() -> None:
    in_order = {"startupPolicyOrder": "InOrder"}
    raw = jobset("js", rj("a", 1, 1, 1), failurePolicy={"maxRestarts": 2}, startupPolicy=in_order)
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create_jobset(raw)
        for attempt in range(3):
            (pod,) = await on.until_phase("Running", 1, f"{RESTART_ATTEMPT}={attempt}")
            await on.until_condition(JOBSETS, "js", "StartupPolicyCompleted")
            await on.idle()
            if attempt < 2:
                await on.simulated.kubelet.fail(pod)
        events = (await on.api.list(on.api.kind("events.events.k8s.io"))).items
    about = [event for event in events if event["regarding"]["kind"] == "JobSet"]
    assert Counter((event["type"], event["reason"]) for event in about) == {
        ("Normal", "InOrderStartupPolicyInProgress"): 3,
        ("Normal", "InOrderStartupPolicyCompleted"): 3,
        ("Normal", "JobsReady"): 2,
        ("Warning", "DefaultFailurePolicy"): 2,
        ("Warning", "RestartJobSetFailurePolicyAction"): 2,
    }
    notes = {event["note"] for event in about if event["type"] == "Warning"}
    assert notes == {"applying RestartJobSet failure policy action (first failed job: js-a-0)"}


async def test_a_rule_fails_the_jobset() -> None:
    policy = {"maxRestarts": 3, "rules": [{"name": "f", "action": "FailJobSet"}]}
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create_jobset(jobset("js", rj("a", 1, 1, 1), failurePolicy=policy))
        (pod,) = await on.until_phase("Running", 1)
        await on.simulated.kubelet.fail(pod)
        failed = await on.until_condition(JOBSETS, "js", "Failed")
    (condition,) = [c for c in failed["status"]["conditions"] if c["type"] == "Failed"]
    assert condition["reason"] == "FailJobSetFailurePolicyAction"
    assert "first failed job: js-a-0" in condition["message"]


async def test_suspending_deletes_the_pods_and_resuming_applies_the_template() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1, labels={"pool": "gpu"})
        await on.create_jobset(jobset("js", rj("w", 1, 2, 2)))
        await on.until_phase("Running", 2)
        before = await on.jobs()
        await on.patch(JOBSETS, "js", {"spec": {"suspend": True}})
        await on.until_condition(JOBSETS, "js", "Suspended")
        await on.until_condition(JOBS, "js-w-0", "Suspended")
        await on.until_phase("Running", 0)
        await on.idle()
        assert await on.pods() == []
        assert entry(await on.jobset(), "w")["suspended"] == 1
        stored = await on.jobset()
        pod = stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pod.setdefault("metadata", {})["labels"] = {"new": "label"}
        pod["spec"]["nodeSelector"] = {"pool": "gpu"}
        pod["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
        stored["spec"]["suspend"] = False
        await on.patch(JOBSETS, "js", {"spec": stored["spec"]})
        pods = await on.until_phase("Running", 2)
        resumed = await on.until_condition(JOBSETS, "js", "Suspended", "False")
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in pods} == {"gpu"}
    assert {pod["metadata"]["labels"]["new"] for pod in pods} == {"label"}
    assert all({"key": "gpu", "operator": "Exists"} in pod["spec"]["tolerations"] for pod in pods)
    assert resumed["status"].get("restarts", 0) == 0
    assert {name: job["metadata"]["uid"] for name, job in before.items()} == {
        pod["metadata"]["ownerReferences"][0]["name"]: pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods
    }


async def test_a_jobset_created_suspended_has_jobs_and_no_pods() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create_jobset(jobset("js", rj("w", 2, 2, 2), suspend=True))
        await on.until_condition(JOBSETS, "js", "Suspended")
        await on.idle()
        assert [job["spec"]["suspend"] for job in (await on.jobs()).values()] == [True, True]
        assert await on.pods() == []


@each("status", ["Ready", "Complete"])
async def test_a_replicated_job_waits_for_its_dependency(status: str) -> None:
    second = {**rj("b", 1, 1, 1), "dependsOn": [{"name": "a", "status": status}]}
    async with stage() as on:
        await on.create_jobset(jobset("js", rj("a", 1, 1, 1), second))
        await on.idle()
        assert list(await on.jobs()) == ["js-a-0"]
        await add_nodes(on.api, 1)
        if status == "Complete":
            await on.until_phase("Running", 1)
            await on.idle()
            assert list(await on.jobs()) == ["js-a-0"]
            await finish(on)
        await on.until_phase("Running", 2 if status == "Ready" else 1)
        await on.idle()
        assert list(await on.jobs()) == ["js-a-0", "js-b-0"]


async def test_running_jobs_follow_a_resize() -> None:
    async with stage(gates={"ElasticJobSet": True}) as on:
        await add_nodes(on.api, 1)
        await on.create_jobset(jobset("js", rj("w", 1, 2, 2)))
        await on.until_phase("Running", 2)
        for size in (4, 1):
            stored = await on.jobset()
            stored["spec"]["replicatedJobs"][0]["template"]["spec"].update(parallelism=size, completions=size)
            await on.patch(JOBSETS, "js", {"spec": stored["spec"]})
            pods = await on.until_phase("Running", size)
            indexes = {pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in pods}
            assert indexes == {str(index) for index in range(size)}


class _Restoring(Referring):
    """Puts the reference back that JobSet has dropped, as gangctl's webhook does."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[bool] = []

    async def mutate(self, attributes: Attributes, obj: Object) -> Object:
        obj = await super().mutate(attributes, obj)
        if attributes.kind.plural == "jobs" and attributes.operation == "UPDATE" and not attributes.subresource:
            assert attributes.old is not None
            self.dropped.append("workloadRef" not in obj["spec"]["template"]["spec"])
            obj["spec"]["template"] = attributes.old["spec"]["template"]
        return obj


async def test_a_resize_drops_fields_that_jobset_does_not_know() -> None:
    admission = _Restoring()
    async with stage(api=Api("1.35", gates={"ElasticJobSet": True}, admission=admission)) as on:
        await on.create_jobset(jobset("js", rj("w", 1, 2, 2)))
        await on.idle()
        stored = await on.jobset()
        stored["spec"]["replicatedJobs"][0]["template"]["spec"].update(parallelism=3, completions=3)
        await on.patch(JOBSETS, "js", {"spec": stored["spec"]})
        await on.idle()
        assert (await on.jobs())["js-w-0"]["spec"]["parallelism"] == 3
    assert admission.dropped == [True]


def restarting(action: str, max_restarts: int) -> dict[str, Any]:
    """Two Jobs, and a policy for failed ones."""
    policy = {"maxRestarts": max_restarts, "rules": [{"action": action}]}
    return jobset("js", rj("w", 2, 1, 1), failurePolicy=policy)


@each(("action", "counted"), [("RestartJob", [1, 0]), ("RestartJobAndIgnoreMaxRestarts", None)])
async def test_a_failed_job_is_restarted_alone(action: str, counted: list[int] | None) -> None:
    async with stage(gates={"RestartJob": True}) as on:
        await add_nodes(on.api, 1)
        await on.create_jobset(restarting(action, 1))
        pods = await on.until_phase("Running", 2)
        other = (await on.jobs())["js-w-1"]["metadata"]["uid"]
        (failing,) = (pod for pod in pods if pod["metadata"]["labels"][JOB_INDEX] == "0")
        await on.simulated.kubelet.fail(failing)

        async def restarted() -> bool:
            job = (await on.jobs()).get("js-w-0")
            return job is not None and bool(job["metadata"]["labels"][ALONE] == "1")

        await on.until(restarted, "the Job of the next attempt")
        await on.until_phase("Running", 2)
        await on.idle()
        jobs, stored = await on.jobs(), await on.jobset()
        events = (await on.api.list(on.api.kind("events.events.k8s.io"))).items
    assert jobs["js-w-1"]["metadata"]["uid"] == other
    assert {job["metadata"]["labels"][RESTART_ATTEMPT] for job in jobs.values()} == {"0"}
    assert jobs["js-w-0"]["spec"]["template"]["metadata"]["annotations"][ALONE] == "1"
    assert jobs["js-w-1"]["metadata"]["labels"][ALONE] == "0"
    assert stored["status"]["restarts"] == 0
    assert entry(stored, "w")["jobRestarts"] == [1, 0]
    assert entry(stored, "w").get("jobRestartsCountTowardsMax") == counted
    (note,) = (event["note"] for event in events if event["reason"] == f"{action}FailurePolicyAction")
    assert note == f"applying {action} failure policy action (first failed job: js-w-0)"


async def test_restarts_of_single_jobs_count_with_those_of_the_jobset() -> None:
    async with stage(gates={"RestartJob": True}, policy=lambda _pod, _peers: "Failed") as on:
        await add_nodes(on.api, 1)
        await on.create_jobset(restarting("RestartJob", 2))
        failed = await on.until_condition(JOBSETS, "js", "Failed")
    (reason,) = (c["reason"] for c in failed["status"]["conditions"] if c["type"] == "Failed")
    assert reason == "ReachedMaxRestarts"
    assert sum(entry(failed, "w")["jobRestartsCountTowardsMax"]) == 2


async def test_a_jobset_managed_by_another_controller_is_left_alone() -> None:
    async with stage() as on:
        await on.create_jobset(jobset("js", rj("w", 1, 1, 1), managedBy="kueue.x-k8s.io/multikueue"))
        await on.idle()
        assert await on.jobs() == {}


class _Refusing(NoWebhooks):
    """Admission that refuses the first Jobs, as many as a test sets."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    async def mutate(self, attributes: Attributes, obj: Object) -> Object:
        if attributes.kind.plural == "jobs" and attributes.operation == "CREATE" and self.left:
            self.left -= 1
            raise StatusError(403, "Forbidden", 'admission webhook "w" denied the request: not yet')
        return obj


async def test_refused_jobs_are_retried_and_named_in_an_event() -> None:
    refusing = _Refusing(4)
    async with stage(api=Api("1.37", admission=refusing)) as on:
        await on.create_jobset(jobset("js", rj("w", 2, 1, 1)))

        async def both() -> bool:
            return len(await on.jobs()) == 2

        await on.until(both, "both Jobs")
        events = (await on.api.list(on.api.kind("events.events.k8s.io"))).items
    assert refusing.left == 0
    (note,) = (event["note"] for event in events if event["reason"] == "JobCreationFailed")
    why = 'creation failed with error: admission webhook "w" denied the request: not yet'
    assert note == f'job "js-w-0" {why}\njob "js-w-1" {why}'


async def test_on_1_35_jobset_drops_the_reference_from_what_it_writes_and_cannot_suspend() -> None:
    """As the real one, which was built against a later release: the API server refuses the change of the template."""
    async with stage("1.35", api=Api("1.35", admission=Referring())) as on:
        await on.create_jobset(jobset("js", rj("w", 1, 1, 1)))
        await on.idle()
        await on.patch(JOBSETS, "js", {"spec": {"suspend": True}})
        await on.idle()
        (job,) = (await on.jobs()).values()
    assert job["spec"]["template"]["spec"]["workloadRef"] == {"name": "js", "podGroup": "w"}
    assert job["spec"]["suspend"] is False


@each("ending", ["Completed", "Failed"])
def test_a_jobset_is_deleted_when_its_time_to_live_is_over(ending: str) -> None:
    async def present() -> list[bool]:
        async with stage(api=Api()) as on:
            await add_nodes(on.api, 1)
            await on.create_jobset(jobset("js", rj("w", 1, 1, 1, job={"backoffLimit": 0}), ttlSecondsAfterFinished=100))
            (pod,) = await on.until_phase("Running", 1)
            if ending == "Completed":
                await on.simulated.kubelet.finish(pod)
            else:
                await on.simulated.kubelet.fail(pod)
            await on.until_condition(JOBSETS, "js", ending)
            found = []
            for seconds in (90, 20):
                await asyncio.sleep(seconds)
                found.append("deletionTimestamp" not in (await on.jobset())["metadata"])
            # No garbage collector runs here, which would remove it.
            assert (await on.jobset())["metadata"]["finalizers"] == ["foregroundDeletion"]
        return found

    assert memory.run(0, present) == [True, False]

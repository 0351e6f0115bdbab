"""The simulated Job controller and kubelets: pods are created, counted once, replaced and deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from gangctl.api.objects import condition_of
from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import SYSTEM
from gangctl.sandbox.simulated import add_nodes, controller
from tests.rows import each
from tests.sandbox.stage import NAMESPACE, Stage, stage
from tests.search import memory

JOBS = "jobs.batch"
INDEX = "batch.kubernetes.io/job-completion-index"


def job(name: str = "j", **spec: Any) -> Object:
    """A Job; keyword arguments go into its spec."""
    pod = {
        "metadata": {"labels": {"mine": "kept"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none"}],
            **spec.pop("pod", {}),
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": pod, **spec},
    }


def indexes(pods: list[Object]) -> list[str]:
    return sorted(pod["metadata"]["labels"][INDEX] for pod in pods)


async def ending(on: Stage, name: str, kind: str) -> Object:
    found = await on.until_condition(JOBS, name, kind)
    await on.idle()
    return found


async def test_a_pod_that_took_the_name_of_a_deleted_one_is_left_alone() -> None:
    async with stage() as on:
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
        old = await on.create("pods", pod)
        await on.delete("pods", "p")
        new = await on.create("pods", pod)
        await on.simulated.kubelet.finish(old)
        assert await on.get("pods", "p") == new


@each(
    ("minor", "reference"),
    [
        ("1.35", {"workloadRef": {"name": "wl", "podGroup": "w", "podGroupReplicaKey": "0"}}),
        ("1.36", {"schedulingGroup": {"podGroupName": "g"}}),
        ("1.37", {"schedulingGroup": {"podGroupName": "g"}}),
    ],
)
async def test_pods_have_the_group_reference_of_the_template(minor: str, reference: Object) -> None:
    async with stage(minor) as on:
        await on.create(JOBS, job(pod=reference))
        await on.idle()
        (pod,) = await on.pods()
    assert reference.items() <= pod["spec"].items()


async def test_the_parallelism_limits_the_pods_until_all_indexes_are_done() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, job(completionMode="Indexed", parallelism=2, completions=3))
        pods = await on.until_phase("Running", 2)
        await on.idle()
        assert indexes(await on.pods()) == ["0", "1"]
        status = (await on.get(JOBS, "j"))["status"]
        assert (status["active"], status["ready"]) == (2, 2)
        await on.simulated.kubelet.finish(pods[1])
        await on.until_phase("Running", 2)
        await on.idle()
        assert indexes(await on.pods()) == ["0", "1", "2"]
        status = (await on.get(JOBS, "j"))["status"]
        assert (status["active"], status["succeeded"], status["completedIndexes"]) == (2, 1, "1")
        for pod in await on.pods():
            if pod["status"]["phase"] == "Running":
                await on.simulated.kubelet.finish(pod)
        done = await ending(on, "j", "Complete")
        assert done["status"]["completedIndexes"] == "0-2"
        assert done["status"]["completionTime"]
        assert "active" not in done["status"]
        assert all("finalizers" not in pod["metadata"] for pod in await on.pods())


async def test_a_nonindexed_job_counts_successes() -> None:
    async with stage(policy=lambda _pod, _peers: "Succeeded") as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, job(parallelism=2, completions=5))
        done = await ending(on, "j", "Complete")
        assert done["status"]["succeeded"] == 5
        assert len(await on.pods()) == 5
        assert "completedIndexes" not in done["status"]


async def test_a_work_queue_is_done_when_one_pod_succeeded_and_the_others_ended() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, job(parallelism=2))
        stored = await on.get(JOBS, "j")
        assert "completions" not in stored["spec"]
        first, second = await on.until_phase("Running", 2)
        await on.simulated.kubelet.finish(first)
        await on.idle()
        assert (await on.get(JOBS, "j"))["status"]["active"] == 1
        await on.simulated.kubelet.finish(second)
        done = await ending(on, "j", "Complete")
    assert done["status"]["succeeded"] == 2


def by_index(pods: list[Object], index: int) -> Object:
    """The running pod of an index."""
    (pod,) = (pod for pod in pods if pod["metadata"]["labels"][INDEX] == str(index))
    return pod


async def fail(on: Stage, index: int, exit_code: int = 1) -> None:
    """Fail the running pod of an index, and wait for what the controllers do."""
    running = [pod for pod in await on.pods() if pod["status"]["phase"] == "Running"]
    await on.simulated.kubelet.fail(by_index(running, index), exit_code=exit_code)
    await on.idle()


def reason_of(job: Object, kind: str = "Failed") -> str:
    return str(next(c["reason"] for c in job["status"]["conditions"] if c["type"] == kind))


def per_index(**spec: Any) -> Object:
    return job(completionMode="Indexed", completions=3, parallelism=3, **{"backoffLimitPerIndex": 1, **spec})


FAILURES = "batch.kubernetes.io/job-index-failure-count"


async def test_an_index_fails_after_its_own_backoff_limit() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, per_index())
        await on.until_phase("Running", 3)
        await fail(on, 1)
        pods = await on.until_phase("Running", 3)
        assert by_index(pods, 1)["metadata"]["annotations"][FAILURES] == "1"
        assert by_index(pods, 0)["metadata"]["annotations"][FAILURES] == "0"
        assert not (await on.get(JOBS, "j"))["status"].get("failedIndexes")
        await fail(on, 1)
        status = (await on.get(JOBS, "j"))["status"]
        assert (status["failedIndexes"], status["active"], status["failed"]) == ("1", 2, 2)
        for pod in await on.until_phase("Running", 2):
            await on.simulated.kubelet.finish(pod)
        failed = await ending(on, "j", "Failed")
        assert all("finalizers" not in pod["metadata"] for pod in await on.pods())
    assert reason_of(failed) == "FailedIndexes"
    assert (failed["status"]["completedIndexes"], failed["status"]["failedIndexes"]) == ("0,2", "1")


async def test_a_deleted_pod_leaves_its_number_of_failures_to_the_next() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, per_index())
        pods = await on.until_phase("Running", 3)
        await on.delete("pods", by_index(pods, 2)["metadata"]["name"])

        async def replaced() -> Object:
            found = by_index([pod for pod in await on.pods() if pod["status"]["phase"] == "Running"], 2)
            return found if found["metadata"]["annotations"][FAILURES] == "1" else {}

        await on.until(replaced, "the next pod of the index")


def ruled(action: str) -> Object:
    """Fail pods by a rule for exit code 42."""
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
    return per_index(backoffLimit=1, podFailurePolicy={"rules": [rule]})


async def test_an_ignored_failure_does_not_count() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, ruled("Ignore"))
        for _ in range(3):
            await on.until_phase("Running", 3)
            await fail(on, 1, 42)
        pods = await on.until_phase("Running", 3)
        annotations = by_index(pods, 1)["metadata"]["annotations"]
        status = (await on.get(JOBS, "j"))["status"]
    assert (annotations[FAILURES], annotations["batch.kubernetes.io/job-index-ignored-failure-count"]) == ("0", "3")
    assert status.get("failed", 0) == 0


async def test_failed_pods_are_replaced_until_the_backoff_limit() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, job(completionMode="Indexed", parallelism=2, completions=2, backoffLimit=1))
        pods = await on.until_phase("Running", 2)
        await on.simulated.kubelet.fail(pods[0])
        pods = await on.until_phase("Running", 2)
        await on.idle()
        assert (await on.get(JOBS, "j"))["status"]["failed"] == 1
        assert indexes(pods) == ["0", "1"]
        await on.simulated.kubelet.fail(pods[0])
        failed = await ending(on, "j", "Failed")
        (reason,) = [c["reason"] for c in failed["status"]["conditions"] if c["type"] == "Failed"]
        assert reason == "BackoffLimitExceeded"
        # The pod that still ran was taken away, and counts.
        assert failed["status"]["failed"] == 3
        assert "active" not in failed["status"]
        assert [pod["status"]["phase"] for pod in await on.pods()] == ["Failed", "Failed"]


async def test_a_deleted_running_pod_counts_as_failed() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, job(backoffLimit=1, pod={"terminationGracePeriodSeconds": 30}))
        (pod,) = await on.until_phase("Running", 1)
        await on.delete("pods", pod["metadata"]["name"])

        async def replaced() -> bool:
            running = [p for p in await on.pods() if p["status"]["phase"] == "Running"]
            return [p["metadata"]["uid"] for p in running] not in ([], [pod["metadata"]["uid"]])

        await on.until(replaced, "another pod")
        await on.idle()
        assert (await on.get(JOBS, "j"))["status"]["failed"] == 1
        assert len(await on.pods()) == 1


async def test_counted_pods_are_forgotten_when_they_are_gone() -> None:
    async with stage() as on:
        await on.create(JOBS, job(backoffLimit=1))
        await on.idle()
        (pod,) = await on.pods()
        # It waits for its finalizer alone, and is gone with it.
        await on.delete("pods", pod["metadata"]["name"])
        await on.idle()
        assert (await on.get(JOBS, "j"))["status"]["failed"] == 1
        assert not on.simulated.job._counted


async def test_pods_of_a_deleted_node_fail_and_are_replaced_on_another() -> None:
    async with stage() as on:
        node, _ = await add_nodes(on.api, 2)
        ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        main = {"name": "main", "image": "none", "resources": {"limits": {"cpu": "1"}}}
        policy = {"rules": [ignored]}
        await on.create(
            JOBS,
            job(pod={"containers": [main]}, parallelism=4, completions=4, backoffLimit=0, podFailurePolicy=policy),
        )
        before = await on.until_phase("Running", 4)
        lost = {pod["metadata"]["uid"] for pod in before if pod["spec"]["nodeName"] == node}
        assert 0 < len(lost) < 4
        await on.api.delete(on.api.kind("nodes"), "", node, SYSTEM)
        await on.idle()
        after = await on.until_phase("Running", 4)
        assert not lost & {pod["metadata"]["uid"] for pod in after}
        assert node not in {pod["spec"]["nodeName"] for pod in after}
        assert len(await on.pods()) == 4


def test_a_pod_that_does_not_tolerate_a_taint_of_its_node_is_evicted() -> None:
    forever: Object = {"key": "broken", "operator": "Exists"}
    tolerations: dict[str, list[Object]] = {
        "brief": [{**forever, "tolerationSeconds": 100}],
        "lasting": [forever],
        "plain": [],
    }

    async def left() -> list[list[str]]:
        async with stage(api=Api()) as on:
            (node,) = await add_nodes(on.api, 1)
            for name, own in tolerations.items():
                spec = {"containers": [{"name": "main", "image": "none"}], "tolerations": own}
                await on.create("pods", {"metadata": {"name": name}, "spec": spec})
            await on.until_phase("Running", 3)
            taint = {"key": "broken", "effect": "NoExecute"}
            await on.api.patch(on.api.kind("nodes"), "", node, {"spec": {"taints": [taint]}}, "merge", SYSTEM)
            found = []
            for seconds in (50, 60):
                await asyncio.sleep(seconds)
                found.append([pod["metadata"]["name"] for pod in await on.pods()])
            events = (await on.api.list(on.api.kind("events.events.k8s.io"))).items
            assert f"Marking for deletion Pod {NAMESPACE}/plain" in [event["note"] for event in events]
        return found

    assert memory.run(0, left) == [["brief", "lasting"], ["lasting"]]


async def test_a_replacement_waits_for_the_end_of_the_pod_if_the_policy_is_failed() -> None:
    async with stage(roles=("job", "scheduler")) as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, job(podReplacementPolicy="Failed", pod={"terminationGracePeriodSeconds": 30}))
        (pod,) = await on.until_bound(1)
        await on.delete("pods", pod["metadata"]["name"])
        await on.idle()
        assert [p["metadata"]["uid"] for p in await on.pods()] == [pod["metadata"]["uid"]]
        assert (await on.get(JOBS, "j"))["status"]["terminating"] == 1


async def test_suspending_deletes_pods_without_counting_them() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, job(backoffLimit=0, parallelism=2, completions=2))
        await on.until_phase("Running", 2)
        await on.patch(JOBS, "j", {"spec": {"suspend": True}})
        await on.until_condition(JOBS, "j", "Suspended")
        await on.idle()
        assert await on.pods() == []
        await on.patch(JOBS, "j", {"spec": {"suspend": False}})
        await on.until_phase("Running", 2)
        resumed = await on.until_condition(JOBS, "j", "Suspended", "False")
    assert resumed["status"].get("failed", 0) == 0


async def test_pods_of_a_deleted_job_lose_their_finalizer() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, job(pod={"terminationGracePeriodSeconds": 30}))
        await on.until_phase("Running", 1)
        await on.delete(JOBS, "j")

        async def nothing() -> bool:
            return await on.pods() == []

        await on.until(nothing, "the pod to go")


async def test_pods_of_a_job_that_is_deleted_in_the_foreground_lose_it_also_with_a_limit_per_index() -> None:
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(JOBS, per_index())
        await on.until_phase("Running", 3)
        await on.delete(JOBS, "j", propagation="Foreground")

        async def nothing() -> bool:
            return await on.pods() == []

        await on.until(nothing, "the pods to go")


@each(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1), "0,1"), ((0, 1, 2), "0-2"), ((0, 2, 3, 5, 6, 7), "0,2,3,5-7")]
)
def test_completion_indexes_are_written_as_intervals(numbers: tuple[int, ...], text: str) -> None:
    assert controller.show_indexes(numbers) == text
    assert controller.parse_indexes(text) == set(numbers)


async def test_an_error_of_a_controller_ends_one_reconcile_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_job: Object, _index: int | None) -> Object:
        raise KeyError("a bug")

    async with stage(roles=("job",)) as on:
        with capture_logs() as logs, monkeypatch.context() as patched:
            patched.setattr("gangctl.sandbox.simulated.controller.new_pod", broken)
            await on.create(JOBS, job("broken"))
            await on.idle()
        await on.create(JOBS, job("whole"))

        async def pods_of_both() -> bool:
            return len(await on.pods()) == 2

        await on.until(pods_of_both, "a pod of each Job")
    assert ("a simulated controller failed, and tries again", "error", "job") in {
        (log["event"], log["log_level"], log["controller"]) for log in logs
    }


@each(
    ("rule", "index"),
    [
        ({"succeededIndexes": "0"}, 0),
        ({"succeededIndexes": "1-2", "succeededCount": 1}, 2),
        ({"succeededCount": 1}, 1),
    ],
)
async def test_a_success_policy_ends_a_job_before_all_indexes_have_succeeded(rule: Object, index: int) -> None:
    rules = {"rules": [{"succeededIndexes": "0,1"}, rule]}
    async with stage() as on:
        await add_nodes(on.api, 1)
        await on.create(
            JOBS, job(completionMode="Indexed", parallelism=3, completions=3, successPolicy=rules, backoffLimit=0)
        )
        pods = await on.until_phase("Running", 3)
        (leader,) = [pod for pod in pods if controller.index_of(pod) == index]
        await on.simulated.kubelet.finish(leader)
        done = await ending(on, "j", "Complete")
        assert len(await on.pods()) == 1
    condition = condition_of(done, "Complete")
    assert (condition["reason"], condition["message"]) == ("SuccessPolicy", "Matched rules at index 1")


def test_a_job_fails_at_its_deadline_which_counts_from_the_last_resume() -> None:
    async def at_the_deadline() -> list[str]:
        async with stage(api=Api()) as on:
            await add_nodes(on.api, 1)
            await on.create(JOBS, job(activeDeadlineSeconds=100))
            await asyncio.sleep(60)
            for suspended in (True, False):
                await on.patch(JOBS, "j", {"spec": {"suspend": suspended}})
                await asyncio.sleep(60)
            assert not condition_of(await on.get(JOBS, "j"), "Failed")
            await asyncio.sleep(45)
            failed = condition_of(await on.get(JOBS, "j"), "Failed")
            assert not await on.pods()
        return [failed["reason"], failed["message"]]

    assert memory.run(0, at_the_deadline) == ["DeadlineExceeded", "Job was active longer than specified deadline"]


def test_a_job_is_deleted_when_its_time_to_live_is_over() -> None:
    async def present() -> list[int]:
        async with stage(api=Api()) as on:
            await add_nodes(on.api, 1)
            await on.create(JOBS, job(ttlSecondsAfterFinished=100))
            (pod,) = await on.until_phase("Running", 1)
            await on.simulated.kubelet.finish(pod)
            await on.until_condition(JOBS, "j", "Complete")
            found = []
            for seconds in (90, 20):
                await asyncio.sleep(seconds)
                found.append(sum("deletionTimestamp" not in job["metadata"] for job in (await on.jobs()).values()))
        return found

    assert memory.run(0, present) == [1, 0]

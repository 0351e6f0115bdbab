"""What doctor reports while a rollout is not finished: what runs, what waits, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.cli.doctor.cluster import (
    FORBIDDEN,
    NOT_READY,
    OWN_DEPLOYMENTS,
    deployment,
    doctor,
    found,
    installed,
    pod_of,
)
from tests.cli.doctor.health import SERVICE, Object
from tests.rows import each

OWN_PODS: Final = f"/api/v1/namespaces/{SERVICE[0]}/pods"
OLD_PODS: Final = [pod_of("old-1", "gangctl:0.1.0"), pod_of("old-2", "gangctl:0.1.0")]
ROLLING: Final = {"replicas": 3, "updatedReplicas": 1}
PULL: Final = 'Back-off pulling image "gangctl:9.9.9"'
UNSCHEDULABLE: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes fit",
}
NO_PODS: Final = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
LATE: Final = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "m"}


@each(
    ("status", "new", "verdict", "seen"),
    [
        (ROLLING, [pod_of("new", "gangctl:9.9.9", "ImagePullBackOff", PULL)], "warning", f"ImagePullBackOff: {PULL}"),
        (
            ROLLING,
            [pod_of("new", "gangctl:9.9.9", conditions=[UNSCHEDULABLE])],
            "warning",
            "Unschedulable: 0/3 nodes fit",
        ),
        (
            {**ROLLING, "conditions": [LATE]},
            [pod_of("new", "gangctl:9.9.9", phase="Running")],
            "warning",
            "is not ready",
        ),
        (
            {"replicas": 2, "updatedReplicas": 0, "conditions": [NO_PODS]},
            [],
            "warning",
            "its pods cannot be created: exceeded quota",
        ),
        (ROLLING, [pod_of("new", "gangctl:9.9.9", "ContainerCreating")], "ok", "pod new (image gangctl:9.9.9): "),
        ({"observedGeneration": 1}, [], "ok", "its rollout to image gangctl:9.9.9 is not finished"),
    ],
)
async def test_the_image_that_runs_is_that_of_ready_pods(
    status: Object, new: list[Object], verdict: str, seen: str, tmp_path: Path
) -> None:
    """While a rollout is not finished, the Deployment has the image that may never run."""
    rolled = deployment("gangctl", "gangctl:9.9.9", wanted=2, ready=2, **status)
    answers = {**installed(), OWN_DEPLOYMENTS: [rolled], OWN_PODS: [*OLD_PODS, *new]}
    answer = await doctor(tmp_path, answers, "--only", "gangctl-replicas")
    (report,) = answer.json["checks"]
    assert report["verdict"] == verdict, report
    runs = "Deployment gangctl-system/gangctl: 2 of 2 replicas ready, image gangctl:0.1.0; its rollout to image "
    assert f"{runs}gangctl:9.9.9 is not finished" in report["evidence"]
    assert seen in " ".join(report["evidence"])
    assert (report["message"] == "the rollout of gangctl to image gangctl:9.9.9 is stuck: gangctl:0.1.0 runs") is (
        verdict == "warning"
    )


async def test_a_pod_that_waits_is_named_with_its_reason_also_without_a_rollout(tmp_path: Path) -> None:
    first = deployment("gangctl", "gangctl:9.9.9", wanted=1, ready=0)
    waiting = pod_of("new", "gangctl:9.9.9", "ErrImagePull", "not found")
    answers = {**installed(), **NOT_READY, OWN_DEPLOYMENTS: [first], OWN_PODS: [waiting]}
    verdict, evidence = found(await doctor(tmp_path, answers), "gangctl-replicas")
    assert verdict == "failed"
    assert "Deployment gangctl-system/gangctl: 0 of 1 replicas ready, image gangctl:9.9.9" in evidence
    assert "pod new (image gangctl:9.9.9): ErrImagePull: not found" in evidence


async def test_without_the_right_to_read_pods_the_image_that_runs_is_unknown(tmp_path: Path) -> None:
    rolled = deployment("gangctl", "gangctl:9.9.9", wanted=2, ready=2, **ROLLING)
    answers = {**installed(), OWN_DEPLOYMENTS: [rolled], OWN_PODS: FORBIDDEN}
    verdict, evidence = found(await doctor(tmp_path, answers, "--only", "gangctl-replicas"), "gangctl-replicas")
    assert verdict == "ok"
    assert evidence[1].endswith("2 of 2 replicas ready; its rollout to image gangctl:9.9.9 is not finished")
    assert evidence[2] == "you may not list pods in namespace gangctl-system: which image runs is not known"


@each(
    ("check", "who", "old", "new"),
    [
        ("jobset-controller", "the JobSet controller", "jobset:v0.11.0", "jobset:v0.12.0"),
        ("kueue-api", "Kueue", "kueue:v0.19.0", "kueue:v0.20.0"),
    ],
)
async def test_stuck_rollouts_of_jobset_and_kueue_are_reported(
    check: str, who: str, old: str, new: str, tmp_path: Path
) -> None:
    project = old.partition(":")[0]
    rolled = deployment(f"{project}-controller", new, replicas=2, updatedReplicas=1)
    changed = {
        f"/apis/apps/v1/namespaces/{project}-system/deployments": [rolled],
        f"/api/v1/namespaces/{project}-system/pods": [pod_of("a", old), pod_of("b", new, "CrashLoopBackOff")],
    }
    answer = await doctor(tmp_path, {**installed(), **changed}, "--only", check)
    (report,) = answer.json["checks"]
    assert report["verdict"] == "warning"
    assert report["message"] == f"the rollout of {who} to image {new} is stuck: {old} runs"


async def test_shards_are_those_of_the_pods_that_run(tmp_path: Path) -> None:
    """A rollout with other arguments that never starts leads no shard."""
    rolled = deployment("gangctl", "gangctl:0.1.0", wanted=2, ready=2, **ROLLING)
    rolled["spec"]["template"]["spec"]["containers"][0]["args"] = ["--shards=3", "--unknown"]
    pods = [*OLD_PODS, pod_of("new", "gangctl:0.1.0", "CrashLoopBackOff", "", "--shards=3")]
    answers = {**installed(), OWN_DEPLOYMENTS: [rolled], OWN_PODS: pods}
    answer = await doctor(tmp_path, answers)
    assert found(answer, "gangctl-leader")[0] == "ok"
    replicas = next(each for each in answer.json["checks"] if each["id"] == "gangctl-replicas")
    assert replicas["message"] == "the rollout of gangctl is stuck: the pods before it run"

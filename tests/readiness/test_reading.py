"""Pods, nodes and events are read as facts; other fields cannot cause an error, and equal values are shared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.scheduling import Generation, Reference
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.readiness.facts import (
    NodeFacts,
    PodFacts,
    Refused,
    read_ended,
    read_node,
    read_pod,
    read_refusal,
    unix,
)
from tests.rows import each

LABELS = {
    "jobset.sigs.k8s.io/jobset-name": "train",
    "jobset.sigs.k8s.io/jobset-uid": "u1",
    "jobset.sigs.k8s.io/replicatedjob-name": "workers",
    "jobset.sigs.k8s.io/job-index": "3",
    "jobset.sigs.k8s.io/restart-attempt": "2",
}
NOON = "2026-03-01T12:00:00Z"
NOON_SECONDS = 1_772_366_400
BEFORE = "2026-03-01T11:58:30Z"


def pod(*, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    meta = {"namespace": "ml", "name": "train-workers-3-0-x", "labels": LABELS, "creationTimestamp": NOON, **metadata}
    return {"metadata": meta, "spec": spec or {}, "status": status or {}}


def facts(raw: dict[str, Any]) -> PodFacts:
    found = read_pod(json.loads(json.dumps(raw)))
    assert found is not None
    return found


def condition(kind: str, status: str, **rest: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": NOON, **rest}


def test_a_pod_without_a_jobset_is_ignored() -> None:
    assert read_pod(pod(labels={"app": "web"})) is None


def test_a_new_pod_is_read() -> None:
    assert facts(pod(status={"phase": "Pending"})) == PodFacts(
        namespace="ml",
        name="train-workers-3-0-x",
        jobset="train",
        replicated_job="workers",
        job_index=3,
        attempt=2,
        group="",
        scheduler="default-scheduler",
        priority=0,
        created=NOON_SECONDS,
        deleting=False,
        phase="Pending",
    )


@pytest.mark.parametrize(
    ("generation", "group"),
    [(Generation.V1ALPHA1, "wl/workers/1"), (Generation.V1ALPHA2, "pg-1"), (Generation.V1BETA1, "pg-1")],
)
def test_the_group_is_read_from_the_field_of_each_api_version(generation: Generation, group: str) -> None:
    adapter = ADAPTERS[generation]
    reference = adapter.reference(Reference("wl", "workers", "pg-1", "1"))

    assert facts(pod(spec={adapter.reference_field: reference})).group == group


def test_a_group_without_a_replica_key_is_read() -> None:
    found = facts(pod(spec={"workloadRef": {"name": "wl", "podGroup": "all"}}))

    assert found.group == "wl/all/"


def test_a_refused_pod_is_read() -> None:
    refusal = condition("PodScheduled", "False", reason="Unschedulable", message="0/4 nodes\nare available")
    found = facts(pod(status={"phase": "Pending", "conditions": [refusal]}))

    assert (found.refused, found.refusal) == ("Unschedulable", "0/4 nodes\\nare available")
    assert (found.refused_at, found.placed_at) == (NOON_SECONDS, 0)


def test_a_running_pod_is_read() -> None:
    status = {
        "phase": "Running",
        "conditions": [condition("PodScheduled", "True"), condition("Ready", "True")],
        "startTime": NOON,
        "containerStatuses": [
            {"ready": True, "restartCount": 2, "lastState": {"terminated": {"finishedAt": "2026-03-01T11:00:00Z"}}},
            {"ready": True, "restartCount": 1, "lastState": {"terminated": {"finishedAt": NOON, "startedAt": BEFORE}}},
        ],
    }
    found = facts(pod(spec={"nodeName": "n1", "priority": 1000, "schedulerName": "other"}, status=status))

    assert (found.node, found.priority, found.scheduler) == ("n1", 1000, "other")
    assert (found.placed_at, found.ready, found.ready_at, found.restarts) == (NOON_SECONDS, True, NOON_SECONDS, 3)
    assert (found.started_at, found.ended_at, found.ran) == (NOON_SECONDS, NOON_SECONDS, 90)
    assert (found.refused, found.waiting, found.disrupted) == ("", "", "")


def test_a_gated_and_a_terminating_pod_are_read() -> None:
    found = facts(pod(spec={"schedulingGates": [{"name": "a"}, {"name": "b"}]}, deletionTimestamp=NOON))

    assert found.gates == ("a", "b")
    assert (found.deleting, found.deleted_at) == (True, NOON_SECONDS)


@pytest.mark.parametrize(("status", "reason"), [("True", "PreemptionByScheduler"), ("False", "")])
def test_a_disruption_counts_while_its_condition_is_true(status: str, reason: str) -> None:
    disruption = condition("DisruptionTarget", status, reason="PreemptionByScheduler")

    assert facts(pod(status={"conditions": [disruption]})).disrupted == reason


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"ready": False, "state": {"waiting": {"reason": reason, "message": message}}}


def ended(reason: str, code: int, message: str = "") -> dict[str, Any]:
    return {"ready": False, "state": {"terminated": {"reason": reason, "exitCode": code, "message": message}}}


@each(
    ("containers", "reported"),
    [
        ([waits("ErrImagePull", "no such image")], ("ErrImagePull", "no such image")),
        ([waits("ContainerCreating"), waits("ImagePullBackOff", "b")], ("ImagePullBackOff", "b")),
        ([waits("ContainerCreating")], ("ContainerCreating", "")),
        ([ended("OOMKilled", 137)], ("OOMKilled", "OOMKilled, exit code 137 (SIGKILL)")),
        ([ended("OOMKilled", 137, "password=x")], ("OOMKilled", "OOMKilled, exit code 137 (SIGKILL)")),
        ([ended("Error", 2, "the end of a log")], ("Error", "Error, exit code 2")),
        ([ended("StartError", 128, "exec: no such file")], ("StartError", "exec: no such file")),
        ([ended("Completed", 0), waits("ContainerCreating")], ("ContainerCreating", "")),
        ([{"ready": True, "state": {"waiting": {"reason": "Odd"}}}], ("", "")),
        (
            [{"name": "main", **ended("Completed", 0)}, {"name": "proxy", "ready": True, "state": {"running": {}}}],
            ("Completed", "completed: main; still running: proxy"),
        ),
        ([ended("Completed", 0)], ("", "")),
        ([ended("Completed", 0), waits("CrashLoopBackOff")], ("CrashLoopBackOff", "")),
        (
            [{**waits("CrashLoopBackOff", "back-off 40s pod=x"), "lastState": ended("Error", 1)["state"]}],
            ("CrashLoopBackOff", "Error, exit code 1"),
        ),
    ],
)
def test_the_waiting_reason_of_a_container_is_read(containers: list[dict[str, Any]], reported: tuple[str, str]) -> None:
    found = facts(pod(status={"containerStatuses": containers}))

    assert (found.waiting, found.waiting_message) == reported


def failed(name: str, reason: str, code: int, at: str, **more: Any) -> dict[str, Any]:
    state = {"reason": reason, "exitCode": code, "finishedAt": at, **more}
    return {"name": name, "ready": False, "state": {"terminated": state}}


@each(
    ("status", "why"),
    [
        (
            {"containerStatuses": [failed("main", "OOMKilled", 137, NOON, message="the end\nof a log")]},
            'container main: OOMKilled, exit code 137 (SIGKILL), "the end\\nof a log"',
        ),
        (
            {"containerStatuses": [failed("a", "Error", 1, "2026-03-01T12:00:09Z"), failed("b", "Error", 139, NOON)]},
            "container b: Error, exit code 139 (SIGSEGV); then 1 other container",
        ),
        (
            {
                "initContainerStatuses": [failed("copy", "Completed", 0, NOON), failed("fetch", "Error", 2, NOON)],
                "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}],
            },
            "init container fetch: Error, exit code 2",
        ),
        ({"reason": "Evicted", "message": "The node was low on memory."}, "Evicted: The node was low on memory."),
        (
            {"containerStatuses": [failed("main", "Error", 1, NOON, signal=9)]},
            "container main: Error, exit code 1 (SIGKILL)",
        ),
        ({"containerStatuses": [failed("main", "Error", 255, NOON)]}, "container main: Error, exit code 255"),
        ({}, ""),
    ],
)
def test_why_a_pod_failed_is_read(status: dict[str, Any], why: str) -> None:
    found = read_ended(pod(status={"phase": "Failed", **status}))

    assert found is not None
    assert found.why == why


@each(
    ("status", "node", "rejected"),
    [
        ({"reason": "UnexpectedAdmissionError", "message": "Pod was rejected: no healthy devices"}, "n0", True),
        ({"reason": "OutOfnvidia.com/gpu"}, "n0", True),
        (
            {
                "reason": "VolumeAttachmentLimitExceeded",
                "message": "Pod was rejected: too many volumes",
                "containerStatuses": [failed("main", "ContainerStatusUnknown", 137, NOON)],
            },
            "n0",
            True,
        ),
        ({"reason": "Evicted", "containerStatuses": [failed("main", "Error", 137, NOON)]}, "n0", False),
        ({"reason": "GivenUp"}, "", False),
        ({}, "n0", False),
    ],
)
def test_a_pod_that_its_kubelet_did_not_admit_is_read(status: dict[str, Any], node: str, rejected: bool) -> None:
    ended = read_ended(pod(spec={"nodeName": node}, status={"phase": "Failed", **status}))

    assert ended is not None
    assert ended.rejected is rejected


def test_a_waiting_init_container_is_read_before_the_others() -> None:
    status = {
        "initContainerStatuses": [waits("ImagePullBackOff", "first")],
        "containerStatuses": [waits("PodInitializing")],
    }

    assert facts(pod(status=status)).waiting == "ImagePullBackOff"


def test_an_init_container_that_runs_is_what_a_pod_waits_for() -> None:
    fetch = {"name": "fetch", "ready": False, "state": {"running": {"startedAt": NOON}}}
    status = {"initContainerStatuses": [fetch], "containerStatuses": [waits("PodInitializing")]}
    pending = facts(pod(status={"phase": "Pending", **status}))

    assert (pending.waiting, pending.waiting_message) == ("PodInitializing", "init container fetch runs")
    # A sidecar that is not ready.
    assert facts(pod(status={"phase": "Running", "initContainerStatuses": [fetch]})).waiting == ""


@each(
    ("started", "reported"),
    [(False, ("SidecarNotStarted", "sidecar fuse has not started")), (True, ("PodInitializing", ""))],
)
def test_a_sidecar_that_has_not_started_is_what_a_pod_waits_for(started: bool, reported: tuple[str, str]) -> None:
    """An init container with restartPolicy Always does not end."""
    spec = {"initContainers": [{"name": "fuse", "restartPolicy": "Always"}], "containers": [{"name": "main"}]}
    fuse = {"name": "fuse", "ready": False, "started": started, "state": {"running": {"startedAt": NOON}}}
    status = {"initContainerStatuses": [fuse], "containerStatuses": [waits("PodInitializing")], "phase": "Pending"}
    found = facts(pod(spec=spec, status=status))

    assert (found.waiting, found.waiting_message) == reported


def test_readiness_gates_that_are_not_met_are_what_a_pod_waits_for() -> None:
    message = 'corresponding condition of pod readiness gate "example.com/lb" does not exist.'
    ready = condition("Ready", "False", reason="ReadinessGatesNotReady", message=message)
    running = {"name": "main", "ready": True, "state": {"running": {}}}
    found = facts(pod(status={"phase": "Running", "conditions": [ready], "containerStatuses": [running]}))

    assert (found.waiting, found.waiting_message) == ("ReadinessGatesNotReady", message)


def test_templates_of_which_a_pod_has_no_claim_are_read() -> None:
    claims = [
        {"name": "made", "resourceClaimTemplateName": "gpus"},
        {"name": "needless", "resourceClaimTemplateName": "maybe"},
        {"name": "net", "resourceClaimTemplateName": "chanel"},
        {"name": "shared", "resourceClaimName": "by-name"},
    ]
    # One without a name: Kubernetes has found that no claim is needed.
    made = [{"name": "made", "resourceClaimName": "train-made-x"}, {"name": "needless"}]

    assert facts(pod(spec={"resourceClaims": claims}, status={"resourceClaimStatuses": made})).unclaimed == ("chanel",)
    assert facts(pod(spec={"resourceClaims": claims})).unclaimed == ("gpus", "maybe", "chanel")


def test_pods_of_a_gang_share_what_they_have_in_common() -> None:
    refusal = condition("PodScheduled", "False", reason="Unschedulable", message="0/4 nodes are available: 4 full.")
    spec = {"schedulingGroup": {"podGroupName": "pg"}, "priority": 100_000, "schedulingGates": [{"name": "g"}]}
    raw = pod(spec=spec, status={"phase": "Pending", "conditions": [refusal]})
    one, other = facts(raw), facts(raw)

    for name in (
        "namespace",
        "jobset",
        "replicated_job",
        "group",
        "refusal",
        "refused",
        "gates",
        "created",
        "priority",
    ):
        assert getattr(one, name) is getattr(other, name), name


def test_a_ready_and_a_lost_node_are_read() -> None:
    ready = {"metadata": {"name": "n1"}, "status": {"conditions": [condition("Ready", "True", reason="KubeletReady")]}}
    lost = {
        "metadata": {"name": "n2"},
        "spec": {"unschedulable": True},
        "status": {"conditions": [condition("Ready", "Unknown", reason="NodeStatusUnknown")]},
    }

    assert read_node(ready) == NodeFacts("n1", ready=True)
    assert read_node(lost) == NodeFacts("n2", False, "NodeStatusUnknown", NOON_SECONDS, unschedulable=True)


def test_conditions_of_a_node_that_are_true_beside_ready_are_troubles() -> None:
    conditions = [
        condition("Ready", "True", reason="KubeletReady"),
        condition("MemoryPressure", "False", reason="KubeletHasSufficientMemory"),
        condition("KernelDeadlock", "True", reason="DockerHung"),
        condition("XidError", "Unknown"),
        *(condition(f"Trouble{number}", "True") for number in range(9)),
    ]
    node = read_node({"metadata": {"name": "n1"}, "status": {"conditions": conditions}})
    assert node.troubles == ("KernelDeadlock (DockerHung)", "Trouble0", "Trouble1", "Trouble2")


def test_a_pod_whose_gates_are_gone_is_not_gated() -> None:
    gated = condition("PodScheduled", "False", reason="SchedulingGated")
    assert facts(pod(status={"conditions": [gated]})).refused == ""


def test_conditions_that_are_true_while_all_is_well_are_troubles_when_false() -> None:
    """Those of Amazon EKS, and of k3s."""
    conditions = [
        condition("EtcdIsVoter", "True", reason="MemberNotLearner"),
        condition("KernelReady", "True", reason="KernelIsReady"),
        condition("StorageReady", "Unknown"),
        condition("NetworkingReady", "False", reason="IPAMDNotReady"),
        condition("Ready", "False", reason="KubeletNotReady"),
        condition("FabricNotReady", "False"),
        condition("GPUNotReady", "True"),
    ]
    node = read_node({"metadata": {"name": "n1"}, "status": {"conditions": conditions}})
    assert node.troubles == ("NetworkingReady=False (IPAMDNotReady)", "GPUNotReady")


def test_a_node_without_a_kubelet_report_is_not_ready() -> None:
    raw = {"metadata": {"name": "n1", "creationTimestamp": NOON}}

    assert read_node(raw) == NodeFacts("n1", False, "NodeStatusNeverUpdated", NOON_SECONDS)


def event(reason: str, kind: str, **rest: Any) -> dict[str, Any]:
    about = {"kind": kind, "namespace": "ml", "name": "train-workers-3", "uid": "j1"}
    return {"metadata": {"namespace": "ml"}, "reason": reason, "regarding": about, "note": "quota exceeded", **rest}


@each(
    ("reason", "kind"),
    [
        ("FailedCreate", "Job"),
        ("JobCreationFailed", "JobSet"),
        ("HeadlessServiceCreationFailed", "JobSet"),
        ("PVCCreationFailed", "JobSet"),
    ],
)
def test_a_refusal_event_is_read(reason: str, kind: str) -> None:
    found = read_refusal(event(reason, kind, eventTime="2026-03-01T12:00:00.123456Z"))

    assert found == Refused("ml", kind, "train-workers-3", "j1", "quota exceeded", NOON_SECONDS, reason)


@pytest.mark.parametrize(("reason", "kind"), [("FailedCreate", "ReplicaSet"), ("Started", "Job"), ("FailedCreate", "")])
def test_other_events_are_ignored(reason: str, kind: str) -> None:
    assert read_refusal(event(reason, kind)) is None


def test_a_service_that_is_there_is_no_refusal() -> None:
    """JobSet creates it again while its cache does not have it."""
    made = event("HeadlessServiceCreationFailed", "JobSet") | {"note": 'services "train" already exists'}
    assert read_refusal(made) is None


@pytest.mark.parametrize(
    "times",
    [
        {"series": {"count": 4, "lastObservedTime": NOON}, "eventTime": "2026-03-01T11:00:00.000000Z"},
        {"deprecatedLastTimestamp": NOON, "deprecatedFirstTimestamp": "2026-03-01T11:00:00Z", "eventTime": None},
        {"metadata": {"namespace": "ml", "creationTimestamp": NOON}},
    ],
)
def test_the_time_of_a_refusal_is_that_of_its_last_occurrence(times: dict[str, Any]) -> None:
    found = read_refusal(event("FailedCreate", "Job", **times))

    assert found is not None
    assert found.at == NOON_SECONDS


@each("text", ["", "soon", None, 7, "0001-01-01T00:00:00Z", "2026-13-01T00:00:00Z"])
def test_an_absent_time_is_zero(text: object) -> None:
    assert unix(text) == 0


def test_times_with_fractions_and_zones_are_read() -> None:
    assert unix("2026-03-01T13:00:00.999+01:00") == NOON_SECONDS


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6) | st.just(NOON),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    ["type", "status", "reason", "message", "lastTransitionTime", "name", "state", "waiting", "terminated", "ready"]
)
CONDITIONS = st.lists(st.dictionaries(KEYS, ODD, max_size=6) | ODD, max_size=3) | ODD


@given(
    metadata=st.dictionaries(st.sampled_from(["name", "namespace", "creationTimestamp"]), ODD) | ODD,
    labels=st.fixed_dictionaries(dict.fromkeys(LABELS, ODD)) | ODD,
    spec=st.dictionaries(
        st.sampled_from(["schedulingGroup", "workloadRef", "schedulingGates", "nodeName", "priority", "schedulerName"]),
        CONDITIONS | st.dictionaries(st.sampled_from(["podGroupName", "name", "podGroup", "podGroupReplicaKey"]), ODD),
    )
    | ODD,
    status=st.dictionaries(
        st.sampled_from(["phase", "conditions", "containerStatuses", "initContainerStatuses"]), CONDITIONS
    )
    | ODD,
)
def test_invalid_objects_are_read_without_an_error(metadata: Any, labels: Any, spec: Any, status: Any) -> None:
    if isinstance(metadata, dict):
        metadata = {**metadata, "labels": labels}
    raw = {"metadata": metadata, "spec": spec, "status": status, "regarding": spec, "series": status}
    found = read_pod(raw)
    node = read_node(raw)
    read_refusal({**raw, "reason": "FailedCreate", "regarding": {"kind": "Job", "name": labels, "uid": spec}})

    assert found is None or hash(found) == hash(read_pod(raw))
    assert isinstance(node.name, str)

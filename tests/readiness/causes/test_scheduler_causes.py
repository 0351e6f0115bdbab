"""Refusals and errors of the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gangctl.api.scheduling import Generation, Scheduled
from gangctl.gang.reasons import Reason
from gangctl.readiness.autoscaling import NODE_SECONDS, ScaleUp
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import PodFacts, Snapshot
from gangctl.readiness.onnodes import OnNodes
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import causes, reasons, recorded, the
from tests.readiness.snapshots import (
    CREATED,
    NOW,
    PENDING,
    PLACED_AT,
    REFUSAL,
    REFUSED,
    RUNNING,
    Context,
    changed,
    initially_scheduled,
    nodes,
    rfc3339,
)
from tests.rows import each

STARTED = ScaleUp("", "TriggeredScaleUp", "pod triggered scale-up: [{pool 0->4 (max: 9)}]", NOW - 60)
EXPIRED = replace(STARTED, at=NOW - NODE_SECONDS)
DECLINED = ScaleUp("", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", NOW - 60)
FAILED = replace(DECLINED, reason="FailedScaleUp")
NAMED = replace(STARTED, reason="Nominated", message="Pod should schedule on: nodeclaim/x, node/n1")
UNFIT = replace(DECLINED, reason="FailedScheduling")
GENERATIONS = {"1.36": Generation.V1ALPHA2, "1.37": Generation.V1BETA1}


def replayed(minor: str, case: str, **given: Any) -> Snapshot:
    """A gang with the recorded messages of a real scheduler."""
    messages = recorded(minor, case)
    size = len(messages["pods"])
    context = Context(jobset("js", rj("w", 1, size, size), mode="Gang"), GENERATIONS[minor])
    pods = [_told(pod, reported) for pod, reported in zip(context.pods(PENDING), messages["pods"], strict=True)]
    groups = context.groups(_scheduled(messages["group"]), **given)
    return context.snapshot(pods, groups=groups, nodes=nodes("n0"))


def _told(pod: PodFacts, reported: dict[str, str] | None) -> PodFacts:
    if reported is None:
        return pod
    gates = ("kueue.x-k8s.io/topology",) if reported["reason"] == "SchedulingGated" else ()
    return replace(pod, refused=reported["reason"], refusal=reported["message"], refused_at=PLACED_AT, gates=gates)


def _scheduled(conditions: Sequence[dict[str, str]]) -> Scheduled | None:
    if not conditions:
        return None
    (reported,) = conditions
    return Scheduled(reported["status"] == "True", reported["reason"], reported["message"], rfc3339(PLACED_AT))


@each("minor", ["1.36", "1.37"])
@each(
    ("case", "words"),
    [
        ("unschedulable-each", "4 short of cpu"),
        ("unschedulable-together", "4 short of cpu"),
        ("selector", "outside of the node selector"),
        ("taint-and-cpu", "2 with a taint"),
    ],
)
def test_a_refusal_of_a_real_scheduler_is_reported(minor: str, case: str, words: str) -> None:
    snapshot = replayed(minor, case)
    cause = the(Reason.UNSCHEDULABLE, snapshot)
    assert words in cause.message
    assert cause.evidence[0].startswith("scheduler: 0/4 nodes are available: ")
    assert (cause.since, cause.pods, cause.blocking) == (PLACED_AT, len(snapshot.pods), True)
    assert reasons(snapshot) == [Reason.UNSCHEDULABLE]


def test_the_number_of_pods_that_fit_is_reported_if_the_scheduler_gives_it() -> None:
    cause = the(Reason.UNSCHEDULABLE, replayed("1.37", "unschedulable-together"))
    assert "room for 4 of 6 pods" in cause.message
    assert cause.command == "gangctl fit js --fixed-nodes -n t"


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_a_topology_without_a_domain_with_capacity_is_reported(minor: str) -> None:
    snapshot = replayed(minor, "topology", topology_key="rack")
    cause = the(Reason.UNSCHEDULABLE, snapshot)
    assert cause.message == 'none of the 2 values of node label "rack" has room for all 4 pods of a gang'
    assert cause.command == "kubectl get nodes -L rack"
    assert reasons(snapshot) == [Reason.UNSCHEDULABLE], "others may only use them now"
    coming = OnNodes(scale_ups={pod.name: replace(STARTED, pod=pod.name, at=PLACED_AT) for pod in snapshot.pods})
    assert reasons(replace(snapshot, on_nodes=coming)) == [Reason.SCALE_UP_RUNNING]


def test_a_topology_without_a_domain_that_could_ever_hold_the_gang_is_reported() -> None:
    never = OnNodes(never="The nodes can never hold it")
    snapshot = replace(replayed("1.37", "topology", topology_key="rack"), on_nodes=never)
    cause = the(Reason.TOPOLOGY_TOO_SMALL, snapshot)
    assert cause.message == "the nodes can never hold it"
    assert "wait" not in cause.remedy
    assert cause.command == "gangctl fit js --fixed-nodes -n t"


def test_a_user_who_may_not_read_nodes_is_advised_to_describe_a_pod() -> None:
    for case, key in (("topology", "rack"), ("unschedulable-together", "")):
        snapshot = replace(replayed("1.37", case, topology_key=key), nodes=None)
        assert [each.command.startswith("kubectl -n t describe pod js-w-0-") for each in causes(snapshot)] == [True]


def test_labels_that_a_flavor_adds_are_advised_about() -> None:
    """A volume in another zone than the flavor: no label of a node and no field of the JobSet helps."""
    snapshot = replayed("1.37", "selector")
    assert "queue" not in the(Reason.UNSCHEDULABLE, snapshot).remedy
    held = replace(snapshot, on_nodes=OnNodes(flavors=("zone=a",)))
    assert the(Reason.UNSCHEDULABLE, held).remedy.endswith(
        "; use another queue: the flavors of this one add zone=a to what its pods select"
    )


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_a_topology_without_any_domain_is_reported(minor: str) -> None:
    snapshot = replayed(minor, "topology-no-such-key", topology_key="nosuch")
    (cause,) = causes(snapshot, PLACED_AT + NODE_SECONDS)
    assert cause.reason is Reason.TOPOLOGY_TOO_SMALL
    assert 'label "nosuch"' in cause.message
    assert "label the nodes" in cause.remedy


@each(
    ("said", "reason"),
    [
        ({}, Reason.UNSCHEDULABLE),
        ({0: STARTED}, Reason.UNSCHEDULABLE),
        ({0: STARTED, 1: STARTED}, Reason.SCALE_UP_RUNNING),
        ({0: STARTED, 1: DECLINED}, Reason.SCALE_UP_REFUSED),
    ],
)
def test_an_autoscaler_may_add_the_first_nodes_of_a_topology(said: dict[int, ScaleUp], reason: Reason) -> None:
    """Of a node group that is scaled to zero no node has the label. The controller reads no events of autoscalers."""
    snapshot = replayed("1.37", "topology-no-such-key", topology_key="rack")
    ups = {snapshot.pods[number].name: up for number, up in said.items()}
    readiness = evaluate(replace(snapshot, on_nodes=OnNodes(scale_ups=ups)), PLACED_AT + NODE_SECONDS - 1)
    (cause,) = readiness.causes
    assert cause.reason is reason
    assert ("autoscaler adds" in str(cause.evidence)) is bool(said)
    if reason is Reason.UNSCHEDULABLE:
        assert 'share a value of label "rack"' in cause.message
        assert "an autoscaler may add" in cause.remedy
    if not said:
        assert readiness.look_again == PLACED_AT + NODE_SECONDS


def test_an_autoscaler_may_add_nodes_where_no_domain_is_large_enough() -> None:
    snapshot = replayed("1.37", "topology", topology_key="rack")
    ups = {pod.name: STARTED for pod in snapshot.pods}
    for scale_ups, reason in ((ups, Reason.SCALE_UP_RUNNING), ({snapshot.pods[0].name: STARTED}, Reason.UNSCHEDULABLE)):
        coming = OnNodes(never="The nodes can never hold it", scale_ups=scale_ups)
        assert reasons(replace(snapshot, on_nodes=coming)) == [reason]


def test_without_a_topology_none_is_reported() -> None:
    assert reasons(replayed("1.37", "unschedulable-each", topology_key="rack")) == [Reason.UNSCHEDULABLE]


def test_different_priorities_are_reported_from_the_message_of_the_scheduler() -> None:
    snapshot = replayed("1.37", "priority")
    cause = the(Reason.PRIORITY_MISMATCH, snapshot)
    assert "got 1000 and 0" in cause.evidence[0]
    assert reasons(snapshot) == [Reason.PRIORITY_MISMATCH]


def test_different_priorities_are_reported_with_their_values() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    groups = context.groups(priority=0, priority_class="")
    snapshot = context.snapshot(context.pods(REFUSED, priority=1000), groups=groups)
    cause = the(Reason.PRIORITY_MISMATCH, snapshot)
    assert "has priority 0 of no class, its pods have 1000" in cause.evidence[0]


@pytest.mark.parametrize("generation", [Generation.V1ALPHA2, Generation.V1BETA1, Generation.V1])
def test_different_priorities_are_reported_only_where_the_scheduler_compares_them(generation: Generation) -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), generation)
    same = context.snapshot(context.pods(REFUSED, priority=7), groups=context.groups(priority=7))
    other = context.snapshot(context.pods(REFUSED, priority=7), groups=context.groups(priority=0))
    assert Reason.PRIORITY_MISMATCH not in reasons(same)
    assert (Reason.PRIORITY_MISMATCH in reasons(other)) is (generation is not Generation.V1ALPHA2)


def test_an_error_of_the_scheduler_is_reported_unchanged() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    pods = context.pods(PENDING, refused="SchedulerError", refusal="profile not found", refused_at=PLACED_AT)
    cause = the(Reason.SCHEDULER_ERROR, context.snapshot(pods))
    assert cause.message.endswith("profile not found")
    assert Reason.UNSCHEDULABLE not in reasons(context.snapshot(pods))


def test_a_group_without_room_is_no_error_of_the_scheduler() -> None:
    """1.37 may say Unschedulable of one of its pods, and SchedulerError of the others."""
    snapshot = replayed("1.37", "unschedulable-together")
    pods = changed(snapshot.pods, slice(1, None), refused="SchedulerError")
    assert reasons(replace(snapshot, pods=pods)) == [Reason.UNSCHEDULABLE]


@pytest.mark.parametrize("reason", ["PodGroupError", "CompositePodGroupError", "Invalid"])
def test_a_group_that_the_scheduler_finds_invalid_is_reported(reason: str) -> None:
    """The reasons of Kubernetes 1.38, and that of composite groups in 1.37."""
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), Generation.V1)
    (group,) = context.groups()
    refused = Scheduled(status=False, reason=reason, message="two scheduler names", since=rfc3339(PLACED_AT))
    snapshot = context.snapshot(context.pods(REFUSED), groups=context.groups(refused), on_nodes=OnNodes({group: True}))
    cause = the(Reason.SCHEDULER_ERROR, snapshot)
    assert cause.message.startswith(f"the scheduler finds the group of 2 pods of {group} invalid: ")
    assert "scheduler: two scheduler names" in cause.evidence
    assert reasons(snapshot) == [Reason.SCHEDULER_ERROR]


def test_pods_of_a_later_start_were_not_refused_before_they_existed() -> None:
    """A group outlives an eviction, and the time of its condition is that of the first refusal."""
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), Generation.V1)
    first = Scheduled(status=False, reason="Unschedulable", message="no room", since=rfc3339(CREATED))
    for refused_at, since in ((NOW - 30, NOW - 30), (0, NOW - 40)):
        pods = context.pods(REFUSED, created=NOW - 40, refused_at=refused_at)
        cause = the(Reason.UNSCHEDULABLE, context.snapshot(pods, groups=context.groups(first)))
        assert cause.since == since
        assert f"refused for the first time {NOW - since}s ago" in cause.evidence


def test_free_capacity_does_not_hide_an_error_of_the_scheduler() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    (group,) = context.groups()
    pods = context.pods(PENDING, refused="SchedulerError", refusal="connection refused", refused_at=PLACED_AT)
    assert reasons(context.snapshot(pods, on_nodes=OnNodes({group: True}))) == [Reason.SCHEDULER_ERROR]


def test_a_refusal_with_free_capacity_since_is_a_backoff() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    (group,) = context.groups()
    pods = context.pods(REFUSED, refused_at=NOW - 20)
    readiness = evaluate(context.snapshot(pods, on_nodes=OnNodes({group: True})), NOW)
    (cause,) = readiness.causes
    assert cause.reason is Reason.SCHEDULER_BACKOFF
    assert not cause.blocking
    assert "10 s" in cause.remedy
    assert readiness.look_again == NOW + 290
    late = the(Reason.UNSCHEDULABLE, context.snapshot(context.pods(REFUSED), on_nodes=OnNodes({group: True})))
    assert late.blocking
    assert "gangctl's count" in late.evidence[-1]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({0: STARTED, 1: STARTED, 2: STARTED}, Reason.SCALE_UP_RUNNING),
        ({0: STARTED, 1: STARTED}, Reason.UNSCHEDULABLE),
        ({0: STARTED, 1: STARTED, 2: DECLINED}, Reason.SCALE_UP_REFUSED),
        ({2: DECLINED}, Reason.SCALE_UP_REFUSED),
        ({0: STARTED, 1: STARTED, 2: FAILED}, Reason.SCALE_UP_REFUSED),
        ({0: UNFIT, 1: UNFIT, 2: UNFIT}, Reason.SCALE_UP_REFUSED),
        ({0: STARTED, 1: STARTED, 2: EXPIRED}, Reason.SCALE_UP_REFUSED),
        ({0: NAMED, 1: STARTED, 2: STARTED}, Reason.SCALE_UP_RUNNING),
        ({0: NAMED, 1: STARTED}, Reason.UNSCHEDULABLE),
        ({}, Reason.UNSCHEDULABLE),
    ],
)
def test_a_scale_up_that_runs_or_is_declined_is_a_cause(said: dict[int, ScaleUp], reason: Reason) -> None:
    context = Context(jobset("js", rj("w", 1, 3, 3), mode="Gang"))
    pods = context.pods(REFUSED)
    ups = {pods[number].name: replace(up, pod=pods[number].name) for number, up in said.items()}
    (cause,) = causes(context.snapshot(pods, on_nodes=OnNodes(scale_ups=ups)))
    assert cause.reason is reason
    assert cause.blocking is (reason is not Reason.SCALE_UP_RUNNING)
    assert ("autoscaler" in str(cause.evidence)) is bool(said)
    assert ("max node group size" in str(cause.evidence)) is any(
        up in said.values() for up in (DECLINED, FAILED, UNFIT)
    )


def test_a_scale_up_is_believed_for_as_long_as_a_node_may_take() -> None:
    context = Context(jobset("js", rj("w", 1, 1, 1), mode="Gang"))
    (pod,) = context.pods(REFUSED)
    snapshot = context.snapshot([pod], on_nodes=OnNodes(scale_ups={pod.name: replace(STARTED, pod=pod.name)}))
    assert evaluate(snapshot, NOW).look_again == STARTED.at + NODE_SECONDS


@pytest.mark.parametrize(("there", "reason"), [(4, Reason.UNSCHEDULABLE), (3, Reason.PODS_MISSING)])
def test_a_refusal_of_a_group_counts_while_its_minimum_exists(there: int, reason: Reason) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    (cause,) = causes(context.snapshot(context.pods(REFUSED)[:there]))
    assert cause.reason is reason
    assert ("10 minutes at most" in cause.remedy) is (reason is Reason.PODS_MISSING)


@pytest.mark.parametrize(
    "why",
    [
        "2 node(s) didn't have free ports for the requested pod ports",
        "1 Insufficient cpu, 1 node(s) went to lunch",
    ],
)
def test_the_scheduler_is_not_contradicted_about_what_is_not_counted(why: str) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    (group,) = context.groups()
    pods = context.pods(REFUSED, refusal=f"0/2 nodes are available: {why}.", refused_at=NOW - 1)
    assert reasons(context.snapshot(pods, on_nodes=OnNodes({group: True}))) == [Reason.UNSCHEDULABLE]


@pytest.mark.parametrize(
    ("why", "found"),
    [
        ("pod has unbound immediate PersistentVolumeClaims", Reason.VOLUME_NOT_BOUND),
        ('persistentvolumeclaim "data" not found', Reason.VOLUME_NOT_BOUND),
        ("2 node(s) didn't find available persistent volumes to bind", Reason.UNSCHEDULABLE),
    ],
)
def test_a_claim_without_a_volume_is_a_cause_of_its_own(why: str, found: Reason) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    (group,) = context.groups()
    pods = context.pods(REFUSED, refusal=f"0/2 nodes are available: {why}.", refused_at=NOW - 1)
    assert reasons(context.snapshot(pods, on_nodes=OnNodes({group: True}))) == [found]


@pytest.mark.parametrize(("claims", "found"), [(["data"], Reason.VOLUME_NOT_BOUND), ([], Reason.SCHEDULER_ERROR)])
def test_a_claim_is_the_cause_where_kubernetes_hides_the_refusal(claims: list[str], found: Reason) -> None:
    """1.37 makes an error of a refusal before the filters of nodes, and does not say why."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    context = Context(jobset("js", rj("w", 1, 4, 4, pod={"volumes": volumes}), mode="Gang"))
    text = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'
    pods = context.pods(PENDING, refused="SchedulerError", refusal=text, refused_at=NOW - 1)
    (cause,) = causes(context.snapshot(pods))
    assert cause.reason is found
    assert all(name in cause.message for name in claims)


@each(
    ("error", "cause", "words"),
    [
        (
            '"VolumeBinding": binding volumes: context deadline exceeded',
            Reason.VOLUME_NOT_BOUND,
            "a PersistentVolumeClaim gets no volume: context deadline exceeded; its claims: data",
        ),
        (
            '"VolumeBinding": binding volumes: provisioning failed for PVC "data"',
            Reason.VOLUME_NOT_BOUND,
            'a PersistentVolumeClaim gets no volume: provisioning failed for PVC "data"',
        ),
        (
            '"DynamicResources": device binding timeout: context deadline exceeded',
            Reason.UNSCHEDULABLE,
            "its devices are not ready: device binding timeout: context deadline exceeded",
        ),
        ('"DynamicResources": claim t/c got deleted in the meantime', Reason.SCHEDULER_ERROR, "in the meantime"),
        ('"Other": no', Reason.SCHEDULER_ERROR, '"Other": no'),
    ],
)
def test_what_is_not_ready_on_the_chosen_node_is_no_error_of_the_scheduler(
    error: str, cause: Reason, words: str
) -> None:
    """The scheduler has found a node, and waits for volumes and devices there before it binds the pod."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    context = Context(jobset("js", rj("w", 1, 2, 2, pod={"volumes": volumes}), mode="Gang"))
    pods = context.pods(PENDING, refused="SchedulerError", refusal=f"running PreBind plugin {error}", refused_at=NOW)
    snapshot = context.snapshot(pods, groups=context.groups(initially_scheduled()))
    assert reasons(snapshot) == [cause]
    assert the(cause, snapshot).message.endswith(words)


@each(
    ("spec", "pod", "claim"),
    [
        (
            {"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "data"}}, {"metadata": {"name": "other"}}]}]},
            {"containers": [{"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]},
            "data-js",
        ),
        ({}, {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]}, "POD-scratch"),
    ],
)
def test_claims_that_a_controller_makes_are_the_cause_where_kubernetes_hides_the_refusal(
    spec: dict[str, Any], pod: dict[str, Any], claim: str
) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4, pod=pod), mode="Gang", **spec))
    text = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'
    pods = context.pods(PENDING, refused="SchedulerError", refusal=text, refused_at=NOW - 1)
    cause = the(Reason.VOLUME_NOT_BOUND, context.snapshot(pods))
    assert f"PersistentVolumeClaim {claim} does not exist, is not bound" in cause.message


@pytest.mark.parametrize("room", [{}, {"other": True}])
def test_unknown_capacity_is_no_backoff(room: dict[str, bool]) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    assert reasons(context.snapshot(context.pods(REFUSED), on_nodes=OnNodes(room))) == [Reason.UNSCHEDULABLE]


def test_a_gang_without_free_capacity_is_no_backoff() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    (group,) = context.groups()
    assert reasons(context.snapshot(context.pods(REFUSED), on_nodes=OnNodes({group: False}))) == [Reason.UNSCHEDULABLE]


def test_gangs_that_start_together_are_counted_as_gangs() -> None:
    raw = jobset("js", rj("w", 3, 2, 2, mode="ReplicatedGang"), options='{"composite": true}')
    context = Context(raw)
    text = (
        "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (3) cannot be "
        "satisfied: 2 scheduled, 0 remaining"
    )
    cause = the(Reason.UNSCHEDULABLE, context.snapshot(context.pods({**REFUSED, "refusal": text})))
    assert cause.message == "the scheduler finds no nodes for 6 pods together: room for 2 of 3 gangs"
    assert any("option composite" in line for line in cause.evidence)


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_gated_pods_explain_the_wait_of_their_gang(minor: str) -> None:
    assert reasons(replayed(minor, "gated")) == [Reason.PODS_GATED]


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_a_gang_below_its_minimum_is_reported_as_missing_pods_only(minor: str) -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), GENERATIONS[minor])
    assert recorded(minor, "below-quorum") == {"group": [], "pods": [None]}
    assert reasons(context.snapshot(context.pods(PENDING, count=1))) == [Reason.PODS_MISSING]


def test_groups_with_the_same_refusal_are_one_cause() -> None:
    context = Context(jobset("js", rj("w", 6, 2, 2, mode="ReplicatedGang")))
    pods = context.pods(REFUSED)
    cause = the(Reason.UNSCHEDULABLE, context.snapshot(pods))
    assert cause.groups == ()
    assert cause.pods == 12
    some = context.snapshot([*context.pods(RUNNING, index=0), *(pod for pod in pods if pod.job_index > 3)])
    assert len(the(Reason.UNSCHEDULABLE, some).groups) == 2


def test_groups_with_different_refusals_are_ordered_by_pods() -> None:
    context = Context(jobset("js", rj("w", 3, 2, 2, mode="ReplicatedGang")))
    other = "0/3 nodes are available: 3 Insufficient memory."
    pods = changed(context.pods(REFUSED), slice(0, 2), refusal=other)
    found = [cause for cause in causes(context.snapshot(pods)) if cause.reason is Reason.UNSCHEDULABLE]
    assert [cause.pods for cause in found] == [4, 2]
    assert "short of memory" in found[1].message


def test_a_gang_without_a_plan_is_evaluated_pod_by_pod() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), stamped=False)
    snapshot = context.snapshot([*context.pods(REFUSED, count=1), *context.pods(RUNNING)[1:]])
    assert reasons(snapshot)[:2] == [Reason.NOT_GANGED, Reason.UNSCHEDULABLE]


def test_times_are_those_of_the_conditions() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    cause = the(Reason.UNSCHEDULABLE, context.snapshot(context.pods(REFUSED)))
    assert cause.since == PLACED_AT
    assert cause.evidence[0] == f"scheduler: {REFUSAL}"
    assert cause.since > CREATED


def test_a_node_that_karpenter_has_named_and_that_is_not_ready_is_on_its_way() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    pods = context.pods(REFUSED)
    ups = {pod.name: replace(NAMED, pod=pod.name) for pod in pods}
    for ready, reason in ((False, Reason.SCALE_UP_RUNNING), (True, Reason.UNSCHEDULABLE)):
        there = nodes("n1", ready=ready)
        assert reasons(context.snapshot(pods, nodes=there, on_nodes=OnNodes(scale_ups=ups))) == [reason]

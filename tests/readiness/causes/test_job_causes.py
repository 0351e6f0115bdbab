"""Jobs and pods that are not made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.gang.reasons import Reason
from gangctl.readiness.evaluate import evaluate
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import reasons, recorded, refused_job, refused_jobset, the
from tests.readiness.snapshots import BORN, NOW, PENDING, READY, RUNNING, Context, condition, nodes
from tests.rows import each

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
BY_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
JS = jobset("js", rj("w", 2, 4, 4), mode="Gang")
SEQUENCED = jobset("js", rj("db", 1, 1, 1, mode="Gang"), rj("w", 1, 4, 4, depends_on="db", mode="Gang"))
IN_ORDER = jobset(
    "js", rj("a", 1, 1, 1, mode="Gang"), rj("b", 1, 2, 2, mode="Gang"), startupPolicy={"startupPolicyOrder": "InOrder"}
)


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_an_unreachable_webhook_of_gangctl_is_named(minor: str) -> None:
    context = Context(JS)
    message = recorded(minor, "jobset/hooked").replace("hooked-w-0", "js-w-0")
    snapshot = context.snapshot(jobs=[], refused=[refused_jobset("js", message)])
    cause = the(Reason.JOB_CREATION_REFUSED, snapshot)
    assert "gangctl's own webhook" in cause.message
    assert "Job js-w-0" in cause.message
    assert cause.evidence[0] == message
    assert cause.command == "kubectl get pods,endpointslices -A -l app.kubernetes.io/name=gangctl"
    assert cause.pods == 8
    assert "gangctl.dev/skip" in cause.remedy
    assert reasons(snapshot) == [Reason.JOB_CREATION_REFUSED]


def test_a_refusal_of_a_job_that_exists_by_now_is_not_reported() -> None:
    context = Context(JS)
    refused = [refused_jobset("js", 'job "js-w-0" creation failed with error: no')]
    assert Reason.JOB_CREATION_REFUSED not in reasons(context.snapshot(context.pods(PENDING), refused=refused))
    assert Reason.JOB_CREATION_REFUSED not in reasons(context.snapshot(jobs=context.jobs(index=0), refused=refused))


REFUSED_B = 'job "js-b-0" creation failed with error: no'


@pytest.mark.parametrize("begun", [{}, condition("RestartingJobSet", NOW - 100)], ids=["0.11", "0.12"])
def test_jobs_that_wait_for_the_end_of_an_attempt_are_not_refused_by_its_denials(begun: dict[str, str]) -> None:
    """Events are kept for an hour, and JobSet makes a Job once the one before it is gone."""
    before, context = Context(IN_ORDER), Context(IN_ORDER, restarts=1, end=begun)
    old = refused_jobset("js", REFUSED_B, at=NOW - 1200)
    leaving = context.snapshot(before.pods(READY, deleting=True), jobs=before.jobs(deleting=True), refused=[old])
    assert Reason.JOB_CREATION_REFUSED not in reasons(leaving)


def test_a_refusal_of_the_attempt_before_begins_no_stage() -> None:
    context = Context(IN_ORDER, restarts=1, end=condition("RestartingJobSet", NOW - 100))
    for at, begun in ((NOW - 1200, False), (NOW - 50, True)):
        refused = [refused_jobset("js", REFUSED_B, at=at)]
        snapshot = context.snapshot(context.pods(RUNNING, only="a"), jobs=context.jobs(only="a"), refused=refused)
        assert (Reason.JOB_CREATION_REFUSED in reasons(snapshot)) is begun
        assert (Reason.WAITING_FOR_STAGE in reasons(snapshot)) is not begun


@each(
    ("reason", "denied", "what"),
    [
        ("HeadlessServiceCreationFailed", 'services "js"', "its Service"),
        ("PVCCreationFailed", 'persistentvolumeclaims "d-js"', "a PersistentVolumeClaim of volumeClaimPolicies"),
    ],
)
def test_jobs_are_missing_while_what_jobset_makes_before_them_is_refused(reason: str, denied: str, what: str) -> None:
    """It returns before it makes Jobs, so its Jobs are not late."""
    message = f"{denied} is forbidden: exceeded quota: tight, requested: n=1, used: n=10, limited: n=10"
    refused = [replace(refused_jobset("js", message), reason=reason)]
    snapshot = Context(JS).snapshot(jobs=[], refused=refused)
    cause = the(Reason.JOB_CREATION_REFUSED, snapshot)
    assert cause.message == (
        f"JobSet cannot create {what}: ResourceQuota tight is used up: requested: n=1, used: n=10, limited: n=10"
    )
    assert cause.command == "kubectl -n t describe resourcequota tight"
    assert reasons(snapshot) == [Reason.JOB_CREATION_REFUSED]
    two = Context(jobset("js", rj("a", 2, 1, 1), mode="Gang"))
    begun = two.snapshot(two.pods(RUNNING, index=0), jobs=two.jobs()[:1], refused=refused)
    # An event from before its first Job; claims it asks for again and again.
    assert (Reason.JOB_CREATION_REFUSED in reasons(begun)) is (what != "its Service")
    held = Context(JS).snapshot(jobs=Context(JS).jobs(suspended=True, active=False), refused=refused)
    assert (Reason.JOB_CREATION_REFUSED in reasons(held)) is (what != "its Service")


def test_no_pods_of_a_suspended_job_are_refused() -> None:
    context = Context(IN_ORDER, queue="main")
    jobs = [*context.jobs(only="a"), *context.jobs(only="b", suspended=True, active=False)]
    refused = [refused_job("js-b-0", "no", at=NOW - 1200)]
    snapshot = context.snapshot(context.pods(RUNNING, only="a"), jobs=jobs, refused=refused)
    assert Reason.POD_CREATION_REFUSED not in reasons(snapshot)


@each(
    ("kind", "words", "command"),
    [
        (
            "quota",
            "ResourceQuota tight is used up: requested: pods=1, used: pods=0, limited: pods=0",
            "kubectl -n t describe resourcequota tight",
        ),
        (
            "limitrange",
            "a LimitRange forbids it: maximum cpu usage per Container is 500m, but limit is 1",
            "kubectl -n t describe limitranges",
        ),
        ("podsecurity", 'PodSecurity "restricted:latest" forbids it', "kubectl label --list namespace t"),
        ("serviceaccount", 'ServiceAccount "absent" does not exist', "kubectl -n t get serviceaccounts"),
        ("priorityclass", 'PriorityClass "absent" does not exist', "kubectl get priorityclasses"),
        (
            "policy",
            "ValidatingAdmissionPolicy nopods denies it: no pods today",
            "kubectl get validatingadmissionpolicy nopods -o yaml",
        ),
        (
            "webhook-dead",
            'webhook "pods.dead.example.com" does not answer',
            "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        ),
    ],
)
@each("minor", ["1.36", "1.37"])
def test_the_refusing_plugin_is_read_from_the_message(minor: str, kind: str, words: str, command: str) -> None:
    context = Context(JS)
    message = recorded(minor, f"job/{kind}")
    snapshot = context.snapshot(context.pods(PENDING, index=1), refused=[refused_job("js-w-0", message)])
    cause = the(Reason.POD_CREATION_REFUSED, snapshot)
    assert cause.message.startswith(f"4 pods cannot be created: {words}")
    assert message[:200] in cause.evidence[0]
    assert cause.command == command
    assert (cause.pods, cause.since, cause.blocking) == (4, NOW - 5, True)


def test_a_refusal_of_pods_that_exist_by_now_is_not_reported() -> None:
    context = Context(JS)
    refused = [refused_job("js-w-0", recorded("1.37", "job/quota"), at=BORN - 1)]
    assert Reason.POD_CREATION_REFUSED not in reasons(context.snapshot(context.pods(PENDING), refused=refused))
    some = context.snapshot(context.pods(PENDING, count=3), refused=refused)
    assert reasons(some) == [Reason.PODS_MISSING]
    assert the(Reason.PODS_MISSING, some).evidence == ("js-w-0: 3 of 4 pods", "js-w-1: 3 of 4 pods")


def test_a_newer_pod_of_another_replicated_job_hides_no_refusal() -> None:
    context = Context(jobset("js", rj("v", 1, 2, 2), rj("w", 1, 2, 2), mode="Gang"))
    refused = [refused_job("js-w-0", recorded("1.37", "job/quota"), at=BORN)]
    newer = context.pods(PENDING, only="v", created=NOW)
    assert Reason.POD_CREATION_REFUSED in reasons(context.snapshot(newer, refused=refused))


def test_an_unknown_message_is_reported_unchanged() -> None:
    context = Context(JS)
    refused = [refused_job("js-w-0", "Error creating: the moon is full")]
    cause = the(Reason.POD_CREATION_REFUSED, context.snapshot(refused=refused))
    assert "the moon is full" in cause.message
    assert cause.command == "kubectl -n t describe job js-w-0"


def stamped_exclusive(notes: dict[str, str], raw: dict[str, Any] = JS) -> Context:
    """Past gangctl's webhook, which refuses it: stamped before the annotation was added."""
    context = Context(raw)
    context.jobset = replace(context.jobset, annotations={**context.jobset.annotations, **notes})
    assert context.assessment.plan is not None
    context.assessment = replace(context.assessment, plan=replace(context.assessment.plan, jobset=context.jobset))
    return context


def leaders(context: Context, **changes: Any) -> list[Any]:
    return context.pods(PENDING, count=1, **changes)


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_jobsets_refusal_of_followers_proves_the_deadlock(minor: str) -> None:
    context = stamped_exclusive({EXCLUSIVE: "rack"})
    message = recorded(minor, "jobset/exclusive")
    snapshot = context.snapshot(leaders(context, created=NOW - 2), refused=[refused_job("js-w-0", message)])
    cause = the(Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK, snapshot)
    assert cause.evidence[0] == message
    assert "6 followers missing" in cause.evidence[2]
    assert BY_SELECTOR in cause.remedy
    assert reasons(snapshot) == [Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK]


def test_a_refusal_of_followers_with_a_node_selector_is_recognized() -> None:
    """The message of JobSet 0.12 where the pods have a nodeSelector, and the topology is not among its keys."""
    context = stamped_exclusive({EXCLUSIVE: "rack"})
    why = "follower pod node selector for topology domain not found. missing selector: rack"
    message = f'Error creating: admission webhook "vpod.kb.io" denied the request: {why}'
    snapshot = context.snapshot(leaders(context, created=NOW - 2), refused=[refused_job("js-w-0", message)])
    assert reasons(snapshot) == [Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK]


def test_a_deadlock_without_a_refusal_is_reported_after_a_delay() -> None:
    context = stamped_exclusive({EXCLUSIVE: "rack"})
    the(Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK, context.snapshot(leaders(context)))
    young = evaluate(context.snapshot(leaders(context, created=NOW - 2)), NOW)
    assert Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK not in [each.reason for each in young.causes]
    assert young.look_again == NOW + 28


def test_exclusive_placement_by_node_selector_needs_no_webhook() -> None:
    context = stamped_exclusive({EXCLUSIVE: "rack", BY_SELECTOR: "true"})
    assert Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK not in reasons(context.snapshot(leaders(context)))


def test_a_template_that_is_placed_by_node_selector_waits_for_no_webhook() -> None:
    own = rj("w", 2, 4, 4, annotations={EXCLUSIVE: "rack", BY_SELECTOR: "true"})
    context = stamped_exclusive({EXCLUSIVE: "zone"}, jobset("js", own, mode="Gang"))
    assert Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK not in reasons(context.snapshot(leaders(context)))


def test_no_deadlock_is_reported_if_all_followers_exist() -> None:
    context = stamped_exclusive({EXCLUSIVE: "rack"})
    assert Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK not in reasons(context.snapshot(context.pods(PENDING)))


def test_a_stage_that_waits_for_its_dependency_is_normal() -> None:
    context = Context(SEQUENCED)
    snapshot = context.snapshot(context.pods(RUNNING, only="db"), jobs=context.jobs(only="db"))
    cause = the(Reason.WAITING_FOR_STAGE, snapshot)
    assert not cause.blocking
    assert cause.pods == 4
    assert cause.evidence == ("w waits for db (dependsOn)", "db: 0 of 1 pod ready")
    assert Reason.PODS_MISSING not in reasons(snapshot)


def test_an_in_order_startup_has_stages_too() -> None:
    context = Context(IN_ORDER)
    cause = the(
        Reason.WAITING_FOR_STAGE, context.snapshot(context.pods(RUNNING, only="a"), jobs=context.jobs(only="a"))
    )
    assert cause.message == "b starts after a"
    assert "InOrder" in cause.evidence[0]


def test_jobs_that_were_made_while_the_jobset_was_suspended_wait_for_their_stage() -> None:
    context = Context(IN_ORDER, queue="main")
    jobs = [*context.jobs(only="a"), *context.jobs(only="b", suspended=True, active=False)]
    snapshot = context.snapshot(context.pods(RUNNING, only="a"), jobs=jobs)
    assert the(Reason.WAITING_FOR_STAGE, snapshot).message == "b starts after a"
    assert Reason.PODS_MISSING not in reasons(snapshot)


def test_a_stage_that_has_begun_waits_for_nothing() -> None:
    context = Context(SEQUENCED)
    pods = [*context.pods(READY, only="db"), *context.pods(PENDING, only="w")]
    assert Reason.WAITING_FOR_STAGE not in reasons(context.snapshot(pods))


def test_a_stage_whose_jobs_are_refused_has_begun() -> None:
    context = Context(SEQUENCED)
    refused = [refused_jobset("js", 'job "js-w-0" creation failed with error: no')]
    snapshot = context.snapshot(context.pods(READY, only="db"), jobs=context.jobs(only="db"), refused=refused)
    assert reasons(snapshot)[0] is Reason.JOB_CREATION_REFUSED
    assert Reason.WAITING_FOR_STAGE not in reasons(snapshot)


def test_missing_jobs_are_reported() -> None:
    context = Context(JS)
    cause = the(Reason.PODS_MISSING, context.snapshot(jobs=[]))
    assert cause.blocking
    assert "js-w-0, js-w-1" in cause.evidence[0]
    assert "JobSet's controller" in cause.message


def test_jobs_that_are_not_resumed_are_reported_as_such() -> None:
    context = Context(JS, queue="main")
    jobs = [*context.jobs(index=0), *context.jobs(index=1, suspended=True, active=False)]
    cause = the(Reason.PODS_MISSING, context.snapshot(context.pods(PENDING, index=0), jobs=jobs))
    assert cause.message == "4 pods do not exist: JobSet's controller has not resumed all Jobs"
    assert cause.evidence[0] == "1 Job suspended: js-w-1"
    assert "10 s" not in cause.remedy
    assert cause.command == "kubectl -n t describe job js-w-1"


def test_missing_pods_are_reported_by_job() -> None:
    context = Context(JS)
    pods = [*context.pods(PENDING, index=0), *context.pods(PENDING, index=1, count=3)]
    cause = the(Reason.PODS_MISSING, context.snapshot(pods, jobs=context.jobs(failed=1)))
    assert cause.evidence[0] == "js-w-1: 3 of 4 pods"
    assert "1 pod of these Jobs failed" in cause.evidence[1]
    assert cause.command == "kubectl -n t describe job js-w-1"


def test_missing_objects_are_reported_after_a_delay() -> None:
    context = Context(JS, created=NOW - 10)
    readiness = evaluate(context.snapshot(jobs=[]), NOW)
    (cause,) = [each for each in readiness.causes if each.reason is Reason.PODS_MISSING]
    assert not cause.blocking
    assert readiness.look_again is not None


def test_no_missing_pods_are_reported_if_all_exist() -> None:
    context = Context(JS)
    assert Reason.PODS_MISSING not in reasons(context.snapshot(context.pods(PENDING)))


@each(
    "message",
    [
        "exceeded quota: $(reboot), requested: pods=1",
        "exceeded quota: a`reboot`, requested: pods=1",
        "ValidatingAdmissionPolicy 'x; reboot' with binding 'b' denied request: no",
        "ValidatingAdmissionPolicy 'x --server=https://example.com' denied request: no",
    ],
)
def test_a_forged_event_adds_nothing_to_the_command(message: str) -> None:
    context = Context(JS)
    cause = the(Reason.POD_CREATION_REFUSED, context.snapshot([], refused=[refused_job("js-w-0", message)]))
    assert cause.command == "kubectl -n t describe job js-w-0"


def test_an_invalid_node_name_is_quoted_in_the_command() -> None:
    context = Context(JS)
    snapshot = context.snapshot(context.pods(RUNNING, node="n; reboot"), nodes=nodes("n; reboot", ready=False))
    assert the(Reason.NODE_LOST, snapshot).command == "kubectl describe node 'n; reboot'"


def test_a_quota_that_requires_requests_of_pods_is_named() -> None:
    """Message of pkg/admission/plugin/resourcequota/controller.go: no wait and no room in the quota helps."""
    message = 'Error creating: pods "js-w-0-0-x" is forbidden: failed quota: tight: must specify requests.cpu for: main'
    context = Context(JS)
    refused = [refused_job("js-w-0", message)]
    cause = the(Reason.POD_CREATION_REFUSED, context.snapshot(context.pods(PENDING, index=1), refused=refused))
    assert "ResourceQuota tight takes no pod that does not specify requests.cpu for: main" in cause.message
    assert "LimitRange" in cause.remedy
    assert cause.command == "kubectl -n t describe resourcequota tight"


QUOTA_OF_CLAIMS = (
    'persistentvolumeclaims "d-js" is forbidden: exceeded quota: tight, requested: n=1, used: n=10, limited: n=10'
)


def test_claims_that_are_denied_hold_the_stage_whose_turn_it_is() -> None:
    refused = [replace(refused_jobset("js", QUOTA_OF_CLAIMS), reason="PVCCreationFailed")]
    for jobset_, first in ((IN_ORDER, "a"), (SEQUENCED, "db")):
        context = Context(jobset_)
        for state, reason in ((READY, Reason.JOB_CREATION_REFUSED), (RUNNING, Reason.WAITING_FOR_STAGE)):
            pods, jobs = context.pods(state, only=first), context.jobs(only=first)
            assert reason in reasons(context.snapshot(pods, jobs=jobs, refused=refused))


def test_claims_that_are_denied_keep_a_jobset_from_being_suspended() -> None:
    context = Context(JS, queue="main", suspend=True)
    refused = [replace(refused_jobset("js", QUOTA_OF_CLAIMS), reason="PVCCreationFailed")]
    snapshot = context.snapshot(context.pods(RUNNING), jobs=context.jobs(active=4), refused=refused)
    cause = the(Reason.JOB_CREATION_REFUSED, snapshot)
    assert cause.blocking
    assert "before it has made its claims again" in cause.message


def test_a_job_that_is_denied_keeps_a_jobset_from_being_suspended() -> None:
    context = Context(jobset("js", rj("w", 2, 2, 2), mode="Gang"), queue="main", suspend=True)
    refused = [refused_jobset("js", 'job "js-w-1" creation failed with error: exceeded quota: q')]
    pods, jobs = context.pods(PENDING)[:2], context.jobs(index=0, active=True)
    cause = the(Reason.JOB_CREATION_REFUSED, context.snapshot(pods, jobs=jobs, refused=refused))
    assert cause.blocking
    assert "before it has made its other Jobs" in cause.message
    whole = context.snapshot(pods, jobs=context.jobs(active=True), refused=refused)
    assert Reason.JOB_CREATION_REFUSED not in reasons(whole)

"""Stored JobSets that no webhook would have let through, or that a newer cluster sees with other eyes."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANG_REF, GANGS
from gangctl.api.scheduling import Generation
from gangctl.gang.desired import Assessment, Lifecycle, assess, renewal, while_suspended
from gangctl.gang.reasons import Reason
from gangctl.gang.resolve import ClusterRules
from gangctl.gang.validate import MAX_JOBS
from tests.gang.pipeline import assessed, read, resolved, stored
from tests.jobsets import jobset, rj
from tests.rows import each

Raw = dict[str, Any]
PAIR = jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 1, 3, 3, mode="Gang"), uid="u")


def stamp(raw: Raw, *texts: str) -> Raw:
    """The JobSet with these stamps, whatever its configuration says."""
    after = copy.deepcopy(raw)
    for entry, text in zip(after["spec"]["replicatedJobs"], texts, strict=False):
        entry["template"].setdefault("metadata", {}).setdefault("annotations", {})[GANG_REF] = text
    return after


def reasons(seen: Assessment) -> list[Reason]:
    return [notice.reason for notice in seen.notices]


def groups(seen: Assessment) -> dict[str, int]:
    return {g.template.name: g.template.min_count for g in seen.plan.groups} if seen.plan is not None else {}


@each("raw", [jobset("js", rj("a")), jobset("js", rj("a", mode="Off"), mode="Off"), jobset("js")])
def test_nothing_was_asked_for(raw: Raw) -> None:
    assert assessed(raw) == Assessment(Lifecycle.PRESENT, None)


def test_asked_for_but_never_stamped() -> None:
    seen = assessed(PAIR)
    assert (seen.plan, seen.notices, seen.unstamped) == (None, (), True)
    finished = assessed({**PAIR, "status": {"terminalState": "Failed"}})
    assert (finished.lifecycle, finished.unstamped) == (Lifecycle.RETIRED, True)


def test_pods_of_a_scheduler_without_groups_lack_their_gang() -> None:
    """The event about it is recorded for as long as it runs."""
    seen = assessed(stored(jobset("js", rj("w", 1, 2, 2, mode="Gang", pod={"schedulerName": "other"}))))
    assert (seen.plan, reasons(seen), seen.unstamped) == (None, [Reason.UNSUPPORTED_SCHEDULER], False)
    assert seen.lacks_its_gang


def test_an_empty_gang_is_not_a_missing_stamp() -> None:
    seen = assessed(stored(jobset("js", rj("w", 1, 0, 0, mode="Gang"))))
    assert (seen.plan, reasons(seen), seen.unstamped) == (None, [Reason.GANG_EMPTY], False)


def test_one_malformed_stamp_does_not_take_the_other_group_away() -> None:
    seen = assessed(stamp(stored(PAIR), "broken"))
    assert groups(seen) == {"b": 3}
    assert reasons(seen) == [Reason.INVALID_GANG_CONFIG, Reason.CONFIG_IGNORED]
    assert "spec.replicatedJobs[0].template.metadata.annotations[gangctl.dev/gang-ref]" in seen.notices[0].message


def test_stamps_without_configuration_still_decide() -> None:
    raw = stamp(jobset("js", rj("a", 1, 2, 2), uid="u"), "rj/a/js-a")
    seen = assessed(raw)
    assert groups(seen) == {"a": 2}
    assert reasons(seen) == [Reason.CONFIG_IGNORED]
    assert "refused" not in seen.notices[0].message


def test_a_stamp_on_jobs_without_pods_makes_no_group() -> None:
    texts = (f"rj/{name}/js-{name}" for name in "ab")
    raw = stamp(jobset("js", rj("a", 1, 2, 2), rj("b", 1, 0, 0), uid="u"), *texts)
    assert groups(assessed(raw)) == {"a": 2}
    assert assessed(stamp(jobset("js", rj("b", 1, 0, 0)), "job/b/js-b")).plan is None


def test_a_scope_that_was_changed_later_has_no_effect() -> None:
    raw = stored(PAIR)
    raw["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"][GANG_MODE] = "ReplicatedGang"
    seen = assessed(raw)
    assert groups(seen) == {"a": 2, "b": 3}
    assert reasons(seen) == [Reason.CONFIG_IGNORED]


def test_configuration_that_became_malformed_is_quoted() -> None:
    raw = stored(PAIR)
    raw["metadata"]["annotations"] = {GANG_MODE: "everything"}
    (notice,) = assessed(raw).notices
    assert notice.reason is Reason.CONFIG_IGNORED
    assert '"everything"' in notice.message


def test_options_that_became_malformed_are_the_defaults_from_then_on() -> None:
    """The stamps have no options: groups that are made later follow what is written then."""
    asked = {**PAIR, "metadata": {**PAIR["metadata"], "annotations": {GANG_OPTIONS: '{"topologyKey": "rack"}'}}}
    plan = assessed(stored(asked)).plan
    assert plan is not None
    assert {group.template.topology_key for group in plan.groups} == {"rack"}
    raw = stored(asked)
    raw["metadata"]["annotations"] = {GANG_OPTIONS: "rack"}
    seen = assessed(raw)
    assert seen.plan is not None
    assert {group.template.topology_key for group in seen.plan.groups} == {""}
    (notice,) = seen.notices
    assert "Groups that are made from now on have its options" in notice.message
    assert "has no effect" not in notice.message


def test_a_gang_that_became_smaller_than_its_min_count_is_what_was_decided() -> None:
    gangs = '[{"name": "g", "replicatedJobs": ["w"], "minCount": 4}]'
    raw = stored(jobset("js", rj("w", 1, 6, 6), uid="u", annotations={"gangctl.dev/gangs": gangs}))
    raw["spec"]["replicatedJobs"][0]["template"]["spec"] |= {"parallelism": 3, "completions": 3}
    seen = assessed(raw)
    assert (groups(seen), seen.notices) == ({"g": 3}, ())


def test_a_jobset_accepted_before_an_upgrade_has_a_notice_after_it() -> None:
    mixed = jobset("js", rj("a"), rj("b", pod={"priorityClassName": "high"}), mode="Gang", uid="u")
    raw = stored(mixed, Generation.V1ALPHA2)
    assert reasons(assessed(raw, Generation.V1ALPHA2)) == [Reason.MIXED_PRIORITY]
    seen = assessed(raw, Generation.V1BETA1)
    assert groups(seen) == {"jobset": 2}
    (notice,) = seen.notices
    assert notice.message.startswith("As it is now, this JobSet would be refused: spec.replicatedJobs[1]")
    assert "same priority class" in notice.message
    # Not that its user has changed it, nor to create again what is refused then.
    assert "or the cluster has" in notice.message
    assert "Delete the JobSet and create it again" not in notice.message


def test_replicas_without_end_are_not_planned() -> None:
    endless = jobset("js", rj("a", 1, 1, 1, mode="Gang"), rj("b", 2**31 - 1, 1, 1), uid="u")
    (error,) = resolved(endless).errors
    assert error.path == "spec.replicatedJobs"
    assert str(MAX_JOBS) in error.detail
    seen = assessed(stamp(endless, "rj/a/js-a"))
    assert (seen.plan, reasons(seen)) == (None, [Reason.INVALID_GANG_CONFIG])
    assert resolved(jobset("js", rj("a", MAX_JOBS, 1, 1, mode="ReplicatedGang"))).errors == ()


def test_suspension_and_deletion_of_the_unganged() -> None:
    raw = jobset("js", rj("a"), suspend=True)
    assert assessed(raw) == Assessment(Lifecycle.RETIRED, None)
    raw["metadata"]["deletionTimestamp"] = "2026-09-01T00:00:00Z"
    assert assessed(raw) == Assessment(Lifecycle.ENDING, None)


def queued(*, queue: str = "q", suspend: bool = True, claims: Sequence[Raw] = (), **status: str) -> Raw:
    gangs = json.dumps([{"name": "g", "replicatedJobs": ["w"], "resourceClaims": list(claims)}])
    worker = rj("w", 1, 2, 2, pod={"resourceClaims": list(claims)})
    raw = jobset("js", worker, uid="u", suspend=suspend, annotations={GANGS: gangs})
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    return {**stored(raw), "status": status}


def life(raw: Raw, *, queues: bool | None, early: bool | None = False) -> Lifecycle:
    projection = read(raw)
    return assess(projection, ClusterRules(), while_suspended(projection, queues=queues, early=early)).lifecycle


def test_a_jobset_in_a_queue_keeps_its_objects_and_gets_no_new_ones() -> None:
    assert life(queued(), queues=True) is Lifecycle.KEPT
    assert life(queued(suspend=False), queues=True) is Lifecycle.PRESENT
    assert life(queued(), queues=True, early=True) is Lifecycle.PRESENT


def test_while_it_is_unknown_whether_there_are_queues_nothing_is_deleted() -> None:
    claims = [{"name": "net", "resourceClaimTemplateName": "channel"}]
    for raw in (queued(), queued(claims=claims)):
        assert life(raw, queues=None) is Lifecycle.UNDECIDED
        # Nor before it is known whether a check waits for its gang.
        assert life(raw, queues=True, early=None) is Lifecycle.UNDECIDED
    assert life(queued(queue=""), queues=None) is Lifecycle.RETIRED


def test_a_gang_with_claims_keeps_none_of_its_objects_in_a_queue() -> None:
    """A claim stays allocated for as long as its PodGroup exists, which needs no pod for that."""
    raw = queued(claims=[{"name": "net", "resourceClaimTemplateName": "channel"}])
    assert life(raw, queues=True) is Lifecycle.RETIRED
    # Its AdmissionCheck waits for its groups.
    assert life(raw, queues=True, early=True) is Lifecycle.PRESENT


@each("early", [False, True])
def test_without_kueue_a_queues_name_means_nothing(early: bool) -> None:
    assert life(queued(), queues=False, early=early) is Lifecycle.RETIRED
    assert life(queued(queue=""), queues=True, early=early) is Lifecycle.RETIRED


@each(
    ("queue", "queues", "first"),
    [
        ("", True, "suspend the JobSet"),
        ("q", False, "suspend the JobSet"),
        ("q", True, "set spec.active of its Kueue Workload to false"),
        ("q", None, "set spec.active of its Kueue Workload to false"),
    ],
)
def test_groups_are_renewed_by_suspending_unless_kueue_would_resume_the_jobset(
    queue: str, queues: bool | None, first: str
) -> None:
    running = read(queued(queue=queue, suspend=False))
    assert renewal(while_suspended(running, queues=queues)).startswith(first)


@each("queues", [True, False, None])
def test_a_finished_or_deleted_jobset_stays_so_with_any_queue(queues: bool | None) -> None:
    assert life(queued(terminalState="Completed"), queues=queues, early=True) is Lifecycle.RETIRED
    raw = queued()
    raw["metadata"]["deletionTimestamp"] = "2026-09-01T00:00:00Z"
    assert life(raw, queues=queues, early=True) is Lifecycle.ENDING

"""Properties of causes for any state of a cluster."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.scheduling import ApiState, Generation, Observed, Scheduled
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.reasons import Reason
from gangctl.kueue.blocked import Blockage, Blocked, Stuck
from gangctl.kueue.queues import Never, QueueFacts
from gangctl.readiness.causes import MOST_CAUSES, place_of
from gangctl.readiness.causes.context import LINE_CHARACTERS, MESSAGE_CHARACTERS, MOST_EVIDENCE
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import NodeFacts, PodFacts, Snapshot
from gangctl.readiness.onnodes import OnNodes
from gangctl.readiness.report import gang_status
from tests.jobsets import jobset, rj
from tests.kueue.workloads import STUCK, WITHOUT_WORKLOAD, no, queued, yes
from tests.readiness.causes.finding import RECORDED, is_run, refused_job, refused_jobset
from tests.readiness.snapshots import NOW, REFUSED, RUNNING, Changes, Context, rfc3339
from tests.strategies import PROPERTY

SHAPES = (
    jobset("js", rj("w", 2, 3, 3), mode="Gang"),
    jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 2, 1, 1, mode="ReplicatedGang")),
    jobset("js", rj("a", 1, 1, 1, mode="Gang"), rj("b", 1, 2, 2, depends_on="a", mode="Gang")),
    jobset("js", rj("w", 1, 4, 8), mode="Gang", annotations={"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}),
)
texts = st.sampled_from(
    ["", "said so.", "a\nb\x1b[2J", "x" * 5000]
    + [pod["message"] for minor in RECORDED.values() for pod in minor["taint-and-cpu"]["pods"]]
    + [minor["job/quota"] for minor in RECORDED.values()]
)
PROBLEMS = {
    True: sorted(WITHOUT_WORKLOAD),
    # A JobSet that has finished has no causes.
    False: sorted(STUCK - WITHOUT_WORKLOAD - {Reason.FINISHED_HOLDS_QUOTA}),
}
"""What can be wrong, by whether Kueue has made no Workload."""
CONFLICT = FieldError("x" * 5000, ErrorKind.FORBIDDEN, "a\nb")
AGE = re.compile(r"\b(\d+[dhms]){1,2} (ago|old)\b|\b(for|in|after) (\d+[dhms]){1,2}\b")
"""As durations are written (:mod:`gangctl.kueue.amounts`)."""
times = st.sampled_from([0, NOW - 4000, NOW - 400, NOW - 40, NOW - 3, NOW + 60])


@st.composite
def pods(draw: st.DrawFn, context: Context) -> list[PodFacts]:
    found = []
    for pod in context.pods():
        if draw(st.integers(0, 4)) == 0:
            continue
        changes: dict[str, Any] = {
            "phase": draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])),
            "node": draw(st.sampled_from(["", "n0", "n1"])),
            "created": draw(times),
            "placed_at": draw(times),
            "deleting": draw(st.booleans()),
            "attempt": draw(st.integers(0, 1)),
            "group": draw(st.sampled_from([pod.group, pod.group, pod.group, "", "other"])),
            "scheduler": draw(st.sampled_from(["", "default-scheduler", "other"])),
            "priority": draw(st.integers(-1, 1)),
            "gates": draw(st.sampled_from([(), (), ("kueue.x-k8s.io/topology",), ("mine",)])),
            "refused": draw(st.sampled_from(["", "", "Unschedulable", "SchedulerError", "SchedulingGated"])),
            "refusal": draw(texts),
            "refused_at": draw(times),
            "ready": draw(st.booleans()),
            "ready_at": draw(times),
            "waiting": draw(st.sampled_from(["", "ContainerCreating", "ErrImagePull", "OOMKilled"])),
            "waiting_message": draw(texts),
            "restarts": draw(st.integers(0, 3)),
            "disrupted": draw(st.sampled_from(["", "", "", "PreemptionByScheduler"])),
            "nominated": draw(st.sampled_from(["", "", "n1"])),
            "unclaimed": draw(st.sampled_from([(), (), ("none",)])),
        }
        found.append(replace(pod, **changes))
    return found


@st.composite
def groups(draw: st.DrawFn, context: Context) -> Mapping[str, Observed]:
    found = {}
    for name, group in context.groups().items():
        messages = Scheduled(draw(st.booleans()), "Unschedulable", draw(texts), rfc3339(draw(times)))
        changes: dict[str, Any] = {
            "scheduled": draw(st.sampled_from([None, messages])),
            "deleting": draw(st.booleans()),
            "owner_uid": draw(st.sampled_from([group.owner_uid, group.owner_uid, "other"])),
            "priority": draw(st.sampled_from([None, 0, 1])),
            "topology_key": draw(st.sampled_from(["", "rack"])),
            "min_counts": draw(st.sampled_from([group.min_counts, (("", 99),)])),
        }
        if draw(st.integers(0, 4)):
            found[name] = replace(group, **changes)
    return found


@st.composite
def queues(draw: st.DrawFn) -> QueueFacts | None:
    conditions = draw(
        st.dictionaries(
            st.sampled_from(["QuotaReserved", "Admitted", "Evicted", "Requeued", "PodsReady", "Finished"]),
            st.builds(lambda status, text: (yes if status else no)("Pending", text), st.booleans(), texts),
        )
    )
    workload = draw(st.sampled_from([None, queued(**conditions)]))
    known = draw(st.booleans())
    problems = [Reason.WORKLOAD_MISSING] if not known and workload is None else PROBLEMS[workload is None]
    closed = [Blocked(each, "closed; open it") for each in Blockage] if known else []
    return draw(
        st.none()
        | st.builds(
            QueueFacts,
            local_queue=st.just("main"),
            cluster_queue=st.just("cq"),
            workload=st.just(workload),
            blocked=st.sampled_from([None, *closed]),
            stuck=st.none() | st.builds(Stuck, st.sampled_from(problems), st.just("seen"), st.just("do it")),
            stuck_at=st.none() | times.map(lambda at: datetime.fromtimestamp(at, UTC)),
            never=st.sampled_from([None, Never("NeverExceedsQuota", "40 are asked for, and there can be 8")])
            if known
            else st.none(),
            conflicts=st.sampled_from([(), (CONFLICT,)]),
            queues_known=st.just(known),
        )
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    generation = draw(st.sampled_from([None, *Generation]))
    context = Context(
        draw(st.sampled_from(SHAPES)),
        generation,
        restarts=draw(st.integers(0, 1)),
        suspend=draw(st.booleans()),
        queue=draw(st.sampled_from(["", "main"])),
        stamped=draw(st.booleans()),
        deleting=draw(st.integers(0, 5)) == 0,
        created=draw(times.filter(bool)),
    )
    jobs = [
        replace(job, succeeded=draw(st.integers(0, 2)), complete=draw(st.booleans()), deleting=draw(st.booleans()))
        for job in context.jobs()
        if draw(st.integers(0, 3))
    ]
    refused = [refused_job(job.name, draw(texts)) for job in jobs if draw(st.booleans())]
    if draw(st.booleans()):
        refused.append(refused_jobset("js", 'job "js-w-0" creation failed with error: ' + draw(texts)))
    return context.snapshot(
        draw(pods(context)),
        jobs=jobs,
        groups=draw(groups(context)),
        queue=draw(queues()),
        refused=refused,
        nodes=draw(st.sampled_from([None, {"n0": NodeFacts("n0", ready=False, reason="Unknown", since=NOW - 9)}])),
        on_nodes=OnNodes(
            draw(st.sampled_from([{}, dict.fromkeys(context.groups(), True)])),
            draw(st.sampled_from(["", "The nodes can never hold it: there are none"])),
            draw(st.sampled_from([(), ("its pods differ",)])),
        ),
        foreign_workload=draw(st.sampled_from(["", "theirs"])),
        workload=draw(st.sampled_from([None, context.workload()])),
        api=ApiState(generation, "" if generation else "the cluster serves no Workloads"),
    )


@PROPERTY
@given(snapshots())
def test_every_cause_is_short_and_has_a_remedy(snapshot: Snapshot) -> None:
    readiness = evaluate(snapshot, NOW)
    assert bool(readiness.causes) is not readiness.phase.settled
    assert len(readiness.causes) <= MOST_CAUSES
    assert readiness.look_again is None or readiness.look_again > NOW
    names = {group.name for group in readiness.groups}
    for cause in readiness.causes:
        assert cause.message
        assert cause.remedy, cause
        assert is_run(cause), cause
        assert cause.pods >= 0
        assert cause.since >= 0
        assert set(cause.groups) <= names
        assert len(cause.evidence) <= MOST_EVIDENCE
        for line, most in ((cause.message, MESSAGE_CHARACTERS), *((each, LINE_CHARACTERS) for each in cause.evidence)):
            assert line.isprintable()
            assert not line.endswith(".")
            assert 0 < len(line) <= most


@PROPERTY
@given(snapshots(), st.randoms(use_true_random=False))
def test_causes_do_not_depend_on_the_order_of_objects(snapshot: Snapshot, chance: random.Random) -> None:
    def shuffled(things: Any) -> Any:
        return chance.sample(list(things), len(list(things)))

    other = replace(
        snapshot,
        pods=shuffled(snapshot.pods),
        jobs=shuffled(snapshot.jobs),
        refused=shuffled(snapshot.refused),
        groups=dict(shuffled(snapshot.groups.items())),
    )
    assert evaluate(other, NOW).causes == evaluate(snapshot, NOW).causes


@PROPERTY
@given(snapshots(), st.floats(0, 4e9))
def test_causes_are_found_at_any_time(snapshot: Snapshot, now: float) -> None:
    readiness = evaluate(snapshot, now)
    assert list(readiness.causes) == sorted(readiness.causes, key=place_of)
    assert readiness == evaluate(snapshot, now)


@PROPERTY
@given(snapshots(), st.floats(0, 1))
def test_stored_causes_are_valid_until_the_next_evaluation(snapshot: Snapshot, share: float) -> None:
    first = evaluate(snapshot, NOW, kept=True)
    end = first.look_again or NOW + 100_000
    later = evaluate(snapshot, NOW + int((end - NOW - 1) * share), first, kept=True)
    assert gang_status(later)["causes"] == gang_status(first)["causes"]
    reported = [text for cause in first.causes for text in (cause.message, *cause.evidence)]
    assert [text for text in reported if AGE.search(text)] == []


def test_only_stored_causes_have_timestamps() -> None:
    context = Context(SHAPES[0])
    snapshot = context.snapshot(context.pods(REFUSED))
    assert "refused for the first time 6m40s ago" in evaluate(snapshot, NOW).causes[0].evidence
    assert "refused for the first time at 2026-03-01T11:53:20Z" in evaluate(snapshot, NOW, kept=True).causes[0].evidence


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_evidence_is_short_lines_of_text(minor: str) -> None:
    context = Context(SHAPES[0])
    waiting: Changes = {"waiting": "CreateContainerError", "waiting_message": "no such device " + "x" * 5000}
    pods = context.pods({**RUNNING, **waiting})
    message = RECORDED[minor]["job/podsecurity"]
    causes = evaluate(context.snapshot(pods[:2], refused=[refused_job("js-w-1", message)]), NOW).causes
    lines = [line for cause in causes for line in cause.evidence]
    assert sum(len(line) for line in lines) < 8000
    assert not any(known in line for line in lines for known in ("apiVersion", "PodFacts(", "Observed(", "JobSet("))

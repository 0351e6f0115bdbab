"""From collections to the snapshot of one JobSet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gangctl.api.meta import GANGS
from gangctl.api.scheduling import NEWEST, ApiState, Observed
from gangctl.gang.desired import JobProgress, assess
from gangctl.gang.resolve import ClusterRules
from gangctl.readiness.facts import Collections, Refused, Snapshot, assemble, is_followed
from tests.gang.pipeline import read, stored
from tests.jobsets import FIXTURE_UID, MODE, jobset, rj
from tests.rows import each

JOBSET = read(stored(jobset("js", rj("w", 2, 4, 4), mode="Gang", uid=FIXTURE_UID)))
ASSESSMENT = assess(JOBSET, ClusterRules())
API = ApiState(NEWEST)


def job(index: int = 0, **changes: Any) -> JobProgress:
    made = JobProgress("t", f"js-w-{index}", "js", FIXTURE_UID, "w", index, 0, 0, complete=False, deleting=False)
    return replace(made, **changes)


def refused(kind: str, name: str, uid: str = "") -> Refused:
    return Refused("t", kind, name, uid, "no", 1)


NOTHING = Collections(
    jobs=lambda _: (),
    pods=lambda _: (),
    groups=lambda _namespace, _uid, _names: {},
    workload=lambda _namespace, _name: None,
    claimed=lambda _namespace, _name: None,
)


def assembled(*jobs: JobProgress, reported: Sequence[Refused] = (), **changes: Any) -> Snapshot:
    by_object = {(each.namespace, each.kind, each.name): each for each in reported}
    collections = replace(NOTHING, jobs=lambda _: jobs, refused=lambda *about: by_object.get(about))
    return assemble(JOBSET, ASSESSMENT, API, replace(collections, **changes))


def test_jobs_of_an_earlier_jobset_of_the_name_are_ignored() -> None:
    assert assembled(job(0), job(1, jobset_uid="another")).jobs == [job(0)]


@each(("change", "count"), [({}, 1), ({"complete": True}, 0), ({"deleting": True}, 0), ({"jobset_uid": "another"}, 0)])
def test_refusals_are_kept_for_active_jobs_only(change: dict[str, Any], count: int) -> None:
    found = assembled(job(0, **change), reported=[refused("Job", "js-w-0"), refused("Job", "other-w-0")])
    assert len(found.refused) == count


@each(("uid", "count"), [(FIXTURE_UID, 1), ("", 1), ("another", 0)])
def test_refusals_of_a_jobset_and_of_its_jobs_are_matched_by_uid(uid: str, count: int) -> None:
    """A restart makes Jobs of the same names."""
    assert len(assembled(reported=[refused("JobSet", "js", uid)]).refused) == count
    assert len(assembled(job(0, uid=FIXTURE_UID), reported=[refused("Job", "js-w-0", uid)]).refused) == count
    assert len(assembled(job(0), reported=[refused("Job", "js-w-0", uid)]).refused) == 1


def test_groups_are_read_by_the_names_of_the_plan() -> None:
    asked: list[tuple[str, str, tuple[str, ...]]] = []

    def groups(namespace: str, uid: str, names: Sequence[str]) -> Mapping[str, Observed]:
        asked.append((namespace, uid, tuple(names)))
        return {}

    assembled(groups=groups)
    assert ASSESSMENT.plan is not None
    assert asked == [("t", FIXTURE_UID, tuple(group.name for group in ASSESSMENT.plan.groups))]


def test_the_parent_of_groups_is_read_by_the_name_of_the_plan() -> None:
    raw = stored(jobset("js", rj("w", 2, 1, 1, mode="ReplicatedGang"), options='{"composite": true}', uid=FIXTURE_UID))
    parsed = read(raw)
    found = assess(parsed, ClusterRules())
    assert found.plan is not None
    assert found.plan.composite is not None
    there = {("t", found.plan.composite.name): object()}

    def missing(composite: Any, of: Any = found) -> bool:
        collections = replace(NOTHING, composite=composite)
        return assemble(parsed, of, API, collections).composite_missing

    assert missing(lambda _namespace, _name: None)
    assert not missing(lambda namespace, name: there.get((namespace, name)))
    # Not known, and not needed.
    assert not missing(None)
    assert not missing(lambda _namespace, _name: None, ASSESSMENT)


def test_unknown_facts_stay_unknown() -> None:
    found = assembled(groups_known=False)
    assert (found.groups_known, found.nodes, found.queue, found.foreign_workload) == (False, None, None, "")
    assert assembled(claimed=lambda _namespace, _name: "theirs").foreign_workload == "theirs"


@each(
    ("raw", "followed"),
    [
        (jobset("js", rj("w")), False),
        (jobset("js", rj("w"), annotations={MODE: "Off"}), False),
        (jobset("js", rj("w"), mode="Gang"), True),
        (jobset("js", rj("w", mode="Gang")), True),
        (stored(jobset("js", rj("w"), mode="Gang", uid="u")), True),
        (jobset("js", rj("w"), mode="gang"), True),
        (jobset("js", rj("w", mode="Gong"), mode="Off"), True),
        (jobset("js", rj("w"), annotations={GANGS: "w"}), True),
    ],
)
def test_only_jobsets_that_request_a_gang_are_followed(raw: dict[str, Any], followed: bool) -> None:
    assert is_followed(read(raw)) is followed

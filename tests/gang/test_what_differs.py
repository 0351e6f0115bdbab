"""Where pods of one gang, or gangs of one JobSet, differ in what they must share, the message says who has what."""

from __future__ import annotations

from gangctl.api.scheduling import Generation
from gangctl.gang.convert import Notation, convert
from gangctl.gang.resolve import ClusterRules, resolve
from tests.gang.pipeline import read, resolved
from tests.jobsets import jobset, rj
from tests.rows import each

LONG = "s" * 70


def test_schedulers_that_differ_are_named_with_their_replicated_jobs() -> None:
    mixed = jobset(
        "js", *(rj(name, pod={"schedulerName": scheduler}) for name, scheduler in (("a", "x"), ("b", "y"))), mode="Gang"
    )
    resolution = resolve(read(mixed), ClusterRules(gang_schedulers=frozenset({"x", "y"})))
    assert [error.detail for error in resolution.errors] == [
        'all pods of one gang need the same scheduler: "a" has "x", "b" has "y"'
    ]


def test_a_scheduler_that_is_not_named_is_the_default_one() -> None:
    mixed = jobset("js", rj("a"), rj("b", pod={"schedulerName": "y"}), mode="Gang")
    resolution = resolve(read(mixed), ClusterRules(gang_schedulers=frozenset({"default-scheduler", "y"})))
    assert resolution.errors[0].detail.endswith('"a" has "default-scheduler", "b" has "y"')


@each(
    ("generation", "found"),
    [
        (Generation.V1ALPHA2, "notices"),
        (Generation.V1BETA1, "errors"),
    ],
)
def test_priority_classes_that_differ_are_named_with_their_replicated_jobs(generation: Generation, found: str) -> None:
    classes = (("a", "low"), ("b", "high"))
    mixed = jobset("js", *(rj(name, pod={"priorityClassName": each}) for name, each in classes), mode="Gang")
    resolution = resolved(mixed, generation)
    told = (
        [notice.message for notice in resolution.notices]
        if found == "notices"
        else [error.detail for error in resolution.errors]
    )
    assert len(told) == 1
    assert '"a" has "low", "b" has "high"' in told[0]


def test_eight_replicated_jobs_are_named_and_their_texts_are_cut() -> None:
    mixed = jobset(
        "js",
        *(rj(f"r{n}", pod={"priorityClassName": LONG if n else "low"}) for n in range(10)),
        mode="Gang",
    )
    (error,) = resolved(mixed, Generation.V1BETA1).errors
    assert '"r7" has ' in error.detail
    assert '"r8" has ' not in error.detail
    assert LONG not in error.detail


@each(("replicas", "taken"), [(7, True), (8, False)])
def test_a_gang_of_a_whole_replicated_job_is_one_of_the_eight_groups(replicas: int, taken: bool) -> None:
    raw = jobset("js", rj("a", replicas, mode="ReplicatedGang"), rj("b", 3, mode="Gang"))
    errors = [str(error) for error in convert(raw, Notation.SCHEDULING).errors]
    assert (errors == []) is taken
    assert taken or "would make 9 groups" in errors[0]


@each(
    "others",
    [
        {"schedulingConstraints": {"topology": [{"key": "zone"}]}, "disruptionMode": {"all": {}}},
        {"schedulingConstraints": {"topology": [{"key": "rack"}]}, "disruptionMode": {"single": {}}},
    ],
)
def test_gangs_with_different_options_become_a_list(others: dict[str, object]) -> None:
    first = {"schedulingConstraints": {"topology": [{"key": "rack"}]}, "disruptionMode": {"all": {}}}
    entries = [{"targetReplicatedJobs": ["a"], **first}, {"targetReplicatedJobs": ["b"], **others}]
    raw = jobset("js", rj("a"), rj("b"), scheduling={"replicatedJobs": entries})
    assert "gangctl.dev/gangs" in convert(raw, Notation.ANNOTATIONS).value["metadata"]["annotations"]

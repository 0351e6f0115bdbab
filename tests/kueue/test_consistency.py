"""Contradictions between a gang and its queue are refused, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import NEWEST
from gangctl.apiserver.jobsetwebhook import validate_update
from gangctl.errors import ErrorKind
from gangctl.gang.admission import check_update
from gangctl.gang.config import GangConfig
from gangctl.gang.plan import make_plan
from gangctl.gang.reasons import Reason
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.kueue.consistency import CONSISTENT, Consistency, KueueFacts, check_consistency, check_stored
from gangctl.kueue.names import INJECTED_ANNOTATIONS, INJECTED_LABELS
from tests.gang.pipeline import read, stored
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY, gangs, hostile_jobsets, jobsets

Object = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
PREFIX = "kueue.x-k8s.io/podset"
REQUIRED, PREFERRED = f"{PREFIX}-required-topology", f"{PREFIX}-preferred-topology"
UNCONSTRAINED, SLICE = f"{PREFIX}-unconstrained-topology", f"{PREFIX}-slice-required-topology"
SIZE, GROUP = f"{PREFIX}-slice-size", f"{PREFIX}-group-name"
RACK = "example.com/rack"
POD = "spec.replicatedJobs[{}].template.spec.template.metadata"


def queued(raw: Object, queue: str | None = "q") -> Object:
    if queue is not None:
        raw["metadata"]["labels"] = {QUEUE: queue}
    return raw


def podded(entry: Object, *, labels: Object | None = None, annotations: Object | None = None) -> Object:
    """A replicated job whose pod template has this metadata."""
    written = {"labels": labels, "annotations": annotations}
    entry["template"]["spec"]["template"]["metadata"] = {key: value for key, value in written.items() if value}
    return entry


def checked(raw: Object, **facts: Any) -> Consistency:
    projection, _ = read_jobset(raw)
    return check_consistency(raw, projection, resolve(projection, ClusterRules()), KueueFacts(**facts))


def paths(found: Consistency) -> list[str]:
    return [error.path for error in found.errors]


def gang(*replicated_jobs: Object, mode: str | None = "Gang", **more: Any) -> Object:
    return queued(jobset("js", *(replicated_jobs or (rj("a"), rj("b"))), mode=mode, **more))


def test_a_plain_gang_in_a_queue_is_consistent() -> None:
    assert checked(gang(), podset_limit=8, pods_ready_seconds=1800) == CONSISTENT


@each("key", INJECTED_LABELS)
def test_a_label_that_kueue_sets_at_the_start_is_refused(key: str) -> None:
    found = checked(gang(rj("a"), podded(rj("b"), labels={key: "mine"})))
    assert paths(found) == [f"{POD.format(1)}.labels[{key}]"]
    assert "would fail to start" in found.errors[0].detail
    assert '"mine"' in found.errors[0].detail


@pytest.mark.parametrize("key", INJECTED_ANNOTATIONS)
def test_an_annotation_that_kueue_sets_at_the_start_is_refused(key: str) -> None:
    found = checked(gang(podded(rj("a"), annotations={key: "jobset-other-12345"})))
    assert paths(found) == [f"{POD.format(0)}.annotations[{key}]"]
    assert found.errors[0].kind is ErrorKind.FORBIDDEN


def test_other_keys_of_kueue_are_not_checked() -> None:
    notes = {GROUP: "g", REQUIRED: RACK, "provreq.kueue.x-k8s.io/x": "y"}
    labels = {"kueue.x-k8s.io/own": "x", "app": "trainer"}
    assert (
        checked(gang(podded(rj("a", pod={"nodeSelector": {"x": "y"}}), labels=labels, annotations=notes))) == CONSISTENT
    )


def on_job(entry: Object, *, labels: Object) -> Object:
    entry["template"].setdefault("metadata", {})["labels"] = labels
    return entry


@pytest.mark.parametrize("queue", ["q", None])
def test_a_queue_on_a_job_of_a_gang_is_refused(queue: str | None) -> None:
    """Without a queue of the JobSet's, one on the Jobs is worse: Kueue would start the gang in parts."""
    raw = gang(on_job(rj("a"), labels={QUEUE: "q"}), podded(rj("b"), labels={QUEUE: "q"}))
    if queue is None:
        del raw["metadata"]["labels"]
    found = checked(raw)
    assert paths(found) == [
        f"spec.replicatedJobs[0].template.metadata.labels[{QUEUE}]",
        f"{POD.format(1)}.labels[{QUEUE}]",
    ]
    assert all("metadata.labels" in error.detail for error in found.errors)


@each(
    ("notes", "place"),
    [
        pytest.param({"kueue.x-k8s.io/elastic-job": "true"}, "jobset", id="elastic"),
        pytest.param({"kueue.x-k8s.io/job-min-parallelism": "2"}, "jobset", id="partial"),
        pytest.param({"kueue.x-k8s.io/elastic-job": "true"}, "job", id="elastic-jobs"),
        pytest.param({"kueue.x-k8s.io/job-min-parallelism": "2"}, "job", id="partial-jobs"),
    ],
)
def test_partial_admission_and_elastic_jobs_are_refused(notes: dict[str, str], place: str) -> None:
    raw = gang(annotations=notes) if place == "jobset" else gang(rj("a", annotations=notes))
    prefix = "" if place == "jobset" else "spec.replicatedJobs[0].template."
    assert paths(checked(raw)) == [f"{prefix}metadata.annotations[{next(iter(notes))}]"]


def test_an_elastic_annotation_of_false_is_accepted() -> None:
    assert checked(gang(annotations={"kueue.x-k8s.io/elastic-job": "false"})) == CONSISTENT


def topology(*entries: Object, mode: str | None = "Gang", key: str = RACK) -> Consistency:
    return checked(gang(*entries, mode=mode, options=json.dumps({"topologyKey": key})))


def two(name: str, notes: dict[str, str], mode: str | None = None, **more: Any) -> Object:
    """A replicated job of three Jobs with two pods each."""
    return podded(rj(name, 3, 2, 2, mode=mode, **more), annotations=notes)


CONFLICTS: dict[str, tuple[dict[str, str], str]] = {
    "another level": ({REQUIRED: "example.com/block"}, REQUIRED),
    "preferred": ({PREFERRED: RACK}, PREFERRED),
    "anything goes": ({UNCONSTRAINED: "true"}, UNCONSTRAINED),
    "slices of half a gang": ({SLICE: RACK, SIZE: "2"}, SLICE),
}


@each("case", CONFLICTS)
@each("mode", ["JobSet", "Gang"])
def test_two_topologies_on_one_podset_are_refused(case: str, mode: str) -> None:
    notes, key = CONFLICTS[case]
    found = topology(two("a", notes), mode="Gang") if mode == "JobSet" else topology(two("a", notes, mode), mode=None)
    assert paths(found) == [f"{POD.format(0)}.annotations[{key}]"]
    assert f'{REQUIRED} "{RACK}"' in found.errors[0].detail


@pytest.mark.parametrize("mode", ["Gang", "ReplicatedGang"])
def test_the_same_level_is_one_topology(mode: str) -> None:
    assert topology(two("a", {REQUIRED: RACK}, mode), two("b", {REQUIRED: RACK}, mode), mode=None) == CONSISTENT


@pytest.mark.parametrize("entry", [two("a", {}), two("a", {UNCONSTRAINED: "false"}), two("a", {GROUP: "g"})])
def test_a_gang_without_a_topology_of_kueue_is_consistent(entry: Object) -> None:
    assert topology(entry) == CONSISTENT


def test_jobs_outside_of_a_gang_can_have_any_topology_of_kueue() -> None:
    assert topology(two("a", {}), two("off", {PREFERRED: "zone"}, "Off")) == CONSISTENT


def test_a_gang_without_a_topology_option_can_have_any_of_kueue() -> None:
    assert checked(gang(two("a", {PREFERRED: RACK}))) == CONSISTENT


def test_a_gang_over_several_podsets_needs_one_domain_for_all() -> None:
    apart = topology(two("a", {REQUIRED: RACK}), two("b", {REQUIRED: RACK}))
    assert paths(apart) == [f"{POD.format(index)}.annotations[{REQUIRED}]" for index in range(2)]
    assert GROUP in apart.errors[0].detail
    together: Object = {REQUIRED: RACK, GROUP: "g"}
    assert topology(two("a", together), two("b", together)) == CONSISTENT
    assert len(topology(two("a", together), two("b", {REQUIRED: RACK, GROUP: "h"})).errors) == 2
    assert topology(two("a", {REQUIRED: RACK})) == CONSISTENT
    none = podded(rj("b", 0, 2, 2), annotations={REQUIRED: RACK})
    assert topology(two("a", {REQUIRED: RACK}), none) == CONSISTENT


@each(("size", "whole"), [("2", True), ("4", True), ("3", False), ("1", False), ("0", False), ("x", False)])
def test_slices_of_whole_jobs_are_the_topology_of_a_gang_for_each_job(size: str, whole: bool) -> None:
    found = topology(two("a", {SLICE: RACK, SIZE: size}, "ReplicatedGang"), mode=None)
    assert (found == CONSISTENT) is whole
    nested = topology(two("a", {REQUIRED: "block", SLICE: RACK, SIZE: size}, "ReplicatedGang"), mode=None)
    assert (nested == CONSISTENT) is whole


def many(count: int, mode: str = "Gang", **more: Any) -> Object:
    return gang(*(rj(f"w{number}") for number in range(count)), mode=mode, **more)


@pytest.mark.parametrize("limit", [8, 10, 18])
def test_more_replicated_jobs_than_kueue_has_podsets_are_refused_with_the_limit(limit: int) -> None:
    assert checked(many(limit), podset_limit=limit) == CONSISTENT
    found = checked(many(limit + 1), podset_limit=limit)
    assert [(error.path, error.kind) for error in found.errors] == [("spec.replicatedJobs", ErrorKind.TOO_MANY)]
    assert f"{limit} podsets at most" in found.errors[0].detail


def test_a_podset_without_pods_counts() -> None:
    assert checked(gang(*(rj(f"w{n}", 0 if n else 1) for n in range(9))), podset_limit=8).errors


def test_if_the_version_of_kueue_is_unknown_its_limits_are_a_warning() -> None:
    assert checked(many(8)) == CONSISTENT
    found = checked(many(9))
    assert found.errors == ()
    assert [notice.reason for notice in found.notices] == [Reason.QUEUE_CONFLICT]
    assert all(word in found.notices[0].message for word in ("9 ", "8 up to", "10 in", "18 in"))


def test_both_limits_are_named_if_both_are_exceeded() -> None:
    """Nine gangs of their own: eight templates in a Workload of scheduling.k8s.io, eight podsets in one of Kueue's."""
    raw = gang(*(rj(f"w{number}", mode="Gang") for number in range(9)), mode=None)
    projection, _ = read_jobset(raw)
    resolution = resolve(projection, ClusterRules())
    found = check_consistency(raw, projection, resolution, KueueFacts(podset_limit=8))
    reported = [error.detail for error in (*resolution.errors, *found.errors)]
    assert ["a Workload holds at most 8" in reported[0], "Kueue's Workload holds 8 podsets" in reported[1]] == [
        True,
        True,
    ]
    assert len(reported) == 2


@pytest.mark.parametrize(
    ("spec", "reported"),
    [
        pytest.param({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, True, id="in-order"),
        pytest.param({"startupPolicy": {"startupPolicyOrder": "AnyOrder"}}, False, id="any-order"),
    ],
)
def test_an_in_order_startup_with_a_ready_timeout_is_a_warning(spec: Object, reported: bool) -> None:
    found = checked(gang(**spec), pods_ready_seconds=1800)
    assert found.errors == ()
    assert [notice.reason for notice in found.notices] == [Reason.QUEUE_CONFLICT] * reported
    assert all("30 minutes" in notice.message and "waitForPodsReady" in notice.message for notice in found.notices)
    assert checked(gang(**spec)) == CONSISTENT


def test_one_replicated_job_in_order_starts_at_once() -> None:
    alone = gang(rj("w"), startupPolicy={"startupPolicyOrder": "InOrder"})
    assert checked(alone, pods_ready_seconds=1800) == CONSISTENT


def test_dependencies_with_a_ready_timeout_are_a_warning() -> None:
    (notice,) = checked(gang(rj("a"), rj("b", depends_on="a")), pods_ready_seconds=90).notices
    assert "90 seconds" in notice.message


@pytest.mark.parametrize("mode", [None, "Off"])
def test_a_jobset_without_a_gang_is_not_checked(mode: str | None) -> None:
    labels: Object = {QUEUE: "q", INJECTED_LABELS[0]: "x"}
    assert checked(gang(podded(rj("a"), labels=labels), mode=mode), podset_limit=0) == CONSISTENT


def test_a_jobset_without_a_queue_is_not_checked() -> None:
    raw = gang(podded(rj("a"), labels={INJECTED_LABELS[0]: "x"}), rj("b", depends_on="a"))
    del raw["metadata"]["labels"]
    assert checked(raw, podset_limit=1, pods_ready_seconds=1) == CONSISTENT


def test_a_jobset_of_another_controller_is_not_checked() -> None:
    raw = gang(podded(rj("a"), labels={INJECTED_LABELS[0]: "x"}), managedBy="kueue.x-k8s.io/multikueue")
    assert checked(raw, podset_limit=0) == CONSISTENT
    assert checked(gang(managedBy="example.com/other")) == CONSISTENT


def test_with_multikueue_only_the_copy_in_the_worker_cluster_is_a_gang() -> None:
    manager, _ = read_jobset(gang(rj("w", 2, 2, 2), managedBy="kueue.x-k8s.io/multikueue"))
    assert resolve(manager, ClusterRules()).stamps == (None,)
    raw = gang(rj("w", 2, 2, 2))
    raw["metadata"]["labels"] |= {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    assert checked(raw) == CONSISTENT
    copy, _ = read_jobset(raw)
    plan = make_plan(copy, resolve(copy, ClusterRules()).stamps, GangConfig(None, ()))
    assert plan is not None
    assert [group.template.min_count for group in plan.groups] == [4]


def test_the_priority_of_a_group_is_that_of_its_pods_and_not_of_kueue() -> None:
    """A WorkloadPriorityClass orders queues; the scheduler refuses a group whose priority is not its pods'."""
    raw = gang(rj("w", pod={"priorityClassName": "p"}), rj("v", pod={"priorityClassName": "p"}))
    raw["metadata"]["labels"] |= {"kueue.x-k8s.io/priority-class": "w"}
    projection, _ = read_jobset(raw)
    plan = make_plan(projection, resolve(projection, ClusterRules()).stamps, GangConfig(None, ()))
    assert plan is not None
    assert {template.priority_class for template in plan.workload.templates} == {"p"}
    assert {group.template.priority_class for group in plan.groups} == {"p"}
    without, _ = read_jobset(queued(jobset("js", rj("w"), mode="Gang")))
    plain = make_plan(without, resolve(without, ClusterRules()).stamps, GangConfig(None, ()))
    assert plain is not None
    assert [template.priority_class for template in plain.workload.templates] == [""]


def podset_names(raw: Object) -> list[str]:
    """As Kueue names them: one for each ReplicatedJob, in their order."""
    return [entry["name"].lower() for entry in raw["spec"]["replicatedJobs"]]


labels_of_dns = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@PROPERTY
@given(st.lists(labels_of_dns, min_size=1, max_size=8, unique=True), st.sampled_from(["Gang", "ReplicatedGang"]))
def test_templates_have_the_names_of_the_podsets_of_kueue(names: list[str], mode: str) -> None:
    raw = gang(*(rj(name, 2, 2, 2, mode=mode) for name in names), mode=None)
    projection, _ = read_jobset(raw)
    plan = make_plan(projection, resolve(projection, ClusterRules()).stamps, GangConfig(None, ()))
    assert plan is not None
    assert [template.name for template in plan.workload.templates] == podset_names(raw)


@PROPERTY
@given(gangs())
def test_a_gang_with_only_a_queue_is_never_refused(raw: Object) -> None:
    raw["metadata"]["labels"] = {QUEUE: "q"}
    assert checked(raw).errors == ()


@PROPERTY
@given(jobsets(), st.sampled_from(["q", ""]))
def test_a_jobset_without_a_gang_is_never_refused(raw: Object, queue: str) -> None:
    raw["metadata"]["labels"] = {QUEUE: queue}
    projection, _ = read_jobset(raw)
    if not resolve(projection, ClusterRules()).config.asks_for_gangs:
        assert checked(raw, podset_limit=0, pods_ready_seconds=1) == CONSISTENT


def later(raw: Object, change: Callable[[Object], object]) -> Object:
    """The stored JobSet after an update that JobSet and gangctl take; both webhooks are asked as for any update."""
    old = stored(raw)
    new = deepcopy(old)
    change(new)
    assert not validate_update(new, old, {})
    assert check_update(read(old), read(new), NEWEST) == ()
    return new


def found_later(raw: Object, cluster_queue: str = "cq", workload: str = "jobset-js-1") -> list[str]:
    return [error.path for error in check_stored(read(raw), cluster_queue=cluster_queue, workload=workload)]


def suspended(*entries: Object, queue: str | None = "q", **more: Any) -> Object:
    raw = jobset("js", *(entries or (rj("a"), rj("B"))), mode="Gang", uid="u", **{"suspend": True, **more})
    return queued(raw, queue)


def pod_metadata(raw: Object, index: int = 0) -> Object:
    metadata: Object = raw["spec"]["replicatedJobs"][index]["template"]["spec"]["template"].setdefault("metadata", {})
    return metadata


@each("key", [*INJECTED_LABELS, *INJECTED_ANNOTATIONS])
def test_what_kueue_writes_itself_conflicts_also_when_an_update_brings_it(key: str) -> None:
    part = "labels" if key in INJECTED_LABELS else "annotations"

    def write(raw: Object) -> None:
        pod_metadata(raw, 1)[part] = {key: "mine"}

    path = f"{POD.format(1)}.{part}[{key}]"
    assert found_later(later(suspended(), write)) == [path]
    # The other way about: the pod template has it, and the queue comes later.
    unqueued = later(suspended(queue=None), write)
    assert found_later(unqueued) == []
    assert found_later(later(unqueued, lambda raw: raw["metadata"].update(labels={QUEUE: "q"}))) == [path]


def test_what_kueue_will_write_with_the_same_value_conflicts_with_nothing() -> None:
    """As in a JobSet that Kueue could not restore when it stopped it: it starts again with the same values."""
    labels = {
        "kueue.x-k8s.io/podset": "b",
        "kueue.x-k8s.io/local-queue-name": "q",
        "kueue.x-k8s.io/cluster-queue-name": "cq",
    }
    notes = {"kueue.x-k8s.io/workload": "jobset-js-1"}
    raw = later(suspended(), lambda new: pod_metadata(new, 1).update(labels=labels, annotations=notes))
    assert found_later(raw) == []
    assert found_later(raw, "", "") == [], "nothing is said of values that are not known"
    assert found_later(raw, "another") == [f"{POD.format(1)}.labels[kueue.x-k8s.io/cluster-queue-name]"]
    assert found_later(raw, workload="jobset-js-2") == [f"{POD.format(1)}.annotations[kueue.x-k8s.io/workload]"]


@each(
    ("key", "level", "options", "conflicts"),
    [
        (PREFERRED, RACK, {"topologyKey": RACK}, True),
        (REQUIRED, "zone", {"topologyKey": RACK}, True),
        (REQUIRED, RACK, {"topologyKey": RACK}, False),
        (PREFERRED, RACK, None, False),
    ],
)
def test_a_topology_of_kueue_conflicts_also_when_an_update_brings_it(
    key: str, level: str, options: Object | None, conflicts: bool
) -> None:
    raw = suspended(rj("a"), options=json.dumps(options) if options else None)
    changed = later(raw, lambda new: pod_metadata(new).update(annotations={key: level}))
    assert found_later(changed) == [f"{POD.format(0)}.annotations[{key}]"] * conflicts


@each(
    "change",
    [
        pytest.param({"suspend": False}, id="running: Kueue has written it"),
        pytest.param({"managedBy": "kueue.x-k8s.io/multikueue"}, id="elsewhere"),
    ],
)
def test_only_what_waits_here_is_looked_at(change: Object) -> None:
    raw = suspended(podded(rj("a"), labels={INJECTED_LABELS[0]: "mine"}))
    assert found_later(stored(raw))
    raw["spec"] |= change
    assert found_later(stored(raw)) == []


def test_a_stored_jobset_without_a_gang_is_not_looked_at() -> None:
    raw = queued(jobset("js", podded(rj("a"), labels={INJECTED_LABELS[0]: "mine"}), uid="u", suspend=True))
    assert found_later(raw) == []


@each(
    "change",
    [
        pytest.param(
            lambda raw: raw["spec"]["replicatedJobs"][0]["template"]["metadata"].update(labels={QUEUE: "q"}),
            id="a queue on the Jobs",
        ),
        pytest.param(
            lambda raw: raw["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"].update(
                {"kueue.x-k8s.io/job-min-parallelism": "1"}
            ),
            id="partial admission of the Jobs",
        ),
        pytest.param(lambda raw: raw["spec"]["replicatedJobs"].append(rj("c")), id="another podset"),
    ],
)
def test_what_no_update_can_bring_is_not_looked_for(change: Callable[[Object], object]) -> None:
    """JobSet refuses it: the rules for these have no part in what is found later."""
    old = stored(suspended())
    new = deepcopy(old)
    change(new)
    assert validate_update(new, old, {})


def test_what_an_update_can_bring_and_kueue_ignores_is_no_conflict() -> None:
    """Kueue passes over the pods of a JobSet that has a queue, and reads this annotation on Jobs alone."""

    def write(raw: Object) -> None:
        pod_metadata(raw)["labels"] = {QUEUE: "q"}
        raw["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] = "1"

    assert found_later(later(suspended(), write)) == []


def with_queues(raw: Object, places: Iterable[str]) -> Object:
    metadata = raw.get("metadata")
    if isinstance(metadata, dict):
        metadata["labels"] = dict.fromkeys(places, "q")
    return raw


@PROPERTY
@given(hostile_jobsets(), st.none() | st.integers(0, 20))
def test_hostile_objects_are_checked_without_an_error(raw: Object, limit: int | None) -> None:
    found = checked(with_queues(raw, [QUEUE]), podset_limit=limit, pods_ready_seconds=60)
    assert all(error.path and error.detail for error in found.errors)


@PROPERTY
@given(hostile_jobsets(), st.sampled_from(["", "cq"]))
def test_hostile_stored_objects_are_checked_without_an_error(raw: Object, cluster_queue: str) -> None:
    projection, _ = read_jobset(with_queues(raw, [QUEUE]))
    found = check_stored(projection, cluster_queue=cluster_queue, workload="")
    assert all(error.path and error.detail for error in found)


@PROPERTY
@given(gangs())
def test_a_stored_gang_with_only_a_queue_has_no_conflict(raw: Object) -> None:
    raw["metadata"]["labels"] = {QUEUE: "q"}
    raw["spec"]["suspend"] = True
    assert found_later(stored(raw)) == []

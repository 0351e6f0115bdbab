"""Hostile annotations, stamps and gangConfig: the core decides, with safe messages, and always the same."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from gangctl.api.fieldpath import FieldPath
from gangctl.api.jobset import read_jobset
from gangctl.api.meta import KEYS, KeyRole
from gangctl.api.scheduling import Generation
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.errors import FieldError
from gangctl.gang.admission import (
    check_stamped,
    check_update,
    inject_patch,
    read_opted_in,
    reference_of_job,
    repair_patch,
    restamp_patch,
    stamp_patch,
    unstamped,
)
from gangctl.gang.desired import assess
from gangctl.gang.reasons import Notice
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.gang.validate import MAX_JOBS
from tests.hostile.profiles import tries
from tests.hostile.words import ANSI, FORGED_LOG, LONG, is_printed_safely, json_values, words
from tests.jobsets import MODE, OPTIONS, REF, jobset, rj
from tests.rows import each
from tests.steps import steps
from tests.strategies import hostile_jobsets, jobsets

Raw = dict[str, Any]
EVERY = list(Generation)
STAMPED = "job/w/js-w"
WRITTEN = tuple(key.name.replace("/", "~1") for key in KEYS if key.role in {KeyRole.CONFIGURATION, KeyRole.WRITTEN})


def check_messages(messages: list[FieldError | Notice]) -> None:
    """Every message is printable and bounded, and every path can be parsed."""
    for item in messages:
        if isinstance(item, Notice):
            assert is_printed_safely(item.message, 1024)
        else:
            assert is_printed_safely(item.detail, 1024)
            assert is_printed_safely(item.path, 1024)
            FieldPath.parse(item.path)


def decide(raw: Raw, old: Raw, generation: Generation) -> list[Any]:
    """All answers of the admission core to a JobSet, in the order of the requests."""
    made, errors = read_opted_in(raw)
    before, _ = read_jobset(old)
    rules = ClusterRules(generation)
    resolution = resolve(made, rules)
    assessment = assess(made, rules)
    stamped = check_stamped(made, resolution)
    updated = check_update(before, made, generation)
    check_messages([*errors, *resolution.errors, *resolution.notices, *assessment.notices, *stamped, *updated])
    patches = [unstamped(raw, made), restamp_patch(raw, before, made)]
    if made.replicated_jobs and not errors:
        patches.append(stamp_patch(raw, resolution.stamps))
    for operation in (operation for patch in patches for operation in patch):
        assert operation["path"].endswith(("/metadata", "/metadata/annotations", *WRITTEN))
    return [errors, resolution, assessment, stamped, updated, patches]


@st.composite
def written(draw: st.DrawFn) -> Raw:
    """A JobSet that the API server would take, with anything where gangctl's own words belong."""
    raw = draw(jobsets())
    notes = raw["metadata"].setdefault("annotations", {})
    for key in draw(st.sets(st.sampled_from([MODE, OPTIONS, REF]))):
        notes[key] = draw(st.one_of(words, json_values.map(json.dumps)))
    if draw(st.booleans()):
        raw["spec"]["gangConfig"] = draw(json_values)
    for entry in raw["spec"]["replicatedJobs"]:
        if draw(st.booleans()):
            entry["gangConfig"] = draw(st.one_of(json_values, st.fixed_dictionaries({"gangMode": words})))
        key = draw(st.sampled_from([MODE, REF]))
        entry["template"].setdefault("metadata", {}).setdefault("annotations", {})[key] = draw(words)
    return raw


def hostile_pod_template(raw: Raw) -> Raw:
    """The same with a scheduler and a priority class that are no names."""
    for number, entry in enumerate(raw["spec"]["replicatedJobs"]):
        spec = entry["template"]["spec"]["template"]["spec"]
        spec |= {"schedulerName": (ANSI, LONG)[number % 2], "priorityClassName": (FORGED_LOG, LONG)[number % 2]}
    return raw


def deep_options(levels: int) -> Raw:
    return jobset("js", rj("w"), mode="Gang", options="[" * levels)


@given(raw=written(), old=written(), generation=st.sampled_from(EVERY))
@example(deep_options(100_000), deep_options(3), Generation.V1BETA1)
@example(jobset("js", rj("w"), mode=LONG), jobset("js", rj("w"), mode=ANSI), Generation.V1BETA1)
@example(
    jobset("js", rj("w"), mode="Gang", options=json.dumps({"a].b[": 1, ANSI: 2, LONG: 3, "": 4})),
    jobset("js", rj("w"), mode="Gang", options=json.dumps({str(n): n for n in range(5000)})),
    Generation.V1ALPHA2,
)
@example(hostile_pod_template(jobset("js", rj("a"), rj("b"), mode="Gang")), jobset("js"), Generation.V1BETA1)
@example(
    jobset("js", rj(FORGED_LOG), rj("a].["), mode="Gang"), jobset("js", rj(LONG, 0), mode="Gang"), Generation.V1BETA1
)
@tries(80)
def test_hostile_annotations_and_gang_config_are_decided_or_refused(raw: Raw, old: Raw, generation: Generation) -> None:
    before = copy.deepcopy(raw)
    assert decide(raw, old, generation) == decide(copy.deepcopy(raw), copy.deepcopy(old), generation)
    assert repr(raw) == repr(before)


@given(raw=hostile_jobsets(), old=hostile_jobsets(), generation=st.sampled_from(EVERY))
@example({"metadata": {"annotations": {"a].b[c": 1, ANSI: 2}}, "spec": {}}, {}, Generation.V1BETA1)
@tries(80)
def test_any_json_is_decided_or_refused(raw: Raw, old: Raw, generation: Generation) -> None:
    decide(raw, old, generation)


@st.composite
def jobs(draw: st.DrawFn) -> Raw:
    """A JobSet's Job with anything where its identity, its stamp and its pods' group belong."""
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "u", "controller": True}
    keys = ("jobset-name", "jobset-uid", "replicatedjob-name", "job-index")
    labels: Raw = dict(zip((f"jobset.sigs.k8s.io/{key}" for key in keys), ("js", "u", "w", "0"), strict=True))
    raw: Raw = {
        "metadata": {"labels": labels, "annotations": {REF: STAMPED}, "ownerReferences": [owner]},
        "spec": {"template": {"spec": {}}},
    }
    holders = [(owner, list(owner)), (labels, list(labels)), (raw["metadata"]["annotations"], [REF])]
    for _ in range(draw(st.integers(0, 2))):
        holder, names = draw(st.sampled_from(holders))
        holder[draw(st.sampled_from(names))] = draw(json_values)
    raw["metadata"]["ownerReferences"] += draw(st.lists(json_values, max_size=2))
    raw["spec"]["template"]["spec"] |= draw(
        st.dictionaries(st.sampled_from(["schedulingGroup", "workloadRef"]), json_values)
    )
    return raw


@given(job=jobs(), old=jobs())
@tries(80)
def test_hostile_jobs_are_decided_or_refused(job: Raw, old: Raw) -> None:
    reference = reference_of_job(job)
    if isinstance(reference, FieldError):
        check_messages([reference])
    elif reference is not None:
        for generation in EVERY:
            json.dumps(inject_patch(reference, ADAPTERS[generation]))
    # Deep or odd values are no references; what is restored has to be writable.
    for operation in repair_patch(old, job):
        assert all(isinstance(value, str) for value in operation["value"].values())


WIDE = 10_000
SHAPES: dict[str, Callable[[int], list[Raw]]] = {
    "gang": lambda wide: [{"name": f"r{n}"} for n in range(wide)],
    "equal-names": lambda wide: [{"name": "w"}] * wide,
    "no-names": lambda wide: [{}] * wide,
    "unreadable": lambda wide: [{"name": n, "replicas": "x", "template": 3} for n in range(wide)],
    "no-replicas": lambda wide: [{"name": f"r{n}", "replicas": 0} for n in range(wide)],
    "a-chain-outside-of-the-gang": lambda wide: [
        *(
            {"name": f"o{n}", "dependsOn": [{"name": f"o{n - 1}"}], "gangConfig": {"gangMode": "Off"}}
            for n in range(wide // 2)
        ),
        *({"name": f"m{n}", "dependsOn": [{"name": f"o{wide // 2 - 1}"}]} for n in range(wide // 2)),
    ],
}


@each("shape", SHAPES)
def test_work_grows_linearly_with_the_number_of_replicated_jobs(shape: str) -> None:
    """A quadratic rule took eleven seconds for 10,000, longer than an API server waits, with the event loop held."""

    def work(wide: int) -> int:
        raw = jobset("js", *SHAPES[shape](wide), mode="Gang")
        return steps(lambda: decide(raw, raw, Generation.V1BETA1))

    assert work(600) < 2.5 * work(300)


@each("shape", SHAPES)
def test_ten_thousand_replicated_jobs_are_decided(shape: str) -> None:
    raw = jobset("js", *SHAPES[shape](WIDE), mode="Gang")
    decide(raw, raw, Generation.V1BETA1)


def test_replicated_jobs_beyond_the_limit_are_not_read() -> None:
    raw = jobset("js", *[{}] * 1_000_000, mode="Gang")
    _, errors = read_opted_in(raw)
    assert [(error.path, error.detail) for error in errors][:1] == [
        ("spec.replicatedJobs", "1000000 entries, at most 10000 are read")
    ]
    assert steps(lambda: read_opted_in(raw)) < 10_000


def test_a_dependency_list_of_a_million_is_refused() -> None:
    raw = jobset("js", {"name": "a", "dependsOn": [{}] * 1_000_000}, mode="Gang")
    _, errors = read_jobset(raw)
    assert [error.path for error in errors] == ["spec.replicatedJobs[0].dependsOn"]


def test_two_billion_jobs_are_refused_before_they_are_planned() -> None:
    raw = jobset("js", rj("w", 2**31 - 1, mode="ReplicatedGang"))
    resolution = resolve(read_jobset(raw)[0], ClusterRules())
    assert f"at most {MAX_JOBS}" in resolution.errors[0].detail


def test_the_number_of_errors_of_an_object_is_bounded() -> None:
    raw = {"metadata": {"annotations": {f"k{n}": n for n in range(100_000)}}, "spec": {"replicatedJobs": [1] * WIDE}}
    assert len(read_jobset(raw)[1]) == 100

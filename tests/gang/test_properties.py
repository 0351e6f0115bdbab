"""What holds for every JobSet: each pod in one gang, right counts, valid names, no surprises."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import PLACEMENT
from gangctl.api.names import is_dns_label
from gangctl.api.scheduling import Generation, generation_of_minor
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.errors import FieldError
from gangctl.gang.admission import (
    check_stamped,
    check_update,
    read_opted_in,
    reference_of_job,
    repair_patch,
    restamp_patch,
    unstamped,
)
from gangctl.gang.desired import assess
from gangctl.gang.naming import Scope, decode_stamp
from gangctl.gang.plan import GangPlan, build_objects, make_plan
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.sandbox.rules.gangs import validate_group, validate_workload
from tests.cases import CASES
from tests.gang.json_patch import apply
from tests.gang.pipeline import GENERATIONS, assessed, child_job, planned, read, resolved, stored
from tests.jobsets import REF
from tests.strategies import PROPERTY, gangs, gangs_with_classes, hostile_jobsets, hostile_json, jobsets, mangled

Raw = dict[str, Any]


def pods_at_once(entry: Raw) -> int:
    """The counting rule, said a second time: it is the oracle."""
    job = entry["template"]["spec"]
    numbers: list[int | None] = [job.get("parallelism", 1), job.get("completions")]
    return min(number for number in numbers if number is not None)


def some(raw: Raw, generation: Generation) -> GangPlan:
    plan = planned(raw, generation)
    assume(plan is not None)
    assert plan is not None
    return plan


@pytest.mark.parametrize("minor", ["1.35", "1.36", "1.37"])
@given(raw=gangs_with_classes())
@PROPERTY
def test_an_api_server_accepts_the_objects_of_every_plan(raw: Raw, minor: str) -> None:
    generation = generation_of_minor(minor)
    assert generation is not None
    for built in build_objects(some(raw, generation), generation):
        workload = built["kind"] == "Workload"
        causes = validate_workload(built, None, minor) if workload else validate_group(built, None, "", minor)
        assert causes == []


@pytest.mark.parametrize("generation", GENERATIONS)
@given(raw=gangs())
@PROPERTY
def test_every_pod_of_a_gang_is_in_one_group_that_exists_with_its_template(raw: Raw, generation: Generation) -> None:
    plan = some(raw, generation)
    adapter = ADAPTERS[generation]
    workload, *groups = build_objects(plan, generation)
    entries = workload["spec"]["podGroups" if generation is Generation.V1ALPHA1 else "podGroupTemplates"]
    templates = {entry["name"] for entry in entries}
    by_name = {group["metadata"]["name"]: group["spec"] for group in groups}
    stamps = dict(zip((rj.name for rj in plan.jobset.replicated_jobs), plan.stamps, strict=True))
    for job in plan.jobs():
        assert (job.reference is not None) == (stamps[job.replicated_job] is not None)
        if job.reference is None or job.pods == 0:
            continue
        reference = adapter.reference(job.reference)
        if generation is Generation.V1ALPHA1:
            assert reference["name"] == workload["metadata"]["name"]
            assert reference["podGroup"] in templates
            assert ("podGroupReplicaKey" in reference) == (job.reference.replica_key is not None)
        else:
            group = by_name[reference["podGroupName"]]
            named = group.get("workloadRef") or group["podGroupTemplateRef"]["workload"]
            assert named["workloadName"] == workload["metadata"]["name"]
            assert named.get("templateName", named.get("podGroupTemplateName")) in templates


@given(raw=gangs())
@PROPERTY
def test_min_counts_are_the_pods_that_exist_at_once(raw: Raw) -> None:
    plan = some(raw, Generation.V1BETA1)
    pods: Counter[str] = Counter()
    for entry, stamp in zip(raw["spec"]["replicatedJobs"], plan.stamps, strict=True):
        for index in range(entry.get("replicas", 1)):
            reference = next(j for j in plan.jobs() if (j.replicated_job, j.index) == (entry["name"], index)).reference
            assert (reference is None) == (stamp is None)
            if reference is not None:
                pods[reference.group] += pods_at_once(entry)
    assert {group.name: group.template.min_count for group in plan.groups} == {g: n for g, n in pods.items() if n}
    assert all(template.min_count > 0 for template in plan.workload.templates)


@given(raw=gangs())
@PROPERTY
def test_a_group_per_job_is_as_large_as_one_job(raw: Raw) -> None:
    plan = some(raw, Generation.V1BETA1)
    sizes = {t.name: t.min_count for t in plan.workload.templates}
    for entry, stamp in zip(raw["spec"]["replicatedJobs"], plan.stamps, strict=True):
        if stamp is not None and stamp.scope is Scope.JOB:
            assert sizes[stamp.template] == pods_at_once(entry)


@given(raw=gangs())
@PROPERTY
def test_names_are_valid_and_unique(raw: Raw) -> None:
    plan = some(raw, Generation.V1BETA1)
    assert is_dns_label(plan.workload.name)
    group_names = [group.name for group in plan.groups]
    assert [name for name in group_names if not is_dns_label(name)] == []
    assert len({*group_names, plan.workload.name}) == len(group_names) + 1
    templates = [template.name for template in plan.workload.templates]
    assert [name for name in templates if not is_dns_label(name)] == []
    assert len(set(templates)) == len(templates) <= 8
    for job in plan.jobs():
        if job.reference is not None and job.reference.replica_key is not None:
            assert is_dns_label(job.reference.replica_key)


@pytest.mark.parametrize("generation", GENERATIONS)
@given(raw=gangs())
@PROPERTY
def test_a_jobset_with_nothing_in_the_way_is_accepted(raw: Raw, generation: Generation) -> None:
    assert resolved(raw, generation).errors == ()


@given(raw=jobsets())
@PROPERTY
def test_a_requested_gang_is_planned_or_refused_with_a_reason(raw: Raw) -> None:
    resolution = resolved(raw)
    assume(not resolution.errors and not raw["spec"].get("managedBy"))
    said = " ".join(n.message for n in resolution.notices)
    config = resolution.config
    for entry, mode, stamp in zip(
        raw["spec"]["replicatedJobs"], config.replicated_jobs, resolution.stamps, strict=True
    ):
        asked = mode not in {None, "Off"} or (mode is None and config.jobset == "Gang")
        assert asked or stamp is None
        if asked and stamp is None:
            assert f'"{entry["name"]}"' in said or "spec.scheduling" in said


@given(raw=hostile_jobsets(), other=hostile_jobsets())
@PROPERTY
def test_no_json_makes_anything_raise(raw: Raw, other: Raw) -> None:
    jobset, _ = read_opted_in(raw)
    before, _ = read_jobset(other)
    unstamped(raw, jobset)
    restamp_patch(raw, before, jobset)
    for generation in GENERATIONS:
        rules = ClusterRules(generation)
        resolution = resolve(jobset, rules)
        assert not (resolution.errors and any(resolution.stamps))
        plans = [make_plan(jobset, resolution.stamps, resolution.config), assess(jobset, rules).plan]
        for plan in plans:
            json.dumps(build_objects(plan, generation) if plan is not None else [])
        check_stamped(jobset, resolution)
        check_update(before, jobset, generation)


@given(job=mangled(gangs().filter(lambda raw: raw["spec"]["replicatedJobs"]).map(lambda raw: child_job(raw, 0, 0))))
@PROPERTY
def test_no_job_makes_the_job_webhook_raise(job: Raw) -> None:
    reference_of_job(job)
    repair_patch(job, {})
    repair_patch({}, job)


@given(value=hostile_json)
@PROPERTY
def test_no_text_is_a_stamp_by_accident(value: Any) -> None:
    text = value if isinstance(value, str) else repr(value)[:99] if not isinstance(value, int) else "1"
    stamp = decode_stamp(text)
    assert stamp is None or decode_stamp(stamp.encode()) == stamp


@given(raw=jobsets())
@PROPERTY
def test_stamps_read_back_as_what_was_decided(raw: Raw) -> None:
    resolution = resolved(raw)
    assert [decode_stamp(stamp.encode()) for stamp in resolution.stamps if stamp] == [s for s in resolution.stamps if s]
    after = stored(raw)
    assert check_stamped(read(after), resolution) == ()
    texts = [e["template"]["metadata"]["annotations"].get(REF) for e in after["spec"]["replicatedJobs"]]
    assert [text is not None for text in texts] == [stamp is not None for stamp in resolution.stamps]


@given(raw=gangs())
@PROPERTY
def test_the_controller_plans_from_stamps_what_the_webhook_decided(raw: Raw) -> None:
    plan = planned(raw)
    seen = assessed(stored(raw)).plan
    assert (plan is None) == (seen is None)
    if plan is not None and seen is not None:
        assert (seen.workload, seen.groups, seen.stamps) == (plan.workload, plan.groups, plan.stamps)
        assert list(seen.jobs()) == list(plan.jobs())


@given(raw=gangs())
@PROPERTY
def test_a_job_finds_the_plans_group_in_its_own_metadata(raw: Raw) -> None:
    plan = planned(raw)
    after = stored(raw)
    references = {(j.replicated_job, j.index): j.reference for j in plan.jobs()} if plan is not None else {}
    for position, entry in enumerate(after["spec"]["replicatedJobs"]):
        for index in range(entry.get("replicas", 1)):
            reference = reference_of_job(child_job(after, position, index))
            assert not isinstance(reference, FieldError)
            assert reference == references.get((entry["name"], index))


@given(raw=gangs())
@PROPERTY
def test_an_update_that_lost_the_stamps_gets_them_back(raw: Raw) -> None:
    before = stored(raw)
    assert apply(raw, restamp_patch(raw, read(before), read(raw))) == before
    bare = copy.deepcopy(before)
    for owner in (bare, *(entry["template"] for entry in bare["spec"]["replicatedJobs"])):
        kept = {key: text for key, text in owner["metadata"].get("annotations", {}).items() if key in PLACEMENT}
        owner["metadata"] = {**owner["metadata"], "annotations": kept}
    restored = apply(bare, restamp_patch(bare, read(before), read(bare)))
    assert check_update(read(before), read(restored), Generation.V1ALPHA2) == ()
    assert restamp_patch(before, read(before), read(before)) == []
    assert check_update(read(before), read(before), Generation.V1ALPHA2) == ()


@given(raw=jobsets())
@PROPERTY
def test_the_order_of_keys_makes_no_difference(raw: Raw) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shuffled(value[key]) for key in reversed(value)}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    assert rendered(shuffled(raw)) == rendered(raw)


def rendered(raw: Raw) -> str:
    """Everything that the pure core says about a JobSet, as text."""
    texts = []
    for generation in GENERATIONS:
        resolution = resolved(raw, generation)
        jobset = read(raw)
        plan = make_plan(jobset, resolution.stamps, resolution.config)
        references = [j.reference and ADAPTERS[generation].reference(j.reference) for j in plan.jobs()] if plan else []
        objects = build_objects(plan, generation) if plan else []
        texts.append(json.dumps([objects, references, [str(e) for e in resolution.errors], repr(resolution.notices)]))
    return "\n".join(texts)


def test_another_hash_seed_gives_the_same_names() -> None:
    script = (
        "import json, sys; from tests.gang.test_properties import rendered\n"
        "for raw in json.load(sys.stdin): print(rendered(raw))"
    )
    raws = [case.jobset for case in CASES]
    root = Path(__file__).parents[2]
    for seed in ("1", "4242"):
        answer = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps(raws),
            capture_output=True,
            text=True,
            check=True,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert answer.stdout == "".join(f"{rendered(raw)}\n" for raw in raws)

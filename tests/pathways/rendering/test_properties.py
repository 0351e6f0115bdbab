"""What holds for every rendering."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.emit import to_yaml
from gangctl.api.fieldpath import FieldPath
from gangctl.api.meta import NODE_SELECTOR_STRATEGY
from gangctl.gang.config import GangMode
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Profile, Rendering, RenderingInputs
from tests.gang.pipeline import GENERATIONS, planned, resolved
from tests.pathways.strategies import PROPERTY, pathways_jobs
from tests.pathways.views import all_containers, environment, job_template, notes_on, pod, read

Object = dict[str, Any]

EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
SETTINGS: Final = st.builds(RenderingInputs, st.sampled_from(Profile), st.booleans(), st.booleans())
JOBSETS: Final = ("pathways-head", "worker")
DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def leaves(value: Any, path: FieldPath) -> list[str]:
    """Paths of whatever holds nothing else."""
    if isinstance(value, dict) and value:
        return [each for key, below in value.items() for each in leaves(below, path.child(key))]
    if isinstance(value, list) and value:
        return [each for index, below in enumerate(value) for each in leaves(below, path.index(index))]
    return [str(path)]


def expected_groups(job: PathwaysJob, setting: RenderingInputs) -> list[int]:
    """The gangs that the rules promise, by how many pods each waits for."""
    slices = {
        GangMode.OFF: [],
        GangMode.GANG: [job.vms],
        GangMode.REPLICATED_GANG: [job.slice.vms] * job.slices,
    }
    if not setting.gangs:
        return []
    if job.gang_mode is GangMode.GANG:
        return [1 + job.vms]
    if job.worker_mode is not None:
        return slices[job.worker_mode]
    by_kueue = (job.options.slicing or "None") != "None" or any("podset-" in key for key in job.annotations)
    if job.gang_mode is GangMode.OFF or setting.profile is Profile.XPK or by_kueue:
        return []
    if job.colocated:
        return [] if job.elastic_slices else [1 + job.vms]
    options = json.loads(job.annotations.get("gangctl.dev/gang-options", "{}"))
    apart = job.elastic_slices or job.labels.get("kueue.x-k8s.io/queue-name") or "topologyKey" in options
    return slices[GangMode.GANG if job.slices > 1 and not apart else GangMode.REPLICATED_GANG]


@PROPERTY
@given(pathways_jobs(), SETTINGS)
def test_rendering_is_deterministic_and_does_not_change_its_input(raw: Object, setting: RenderingInputs) -> None:
    job, untouched = read(raw), read(copy.deepcopy(raw))
    first, second = render(job, setting), render(job, setting)
    assert to_yaml([first.jobset]) == to_yaml([second.jobset])
    assert first == second
    assert job == untouched


@PROPERTY
@given(pathways_jobs(), SETTINGS)
def test_a_change_of_a_rendering_does_not_change_the_job(raw: Object, setting: RenderingInputs) -> None:
    job = read(raw)
    before = copy.deepcopy(job)
    _spoil(dict(render(job, setting).jobset))
    assert job == before
    assert render(job, setting) == render(before, setting)


def _spoil(value: Any) -> None:
    if isinstance(value, dict):
        for below in list(value.values()):
            _spoil(below)
        value["spoilt"] = True
    elif isinstance(value, list):
        for below in list(value):
            _spoil(below)
        value.append("spoilt")


@PROPERTY
@given(pathways_jobs(), SETTINGS)
def test_a_rendering_is_plain_json_and_every_leaf_has_an_origin(raw: Object, setting: RenderingInputs) -> None:
    rendering = render(read(raw), setting)
    assert json.loads(json.dumps(rendering.jobset)) == rendering.jobset
    assert sorted(rendering.origins) == sorted(leaves(rendering.jobset, FieldPath()))
    assert all(each.place for each in rendering.origins.values())


@PROPERTY
@given(pathways_jobs(), SETTINGS)
def test_the_gangs_of_a_rendering_are_those_of_the_rules(raw: Object, setting: RenderingInputs) -> None:
    job = read(raw)
    for generation in GENERATIONS:
        setting = replace(setting, topology=generation.capabilities.constraints)
        jobset = dict(render(job, setting).jobset)
        assert resolved(jobset, generation).errors == ()
        plan = planned(jobset, generation)
        found = [] if plan is None else [each.reference for each in plan.jobs() if each.reference is not None]
        expected = expected_groups(job, setting)
        assert len(set(found)) == len(expected)
        templates = [] if plan is None else [each.min_count for each in plan.workload.templates]
        assert templates == sorted(set(expected))


@PROPERTY
@given(pathways_jobs(), SETTINGS)
def test_exclusive_placement_never_meets_a_gang_of_several_pods(raw: Object, setting: RenderingInputs) -> None:
    job = read(raw)
    jobset = dict(render(job, setting).jobset)
    assert EXCLUSIVE not in notes_on(jobset)
    notes = notes_on(job_template(jobset, "worker"))
    placed = EXCLUSIVE in notes
    assert not (placed and expected_groups(job, setting) and job.slice.vms > 1 and NODE_SELECTOR_STRATEGY not in notes)
    assert not (placed and job.colocated)


@PROPERTY
@given(pathways_jobs(), SETTINGS)
def test_a_colocated_head_never_waits_alone(raw: Object, setting: RenderingInputs) -> None:
    job = read(raw)
    spec = render(job, setting).jobset["spec"]
    waits = spec.get("startupPolicy", {}).get("startupPolicyOrder") != "AnyOrder"
    assert not (waits and (job.colocated or job.gang_mode is GangMode.GANG))
    assert ("startupPolicy" in spec) is not any("dependsOn" in each for each in spec["replicatedJobs"])


@PROPERTY
@given(pathways_jobs(), SETTINGS)
def test_names_are_unique_and_within_the_limits(raw: Object, setting: RenderingInputs) -> None:
    rendering = render(read(raw), setting)
    for name in JOBSETS:
        spec = pod(rendering.jobset, name)
        containers = list(all_containers(spec))
        assert len({each["name"] for each in containers}) == len(containers)
        for each in containers:
            environment(each)
        volumes = [each["name"] for each in spec.get("volumes", [])]
        assert len(set(volumes)) == len(volumes)
        mounted = {mount["name"] for each in containers for mount in each.get("volumeMounts", [])}
        assert mounted <= set(volumes)
    assert all(len(each) <= 63 and DNS_1035.fullmatch(each) for each in _pod_names(rendering))
    name = rendering.jobset["metadata"]["name"]
    subdomain = rendering.jobset["spec"]["network"].get("subdomain", name)
    assert len(f"{name}-pathways-head-0-0.{subdomain}") <= 63


def _pod_names(rendering: Rendering) -> list[str]:
    """The longest ones of each ReplicatedJob."""
    name = rendering.jobset["metadata"]["name"]
    return [
        f"{name}-{each['name']}-{each['replicas'] - 1}-{each['template']['spec']['parallelism'] - 1}-abcde"
        for each in rendering.jobset["spec"]["replicatedJobs"]
    ]


@PROPERTY
@given(pathways_jobs(), SETTINGS)
def test_the_head_has_no_requirements_of_the_nodes_of_the_workers(raw: Object, setting: RenderingInputs) -> None:
    head = render(read(raw), setting).jobset["spec"]["replicatedJobs"][0]
    text = json.dumps(head)
    assert "kueue.x-k8s.io/" not in text
    assert "gangctl.dev/gang" not in text
    assert "gke-tpu-slice-topology" not in text

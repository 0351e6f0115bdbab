"""What PathwaysJobs become is taken by the real API server and JobSet's webhooks, and starts on pools like GKE's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gangctl.api.meta import QUEUE_NAME
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.result import Profile
from gangctl.pathways.words import is_pathways_job
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.kubelet import JOBSET_NAME, Kubelet
from tests.live.cluster import JOBSETS, Cluster
from tests.live.pathways_ground import Ground, alone, open_ground, readable, rendered
from tests.pathways.samples import annotated, component, container, pathways_job, template

pytestmark = [pytest.mark.controlplane]

EXAMPLES: Final = sorted((Path(__file__).parents[2] / "examples" / "pathways").glob("*.yaml"))
PRIORITY: Final = "training"
ACCOUNT: Final = "trainer"
"""What the examples expect to be there."""

WORKER_TYPES: Final = (
    ("v4", "ct4p-hightpu-4t", "2x2x2"),
    ("v5e", "ct5lp-hightpu-4t", "2x4"),
    ("v6e", "ct6e-standard-4t", "4x4"),
    ("largest", "tpu7x-standard-4t", "16x24x24"),
)
COLOCATED: Final = {"deploymentMode": "colocate_head_with_workers"}


def example(path: Path) -> Object:
    """The PathwaysJob in a file."""
    (found,) = [each for each in yaml.safe_load_all(path.read_text()) if is_pathways_job(each)]
    return dict(found)


def valid() -> dict[str, Object]:
    """PathwaysJobs that nothing is wrong with, by what is special about them."""
    parts = [component(kind, customFlags=["--v=1"]) for kind in ("pathways_server", "worker", "proxy_server")]
    variable = {"name": "JAX_PLATFORMS", "value": "cpu"}
    return {
        **{path.stem: example(path) for path in EXAMPLES},
        **{f"type-{name}": pathways_job(workers={"type": t, "topology": o}) for name, t, o in WORKER_TYPES},
        "base": pathways_job(),
        "off": pathways_job(metadata=annotated(gang_mode="Off")),
        "headless": pathways_job(headless=True),
        "init": pathways_job(controller={"template": template(initContainers=[container("fetch")])}),
        "two-containers": pathways_job(controller={"template": template(container(), container("log"))}),
        "own-environment": pathways_job(controller={"template": template(container(env=[variable]))}),
        "elastic": pathways_job(workers={"maxSliceRestarts": 4}, controller={"elasticSlices": 1}),
        "images": pathways_job(pathwaysVersion="v9", customComponents=[component("worker", image="x:y")]),
        "flags": pathways_job(controller={"enableMetricsCollection": True}, customComponents=parts),
        "sidecar": pathways_job(customComponents=[component("colocated_python_sidecar", image="side:1")]),
        "queue": pathways_job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}),
        "longest-name": pathways_job("a" * 22),
        "short-subdomain": pathways_job("a" * 30, metadata=annotated(pathways_options='{"subdomain": "auto"}')),
        "depends-on": pathways_job(metadata=annotated(pathways_options='{"startup": "DependsOn"}')),
        "one-vm": pathways_job(workers={"topology": "2x2x1"}),
        "all-slices": pathways_job(metadata=annotated(pathways_worker_mode="Gang")),
        "everything": pathways_job(metadata=annotated(gang_mode="Gang")),
        "colocated": pathways_job(controller=COLOCATED),
        "colocated-headless": pathways_job(headless=True, controller=COLOCATED),
        "dynamic": pathways_job(
            workers={"type": "tpu7x-standard-4t", "topology": "4x4x4"},
            metadata=annotated(pathways_options='{"slicing": "Dynamic"}'),
        ),
        "priority": pathways_job(workers={"priorityClassName": PRIORITY}),
    }


async def _told(cluster: Cluster, path: str, body: Mapping[str, Any]) -> list[str]:
    """Warnings of a create that is not stored; anything but success fails."""
    answer = await cluster.api.exchange(
        "POST",
        path,
        data=json.dumps(body),
        parameters={"dryRun": "All", "fieldValidation": "Strict"},
        headers={"Content-Type": "application/json"},
    )
    assert answer.status == 201, answer.text
    return answer.headers.getall("Warning", [])


@pytest.fixture
async def furnished(cluster: Cluster) -> Cluster:
    """What pods of the examples name has been made."""
    account = {"metadata": {"name": ACCOUNT}}
    await cluster.api.create(cluster.path("v1", "serviceaccounts"), account)
    await _made(cluster, {"metadata": {"name": PRIORITY}, "value": 1000})
    return cluster


async def _made(cluster: Cluster, priority: Object) -> None:
    """Priority classes are the whole plane's, and stay."""
    try:
        await cluster.api.create(path_of("scheduling.k8s.io/v1", "priorityclasses"), priority)
    except ApiFailure as failure:
        if failure.reason != "AlreadyExists":
            raise


@pytest.mark.parametrize("profile", list(Profile))
async def test_every_rendering_is_accepted_without_a_warning(furnished: Cluster, profile: Profile) -> None:
    """JobSet looks at pod templates only in part: the Jobs that it would make of them are looked at, too."""
    reported: dict[str, list[str]] = {}
    for name, raw in valid().items():
        body = rendered(furnished, raw, profile)
        body["metadata"] = {**body["metadata"], "namespace": furnished.namespace}
        found = await _told(furnished, furnished.path(JOBSETS, "jobsets"), body)
        for each in body["spec"]["replicatedJobs"]:
            job = {"metadata": {"name": each["name"]}, "spec": each["template"]["spec"]}
            found += await _told(furnished, furnished.path("batch/v1", "jobs"), job)
        reported[name] = found
    assert {name: found for name, found in reported.items() if found} == {}


async def test_every_example_starts_as_a_gang(furnished: Cluster) -> None:
    """All at once, on as many pools of their kinds as they have slices."""
    examples = [example(path) for path in EXAMPLES]
    jobs = [readable(raw) for raw in examples]
    async with open_ground(furnished) as ground, Kubelet(furnished.api):
        await _furnish(ground, examples)
        for raw in examples:
            await furnished.create_jobset(rendered(furnished, raw))
        everybody = [await ground.started(job) for job in jobs]
        for job, standing in zip(jobs, everybody, strict=True):
            ground.look_at(job, standing)
        alone(ground, everybody)
        assert await _gangs(furnished) == {job.name: _expected(job) for job in jobs}


async def _furnish(ground: Ground, examples: Iterable[Object]) -> None:
    """The nodes that the renderings ask for, and no TPU more.

    Every node for heads has what any of the heads selects: most of them select nothing, and one of those would take the
    only node that another may run on.
    """
    selected: dict[str, str] = {}
    apart = 0
    for raw in examples:
        job = readable(raw)
        head, workers = (
            each["template"]["spec"]["template"]["spec"].get("nodeSelector") or {}
            for each in rendered(ground.cluster, raw)["spec"]["replicatedJobs"]
        )
        for _ in range(job.slices):
            await ground.slice_pool(job.slice, workers)
        if not job.colocated:
            assert selected.items() <= {**selected, **head}.items(), f"{job.name}: no node has both labels: {head}"
            selected |= head
            apart += 1
    await ground.head_pool(apart, selected)


def _expected(job: PathwaysJob) -> list[int]:
    """Pods of each of its gangs: all of it, all slices, or one slice each."""
    if job.colocated:
        return [1 + job.vms]
    at_once = job.worker_mode or not (job.elastic_slices or QUEUE_NAME in job.labels)
    return [job.vms] if at_once else [job.slice.vms] * job.slices


async def _gangs(cluster: Cluster) -> dict[str, list[int]]:
    """minCount of the gangs that pods name, by JobSet."""
    found: dict[str, dict[str, int]] = {}
    gangs, jobs = await cluster.gangs(), await cluster.jobs()
    for job, reference in gangs.references.items():
        name = jobs[job]["metadata"]["labels"][JOBSET_NAME]
        if reference is None:
            continue
        if cluster.has_groups:
            key, count = reference["podGroupName"], gangs.group_min_count(reference["podGroupName"])
        else:
            key = json.dumps(reference, sort_keys=True)
            count = gangs.min_counts(reference["name"])[reference["podGroup"]]
        found.setdefault(name, {})[key] = count
    return {name: sorted(counts.values()) for name, counts in found.items()}

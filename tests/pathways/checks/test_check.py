"""The rules for a PathwaysJob: values just within the limits, notices, and names of flags and fields in errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.gang.config import GangMode
from gangctl.gang.reasons import Reason
from gangctl.pathways.checks import check
from gangctl.pathways.job import GangLevels, PathwaysJob, gangs, startup
from gangctl.pathways.options import PathwaysOptions, Startup
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.result import Origin, OriginKind
from tests.pathways.refused.case import COLOCATED, EXCLUSIVE, options, ports, user
from tests.pathways.samples import Object, annotated, component, container, pathways_job, template
from tests.rows import each

POOL = "cloud.google.com/gke-nodepool"
TAS = "kueue.x-k8s.io/podset-required-topology"
TOGETHER = GangLevels(GangMode.GANG, GangMode.OFF)
EACH_SLICE = GangLevels(GangMode.OFF, GangMode.REPLICATED_GANG)
ALL_WORKERS = GangLevels(GangMode.OFF, GangMode.GANG)
NONE = GangLevels(GangMode.OFF, GangMode.OFF)


def read(value: Object) -> PathwaysJob:
    reading = read_pathways_job(value)
    assert reading.problems == ()
    assert reading.job is not None
    return reading.job


@each(
    "value",
    [
        pathways_job(workers={"numSlices": 1}),
        pathways_job(workers={"numSlices": 49_999}),
        pathways_job(controller={"elasticSlices": 1}),
        pathways_job(workers={"terminationGracePeriodSeconds": 0, "maxSliceRestarts": 0}),
        user(ports({"containerPort": 29001, "protocol": "UDP"})),
        user(ports({"containerPort": 29005})),
        user(ports({"containerPort": 9000, "hostPort": 9000}, {"containerPort": 9000, "protocol": "UDP"})),
        user(initContainers=[ports({"containerPort": 9000}, name="a"), ports({"containerPort": 9000}, name="b")]),
        user(container(resources={"requests": {"cpu": "1500m"}, "limits": {"cpu": "1.5"}})),
        user(container(resources={"limits": {"google.com/tpu": 4}})),
        user(container(resources={"requests": {"cpu": "2"}}), resources={"requests": {"cpu": "26"}}),
        user(resources={"limits": {"memory": "132G"}, "requests": {"cpu": "24"}}),
        user(schedulingGroup={"podGroupName": "mine"}),
        user(priorityClassName="high"),
        user(mode=COLOCATED, priorityClassName="high"),
        user(schedulerName="mine"),
        pathways_job(
            controller={"deploymentMode": COLOCATED, "template": template(priorityClassName="high")},
            workers={"priorityClassName": "high"},
        ),
        pathways_job(customComponents=[component("colocated_python_sidecar")]),
        pathways_job(customComponents=[component("worker", image="localhost:5000/a/b_c:v1.2@sha256:" + "a" * 64)]),
        pathways_job(pathwaysVersion="2026-01-01.1_rc"),
        options('{"slicing": "Sub"}', workers={"type": "ct6e-standard-4t", "topology": "2x4"}),
        options('{"slicing": "Super"}', workers={"type": "tpu7x-standard-4t", "topology": "4x4x8"}),
        options('{"slicing": "Dynamic"}', workers={"type": "tpu7x-standard-4t", "topology": "4x4x4"}),
        options('{"startup": "InOrder"}'),
        options('{"startup": "AnyOrder"}', controller={"deploymentMode": COLOCATED}),
        pathways_job(metadata=annotated(gang_mode="Gang", pathways_options='{"startup": "AnyOrder"}')),
        pathways_job(metadata=annotated(pathways_worker_mode="Gang", gang_options='{"topologyKey": "zone"}')),
        pathways_job(metadata=annotated(gang_options=f'{{"topologyKey": "{POOL}"}}')),
        pathways_job(
            metadata=annotated(pathways_worker_mode="Gang", gang_options=f'{{"topologyKey": "{POOL}"}}'),
            workers={"numSlices": 1},
        ),
        pathways_job(metadata={"annotations": {EXCLUSIVE: POOL, "gangctl.dev/gang-mode": "Off"}}),
        pathways_job(
            metadata={"annotations": {EXCLUSIVE: POOL, "alpha.jobset.sigs.k8s.io/node-selector": "true"}},
        ),
        pathways_job(metadata=annotated(pathways_worker_mode="ReplicatedGang"), controller={"elasticSlices": 1}),
        options('{"headResources": {"proxy": {"requests": {"cpu": "8"}}}, "headNodeSelector": {"pool": "cpu"}}'),
    ],
)
def test_values_just_within_the_limits_pass(value: Object) -> None:
    assert read_pathways_job(value).problems == ()


@each(
    ("value", "reason", "says"),
    [
        (pathways_job(pathwaysDir=None), Reason.DIRECTORY_MISSING, "spec.pathwaysDir should be a directory"),
        (pathways_job(pathwaysDir="/tmp/a"), Reason.DIRECTORY_MISSING, 'got "/tmp/a"'),
        (pathways_job(pathwaysDir="gs://"), Reason.DIRECTORY_MISSING, "gs://BUCKET/DIRECTORY"),
        (pathways_job(workers={"maxSliceRestarts": 9}), Reason.NO_EFFECT, "counts only with spec.controller.elasticSl"),
        (
            pathways_job(workers={"maxSliceRestarts": 0}, controller={"elasticSlices": 1}),
            Reason.NO_EFFECT,
            "restarted 4 times",
        ),
        (pathways_job(headless=True, controller={"mainContainerName": "x"}), Reason.NO_EFFECT, "there is no template"),
        (
            pathways_job(workers={"nodeSelector": {"cloud.google.com/gke-tpu-topology": "4x4x4"}}),
            Reason.NO_EFFECT,
            "type and topology make it 2x2x2",
        ),
        (pathways_job(customComponents=[component("worker")]), Reason.NO_EFFECT, "changes nothing about the worker"),
        (
            pathways_job(
                controller={"template": template(metadata={"name": "n", "labels": {}, "finalizers": ["a/b"]})}
            ),
            Reason.NO_EFFECT,
            "spec.controller.template.metadata: of it only labels and annotations are used, not finalizers, name",
        ),
    ],
)
def test_warnings_are_reported(value: Object, reason: Reason, says: str) -> None:
    reading = read_pathways_job(value)
    assert reading.job is not None
    (notice,) = reading.notices
    assert notice.reason is reason
    assert says in notice.message


def test_a_plain_job_has_no_notices() -> None:
    selector = {"cloud.google.com/gke-tpu-topology": "2x2x2", "pool": "a"}
    value = pathways_job(workers={"nodeSelector": selector, "maxSliceRestarts": 4}, controller={"elasticSlices": 1})
    assert read_pathways_job(value).notices == ()


@pytest.mark.parametrize("directory", ["", "s3://a/b", "gs:// a"])
def test_flags_need_a_directory(directory: str) -> None:
    source = Origin(OriginKind.FLAG, "--pathways-dir")
    job = replace(read(pathways_job()), pathways_dir=directory, sources={"spec.pathwaysDir": source})
    (problem,), notices = check(job)
    assert (problem.reason, problem.error.path) == (InvalidReason.INVALID_DIRECTORY, "--pathways-dir")
    assert "gs://BUCKET/DIRECTORY" in problem.error.detail
    assert notices == ()


@each(
    ("path", "flag", "change"),
    [
        ("spec.workers[0].numSlices", "--num-slices", {"slices": 0}),
        ("spec.controller.elasticSlices", "--elastic-slices", {"elastic_slices": 2}),
        ("spec.workers[0]", "--accelerator", {"max_slice_restarts": -1}),
        ("metadata.name", "NAME", {"name": "p" * 23}),
        ("metadata.annotations[gangctl.dev/pathways-options].subdomain", "--subdomain", {"options": "A"}),
    ],
)
def test_a_problem_of_a_flag_names_the_flag(path: str, flag: str, change: dict[str, Any]) -> None:
    if "options" in change:
        change = {"options": PathwaysOptions(subdomain=change["options"])}
    job = replace(read(pathways_job()), sources={path: Origin(OriginKind.FLAG, flag)}, **change)
    (problem,), _ = check(job)
    assert problem.error.path == flag


@each(
    ("value", "expected", "order"),
    [
        (pathways_job(), ALL_WORKERS, Startup.IN_ORDER),
        (pathways_job(headless=True), ALL_WORKERS, Startup.IN_ORDER),
        (pathways_job(workers={"numSlices": 1}), EACH_SLICE, Startup.IN_ORDER),
        (pathways_job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}), EACH_SLICE, Startup.IN_ORDER),
        (pathways_job(metadata=annotated(gang_options='{"topologyKey": "zone"}')), EACH_SLICE, Startup.IN_ORDER),
        (pathways_job(controller={"elasticSlices": 1}), EACH_SLICE, Startup.IN_ORDER),
        (pathways_job(controller={"deploymentMode": COLOCATED}), TOGETHER, Startup.ANY_ORDER),
        (pathways_job(controller={"deploymentMode": COLOCATED, "elasticSlices": 1}), NONE, Startup.ANY_ORDER),
        (pathways_job(metadata=annotated(gang_mode="Gang")), TOGETHER, Startup.ANY_ORDER),
        (pathways_job(metadata=annotated(gang_mode="Off")), NONE, Startup.IN_ORDER),
        (pathways_job(metadata=annotated(pathways_worker_mode="Gang")), ALL_WORKERS, Startup.IN_ORDER),
        (pathways_job(metadata=annotated(pathways_worker_mode="Off")), NONE, Startup.IN_ORDER),
        (
            pathways_job(metadata=annotated(gang_mode="Off", pathways_worker_mode="ReplicatedGang")),
            EACH_SLICE,
            Startup.IN_ORDER,
        ),
        (options('{"slicing": "Dynamic"}'), NONE, Startup.IN_ORDER),
        (options('{"slicing": "None"}'), ALL_WORKERS, Startup.IN_ORDER),
        (
            pathways_job(metadata={"annotations": {"kueue.x-k8s.io/podset-required-topology": "x"}}),
            NONE,
            Startup.IN_ORDER,
        ),
        (
            pathways_job(
                metadata=annotated(pathways_worker_mode="ReplicatedGang", pathways_options='{"slicing": "Dynamic"}')
            ),
            EACH_SLICE,
            Startup.IN_ORDER,
        ),
        (options('{"startup": "DependsOn"}'), ALL_WORKERS, Startup.DEPENDS_ON),
    ],
)
def test_gangs_are_the_requested_or_the_default_ones(value: Object, expected: GangLevels, order: Startup) -> None:
    job = read(value)
    assert gangs(job) == expected
    assert gangs(job).any is (expected != NONE)
    assert startup(job) is order

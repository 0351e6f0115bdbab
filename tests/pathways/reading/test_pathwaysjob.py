"""Reading PathwaysJobs: the result, and the errors of invalid ones."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangctl.gang.config import GangMode
from gangctl.gang.reasons import Reason
from gangctl.pathways.job import ComponentType, DeploymentMode, PathwaysJob, longest_pod, subdomain
from gangctl.pathways.options import PathwaysOptions, Startup
from gangctl.pathways.problems import MOST_PROBLEMS, InvalidReason
from gangctl.pathways.reading import Reading, read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Origin, OriginKind, RenderingInputs
from gangctl.pathways.words import is_pathways_job
from tests.pathways.refused import REFUSED
from tests.pathways.refused.case import COLOCATED, Refused, user
from tests.pathways.samples import Object, annotated, component, container, pathways_job, template
from tests.rows import each

_NO_TMP = '{"sharedTmp": false}'


def read(value: Object, **how: Any) -> PathwaysJob:
    """A job that nothing is wrong with."""
    reading = read_pathways_job(value, **how)
    assert reading.problems == ()
    assert reading.job is not None
    return reading.job


@each("case", REFUSED, ids=str)
def test_an_error_is_reported_once_with_place_and_allowed_values(case: Refused) -> None:
    before = copy.deepcopy(case.value)
    reading = read_pathways_job(case.value)
    assert reading.job is None
    assert reading.notices == ()
    (problem,) = reading.problems
    assert problem.reason is case.reason
    assert problem.error.path == case.path
    assert case.says in problem.error.detail
    assert case.value == before


def test_every_reason_of_reading_has_a_case() -> None:
    elsewhere = {InvalidReason.INVALID_DIRECTORY, InvalidReason.INVALID_JOBSET}
    assert {case.reason for case in REFUSED} == set(InvalidReason) - elsewhere


def test_fields_that_are_left_out_have_the_defaults_of_the_api() -> None:
    job = read(pathways_job(headless=True, pathwaysDir=None))
    assert (job.name, job.namespace, job.slices, job.vms) == ("pw", "t", 2, 4)
    assert job.slice.instance_type == "tpuv5:2x2x2"
    assert (job.mode, job.main_container, job.metrics) == (DeploymentMode.DEFAULT, "main", False)
    assert (job.max_restarts, job.max_slice_restarts, job.elastic_slices) == (0, 1, 0)
    assert (job.template, job.worker_grace_seconds, job.worker_priority_class) == (None, None, "")
    assert (job.gang_mode, job.worker_mode, job.options) == (None, None, PathwaysOptions())


def test_a_default_has_no_origin_in_the_file() -> None:
    job = read(pathways_job(pathwaysDir=None, workers={"maxSliceRestarts": None}))
    for path in ("spec.maxRestarts", "spec.pathwaysDir", "spec.workers[0].maxSliceRestarts"):
        assert job.origin(path) == Origin(OriginKind.DEFAULT, path)
    job = read(pathways_job(maxRestarts=0, pathwaysDir="", workers={"maxSliceRestarts": 1}))
    for path in ("spec.maxRestarts", "spec.pathwaysDir", "spec.workers[0].maxSliceRestarts"):
        assert job.origin(path) == Origin(OriginKind.FIELD, path)


def test_every_field_is_read() -> None:
    value = pathways_job(
        metadata={
            "uid": "u",
            "labels": {"a": "b"},
            **annotated(
                gang_mode="Off", pathways_worker_mode="ReplicatedGang", pathways_options='{"sharedTmp": false}'
            ),
        },
        workers={
            "maxSliceRestarts": 4,
            "terminationGracePeriodSeconds": 60,
            "priorityClassName": "high",
            "nodeSelector": {"c": "d"},
        },
        controller={"mainContainerName": "log", "enableMetricsCollection": True, "elasticSlices": 1}
        | {"template": template(container(), container("log"))},
        customComponents=[
            component("worker", image="r.example/w@sha256:" + "0" * 64, customFlags=["--a"]),
            component("proxy_server", customEnv=[{"name": "A", "value": "x=y", "valueFrom": None}]),
        ],
        maxRestarts=3,
        pathwaysVersion="v9",
    )
    job = read(value)
    assert (job.uid, job.labels, job.gang_mode, job.worker_mode) == (
        *("u", {"a": "b"}),
        *(GangMode.OFF, GangMode.REPLICATED_GANG),
    )
    assert (job.max_slice_restarts, job.worker_grace_seconds, job.worker_priority_class) == (4, 60, "high")
    assert (job.worker_node_selector, job.main_container, job.metrics) == ({"c": "d"}, "log", True)
    assert (job.elastic_slices, job.max_restarts, job.pathways_version) == (1, 3, "v9")
    assert job.options == PathwaysOptions(shared_tmp=False)
    worker, proxy = job.components[ComponentType.WORKER], job.components[ComponentType.PROXY]
    assert (worker.path, worker.flags) == ("spec.customComponents[0]", ("--a",))
    assert (proxy.path, proxy.env) == ("spec.customComponents[1]", ({"name": "A", "value": "x=y"},))


def test_the_result_shares_no_objects_and_has_no_null_fields() -> None:
    value = pathways_job(controller={"template": template(container(env=None, args=["a"]), tolerations=None)})
    before = copy.deepcopy(value)
    job = read(value)
    assert job.template is not None
    pod = job.template["spec"]
    assert "tolerations" not in pod
    assert "env" not in pod["containers"][0]
    pod["containers"][0]["args"].append("b")
    pod["containers"].clear()
    assert value == before


@pytest.mark.parametrize("topology", ["2X2X2", " 2x2x2 "])
def test_topologies_are_normalized(topology: str) -> None:
    assert read(pathways_job(workers={"topology": topology})).slice.topology == "2x2x2"


def test_a_single_chip_is_on_the_machine_with_one() -> None:
    job = read(pathways_job(workers={"type": "ct6e-standard-4t", "topology": "1x1"}))
    assert (job.slice.accelerator.machine_type, job.slice.vms) == ("ct6e-standard-1t", 1)


@each(
    ("value", "name"),
    [
        (pathways_job("p" * 22), "p" * 22),
        (pathways_job(metadata={"name": None, "generateName": "p" * 16 + "-"}), "p" * 16 + "-xxxxx"),
        (pathways_job("p" * 18, metadata=annotated(pathways_options=f'{{"subdomain": "{"s" * 26}"}}')), "p" * 18),
        (pathways_job("p" * 36, metadata=annotated(pathways_options='{"subdomain": "auto"}')), "p" * 36),
    ],
    ids=["own", "generated", "subdomain", "auto"],
)
def test_names_may_be_as_long_as_the_address_of_the_head_allows(value: Object, name: str) -> None:
    job = read(value)
    assert job.name == name
    assert len(f"{name}-pathways-head-0-0.{subdomain(job) or name}") <= 63
    assert len(longest_pod(job)) <= 63


def test_options_of_the_job_win_over_those_of_the_cluster_one_by_one() -> None:
    defaults = PathwaysOptions(image_registry="r.example", startup=Startup.ANY_ORDER, ttl_seconds_after_finished=5)
    own = annotated(pathways_options='{"imageRegistry": "s.example", "startup": "DependsOn"}')
    assert read(pathways_job(metadata=own), defaults=defaults).options == PathwaysOptions(
        image_registry="s.example", startup=Startup.DEPENDS_ON, ttl_seconds_after_finished=5
    )


@each("value", [pathways_job(controller={"deploymentMode": COLOCATED}), pathways_job()])
def test_a_default_startup_order_is_dropped_where_it_would_deadlock(value: Object) -> None:
    job = read(value, defaults=PathwaysOptions(startup=Startup.IN_ORDER))
    assert job.options.startup == (None if job.colocated else Startup.IN_ORDER)


def test_unknown_fields_of_a_stored_job_are_accepted() -> None:
    value = pathways_job(maxRestart=1, workers={"numSlice": 2}, controller={"x": 1}, customComponents=[{"y": 1}])
    assert len(read_pathways_job(value).problems) == 5
    (problem,) = read_pathways_job(value, cluster_checked=True).problems
    assert problem.error.path == "spec.customComponents[0].componentType"


def test_what_api_servers_take_in_a_pod_is_taken() -> None:
    named = [{"name": name, "value": "1"} for name in ("my.flag", "my-flag", "1st flag")]
    job = read(pathways_job(customComponents=[component("worker", customEnv=named)]))
    assert job.components[ComponentType.WORKER].env == tuple(named)
    # JobSet takes an empty policy for none.
    assert read(user(restartPolicy="")).template == template(restartPolicy="")


def test_an_unknown_topology_does_not_hide_other_errors() -> None:
    value = pathways_job("p" * 23, workers={"topology": "9x9", "numSlices": 0}, controller={"mainContainerName": "x"})
    assert [each.reason for each in read_pathways_job(value).problems] == [
        InvalidReason.INVALID_TOPOLOGY,
        InvalidReason.NAME_TOO_LONG,
        InvalidReason.INVALID_NUM_SLICES,
        InvalidReason.MISSING_MAIN_CONTAINER,
    ]


def test_a_wrong_type_hides_only_errors_that_depend_on_it() -> None:
    value = pathways_job(metadata={"labels": []}, workers={"type": "x"}, controller={"template": {"spec": 5}})
    found = [(each.reason, each.error.path) for each in read_pathways_job(value).problems]
    assert found == [
        (InvalidReason.MALFORMED, "metadata.labels"),
        (InvalidReason.MALFORMED, "spec.controller.template.spec"),
        (InvalidReason.UNKNOWN_ACCELERATOR, "spec.workers[0].type"),
    ]


@each(
    "value",
    [
        pathways_job(workers={f"unknown{number}": 1 for number in range(10_000)}),
        pathways_job(controller={"template": template(*({"name": 5} for _ in range(3_000)))}),
        pathways_job(controller={"template": template(*({} for _ in range(3_000)))}),
        pathways_job(customComponents=[{}] * 1_000_000),
        pathways_job(customComponents=[component("worker", customEnv=[{"name": "-"}] * 5_000)]),
        pathways_job(metadata={"annotations": {"gangctl.dev/pathways-options": "[" * 100_000}}),
        pathways_job(maxRestarts=10**5_000, workers={"type": 10**5_000, "topology": "9" * 10**6}),
        user(container(resources={"requests": {"cpu": 10**5_000}, "limits": {"cpu": -(10**5_000)}})),
    ],
    ids=["fields", "types", "containers", "components", "variables", "options", "numbers", "quantities"],
)
def test_the_number_of_problems_is_bounded(value: Object) -> None:
    assert 1 <= len(read_pathways_job(value).problems) <= MOST_PROBLEMS


def test_a_deeply_nested_pod_is_refused() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = {"a": deep}
    value = pathways_job(headless=True)
    value["spec"]["controller"]["template"] = {"spec": {"containers": [container()], "affinity": deep}}
    (problem,) = read_pathways_job(value).problems
    assert problem.error.path == "spec.controller.template"
    assert "deeper than any pod" in problem.error.detail


@each(
    ("value", "expected"),
    [
        ({"apiVersion": "pathways-job.pathways.domain/v1", "kind": "PathwaysJob"}, True),
        ({"apiVersion": "pathways-job.pathways.domain/v9", "kind": "PathwaysJob"}, True),
        ({"apiVersion": "pathways-job.pathways.domain/v1", "kind": "Job"}, False),
        ({"apiVersion": "batch/v1", "kind": "PathwaysJob"}, False),
        ({"apiVersion": 5}, False),
        ({}, False),
    ],
)
def test_a_pathways_job_is_known_by_group_and_kind(value: Object, expected: bool) -> None:
    assert is_pathways_job(value) is expected


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The way to every value of an object."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield (*path, key)
        yield from _places(item, *path, key)


_FULL = pathways_job(
    metadata={"labels": {"a": "b"}, **annotated(gang_mode="Off", pathways_options='{"startup": "InOrder"}')},
    workers={"nodeSelector": {"a": "b"}, "maxSliceRestarts": 2, "terminationGracePeriodSeconds": 5},
    controller={
        "elasticSlices": 1,
        "mainContainerName": "main",
        "template": template(
            container(
                env=[{"name": "A", "value": "b"}],
                ports=[{"containerPort": 9000, "hostPort": 9000, "protocol": "TCP"}],
                resources={"requests": {"cpu": 1}, "limits": {"cpu": "2"}},
                volumeMounts=[{"name": "v", "mountPath": "/v"}],
            ),
            metadata={"labels": {"c": "d"}, "annotations": {"e": "f"}},
            initContainers=[container("init", restartPolicy="Always")],
            volumes=[{"name": "v", "emptyDir": {}}],
            tolerations=[{"key": "t", "operator": "Exists"}],
            affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}},
            nodeSelector={"n": "m"},
            terminationGracePeriodSeconds=30,
            hostNetwork=False,
        ),
    },
    customComponents=[
        component("worker", image="a/b", customFlags=["--x"], customEnv=[{"name": "A", "value": "b"}]),
        component("colocated_python_sidecar", image="a/b"),
    ],
    maxRestarts=1,
)
_PLACES = sorted(_places(_FULL), key=str)


@st.composite
def _broken(draw: st.DrawFn) -> Object:
    """A job with anything at some of its places."""
    value = copy.deepcopy(_FULL)
    for path in draw(st.lists(st.sampled_from(_PLACES), min_size=1, max_size=3)):
        found: Any = value
        for key in path[:-1]:
            found = found[key] if isinstance(found, dict) and key in found else found
            found = found[key] if isinstance(found, list) and isinstance(key, int) and key < len(found) else found
        if isinstance(found, dict):
            found[str(path[-1])] = draw(_ANYTHING)
    return value


def _check(value: Object, *, cluster_checked: bool) -> Reading:
    before = copy.deepcopy(value)
    reading = read_pathways_job(value, cluster_checked=cluster_checked)
    assert (reading.job is None) == bool(reading.problems)
    assert len(reading.problems) <= MOST_PROBLEMS
    # NaN differs from itself, and is the same object in both.
    assert repr(value) == repr(before)
    return reading


@given(st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "spec", "x"]), _ANYTHING), st.booleans())
@settings(max_examples=60)
def test_any_object_is_read_or_refused(value: Object, cluster_checked: bool) -> None:
    _check(value, cluster_checked=cluster_checked)


@given(_broken(), st.booleans())
@settings(max_examples=150)
def test_a_valid_job_can_be_rendered(value: Object, cluster_checked: bool) -> None:
    job = _check(value, cluster_checked=cluster_checked).job
    if job is not None:
        render(job, RenderingInputs())


def test_the_base_of_the_cases_is_valid() -> None:
    reading = read_pathways_job(_FULL)
    assert reading.problems == ()
    assert Reason.NO_EFFECT not in {each.reason for each in reading.notices}

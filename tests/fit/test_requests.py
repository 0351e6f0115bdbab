"""Requests as Kueue counts them: its own totals, and what comes before and after the sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given

from gangctl.api.quantity import parse_quantity
from gangctl.api.requests import times
from gangctl.fit.requests import Counted, PodSet, Surroundings, podsets_of, requests_of
from gangctl.kueue.configuration import KueueConfiguration, Transformation, read_configuration
from tests.rows import each
from tests.strategies import PROPERTY, hostile_jobsets


def container(requests: Mapping[str, object] | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": dict(requests or {})}, **fields}


def limited(limits: Mapping[str, object], requests: Mapping[str, object] | None = None) -> dict[str, Any]:
    resources = {"limits": dict(limits), **({"requests": dict(requests)} if requests is not None else {})}
    return {"name": "main", "resources": resources}


def podset(pods: int = 1, **spec: Any) -> PodSet:
    return PodSet("w", 0, pods, {"spec": spec})


def count(surroundings: Surroundings | None = None, **spec: Any) -> Counted:
    return requests_of(podset(**spec), surroundings or Surroundings())


def limit_range(*entries: Mapping[str, Any], kind: str = "Container") -> dict[str, Any]:
    return {"metadata": {"name": "l"}, "spec": {"limits": [{"type": kind, **entry} for entry in entries]}}


def among(*limit_ranges: dict[str, Any]) -> Surroundings:
    return Surroundings(limit_ranges)


def configured(**fields: Any) -> Surroundings:
    return Surroundings(configuration=KueueConfiguration(**fields))


def factor(text: str) -> Fraction:
    return parse_quantity(text)


GI = 2**30


def test_what_a_device_class_may_serve_kueue_counts_without_sidecars_and_overhead() -> None:
    gpu = container({"x.com/gpu": "1"})
    sidecar = {**gpu, "restartPolicy": "Always"}
    counted = count(containers=[gpu], initContainers=[sidecar])
    assert counted.requests == {"x.com/gpu": 2}
    assert [why for why in counted.unknown if "whether a DeviceClass serves x.com/gpu" in why] == [*counted.unknown]
    assert count(containers=[gpu], overhead={"x.com/gpu": "1"}).unknown
    assert not count(containers=[gpu], initContainers=[gpu], overhead={"cpu": "1"}).unknown
    assert not count(containers=[container({"cpu": "1"})], initContainers=[{**sidecar, "resources": {}}]).unknown
    off = configured(gates={"KueueDRAIntegrationExtendedResource": False})
    for surroundings in (off, Surroundings().of_pods()):
        assert not count(surroundings, containers=[gpu], initContainers=[sidecar]).unknown


@each(
    ("spec", "pods", "total"),
    [
        (
            {"containers": [container({"cpu": "1", "memory": "1Gi"}), container({"cpu": "500m"})]},
            3,
            {"cpu": 4500, "memory": 3 * GI},
        ),
        ({"initContainers": [container({"cpu": 4})], "containers": [container({"cpu": 1})]}, 2, {"cpu": 8000}),
        (
            {
                "initContainers": [container({"cpu": 1}, restartPolicy="Always"), container({"cpu": 2})],
                "containers": [container({"cpu": 1})],
            },
            1,
            {"cpu": 3000},
        ),
        ({"containers": [limited({"nvidia.com/gpu": 8, "cpu": 2})]}, 2, {"nvidia.com/gpu": 16, "cpu": 4000}),
        ({"containers": [container({"cpu": 1})], "overhead": {"cpu": "250m"}}, 2, {"cpu": 2500}),
        (
            {
                "containers": [container({"cpu": 1, "nvidia.com/gpu": 1})],
                "resources": {"requests": {"cpu": 3}},
            },
            2,
            {"cpu": 6000, "nvidia.com/gpu": 2},
        ),
        ({"containers": [container({"cpu": "0.1001", "memory": "1500m"})]}, 3, {"cpu": 303, "memory": 6}),
    ],
)
def test_totals_of_requests_agree_with_kueue(spec: dict[str, Any], pods: int, total: dict[str, int]) -> None:
    counted = requests_of(podset(pods, **spec), Surroundings())
    assert times(counted.requests, pods) == total
    assert counted.unknown == counted.problems == ()


def test_resources_that_are_not_requested_are_absent() -> None:
    assert count(containers=[container()]).requests == {}
    assert count(containers=[container({"memory": 0})]).requests == {"memory": 0}


def test_a_pod_level_limit_counts_as_a_request_of_the_pod() -> None:
    """Unlike the API server, which takes it only for what no container asks for."""
    counted = count(containers=[container({"cpu": 2})], resources={"limits": {"cpu": 8}})
    assert counted.requests == {"cpu": 8000}


class TestOverhead:
    def test_the_overhead_of_a_runtime_class_is_added(self) -> None:
        classes = {"kata": {"overhead": {"podFixed": {"cpu": "250m"}}}, "plain": {}}
        surroundings = Surroundings(runtime_classes=classes)
        spec = {"containers": [container({"cpu": 1})]}
        assert count(surroundings, **spec, runtimeClassName="kata").requests == {"cpu": 1250}
        assert count(surroundings, **spec, runtimeClassName="plain").requests == {"cpu": 1000}
        assert count(surroundings, **spec, runtimeClassName="none").requests == {"cpu": 1000}

    def test_the_overhead_in_the_pod_wins_over_the_runtime_class(self) -> None:
        surroundings = Surroundings(runtime_classes={"kata": {"overhead": {"podFixed": {"cpu": "250m"}}}})
        spec = {"containers": [container({"cpu": 1})], "overhead": {"cpu": 1}}
        assert count(surroundings, **spec, runtimeClassName="kata").requests == {"cpu": 2000}

    def test_the_overhead_is_unknown_without_the_runtime_classes(self) -> None:
        counted = count(containers=[container({"cpu": 1})], runtimeClassName="kata")
        assert counted.unknown == ('the overhead of RuntimeClass "kata" is not known',)


class TestLimitRanges:
    def test_defaults_of_a_limit_range_are_applied(self) -> None:
        surroundings = among(limit_range({"default": {"cpu": "4", "memory": "1Gi"}, "defaultRequest": {"cpu": "2"}}))
        assert count(surroundings, containers=[container()], initContainers=[container({"cpu": 3})]).requests == {
            "cpu": 3000,
            "memory": GI,
        }
        assert count(surroundings, containers=[{"name": "bare"}]).requests == {"cpu": 2000, "memory": GI}

    def test_a_default_request_wins_over_the_limit_of_the_container(self) -> None:
        surroundings = among(limit_range({"defaultRequest": {"cpu": "2"}}))
        assert count(surroundings, containers=[limited({"cpu": "3"})]).requests == {"cpu": 2000}

    def test_max_and_min_of_a_limit_range_are_defaults_too(self) -> None:
        surroundings = among(limit_range({"max": {"cpu": "4"}, "min": {"cpu": "1", "memory": "1Gi"}}))
        assert count(surroundings, containers=[container()]).requests == {"cpu": 4000, "memory": GI}

    def test_pod_defaults_apply_if_the_pod_has_resources(self) -> None:
        surroundings = among(limit_range({"default": {"cpu": "4"}}, kind="Pod"))
        assert count(surroundings, containers=[container({"cpu": 1})]).requests == {"cpu": 1000}
        assert count(surroundings, containers=[container({"cpu": 1})], resources={}).requests == {"cpu": 4000}

    def test_of_different_defaults_the_least_counts_and_is_reported(self) -> None:
        surroundings = among(limit_range({"default": {"cpu": "4"}}), limit_range({"default": {"cpu": "2"}}))
        counted = count(surroundings, containers=[container()])
        assert counted.requests == {"cpu": 2000}
        assert counted.unknown == ("LimitRanges of the namespace have different defaults of cpu",)
        assert count(surroundings, containers=[limited({"cpu": 1}, {"cpu": 1})]).unknown == ()

    def test_a_missing_source_is_reported_as_unknown(self) -> None:
        counted = count(Surroundings(None), containers=[container({"cpu": 1})])
        assert counted.unknown == ("the LimitRanges of the namespace are not known",)

    @pytest.mark.parametrize("odd", [{}, {"spec": 1}, {"spec": {"limits": [1, {}, {"type": 2}]}}])
    def test_an_invalid_limit_range_is_ignored(self, odd: dict[str, Any]) -> None:
        assert count(among(odd), containers=[container()]) == Counted({})


class TestProblems:
    def test_a_request_above_its_limit_is_a_problem(self) -> None:
        counted = count(
            containers=[limited({"cpu": 1, "memory": 5}, {"cpu": "1001m", "memory": 5})],
            initContainers=[{**limited({"cpu": 1}, {"cpu": 2}), "name": "fetch"}],
            resources={"limits": {"cpu": 1}, "requests": {"cpu": 3}},
        )
        assert counted.problems == (
            'init container "fetch" requests more than its limit of cpu',
            'container "main" requests more than its limit of cpu',
            "the pod requests more than its limit of cpu",
        )

    def test_a_request_above_the_default_limit_is_a_problem(self) -> None:
        counted = count(among(limit_range({"default": {"cpu": 1}})), containers=[container({"cpu": 2})])
        assert counted.problems == ('container "main" requests more than its limit of cpu',)

    def test_a_container_outside_the_bounds_of_a_limit_range_is_a_problem(self) -> None:
        bounds = limit_range({"max": {"cpu": 4, "gpu": 1}, "min": {"cpu": 2, "memory": 1}, "default": {"cpu": 3}})
        assert count(among(bounds), containers=[limited({"cpu": 5}, {"cpu": 3})]).problems == (
            'container "main" is above the max of a LimitRange of cpu',
        )
        assert count(among(bounds), containers=[limited({"cpu": 3}, {"cpu": 1})]).problems == (
            'container "main" is below the min of a LimitRange of cpu',
        )
        assert count(among(bounds), containers=[limited({"cpu": 3}, {"cpu": 3})]).problems == ()

    def test_the_strictest_of_several_limit_ranges_applies(self) -> None:
        several = (
            limit_range({"max": {"cpu": 4}, "min": {"cpu": 1}}),
            limit_range({"max": {"cpu": 3}, "min": {"cpu": 2}}),
        )
        for written, word in ((4, "above"), (1, "below")):
            (problem,) = count(among(*several), containers=[limited({"cpu": written}, {"cpu": written})]).problems
            assert word in problem

    def test_pod_bounds_of_a_limit_range_apply_to_the_sum(self) -> None:
        bounds = limit_range({"max": {"cpu": 2}, "min": {"memory": 5}}, kind="Pod")
        two = [container({"cpu": 1}), container({"cpu": 1})]
        assert count(among(bounds), containers=two).problems == ()
        assert count(among(bounds), containers=two, overhead={"cpu": "1m", "memory": 4}).problems == (
            "the pod is above the max of a LimitRange of cpu",
            "the pod is below the min of a LimitRange of memory",
        )


class TestConfiguration:
    def test_resources_with_an_excluded_prefix_are_not_counted(self) -> None:
        counted = count(
            configured(exclude_prefixes=("example.com/", "ephemeral")),
            containers=[container({"cpu": 1, "example.com/x": 2, "ephemeral-storage": 5})],
        )
        assert counted.requests == {"cpu": 1000}
        assert counted.asked == {"cpu": 1000, "example.com/x": 2, "ephemeral-storage": 5}

    @pytest.mark.parametrize(("keep", "left"), [(True, {"mig": 2}), (False, {})])
    def test_resource_transformations_are_applied(self, *, keep: bool, left: dict[str, int]) -> None:
        outputs = {"credits": factor("1.5"), "memory": factor("5Gi"), "cpu": factor("1m")}
        counted = count(
            configured(transformations=(Transformation("mig", keep, outputs),)),
            containers=[container({"mig": 2, "memory": "1Gi"})],
        )
        assert counted.requests == {**left, "credits": 3, "memory": 11 * GI, "cpu": 2}

    def test_a_transformation_can_multiply_by_another_resource(self) -> None:
        transformation = Transformation("cores", keep=False, outputs={"credits": factor("2")}, multiply_by="gpu")
        surroundings = configured(transformations=(transformation,))
        assert count(surroundings, containers=[container({"cores": 3, "gpu": 4})]).requests == {"gpu": 4, "credits": 24}
        assert count(surroundings, containers=[container({"cores": 3})]).requests == {"credits": 6}

    def test_negative_outputs_reduce_other_outputs_but_not_requests(self) -> None:
        transformations = (
            Transformation("a", keep=False, outputs={"credits": factor("3"), "cpu": factor("-5")}),
            Transformation("b", keep=False, outputs={"credits": factor("-1")}),
        )
        counted = count(configured(transformations=transformations), containers=[container({"a": 1, "b": 1, "cpu": 1})])
        assert counted.requests == {"credits": 2, "cpu": 1000}

    def test_an_excluded_resource_is_not_transformed(self) -> None:
        surroundings = configured(
            exclude_prefixes=("mig",), transformations=(Transformation("mig", outputs={"credits": factor("1")}),)
        )
        assert count(surroundings, containers=[container({"mig": 2})]).requests == {}

    def test_a_missing_source_is_reported_as_unknown(self) -> None:
        unknown = Surroundings(configuration=read_configuration(None))
        assert count(unknown, containers=[container({"cpu": 1})]).unknown == ("Kueue's configuration was not found",)


class TestDevices:
    def test_device_claims_are_reported_as_unknown(self) -> None:
        counted = count(containers=[container({"cpu": 1})], resourceClaims=[{"name": "gpu"}])
        (unknown,) = counted.unknown
        assert unknown.startswith('the devices that replicated job "w" claims (resourceClaims), which Kueue counts by ')

    def test_extended_resources_are_unknown_if_device_classes_are_mapped(self) -> None:
        surroundings = configured(dra=True)
        assert count(surroundings, containers=[container({"cpu": 1})]).unknown == ()
        assert count(surroundings, containers=[container({"nvidia.com/gpu": 1})]).unknown != ()


@each("quantity", ["1K", "-1", 0.5, None, [], True])
def test_an_invalid_quantity_is_reported_once_and_left_out(quantity: object) -> None:
    counted = count(containers=[container({"cpu": quantity, "memory": 1})])
    assert counted.requests == {"memory": 1}
    assert len(counted.unknown) == 1
    assert counted.unknown[0].startswith('replicated job "w": containers[0].resources.requests.cpu: ')


ODD: Sequence[dict[str, Any]] = (
    {},
    {"containers": 1, "initContainers": {}, "resources": [], "overhead": 3, "runtimeClassName": 5},
    {"containers": [1, {}, {"resources": 1}, {"resources": {"limits": [], "requests": 2}}], "resourceClaims": 3},
    {"containers": [{"name": 4, "resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}}]},
)


@each("spec", ODD)
@each("surroundings", [Surroundings(), among(limit_range({"default": {"cpu": 1}}), limit_range())])
def test_invalid_pod_specs_are_counted_where_valid(spec: dict[str, Any], surroundings: Surroundings) -> None:
    assert set(count(surroundings, **spec).requests) <= {"cpu"}


@PROPERTY
@given(hostile_jobsets())
def test_requests_of_any_jobset_are_not_negative(raw: dict[str, Any]) -> None:
    surroundings = among(limit_range({"default": {"cpu": 1}, "max": {"memory": 1}}))
    for item in podsets_of(raw):
        assert all(amount >= 0 for amount in requests_of(item, surroundings).requests.values())

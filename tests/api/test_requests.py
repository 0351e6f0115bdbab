"""Effective requests of a pod: the scheduler's sum."""

from __future__ import annotations

from typing import Any

from gangctl.api.requests import as_integers, extended_requests, pod_requests, times, together
from tests.rows import each


def container(cpu: str | None = None, memory: str | None = None, **fields: Any) -> dict[str, Any]:
    amounts = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "resources": {"requests": amounts}, **fields}


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


def integers(**pod_spec: Any) -> dict[str, int]:
    requests, errors = pod_requests(pod_spec)
    assert errors == ()
    return as_integers(requests)


def test_containers_add_up() -> None:
    assert integers(containers=[container("500m", "1Gi"), container("1.5", "512Mi")]) == {
        "cpu": 2000,
        "memory": 3 * 2**29,
    }


def test_sums_are_exact_before_they_are_rounded() -> None:
    assert integers(containers=[container("0.4m"), container("0.4m")])["cpu"] == 1


@each(
    ("init", "cpu"),
    [
        ([container("1")], 2000),
        ([container("3")], 3000),
        ([container("3"), container("5")], 5000),
        ([sidecar("1")], 3000),
        ([sidecar("1"), container("4")], 5000),
        ([container("4"), sidecar("1")], 4000),
        ([sidecar("1"), container("2"), sidecar("1")], 4000),
    ],
)
def test_init_containers_and_sidecars(init: list[dict[str, Any]], cpu: int) -> None:
    assert integers(containers=[container("2")], initContainers=init)["cpu"] == cpu


def test_overhead_comes_on_top() -> None:
    assert (
        integers(containers=[container("2")], initContainers=[container("3")], overhead={"cpu": "250m"})["cpu"] == 3250
    )


def test_a_missing_request_is_the_limit() -> None:
    both = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": 8}}
    assert integers(containers=[{"resources": both}]) == {"cpu": 1000, "memory": 0, "nvidia.com/gpu": 8}


class TestPodLevel:
    def test_requests_replace_the_sum_but_not_of_devices(self) -> None:
        limits = {"limits": {"nvidia.com/gpu": "1", "cpu": "3"}}
        level = {"requests": {"cpu": "8", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "5"}}
        assert integers(containers=[{"resources": limits}], resources=level, overhead={"cpu": "1"}) == {
            "cpu": 9000,
            "memory": 0,
            "hugepages-2Mi": 4 * 2**20,
            "nvidia.com/gpu": 1,
        }

    def test_limits_stand_in_only_where_no_container_asks(self) -> None:
        level = {"limits": {"cpu": "8", "memory": "1Gi"}}
        assert integers(containers=[container("2")], resources=level) == {"cpu": 2000, "memory": 2**30}

    def test_a_pod_level_limit_of_huge_pages_is_the_request(self) -> None:
        pages = {"name": "c", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}
        level = {"limits": {"hugepages-2Mi": "8Mi"}}
        assert integers(containers=[pages], resources=level)["hugepages-2Mi"] == 8 * 2**20


@each(
    ("quantity", "words"),
    [("1K", "not a quantity"), ("-1", "negative"), (0.5, "quotes"), (True, "quotes"), ([], "quotes"), (-3, "negative")],
)
def test_texts_that_are_no_quantities(quantity: object, words: str) -> None:
    requests, errors = pod_requests({"containers": [{"resources": {"requests": {"cpu": quantity, "memory": "1"}}}]})
    assert [(e.path, words in e.detail) for e in errors] == [("containers[0].resources.requests.cpu", True)]
    assert list(requests) == ["memory"]


def test_a_number_of_thousands_of_digits_is_an_error_and_no_crash() -> None:
    _, [error] = pod_requests({"containers": [{"resources": {"requests": {"cpu": [10**5000]}}}]})
    assert error.detail == "must be a quantity in quotes or an integer, got a list"


def test_paths_of_errors_for_unusual_types() -> None:
    odd = {"containers": [1, {"resources": {"limits": "many"}}], "initContainers": "no", "overhead": {"a/b.c": "?"}}
    _, errors = pod_requests(odd)
    assert [e.path for e in errors] == ["containers[1].resources.limits", "overhead[a/b.c]"]


def test_many_pods_and_several_kinds_of_them() -> None:
    gpu = {"cpu": 4000, "memory": 10, "nvidia.com/gpu": 8}
    assert times(gpu, 3) == {"cpu": 12000, "memory": 30, "nvidia.com/gpu": 24}
    assert together([gpu, {"cpu": 1, "memory": 2}]) == {"cpu": 4001, "memory": 12, "nvidia.com/gpu": 8}
    assert together([]) == {"cpu": 0, "memory": 0}
    assert times({"memory": 2**60}, 100)["memory"] == 2**63 - 1


def test_extended_resources_are_summed_up_as_the_scheduler_does() -> None:
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "4", "hugepages-2Mi": "4Mi"}}}
    spec = {
        "containers": [gpus, {"resources": {"requests": {"nvidia.com/gpu": 1}}}],
        "initContainers": [{"resources": {"limits": {"nvidia.com/gpu": "16", "rdma/hca": "1"}}}],
    }
    assert extended_requests(spec) == (("nvidia.com/gpu", 16), ("rdma/hca", 1))
    assert extended_requests(spec) is extended_requests(spec), "pods of one template share it"


@each(
    "spec",
    [
        {},
        {"containers": [{"resources": {"limits": {"cpu": "4", "requests.kubernetes.io/x": "1"}}}]},
        {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "many"}}}]},
        {"containers": [{"resources": {"limits": {"nvidia.com/gpu": {"of": []}}}}, "text"], "initContainers": 3},
        {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 0}}}]},
    ],
)
def test_pods_without_readable_extended_resources_have_none(spec: dict[str, Any]) -> None:
    assert extended_requests(spec) == ()

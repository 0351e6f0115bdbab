"""What resource manager and proxy ask for, and what that makes of the head."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.pathways.options import HeadResources, PathwaysOptions, Resources
from gangctl.pathways.rendering.containers import head_requests, proxy_resources, resource_manager_resources
from gangctl.pathways.result import OriginKind, origins, plain
from tests.pathways.rendering.jobs import job
from tests.rows import each


def manager(**chosen: Any) -> dict[str, Any]:
    options = PathwaysOptions(head_resources=HeadResources(resource_manager=Resources(**chosen)))
    resources = plain(resource_manager_resources(job(options=options)))
    assert isinstance(resources, dict)
    return resources


@pytest.mark.parametrize(
    ("build", "size"),
    [
        (resource_manager_resources, {"cpu": "8", "memory": "32G"}),
        (proxy_resources, {"cpu": "16", "memory": "100G"}),
    ],
)
def test_the_usual_sizes_are_requests_and_limits(build: Any, size: dict[str, str]) -> None:
    assert plain(build(job())) == {"requests": size, "limits": size}


def test_a_request_below_the_limit_leaves_the_limit() -> None:
    assert manager(requests={"cpu": "500m"}) == {
        "requests": {"cpu": "500m", "memory": "32G"},
        "limits": {"cpu": "8", "memory": "32G"},
    }


def test_a_limit_is_the_request_too() -> None:
    assert manager(limits={"memory": "64G"}) == {
        "requests": {"cpu": "8", "memory": "64G"},
        "limits": {"cpu": "8", "memory": "64G"},
    }


@each("memory", ["32Gi", "33G", 33 * 10**9, "33e9"])
def test_the_usual_limit_grows_to_a_larger_request(memory: str | int) -> None:
    assert manager(requests={"memory": memory})["limits"] == {"cpu": "8", "memory": memory}


@pytest.mark.parametrize("memory", ["32G", 32 * 10**9, "31G"])
def test_the_usual_limit_stays_for_a_request_that_is_no_larger(memory: str | int) -> None:
    assert manager(requests={"memory": memory})["limits"]["memory"] == "32G"


def test_a_request_and_a_limit_chosen_together_are_kept() -> None:
    assert manager(requests={"cpu": 2}, limits={"cpu": 4}) == {
        "requests": {"cpu": 2, "memory": "32G"},
        "limits": {"cpu": 4, "memory": "32G"},
    }


def test_another_resource_may_be_asked_for_without_a_limit() -> None:
    assert manager(requests={"ephemeral-storage": "10G"}) == {
        "requests": {"cpu": "8", "memory": "32G", "ephemeral-storage": "10G"},
        "limits": {"cpu": "8", "memory": "32G"},
    }


def test_one_component_changes_nothing_about_the_other() -> None:
    options = PathwaysOptions(head_resources=HeadResources(resource_manager=Resources(limits={"cpu": "1"})))
    assert plain(proxy_resources(job(options=options)))["limits"] == {"cpu": "16", "memory": "100G"}


def test_a_chosen_size_has_its_option_as_origin() -> None:
    options = PathwaysOptions(head_resources=HeadResources(proxy=Resources(requests={"cpu": "20"})))
    found = {
        path: (origin.kind, origin.place) for path, origin in origins(proxy_resources(job(options=options))).items()
    }
    entry = (OriginKind.OPTION, "headResources.proxy.requests.cpu")
    assert found["requests.cpu"] == entry
    assert found["limits.cpu"] == entry
    assert found["limits.memory"] == (OriginKind.RULE, "gangctl")


def test_the_head_asks_for_its_sidecars_and_the_users_container_together() -> None:
    main = {"name": "main", "resources": {"limits": {"cpu": "24", "memory": "100G"}}}
    sidecars = [
        {"name": "rm", "restartPolicy": "Always", "resources": plain(resource_manager_resources(job()))},
        {"name": "proxy", "restartPolicy": "Always", "resources": plain(proxy_resources(job()))},
    ]
    assert head_requests({"containers": [main], "initContainers": sidecars}) == {"cpu": 48_000, "memory": 232 * 10**9}

"""The JobSet around head and workers."""

from __future__ import annotations

import json
from typing import Any

from gangctl.pathways.result import OriginKind
from tests.pathways.samples import annotated, pathways_job
from tests.pathways.views import jobset_of, rendered

Object = dict[str, Any]


def with_options(name: str = "pw", **options: Any) -> Object:
    """The base with options."""
    return pathways_job(name, metadata=annotated(pathways_options=json.dumps(options)))


def test_fields_are_in_the_usual_order() -> None:
    jobset = jobset_of(pathways_job(workers={"numSlices": 1}))
    assert list(jobset) == ["apiVersion", "kind", "metadata", "spec"]
    assert (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert list(jobset["metadata"]) == ["name", "namespace", "labels", "annotations"]
    assert list(jobset["spec"])[-1] == "replicatedJobs"
    assert [each["name"] for each in jobset["spec"]["replicatedJobs"]] == ["pathways-head", "worker"]


def test_a_file_without_a_namespace_renders_none() -> None:
    assert "namespace" not in jobset_of(pathways_job(metadata={"namespace": None}))["metadata"]


def test_the_head_is_the_coordinator_and_is_published_before_it_is_ready() -> None:
    spec = jobset_of(pathways_job())["spec"]
    assert spec["coordinator"] == {"replicatedJob": "pathways-head", "jobIndex": 0, "podIndex": 0}
    assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}


def test_max_restarts_is_always_set() -> None:
    assert jobset_of(pathways_job())["spec"]["failurePolicy"] == {"maxRestarts": 0, "restartStrategy": "Recreate"}
    assert jobset_of(pathways_job(maxRestarts=3))["spec"]["failurePolicy"]["maxRestarts"] == 3


def test_the_jobset_succeeds_with_the_client_and_never_without_one() -> None:
    expected = {"operator": "All", "targetReplicatedJobs": ["pathways-head"]}
    assert jobset_of(pathways_job())["spec"]["successPolicy"] == expected
    assert "successPolicy" not in jobset_of(pathways_job(headless=True))["spec"]


def test_the_jobset_is_kept_unless_an_option_sets_a_ttl() -> None:
    assert "ttlSecondsAfterFinished" not in jobset_of(pathways_job())["spec"]
    assert jobset_of(with_options(ttlSecondsAfterFinished=0))["spec"]["ttlSecondsAfterFinished"] == 0


def test_suspending_is_left_to_kueue() -> None:
    assert "suspend" not in jobset_of(pathways_job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}))["spec"]


def test_a_long_name_gets_a_short_subdomain_where_it_may() -> None:
    assert "subdomain" not in jobset_of(with_options("a" * 22, subdomain="auto"))["spec"]["network"]
    rendering = rendered(with_options("a" * 23, subdomain="auto"))
    subdomain = rendering.jobset["spec"]["network"]["subdomain"]
    assert len(f"{'a' * 23}-pathways-head-0-0.{subdomain}") <= 63
    assert rendering.origins["spec.network.subdomain"].kind is OriginKind.OPTION
    assert jobset_of(with_options("b" * 23, subdomain="auto"))["spec"]["network"]["subdomain"] != subdomain

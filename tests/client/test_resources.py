from __future__ import annotations

import pytest

from gangctl.client.resources import JOBSETS, PODS
from gangctl.errors import InputError
from tests.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.rows import each


def test_paths_are_built_for_the_core_group_and_named_groups() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns") == "/api/v1/namespaces/ns/pods"
    assert PODS.path("ns", "p", "status") == "/api/v1/namespaces/ns/pods/p/status"
    assert JOBSETS.path("ns", "j") == "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/j"
    assert (
        CUSTOM_RESOURCE_DEFINITIONS.path(name="jobsets.jobset.x-k8s.io")
        == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
    )


def test_resources_have_an_api_version_and_a_qualified_name() -> None:
    assert PODS.api_version == "v1"
    assert JOBSETS.api_version == "jobset.x-k8s.io/v1alpha2"
    assert PODS.qualified_name == "pods"
    assert JOBSETS.qualified_name == "jobsets.jobset.x-k8s.io"


@each("name", ["", ".", "..", "a/b", "a%2fb"])
def test_a_name_with_path_separators_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        PODS.path("ns", name)


def test_a_name_is_quoted() -> None:
    assert PODS.path("ns", "a b?c#d:é") == "/api/v1/namespaces/ns/pods/a%20b%3Fc%23d%3A%C3%A9"


def test_a_path_needs_a_namespace_according_to_its_scope() -> None:
    with pytest.raises(InputError, match="needs its namespace"):
        PODS.path(name="p")
    with pytest.raises(InputError, match="cluster-scoped"):
        CUSTOM_RESOURCE_DEFINITIONS.path("ns", "p")
    with pytest.raises(InputError, match="needs an object's name"):
        PODS.path("ns", subresource="status")

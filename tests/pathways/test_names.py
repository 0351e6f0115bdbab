"""The subdomain of a PathwaysJob's pods, and the names that follow from its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gangctl.pathways.job import DeploymentMode, PathwaysJob, longest_pod, subdomain
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.reading import ANY_SLICE
from tests.rows import each

AUTO = PathwaysOptions(subdomain="auto")


def job(name: str, options: PathwaysOptions = AUTO) -> PathwaysJob:
    return PathwaysJob(name=name, slice=ANY_SLICE, slices=12, mode=DeploymentMode.DEFAULT, options=options)


def test_the_subdomain_is_the_name_of_the_jobset_by_default() -> None:
    assert subdomain(job("pw", PathwaysOptions())) == ""


def test_a_given_subdomain_is_used() -> None:
    assert subdomain(job("pw", PathwaysOptions(subdomain="s"))) == "s"


def test_a_short_subdomain_is_made_only_where_the_name_needs_it() -> None:
    assert subdomain(job("p" * 22)) == ""
    longer = subdomain(job("p" * 23))
    assert len(longer) == 8
    assert longer == subdomain(job("p" * 23))
    assert longer != subdomain(job("q" * 23))


@pytest.mark.parametrize("length", [23, 36])
def test_the_address_with_a_short_subdomain_fits_into_a_label(length: int) -> None:
    name = "p" * length
    assert len(f"{name}-pathways-head-0-0.{subdomain(job(name))}") <= 63


@each(
    ("vms", "slices", "expected"),
    [(1, 1, "pw-pathways-head-0-0-abcde"), (1, 10**9, f"pw-worker-{10**9 - 1}-0-abcde")],
)
def test_the_longest_pod_is_a_worker_or_the_head(vms: int, slices: int, expected: str) -> None:
    found = replace(job("pw"), slices=slices)
    assert found.slice.vms == vms
    assert longest_pod(found) == expected

"""The list of families is what rules and dashboards are checked against: it must be what a process exports."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from gangctl.runtime.families import Family
from tests.manager.families import Catalogue, composed_families, families
from tests.rows import each


def test_families_of_every_part_are_known_by_name_and_labels() -> None:
    known = {family.name: family for family in families()}
    assert known["gangctl_gangs"].labels == ("namespace", "local_queue", "cluster_queue", "phase")
    assert known["gangctl_rest_client_requests_total"].labels == ("verb", "resource", "code")
    assert known["gangctl_fit_verdicts"].type == "gauge"
    assert known["gangctl_policy_violations"].labels == ("policy", "severity", "action")
    assert known["gangctl_admission_duration_seconds"].series == (
        "gangctl_admission_duration_seconds_bucket",
        "gangctl_admission_duration_seconds_sum",
        "gangctl_admission_duration_seconds_count",
    )


async def test_families_are_the_same_within_an_event_loop_and_sorted_by_name() -> None:
    names = [family.name for family in await composed_families()]
    assert names == sorted(set(names))


def test_a_catalogue_describes_families_that_have_no_value_yet() -> None:
    catalogue = Catalogue()
    Counter("gangctl_things", "Things.", ["kind"], registry=catalogue)
    Histogram("gangctl_wait_seconds", "Waits.", registry=catalogue)
    assert catalogue.families() == (
        Family("gangctl_things_total", "counter", "Things.", ("kind",)),
        Family("gangctl_wait_seconds", "histogram", "Waits."),
    )


@each(
    ("name", "unit"),
    [("gangctl_wait_seconds", "seconds"), ("gangctl_busy_seconds_total", "seconds"), ("gangctl_gangs", "")],
)
def test_the_unit_of_a_family_follows_from_its_name(name: str, unit: str) -> None:
    kind = "counter" if name.endswith("_total") else "gauge"
    family = Family(name, kind, "Help.")  # type: ignore[arg-type]
    assert family.unit == unit
    assert family.metric().unit == unit

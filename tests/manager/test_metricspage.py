"""docs/metrics.md has what a process exports, and every name follows the conventions of Prometheus."""

from __future__ import annotations

import re

from gangctl.readiness.metrics import PodState
from gangctl.readiness.result import GangPhase
from gangctl.runtime.families import Family
from tests.manager import metricspage
from tests.manager.families import families
from tests.rows import each

FAMILIES = families()
OURS = [family for family in FAMILIES if family.name.startswith("gangctl_")]
NUMBERS = {"gangctl_build_info", "gangctl_api_support_info", "gangctl_gang_info"}
STATELESS = {phase.label for phase in GangPhase} | set(PodState)
"""Words that are values of labels; few families are about one of them."""

ABOUT_ONE_STATE = {"gangctl_gang_degraded_seconds_total", "gangctl_gang_ready_pods"}
UNITS = ("milli", "micro", "nano", "minutes", "hours", "_ms", "_us", "kilobytes", "mega", "percent")


def test_the_page_is_up_to_date() -> None:
    assert metricspage.PAGE.read_text(encoding="utf-8") == metricspage.page(FAMILIES), metricspage.__doc__


def test_every_family_is_in_one_section_and_has_a_bound() -> None:
    names = [family.name for family in FAMILIES]
    for name in names:
        sections = [title for title, _, shown in metricspage.SECTIONS if metricspage.in_section(shown, name)]
        assert len(sections) == 1, (name, sections)
        assert metricspage.bound(name)
    assert set(metricspage.READINESS) | set(metricspage.OTHER_BOUNDS) == set(names)


@each("family", OURS, ids=lambda family: family.name)
def test_names_of_families_follow_the_prometheus_conventions(family: Family) -> None:
    assert re.fullmatch(r"gangctl(_[a-z0-9]+)+", family.name)
    assert not any(unit in family.name for unit in UNITS), "base units only"
    assert (family.type == "counter") == family.name.endswith("_total")
    assert family.name.endswith("_info") == (family.name in NUMBERS)
    if family.type == "histogram":
        assert family.unit, "what is measured has a unit"
    assert not re.search(r"_(bucket|sum|count|created)$", family.name), "suffixes that Prometheus adds"
    if "timestamp" in family.name:
        assert family.type == "gauge"
        assert family.name.endswith("_timestamp_seconds")


@each("family", OURS, ids=lambda family: family.name)
def test_a_family_has_a_sentence_and_labels_that_are_words(family: Family) -> None:
    assert re.fullmatch(r"[A-Z].*\.", family.help)
    assert len(family.labels) == len(set(family.labels))
    for label in family.labels:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", label)
        assert label not in {"le", "quantile", "job", "instance", "type"}
    if family.name not in ABOUT_ONE_STATE:
        assert not STATELESS & set(family.name.split("_")) - {"ready", "scheduled"}, "a state is a label"


def test_labels_with_the_name_of_a_jobset_are_in_families_about_one() -> None:
    assert {family.name for family in FAMILIES if "jobset" in family.labels} == {
        "gangctl_gang_info",
        "gangctl_gang_status_phase",
        "gangctl_gang_status_reason",
        "gangctl_gang_ready_pods",
        "gangctl_gang_wanted_pods",
        "gangctl_gang_phase_timestamp_seconds",
    }

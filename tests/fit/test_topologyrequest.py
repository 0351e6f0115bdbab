"""Requests for a topology as Kueue reads them from annotations, and those that its webhook rejects."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.fit.requests import malformed_topology, podsets_of
from gangctl.kueue.topology import Layer, TopologyRequest, read_request
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY

PREFIX = "kueue.x-k8s.io/podset-"
KEYS = (
    *("required-topology", "preferred-topology", "unconstrained-topology", "group-name"),
    *("slice-required-topology", "slice-size", "slice-required-topology-constraints"),
)
PODS = 4
RACKS_OF_HOSTS = '[{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]'


def notes(**written: str) -> dict[str, str]:
    """Annotations of Kueue's, dashes written as underscores."""
    return {f"{PREFIX}{key.replace('_', '-')}": value for key, value in written.items()}


def annotated(name: str, pods: int, **written: str) -> dict[str, Any]:
    entry = rj(name, 1, pods, pods)
    entry["template"]["spec"]["template"]["metadata"] = {"annotations": notes(**written)}
    return entry


@each(
    ("written", "request_", "words"),
    [
        ({}, None, ""),
        ({"required_topology": "rack"}, TopologyRequest("required", "rack"), "required rack"),
        (
            {"preferred_topology": "rack", "group_name": "g"},
            TopologyRequest("preferred", "rack", group="g"),
            "preferred rack",
        ),
        ({"unconstrained_topology": "true"}, TopologyRequest("unconstrained"), "unconstrained"),
        (
            {"preferred_topology": "block", "slice_required_topology": "rack", "slice_size": "2"},
            TopologyRequest("preferred", "block", (Layer("rack", 2),)),
            "preferred block, slices of 2 in rack",
        ),
        (
            {"slice_required_topology": "rack", "slice_size": "2"},
            TopologyRequest("slices", layers=(Layer("rack", 2),)),
            "slices of 2 in rack",
        ),
        (
            {"slice_required_topology_constraints": RACKS_OF_HOSTS},
            TopologyRequest("slices", layers=(Layer("rack", 4), Layer("host", 2))),
            "slices of 4 in rack, slices of 2 in host",
        ),
    ],
)
def test_a_request_is_read(written: dict[str, str], request_: TopologyRequest | None, words: str) -> None:
    assert read_request(notes(**written), PODS) == (request_, ())
    assert str(request_ or "") == words


@each(
    ("written", "words"),
    [
        ({"required_topology": "a", "preferred_topology": "b"}, "exclude each other"),
        ({"required_topology": ""}, "is empty"),
        ({"unconstrained_topology": "yes"}, '"yes", not true or false'),
        ({"unconstrained_topology": "false"}, "a level that no topology has; remove it"),
        ({"slice_required_topology": "rack"}, "slice-required-topology needs"),
        ({"slice_size": "2"}, "slice-size needs"),
        ({"slice_required_topology": "rack", "slice_size": "two"}, '"two", not a whole number from 1'),
        ({"slice_required_topology": "rack", "slice_size": "0"}, '"0", not a whole number from 1'),
        ({"slice_required_topology": "rack", "slice_size": "5"}, "a slice has 5 pods, and the podset 4"),
        ({"slice_required_topology_constraints": "{"}, "is not a JSON list of 1 to 3"),
        ({"slice_required_topology_constraints": "[]"}, "is not a JSON list of 1 to 3"),
        ({"slice_required_topology_constraints": '[{"topology": "rack"}]'}, "[0] needs topology"),
        ({"slice_required_topology_constraints": '[{"topology": "rack", "size": 8}]'}, "a slice has 8 pods"),
        ({"slice_required_topology_constraints": RACKS_OF_HOSTS.replace("host", "rack")}, "a second time"),
        ({"slice_required_topology_constraints": RACKS_OF_HOSTS.replace("2", "3")}, "does not divide 4"),
        ({"slice_required_topology_constraints": RACKS_OF_HOSTS, "slice_size": "2"}, "exclude each other"),
        ({"required_topology": "rack", "group_name": "7"}, "must not be a number"),
        ({"unconstrained_topology": "true", "group_name": "g"}, "group-name needs"),
        (
            {"required_topology": "a", "slice_required_topology": "b", "slice_size": "2", "group_name": "g"},
            "group-name and slices exclude each other",
        ),
    ],
)
def test_a_request_that_kueue_rejects_has_a_problem(written: dict[str, str], words: str) -> None:
    _, problems = read_request(notes(**written), PODS)
    assert words in "; ".join(problems)


@each(
    ("entries", "words"),
    [
        ([("a", 1, "required", "rack"), ("b", 4, "required", "rack")], ""),
        ([("a", 1, "required", "rack")], 'of "a" is not of two podsets'),
        ([("a", 2, "required", "rack"), ("b", 4, "required", "rack")], "no podset with one pod"),
        ([("a", 1, "required", "rack"), ("b", 4, "required", "block")], "ask for different topologies"),
        ([("a", 1, "preferred", "rack"), ("b", 4, "required", "rack")], "ask for different topologies"),
    ],
)
def test_a_group_is_of_a_leader_and_its_workers(entries: list[tuple[str, int, str, str]], words: str) -> None:
    raw = jobset(
        "js",
        *(
            annotated(name, pods, **{f"{mode}_topology": level, "group_name": "g"})
            for name, pods, mode, level in entries
        ),
    )
    problems = "; ".join(malformed_topology(podsets_of(raw)))
    assert words in problems
    assert bool(words) == bool(problems)


@PROPERTY
@given(st.dictionaries(st.sampled_from([PREFIX + key for key in KEYS]), st.text(max_size=60)), st.integers(0, 9))
def test_any_annotations_are_read(written: dict[str, str], pods: int) -> None:
    request, problems = read_request(written, pods)
    assert isinstance(str(request), str)
    assert all(problems)

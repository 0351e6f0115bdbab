"""The messages of real schedulers, shortened."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.readiness.causes.messages import of_the_group, read_denial, read_refusal
from tests.readiness.causes.finding import recorded
from tests.rows import each
from tests.strategies import PROPERTY


def messages(minor: str, case: str) -> list[str]:
    """All messages about one group."""
    found: dict[str, Any] = recorded(minor, case)
    return [each["message"] for each in (*found["group"], *(pod or {} for pod in found["pods"])) if "message" in each]


@each(
    ("minor", "case", "short"),
    [
        ("1.37", "unschedulable-each", "of 4 nodes, 4 short of cpu"),
        ("1.36", "unschedulable-each", "of 4 nodes, 4 short of cpu"),
        ("1.37", "unschedulable-together", "room for 4 of 6 pods; of 4 nodes, 4 short of cpu"),
        ("1.36", "unschedulable-together", "of 4 nodes, 4 short of cpu"),
        ("1.37", "selector", "of 4 nodes, 4 outside of the node selector or affinity"),
        ("1.36", "selector", "of 4 nodes, 4 outside of the node selector or affinity"),
        ("1.37", "taint-and-cpu", "room for 2 of 4 pods; of 4 nodes, 2 short of cpu, 2 with a taint"),
        ("1.36", "taint-and-cpu", "of 4 nodes, 2 short of cpu, 2 with a taint"),
        ("1.37", "topology", "room for 2 of 4 pods; of 2 nodes, 2 short of cpu"),
        ("1.36", "topology", "of 2 nodes, 2 short of cpu"),
        ("1.37", "topology-no-such-key", ""),
        ("1.36", "topology-no-such-key", ""),
        ("1.37", "priority", ""),
    ],
)
def test_refusals_of_real_schedulers_are_shortened(minor: str, case: str, short: str) -> None:
    assert read_refusal(messages(minor, case)).short == short


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_a_topology_is_recognized_by_the_number_of_tried_placements(minor: str) -> None:
    assert read_refusal(messages(minor, "topology")).placements == 2
    assert read_refusal(messages(minor, "unschedulable-each")).placements == 1
    assert read_refusal(messages(minor, "topology-no-such-key")).no_domain
    assert not read_refusal(messages(minor, "topology")).no_domain


def test_different_priorities_are_read_from_the_message() -> None:
    assert read_refusal(messages("1.37", "priority")).priorities == (1000, 0)


@each(
    ("message", "short"),
    [
        (
            "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint {dedicated: gpu}.",
            "of 5 nodes, 3 short of cpu, 2 with a taint {dedicated: gpu}",
        ),
        (
            (
                "0/3 nodes are available: 1 Insufficient memory, 1 Too many pods, 1 node(s) were unschedulable. "
                "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
            ),
            "of 3 nodes, 1 cordoned, 1 full of pods, 1 short of memory",
        ),
        (
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
            "of 1 node, 1 without a free host port",
        ),
        ("0/2 nodes are available: 2 Insufficient example.com/gpu.", "of 2 nodes, 2 short of example.com/gpu"),
        (
            (
                "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) exceed "
                "max volume count."
            ),
            "of 2 nodes, 1 full of volumes, 1 without the volume",
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.",
            "of 2 nodes, 2 without a volume to bind",
        ),
        ("0/2 nodes are available: 2 node(s) went to lunch.", "of 2 nodes, 2 went to lunch"),
        (
            (
                "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found. preemption: 0/2 "
                "nodes are available: 2 Preemption is not helpful for scheduling."
            ),
            "a PersistentVolumeClaim is not bound",
        ),
        (
            '0/2 nodes are available: persistentvolumeclaim "data" not found.',
            'PersistentVolumeClaim "data" does not exist',
        ),
        ("0/1 nodes are available: 1 cannot allocate all claims.", "of 1 node, 1 without free devices for its claims"),
    ],
)
def test_other_refusals_of_pods_are_shortened(message: str, short: str) -> None:
    assert read_refusal([message]).short == short


@pytest.mark.parametrize("pods", [True, False])
def test_what_the_api_server_finds_invalid_needs_a_new_jobset(pods: bool) -> None:
    message = 'Job.batch "js-w-0" is invalid: spec.completions: Required value: when completion mode is Indexed'
    denial = read_denial(message, pods=pods)
    assert denial.what == (
        "the API server finds it invalid: spec.completions: Required value: when completion mode is Indexed"
    )
    assert "create it again" in denial.remedy


def test_the_order_of_messages_does_not_matter() -> None:
    said = sorted(set(messages("1.37", "taint-and-cpu")))
    assert len({read_refusal(order) for order in permutations(said)}) == 1


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_a_pod_that_waits_for_its_group_is_distinguished(minor: str) -> None:
    said = [pod["message"] for pod in recorded(minor, "unschedulable-together")["pods"]]
    assert {of_the_group(message) for message in said if message.startswith("0/")} == {False}
    assert {of_the_group(message) for message in said if not message.startswith("0/")} == {True}


@PROPERTY
@given(st.lists(st.text(max_size=80) | st.from_regex(r"0/\d+ nodes are available: \d+ .*", fullmatch=True), max_size=4))
def test_any_text_is_read(said: list[str]) -> None:
    assert read_refusal(said) == read_refusal(reversed(said))
    for message in said:
        read_denial(message, pods=True)

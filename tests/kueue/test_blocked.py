"""K20: everything that blocks a queue, each with a separate reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gangctl.kueue.blocked import Blockage, blocked, selects
from gangctl.kueue.objects import ClusterQueue, Condition, LocalQueue, SelectorTerm
from tests.rows import each

LABELS: Mapping[str, str] = {"kubernetes.io/metadata.name": "team-a", "team": "a"}
DOOR = LocalQueue(namespace="team-a", name="main", cluster_queue="cq")
OPEN = ClusterQueue(name="cq", selector=(), active=Condition(status=True, reason="Ready"))


def term(key: str, operator: str, *values: str) -> SelectorTerm:
    return SelectorTerm(key, operator, values)  # type: ignore[arg-type]  # as parametrized


def inactive(reason: str, message: str = "") -> ClusterQueue:
    return replace(OPEN, active=Condition(status=False, reason=reason, message=message))


def test_an_open_queue_blocks_no_workload() -> None:
    assert blocked("main", DOOR, OPEN, LABELS) is None


SITUATIONS: list[tuple[LocalQueue | None, ClusterQueue | None, Blockage, str]] = [
    (None, OPEN, Blockage.LOCAL_QUEUE_MISSING, 'LocalQueue "main" does not exist'),
    (replace(DOOR, stop_policy="Hold"), OPEN, Blockage.LOCAL_QUEUE_STOPPED, "stopPolicy Hold"),
    (replace(DOOR, stop_policy="HoldAndDrain"), None, Blockage.LOCAL_QUEUE_STOPPED, "stopPolicy HoldAndDrain"),
    (DOOR, None, Blockage.CLUSTER_QUEUE_MISSING, 'ClusterQueue "cq" of LocalQueue "main" does not exist'),
    (DOOR, replace(OPEN, deleting=True), Blockage.CLUSTER_QUEUE_TERMINATING, "is being deleted"),
    (DOOR, replace(OPEN, stop_policy="Hold"), Blockage.CLUSTER_QUEUE_STOPPED, 'ClusterQueue "cq" is stopped'),
    (DOOR, replace(OPEN, selector=None), Blockage.NAMESPACE_NOT_SELECTED, "no namespaceSelector"),
    (
        DOOR,
        replace(OPEN, selector=(term("team", "In", "b", "c"), term("team", "Exists"))),
        Blockage.NAMESPACE_NOT_SELECTED,
        "team in (b, c)",
    ),
    (
        DOOR,
        inactive("FlavorNotFound", "Can't admit new workloads: references missing ResourceFlavor(s): gpu."),
        Blockage.CLUSTER_QUEUE_INACTIVE,
        "(FlavorNotFound): references missing ResourceFlavor(s): gpu",
    ),
    (DOOR, inactive("Unknown"), Blockage.CLUSTER_QUEUE_INACTIVE, "it does not say why"),
]


@each(("door", "queue", "reason", "words"), SITUATIONS)
def test_each_situation_has_a_separate_reason(
    door: LocalQueue | None, queue: ClusterQueue | None, reason: Blockage, words: str
) -> None:
    found = blocked("main", door, queue, LABELS)
    assert found is not None
    assert found.reason is reason
    assert words in found.message


def test_every_reason_has_a_situation() -> None:
    assert {reason for _, _, reason, _ in SITUATIONS} == set(Blockage)


def test_no_message_of_a_blocked_queue_contains_never() -> None:
    for door, queue, _, _ in SITUATIONS:
        found = blocked("main", door, queue, LABELS)
        assert found is not None
        assert "never" not in found.message


def test_unknown_facts_block_no_workload() -> None:
    assert blocked("main", DOOR, replace(OPEN, active=None), LABELS) is None
    assert blocked("main", DOOR, replace(OPEN, selector=(term("team", "In", "b"),)), None) is None


def test_a_queue_without_a_namespace_selector_is_blocked() -> None:
    found = blocked("main", DOOR, replace(OPEN, selector=None), None)
    assert found is not None
    assert found.reason is Blockage.NAMESPACE_NOT_SELECTED


def test_an_outdated_condition_of_a_stopped_queue_is_ignored() -> None:
    assert blocked("main", DOOR, inactive("Stopped", "is stopped"), LABELS) is None


def test_only_unmet_terms_are_named() -> None:
    queue = replace(OPEN, selector=(term("team", "In", "a"), term("tier", "Exists"), term("team", "DoesNotExist")))
    found = blocked("main", DOOR, queue, LABELS)
    assert found is not None
    assert found.message.endswith("labels of the namespace: tier exists, team does not exist")


@each(
    ("terms", "expected"),
    [
        ((), True),
        (None, False),
        ((term("team", "In", "a", "b"),), True),
        ((term("team", "In", "b"),), False),
        ((term("tier", "In", "a"),), False),
        ((term("team", "NotIn", "a"),), False),
        ((term("tier", "NotIn", "a"),), True),
        ((term("team", "Exists"),), True),
        ((term("tier", "Exists"),), False),
        ((term("tier", "DoesNotExist"),), True),
        ((term("team", "DoesNotExist"),), False),
        ((term("team", "In", "a"), term("tier", "Exists")), False),
    ],
)
def test_selectors_match_as_kubernetes_does(terms: tuple[SelectorTerm, ...] | None, expected: bool) -> None:
    assert selects(terms, LABELS) is expected

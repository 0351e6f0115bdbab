from __future__ import annotations

from gangctl.evaluation.queue import Penalties


def test_a_penalty_ends_by_itself_and_is_prolonged() -> None:
    now = 0.0
    penalties: Penalties[str] = Penalties(10, lambda: now)
    assert "a" not in penalties
    penalties.add("a")
    now = 9.0
    assert "a" in penalties
    assert "b" not in penalties
    penalties.add("a")
    now = 18.9
    assert "a" in penalties
    now = 19.0
    assert "a" not in penalties


def test_penalties_are_dropped_with_their_keys() -> None:
    penalties: Penalties[str] = Penalties(10, lambda: 0.0)
    penalties.add("a")
    penalties.add("b")
    penalties.retain(lambda key: key == "b")
    assert "a" not in penalties
    assert "b" in penalties

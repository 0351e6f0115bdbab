from __future__ import annotations

from gangctl.evaluation.penalties import Penalties


def test_penalties_grow_and_decay() -> None:
    penalties: Penalties[str] = Penalties(base=10, cap=35)
    assert not penalties.holds("a", 0)
    assert penalties.add("a", 0) == 10
    assert penalties.holds("a", 9.9)
    assert not penalties.holds("a", 10)
    assert penalties.add("a", 12) == 20, "again, soon after the first"
    assert penalties.add("a", 20) == 35, "no longer than the cap"
    assert penalties.holds("a", 54)
    assert not penalties.holds("a", 55)
    assert not penalties.holds("b", 20)
    assert penalties.add("a", 91) == 10, "none for as long as the last one was"


def test_keys_that_are_gone_are_forgotten() -> None:
    penalties: Penalties[str] = Penalties(base=10, cap=20)
    penalties.add("a", 0)
    penalties.add("b", 0)
    penalties.retain(lambda key: key == "b")
    assert not penalties.holds("a", 1)
    assert penalties.holds("b", 1)

"""The suite about itself."""

import re
from pathlib import Path

from tests.conformance.behaviours import behaviours

HERE = Path(__file__).parent


def test_enough_behaviours_are_named() -> None:
    names = behaviours()
    assert len(names) >= 120
    assert len(names) == len(set(names))
    assert not [name for name in names if re.search(r"\b(real|sandbox)\b", name)]


def test_no_behaviour_asks_which_server_it_is() -> None:
    asking = re.compile(r"\.real\b|\bsandbox\b", re.IGNORECASE)
    tests = [path for path in HERE.glob("test_*.py") if path.name != Path(__file__).name]
    assert tests
    assert [path.name for path in tests if asking.search(path.read_text())] == []

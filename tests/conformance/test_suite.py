"""The suite about itself."""

import re
from pathlib import Path

from tests.conformance.behaviours import behaviours

HERE = Path(__file__).parent
# Where the two kinds of server are made; nobody else may tell them apart.
MAKERS = {"grounds.py", "conftest.py", "test_suite.py"}


def test_enough_behaviours_are_named() -> None:
    names = behaviours()
    assert len(names) >= 120
    assert len(names) == len(set(names))
    assert not [name for name in names if re.search(r"\b(real|sandbox)\b", name)]


def test_no_behaviour_asks_which_server_it_is() -> None:
    for path in HERE.glob("*.py"):
        if path.name not in MAKERS:
            assert not re.search(r"\.real\b|\bsandbox\b", path.read_text().partition('"""\n')[2]), path.name

"""The suite about itself."""

import re
from pathlib import Path

from tests.conformance.behaviours import behaviours

HERE = Path(__file__).parent


def test_behaviours_have_unique_names() -> None:
    names = behaviours()
    assert len(names) >= 120
    assert len(names) == len(set(names))
    assert not [name for name in names if re.search(r"\b(real|sandbox)\b", name)]


def test_no_behaviour_depends_on_the_kind_of_server() -> None:
    asking = re.compile(r"\.real\b|\bsandbox\b", re.IGNORECASE)
    tests = [path for path in HERE.glob("test_*.py") if path.name != Path(__file__).name]
    assert tests
    assert [path.name for path in tests if asking.search(path.read_text())] == []

"""Examples in docstrings give the results that they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import gangctl

ROOT = Path(gangctl.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(ROOT)) for path in MODULES])
def test_examples_in_docstrings_give_their_results(path: Path) -> None:
    module = importlib.import_module(".".join(("gangctl", *path.relative_to(ROOT).with_suffix("").parts)))
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed

"""The behaviours by name: each once, however many minors have it and however many servers are tested."""

import os
import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_COLLECTED = re.compile(r"^tests/conformance/test_(?P<area>\w+)\.py::test_(?P<name>\w+)(\[(?P<case>.+)\])?$")
_GROUND = re.compile(r"(^|-)(real|sandbox)-\d+\.\d+($|-)")


class CollectionFailed(Exception):  # noqa: N818 - said as it is
    """The suite cannot be collected; the message is pytest's output."""


def behaviours() -> list[str]:
    """`area: what is so (case)`, in the order of the suite; pytest collects them in a process of its own."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/conformance"]
    # Options of the current run would change the output of the collection.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    answer = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise CollectionFailed(f"pytest cannot collect the suite:\n{answer.stdout[-2000:]}{answer.stderr[-2000:]}")
    found = (_COLLECTED.match(line) for line in answer.stdout.splitlines())
    # A test that asks no server is about the suite.
    names = (_named(each) for each in found if each and _GROUND.search(each["case"] or ""))
    return list(dict.fromkeys(names))


def _named(match: re.Match[str]) -> str:
    case = _GROUND.sub(lambda ground: "-" if ground[1] and ground[3] else "", match["case"])
    words = match["name"].replace("_", " ")
    return f"{match['area'].replace('_', ' ')}: {words}" + (f" ({case})" if case else "")

"""Test results as JUnit XML, the way CI systems read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

# What XML 1.0 can hold (2.2); a message may quote anything.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Reported:
    """One test: where it belongs, its name, how long it took in seconds, and why it failed, if it did."""

    suite: str
    group: str
    name: str
    file: str
    line: int
    seconds: float = 0.0
    failure: str = ""


def junit(cases: Sequence[Reported], name: str = "gangctl policy test") -> str:
    """One ``testsuite`` per suite, in the order of the first test of each."""
    suites: dict[str, list[Reported]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    root = Element("testsuites", _counts(name, cases))
    for suite, members in suites.items():
        element = SubElement(root, "testsuite", _counts(suite, members))
        for case in members:
            _add(element, case)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _add(suite: Element, case: Reported) -> None:
    attributes = {
        "classname": _clean(case.group),
        "name": _clean(case.name),
        "file": _clean(case.file),
        "line": str(case.line),
        "time": f"{case.seconds:.6f}",
    }
    element = SubElement(suite, "testcase", attributes)
    if case.failure:
        failure = SubElement(element, "failure", {"message": _clean(case.failure), "type": "ExpectationFailed"})
        failure.text = _clean(f"{case.file}:{case.line}: {case.failure}")


def _counts(name: str, cases: Sequence[Reported]) -> dict[str, str]:
    return {
        "name": _clean(name),
        "tests": str(len(cases)),
        "failures": str(sum(bool(case.failure) for case in cases)),
        "errors": "0",
        "skipped": "0",
        "time": f"{sum(case.seconds for case in cases):.6f}",
    }


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)

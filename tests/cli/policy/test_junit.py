"""JUnit XML."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import fromstring

from gangctl.cli.policy.test import junit


def example(suite: str, policy: str, name: str, file: str, line: int, *, seconds: float, failure: str) -> Any:
    return SimpleNamespace(
        file=SimpleNamespace(name=suite, path=file),
        row=SimpleNamespace(policy=policy),
        name=name,
        line=line,
        seconds=seconds,
        failure=failure,
    )


CASES = [
    example("queue", "require-queue", "a", "q/gangctl-test.yaml", 7, seconds=0.25, failure=""),
    example(
        "queue",
        "require-queue",
        "b <&> \x1b",
        "q/gangctl-test.yaml",
        9,
        seconds=0.5,
        failure="expected pass, got 'fail' \x00",
    ),
    example("size", "max-size", "c", "s/gangctl-test.yaml", 3, seconds=0, failure=""),
]


def test_counts_names_and_failures() -> None:
    text = junit(CASES)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')
    root = fromstring(text)
    assert (root.get("tests"), root.get("failures"), root.get("time")) == ("3", "1", "0.750000")
    queue, size = root
    assert (queue.get("name"), queue.get("tests"), queue.get("failures")) == ("queue", "2", "1")
    assert size.get("failures") == "0"
    passed, failed = queue
    assert {key: passed.get(key) for key in ("classname", "name", "file", "line", "time")} == {
        "classname": "require-queue",
        "name": "a",
        "file": "q/gangctl-test.yaml",
        "line": "7",
        "time": "0.250000",
    }
    assert len(passed) == 0
    (failure,) = failed
    assert failure.get("message") == "expected pass, got 'fail' \ufffd"
    assert failure.text == "q/gangctl-test.yaml:9: expected pass, got 'fail' \ufffd"
    assert failed.get("name") == "b <&> \ufffd"


def test_a_report_without_tests_is_written() -> None:
    assert fromstring(junit([])).get("tests") == "0"

"""Any input gives an answer or an error with its place, and never an internal error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.run import Answer, gangctl
from tests.strategies import PROPERTY, hostile_jobsets, jobsets, mangled

COMMANDS = [
    ("plan", "-o", "table"),
    ("plan", "-o", "json"),
    ("plan", "-o", "yaml", "--kube", "1.35"),
    ("translate", "--jobs", "-o", "json"),
    ("translate", "-o", "name", "--kube", "1.36", "-n", "t"),
    ("convert", "--to", "scheduling", "-o", "json"),
    ("convert", "--to", "annotations"),
]
HEADER = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}


def run(command: tuple[str, ...], text: str) -> Answer:
    answer = gangctl(*command, "-f", "-", stdin=text)
    assert answer.code in {0, 2}, answer.err
    if answer.code == 2:
        assert answer.out == ""
        assert sum(line.startswith("error: ") for line in answer.err.splitlines()) == 1
    elif "json" in command:
        json.loads(answer.out)
    return answer


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@PROPERTY
@given(st.one_of(hostile_jobsets(), mangled(jobsets())))
def test_any_object_gives_an_answer_or_an_error(command: tuple[str, ...], raw: dict[str, Any]) -> None:
    run(command, json.dumps({**raw, **HEADER}))


@pytest.mark.parametrize("command", COMMANDS[:1], ids=" ".join)
@PROPERTY
@given(st.text(max_size=60))
def test_any_text_gives_an_answer_or_an_error(command: tuple[str, ...], text: str) -> None:
    run(command, text.encode("utf-8", "replace").decode())


@PROPERTY
@given(jobsets())
def test_plan_and_translate_agree(raw: dict[str, Any]) -> None:
    text = json.dumps(raw)
    plan, objects = run(("plan", "-o", "json"), text), run(("translate", "-o", "name", "--jobs"), text)
    assert plan.code == objects.code
    if plan.code == 0:
        report = plan.json
        names = [line.partition("/")[2] for line in objects.out.splitlines()]
        workload = [report["workload"]] if report["workload"] else []
        groups = [group["name"] for group in report["groups"]]
        assert names == [*workload, *groups, *(job["name"] for job in report["jobs"])]

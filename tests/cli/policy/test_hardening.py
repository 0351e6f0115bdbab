"""Any content of the files gives an answer or an error, and never a traceback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.policy.policies import (
    FEW,
    QUEUED,
    Object,
    binding,
    config_map,
    exception,
    files,
    namespace,
    native,
    policy,
)
from tests.cli.run import gangctl
from tests.jobsets import jobset, rj
from tests.rows import each

RULES: list[Object] = [
    policy(
        "p",
        FEW,
        QUEUED,
        variables=[{"name": "v", "expression": "1"}],
        matchConditions=[{"name": "c", "expression": "true"}],
        matchConstraints={"namespaceSelector": {"matchLabels": {"a": "b"}}},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        paramRef={"name": "x", "parameterNotFoundAction": "Deny"},
        defaults={"queue": "q"},
    ),
    native("n", QUEUED),
    binding("b", "n"),
    exception("e", "p", "few-pods", namespaces=["t"]),
    namespace("t", a="b"),
    config_map("x", "t", a="1"),
]
SUBJECTS: list[Object] = [jobset("js", rj("a", 1, 2, 2), mode="Gang")]
TEST: list[Object] = [
    {
        "apiVersion": "gangctl.dev/v1alpha1",
        "kind": "PolicyTest",
        "policies": ["rules.yaml"],
        "resources": ["subjects.yaml"],
        "params": ["rules.yaml"],
        "namespaces": ["rules.yaml"],
        "exceptions": ["rules.yaml"],
        "now": "2026-01-01T00:00:00Z",
        "results": [
            {"policy": "p", "resources": "js", "result": "pass"},
            {"policy": "n", "rule": 0, "resources": ["t/js", {"name": "js"}], "result": "fail", "message": "x"},
        ],
    }
]
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", 0, -1, 1.5, True, [], {}, [None], [{}], {"a": None}, [["x"]], "\x1b[2J", "-"]
)
COMMANDS = (
    ("eval", "--policy", "rules.yaml", "-f", "subjects.yaml", "--details", "-o", "yaml"),
    ("eval", "--policy", "rules.yaml", "-f", "subjects.yaml", "--operation", "DELETE"),
    ("lint", "rules.yaml"),
    ("list", "rules.yaml"),
    ("test", "."),
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if len(path) > 1:
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from paths(part, (*path, key))


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[list[Object], list[Object], list[Object]]:
    """Good files but for one value."""
    documents = copy.deepcopy((RULES, SUBJECTS, TEST))
    which = draw(st.sampled_from(documents))
    *way, last = draw(st.sampled_from(list(paths(which))))
    inner: Any = which
    for step in way:
        inner = inner[step]
    inner[last] = draw(JUNK)
    return documents


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=spoilt())
def test_an_invalid_value_gives_an_answer_or_an_error(
    command: tuple[str, ...],
    documents: tuple[list[Object], list[Object], list[Object]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rules, subjects, test = documents
    files(tmp_path, **{"rules": rules, "subjects": subjects, "gangctl-test": test})
    answer = gangctl("policy", *command)
    assert answer.code in {0, 1, 2}, answer.err
    if answer.code == 2:
        assert "error: " in answer.err
    assert "\x1b" not in answer.out + answer.err


@each("spec", [[], "x", True, None, {"policyName": {}}])
def test_an_invalid_binding_gives_an_answer_or_an_error(tmp_path: Path, spec: Any) -> None:
    path = files(tmp_path, rules=[policy("p", FEW), binding("b", "n") | {"spec": spec}])["rules"]
    answer = gangctl("policy", "lint", path)
    assert answer.code == 0
    assert "warning: the policy that it binds is not in these files (UnknownPolicy)" in answer.out

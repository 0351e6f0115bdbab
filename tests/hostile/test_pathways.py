"""PathwaysJobs with anything anywhere: every verb answers or refuses, with one error at its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cli.program import program
from gangctl.errors import escaped
from tests.hostile.commands import Ran, gangctl, is_refused
from tests.hostile.profiles import tries
from tests.hostile.test_files import NAMES, bomb
from tests.hostile.words import json_values, words
from tests.pathways.samples import annotated, container, pathways_job, template
from tests.rows import each
from tests.strategies import mangled

COMMANDS = (
    ("pathways", "render"),
    ("pathways", "validate"),
    ("pathways", "why"),
    ("plan",),
    ("translate", "--jobs"),
)
HEAD = {"apiVersion": "pathways-job.pathways.domain/v1", "kind": "PathwaysJob"}
OPTIONS = "gangctl.dev/pathways-options"

RICH = pathways_job(
    metadata={
        "labels": {"a": "b"},
        **annotated(pathways_options='{"headResources": {"proxy": {"limits": {"cpu": 2}}}}'),
    },
    controller={
        "elasticSlices": 1,
        "template": template(
            container(env=[{"name": "A", "value": "b"}], ports=[{"containerPort": 80}]), container("b")
        ),
    },
    customComponents=[{"componentType": "worker", "image": "x", "customFlags": ["--a"], "customEnv": [{"name": "B"}]}],
)


def run(raw: Any, *command: str) -> Ran:
    result = CliRunner().invoke(program, [*command, "-f", "-"], input=json.dumps({**raw, **HEAD}))
    return Ran(result.exit_code, result.stdout, result.stderr)


@given(
    raw=st.one_of(mangled(st.just(RICH)), st.dictionaries(words, json_values, max_size=3)),
    command=st.sampled_from(COMMANDS),
)
@tries(100)
def test_any_object_is_answered_or_refused(raw: dict[str, Any], command: tuple[str, ...]) -> None:
    ran = run(raw, *command)
    assert ran.code in {0, 2}, ran.err
    assert all(escaped(line) == line for line in ran.err.splitlines())
    if ran.code:
        is_refused(ran, 2)


@given(options=json_values, command=st.sampled_from(COMMANDS))
@tries(60)
def test_any_options_are_answered_or_refused(options: Any, command: tuple[str, ...]) -> None:
    ran = run(pathways_job(metadata={"annotations": {OPTIONS: json.dumps(options)}}), *command)
    assert ran.code in {0, 2}, ran.err
    assert all(escaped(line) == line for line in ran.err.splitlines())


@each("command", COMMANDS)
@each("name", NAMES)
def test_control_characters_in_names_are_escaped(name: str, command: tuple[str, ...]) -> None:
    raw = pathways_job(
        name,
        metadata={"namespace": name},
        workers={"type": name, "topology": name, "priorityClassName": name},
        controller={"mainContainerName": name, "deploymentMode": name, "template": template(container(name))},
    )
    printed = is_refused(run(raw, *command), 2)
    assert len(printed) < 20_000


@pytest.mark.parametrize("command", COMMANDS[:3])
def test_expansion_bombs_are_refused_within_limited_memory(command: tuple[str, ...], tmp_path: Path) -> None:
    text = bomb("lol", 12).replace("jobset.x-k8s.io/v1alpha2", HEAD["apiVersion"]).replace("JobSet", HEAD["kind"])
    (tmp_path / "a.yaml").write_text(text)
    is_refused(gangctl(*command, "-f", str(tmp_path / "a.yaml")), 2)

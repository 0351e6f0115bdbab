"""``gangctl policy list``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.policy.policies import FEW, QUEUED, binding, files, native, policy, rule
from tests.cli.policy.server import ask, serving
from tests.cli.run import fine, gangctl


def test_policies_of_files_are_listed(tmp_path: Path) -> None:
    limits = policy("limits", FEW, QUEUED, validationActions=["Warn", "Audit"], failurePolicy="Ignore")
    broken = policy("broken", rule("nothing"), rule("1", name="s"))
    path = files(tmp_path, policies=[limits, broken, native("n", QUEUED), binding("b", "n", "Warn")])["policies"]
    answer = fine("policy", "list", path)
    lines = answer.out.splitlines()
    assert lines[0].split() == ["NAME", "ACTIONS", "FAILUREPOLICY", "READY", "VIOLATIONS", "RULES", "MESSAGE"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert rows["limits"] == ["Warn,Audit", "Ignore", "yes", "-", "2", "-"]
    assert rows["n/b"] == ["Warn", "Fail", "(unset)", "yes", "-", "1", "-"]
    assert rows["broken"][:7] == ["Deny", "Fail", "(unset)", "no", "-", "2", "spec.validations[0].expression:"]
    wide = fine("policy", "list", path, "-o", "wide", "--no-headers", "--sort-by", "{.failurePolicy}").out.splitlines()
    assert [line.split()[0] for line in wide] == ["broken", "n/b", "limits"]
    assert wide[2].split()[-3:] == ["GangPolicy", f"{path}:1:1", "few-pods,queued"]
    data = fine("policy", "list", path, "-o", "json").json["items"]
    assert [each["metadata"]["name"] for each in data] == ["broken", "limits", "n/b"]
    assert data[0]["reason"].startswith("spec.validations[0].expression: ")
    assert data[0]["reason"].endswith("(and 1 more)")
    assert data[1]["source"].startswith(f"{path}:1:1")
    assert fine("policy", "list", path, "-o", "name").out.splitlines()[1] == "gangpolicy.gangctl.dev/limits"


def seen(name: str, status: str, message: str, generation: int, observed: int, **more: Any) -> dict[str, Any]:
    """A policy of this generation, with the status that gangctl wrote of an ``observed`` one."""
    ready = {"type": "Ready", "status": status, "reason": "r", "message": message, "observedGeneration": observed}
    written = policy(name, FEW)
    written["metadata"]["generation"] = generation
    return written | {"status": {"observedGeneration": observed, "conditions": [ready], **more}}


async def test_policies_of_a_cluster_are_listed(tmp_path: Path) -> None:
    counted = seen("counted", "True", "in force", 3, 3, results={"pass": 5, "fail": 2, "error": 1, "exempt": 4})
    broken = seen("broken", "False", "no such field", 2, 2)
    fresh = policy("fresh", FEW, failurePolicy="Fail")
    fresh["metadata"]["generation"] = 1
    repaired, edited = seen("repaired", "False", "no such field", 3, 2), seen("edited", "True", "in force", 2, 1)
    async with serving(policies=[fresh, counted, broken, repaired, edited]) as (_, url):
        answer = await ask(tmp_path, url, "list")
        data = (await ask(tmp_path, url, "list", "-o", "json")).json["items"]
    assert (answer.code, answer.err) == (0, "")
    hint = "if it stays so, see whether gangctl runs"
    assert answer.out == (
        "NAME       ACTIONS   FAILUREPOLICY   READY     VIOLATIONS   RULES   MESSAGE\n"
        "broken     Deny      Fail (unset)    no        -            1       no such field\n"
        "counted    Deny      Fail (unset)    yes       3            1       -\n"
        "edited     Deny      Fail (unset)    unknown   -            1       "
        f"gangctl has not loaded generation 2 yet (generation 1: ready): {hint}\n"
        "fresh      Deny      Fail            unknown   -            1       "
        f"gangctl has not loaded generation 1 yet: {hint}\n"
        "repaired   Deny      Fail (unset)    unknown   -            1       "
        f"gangctl has not loaded generation 3 yet (generation 2: not ready): {hint}\n"
    )
    assert {each["metadata"]["name"]: each["ready"] for each in data}["repaired"] == "unknown"


async def test_a_cluster_without_the_definition_of_policies_is_an_error(tmp_path: Path) -> None:
    async with serving() as (_, url):
        answer = await ask(tmp_path, url, "list")
    assert (answer.code, answer.out) == (3, "")
    assert "hint: kubectl apply -k manifests/policies/crds" in answer.err


@pytest.mark.parametrize(("command", "code"), [("list", 0), ("scan", 3), ("export", 3)])
async def test_without_a_right_to_exceptions_only_verdicts_fail(tmp_path: Path, command: str, code: int) -> None:
    """A violation may be exempt, and a policy with an exception must not be exported."""
    async with serving(policies=[policy("labelled", QUEUED)], exceptions=None, namespaces=[], jobsets=[]) as (_, url):
        answer = await ask(tmp_path, url, command)
    assert (answer.code, "cannot list gangpolicyexceptions" in answer.err) == (code, code != 0)
    assert ("labelled" in answer.out) is (code == 0)


def test_files_and_a_cluster_exclude_each_other() -> None:
    answer = gangctl("policy", "list", "x.yaml", "--context", "c")
    assert answer.code == 2
    assert "give files, or a cluster" in answer.err

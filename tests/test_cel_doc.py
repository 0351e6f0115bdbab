"""The refusals in docs/cel.md are those of gangctl and of each minor; its numbers are those of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gangctl.cel import limits, meter, times
from gangctl.cel.check import check
from gangctl.cel.declarations import FUNCTIONS
from gangctl.cel.environments import admission
from gangctl.cel.faults import CompileError
from gangctl.cel.library import lists, quantity, semver, url, values
from tests.cel.test_compile_answers import NARROWER
from tests.parity.corpus import cases
from tests.parity.public import public
from tests.rows import each

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "cel.md").read_text(encoding="utf-8")
NATIVE = json.loads((ROOT / "tests" / "cel" / "compile_cases.json").read_text())


def section(title: str) -> str:
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def examples(title: str) -> list[str]:
    return [found.replace("\\|", "|") for found in re.findall(r"^\| `(.+?)` \|", section(title), flags=re.MULTILINE)]


@each("expression", examples("Unsupported expressions"))
def test_listed_expressions_are_refused_by_gangctl_and_accepted_by_kubernetes(expression: str) -> None:
    assert expression in NARROWER or "1.37" in NATIVE[expression]
    with pytest.raises(CompileError):
        check(expression, admission())


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"{len(cases())} expressions" in TEXT
    requests = sum(len(policy.requests) for policy in public().values())
    assert f"{requests} requests to {len(public())} policies" in TEXT
    bounds = section("Limits")
    for number in (
        limits.CHARACTERS,
        limits.NODES,
        limits.NESTING,
        values.LARGEST,
        lists.LONGEST_RANGE,
        meter.EXPRESSION_STEPS,
        meter.POLICY_STEPS,
        times.LONGEST_TEXT,
        quantity.LONGEST,
        semver.LONGEST,
        url.LONGEST,
    ):
        assert re.search(rf"(?<![\d,]){number:,}(?!\d|,\d)", bounds), number


def test_every_function_is_named() -> None:
    named = {each.removesuffix("()") for each in re.findall(r"`([\w.]+(?:\(\))?)`", section("Functions"))}
    methods = {
        *("family", "isGlobalUnicast", "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isUnspecified"),
        *("containsCIDR", "containsIP", "masked", "prefixLength"),
        *(name for name in FUNCTIONS if name.startswith(("get", "format.", "optional.unwrap"))),
        *("unwrapOpt", "group", "path", "serviceAccount", "resource", "subresource", "namespace", "name"),
        *("fieldSelector", "labelSelector", "check", "allowed", "error", "errored", "reason"),
    }
    assert {name for name in FUNCTIONS if not name.startswith(("_", "@", "!", "-"))} - named - methods == set()

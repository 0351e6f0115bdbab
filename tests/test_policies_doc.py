"""The commands of the pages about policies are run on the files shown there; other tests run those of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from gangctl.cel.faults import CompileKind
from gangctl.cli.policy.suite import Expected, Suite, SuiteRow
from gangctl.controllers.scan import ScanMetrics, ScanOptions
from gangctl.policy.model import GangPolicyExceptionSpec, GangPolicySpec
from gangctl.policy.reports import CATEGORY, LABELS, MOST_NAMESPACES, MOST_RESULTS, SEVERITIES, SEVERITY
from tests.docpages import ROOT, Page, run_in
from tests.rows import each

PAGE: Final = Page("policies.md", "policy-tests.md")
TEXT, PROSE, FILES, COMMANDS = PAGE.text, PAGE.prose, PAGE.files, PAGE.commands
OFFLINE = [(line, code) for line, code in COMMANDS if re.match(r"gangctl policy (eval|test|lint)\b", line)]
ONLINE = [line for line, _ in COMMANDS if (line, 0) not in OFFLINE and (line, 1) not in OFFLINE]


def names(model: type[GangPolicySpec | GangPolicyExceptionSpec | SuiteRow | Suite]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name


def test_every_command_of_the_pages_is_tested() -> None:
    assert [line.split()[2] for line, _ in OFFLINE] == [*["eval"] * 4, *["test"] * 3, "lint"]
    assert [line.split()[:3] for line in ONLINE] == [
        ["kubectl", "get", "gangpolicies"],
        ["kubectl", "get", "gangpolicy"],
        ["kubectl", "get", "policyreports"],
        ["gangctl", "policy", "scan"],
        ["kubectl", "apply", "-k"],
        ["kubectl", "apply", "-f"],
        ["gangctl", "policy", "list"],
        ["gangctl", "policy", "scan"],
    ]
    assert set(FILES) == {"policy.yaml", "limits.yaml", "jobsets.yaml", "exception.yaml", "gangctl-test.yaml"}


@each(("command", "code"), OFFLINE)
def test_offline_commands_print_what_the_page_shows(command: str, code: int, tmp_path: Path) -> None:
    PAGE.keeps_its_word(command, code, tmp_path)


@each("model", [GangPolicySpec, GangPolicyExceptionSpec, SuiteRow, Suite])
def test_every_field_is_named(model: type[GangPolicySpec | GangPolicyExceptionSpec | SuiteRow | Suite]) -> None:
    known = {"apiVersion", "kind", "metadata", "policies", "results", "resources", "policy", "rule", "description"}
    assert [name for name in names(model) if f"`{name}`" not in PROSE and name not in known] == []
    assert [name for name in names(model) if name not in TEXT] == []


def test_every_result_and_every_code_is_named() -> None:
    source = (ROOT / "gangctl" / "cli" / "policy" / "lint.py").read_text(encoding="utf-8")
    codes = set(re.findall(r'(?:remark|_about)\("(\w+)"', source)) | set(re.findall(r'WARNING, "(\w+)"', source))
    codes |= set(re.findall(r'ERROR, "(\w+)"', source)) | {"UnknownField", "TypeMismatch", *map(str, CompileKind)}
    assert len(codes) > 15
    assert [word for word in (*codes, *map(str, Expected)) if f"`{word}`" not in PROSE] == []


def test_the_output_of_a_scan_is_named() -> None:
    registry = CollectorRegistry()
    ScanMetrics(registry, list)
    # A counter's samples end so; its family does not.
    families = [f"{each.name}_total" if each.type == "counter" else each.name for each in registry.collect()]
    assert len(families) == 5
    assert [name for name in (*families, CATEGORY, SEVERITY, *SEVERITIES) if f"`{name}`" not in PROSE] == []
    section = PROSE.partition("## Background scan")[2].partition("\n## ")[0]
    assert f"`--policy-scan-period` seconds ({ScanOptions().period_seconds:.0f})" in section
    assert f"at most {MOST_NAMESPACES} namespaces" in section
    assert f"{MOST_RESULTS} results" in section
    assert [f"-l {key}={value}" in section for key, value in LABELS.items()] == [True]


def test_the_finding_of_the_example_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(FILES["policy.yaml"].replace("group.minCount", "group.minCuont"), encoding="utf-8")
    done = run_in(tmp_path, "gangctl policy lint policy.yaml")
    shown = re.search(r"^    (policy\.yaml:.*\n(?:.*\n){2})", PROSE, flags=re.MULTILINE)
    assert shown is not None
    assert done.out.splitlines()[:3] == [line.removeprefix("    ") for line in shown[0].splitlines()]

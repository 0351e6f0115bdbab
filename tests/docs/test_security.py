"""docs/security.md: its list of permissions is that of the manifests, and what it says is not granted is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.docpages import ROOT

TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
RIGHTS = ROOT / "manifests" / "rbac"


def rules(directory: Path) -> list[tuple[str, dict[str, Any]]]:
    """Each rule of the roles below a directory, with the name of its role."""
    documents = [
        item
        for path in sorted(directory.rglob("*.yaml"))
        for item in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if item and item.get("kind") in {"Role", "ClusterRole"}
    ]
    return [(item["metadata"]["name"], rule) for item in documents for rule in item.get("rules") or ()]


def section(heading: str) -> str:
    return re.split(r"^#{2,3} ", TEXT.partition(f"### {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_right_is_in_the_table() -> None:
    granted, missing = section("Granted by default"), []
    for role, rule in rules(RIGHTS):
        if role in granted:
            missing += [f"{role}: {name}" for name in rule["resources"] if f"`{name}`" not in granted]
        elif role != "gangctl-registration":
            missing.append(role)
    assert missing == []


def test_what_is_not_granted_is_in_no_manifest() -> None:
    everywhere = rules(ROOT / "manifests")
    writes = {"create", "update", "patch", "delete", "deletecollection"}
    verbs = {verb for _, rule in everywhere for verb in rule["verbs"]}
    assert not verbs & {"*", "escalate", "bind", "impersonate"}
    resources = {name for _, rule in everywhere for name in rule.get("resources", ())}
    assert not resources & {"*", "pods/exec", "pods/log", "nodes/proxy"}
    by_default = rules(RIGHTS)
    changed = {(name, verb) for _, rule in by_default for name in rule["resources"] for verb in rule["verbs"]}
    assert {name for name, verb in changed if verb in writes} & {"jobsets", "jobs", "pods", "configmaps"} == {"jobs"}
    assert {verb for name, verb in changed if name == "jobs" and verb in writes} == {"create"}
    assert {verb for name, verb in changed if name == "secrets"} == {"get", "update", "create"}

"""The shipped pack: the directories of policies/, read as plain documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from gangctl.cli.policy.suite import FILE_NAME, Suite, SuiteRow
from gangctl.policy.variables import COMPUTED

Object = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
PACK: Final = ROOT / "policies"
NOTES: Final = "policies.gangctl.dev/"
_LITERAL: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


def documents(path: Path) -> list[Object]:
    """Every document of a file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


@dataclass(frozen=True)
class Case:
    """One object, and the expected result of one rule (or of the policy as a whole, "")."""

    row: SuiteRow
    resource: Object
    old: Object | None

    @property
    def name(self) -> str:
        return f"{self.row.rule or 'policy'}-{self.resource['metadata']['name']}-{self.row.operation}"


@dataclass(frozen=True)
class Shipped:
    """One directory."""

    home: Path

    @property
    def name(self) -> str:
        return self.home.name

    @cached_property
    def document(self) -> Object:
        (document,) = documents(self.home / "policy.yaml")
        return document

    @property
    def spec(self) -> Object:
        found: Object = self.document["spec"]
        return found

    @property
    def rules(self) -> list[str]:
        return [rule["name"] for rule in self.spec["validations"]]

    @property
    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self.document["metadata"]["annotations"]
        return found

    @cached_property
    def suite(self) -> Suite:
        return Suite.model_validate(yaml.safe_load((self.home / FILE_NAME).read_text()))

    @property
    def example(self) -> Object:
        (document,) = documents(self.home / "example.yaml")
        return document

    @cached_property
    def resources(self) -> dict[str, Object]:
        """By name; a name is used once in a directory."""
        found = [each for path in self.suite.resources for each in documents(self.home / path)]
        names = [each["metadata"]["name"] for each in found]
        assert len(set(names)) == len(names), f"{self.name}: a name is used twice in {names}"
        return dict(zip(names, found, strict=True))

    @property
    def has_params_component(self) -> bool:
        """Whether a component beside it makes it read parameters."""
        return (self.home / "params").is_dir()

    @property
    def params(self) -> list[Object]:
        return [each for path in self.suite.params for each in documents(self.home / path)]

    @property
    def namespaces(self) -> list[Object]:
        """Those that the resources are in, with the labels that the test file gives them."""
        reported = [each for path in self.suite.namespaces for each in documents(self.home / path)]
        names = {each["metadata"]["name"] for each in reported}
        used = {each["metadata"]["namespace"] for each in [*self.resources.values(), *self.params]}
        plain = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(used - names)]
        return reported + plain

    @cached_property
    def cases(self) -> list[Case]:
        return [
            Case(row, self.resources[selected.name], documents(self.home / row.old)[0] if row.old else None)
            for row in self.suite.results
            for selected in row.resources
        ]

    @property
    def expressions(self) -> list[str]:
        return [
            text
            for part in ("matchConditions", "variables", "validations")
            for entry in self.spec.get(part, [])
            for key, text in entry.items()
            if key in {"expression", "messageExpression"}
        ]

    @property
    def native(self) -> bool:
        """Whether every name in it exists in kube-apiserver: all but those that gangctl computes."""
        return not any(map(self.reads, COMPUTED))

    def reads(self, name: str) -> bool:
        """Whether an expression names a variable."""
        return any(re.search(rf"(?<![.\w]){name}\b", _LITERAL.sub("''", text)) for text in self.expressions)


@cache
def shipped() -> tuple[Shipped, ...]:
    """All of them, in the order of their names."""
    return tuple(Shipped(path.parent) for path in sorted(PACK.glob("*/policy.yaml")))


def native() -> Iterator[Shipped]:
    """Those that a kube-apiserver can run."""
    return (each for each in shipped() if each.native)

"""Flags of a PathwaysJob on a command line, and their values: every error is one problem of its flag."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gangctl.api.labelselector import KEY_RULE, VALUE_RULE, is_dns_subdomain, is_label_value, is_qualified_name
from gangctl.api.quantity import parse_quantity
from gangctl.errors import ErrorKind, shown
from gangctl.gang.plan import INT32_MAX
from gangctl.pathways.checks.template import VARIABLE
from gangctl.pathways.problems import MOST_PROBLEMS, InvalidReason, Problem, near, problem

RESOURCE_LISTS: Final = ("requests", "limits")

_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
"""Characters that neither arguments nor JSON can contain: bytes that were not UTF-8."""


@dataclass(frozen=True, slots=True)
class FlagTexts:
    """Reads the texts of flags; ``problems`` collects their errors, at the names of the flags."""

    problems: list[Problem] = field(default_factory=list)

    def refuse(self, reason: InvalidReason, flag: str, detail: str, kind: ErrorKind = ErrorKind.INVALID) -> None:
        """A problem of a flag; ``detail`` says what is allowed."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem(reason, flag, detail, kind))

    def text(self, flag: str, text: str) -> None:
        """A text that a container can get as an argument."""
        if _NO_TEXT.search(text):
            detail = f"must be text in UTF-8 without characters of code 0, got {shown(text)}"
            self.refuse(InvalidReason.MALFORMED, flag, detail)

    def pairs(self, flag: str, texts: Iterable[str], reason: InvalidReason = InvalidReason.MALFORMED) -> dict[str, str]:
        """``KEY=VALUE`` each, each key once; the value may hold more signs of equality."""
        found: dict[str, str] = {}
        for text in texts:
            key, sign, value = text.partition("=")
            if not sign or not key:
                self.refuse(reason, flag, f"must be KEY=VALUE, got {shown(text)}")
            elif key in found:
                self.refuse(reason, flag, f"{shown(key)} is given a second time", ErrorKind.DUPLICATE)
            else:
                found[key] = value
        return found

    def labels(self, flag: str, texts: Iterable[str]) -> dict[str, str]:
        """Pairs that can be labels of an object, or of a node; others are left out."""
        found = self.annotations(flag, texts)
        return {key: value for key, value in found.items() if self._is_label(flag, key, value)}

    def annotations(self, flag: str, texts: Iterable[str]) -> dict[str, str]:
        """Pairs that can be annotations; others are left out."""
        return {key: value for key, value in self.pairs(flag, texts).items() if self._is_key(flag, key)}

    def variables(self, flag: str, texts: Iterable[str]) -> dict[str, str]:
        """Environment variables, ``NAME=VALUE`` each; invalid names are left out."""
        found = self.pairs(flag, texts, InvalidReason.INVALID_ENVIRONMENT)
        return {name: value for name, value in found.items() if self._is_variable(flag, name)}

    def environment_file(self, flag: str, text: str, local: Mapping[str, str]) -> dict[str, str]:
        """A file of variables: ``NAME=VALUE``, or ``NAME`` for the ``local`` one; empty lines and ``#`` lines are none.

        A later line wins over an earlier one, as it does for XPK.
        """
        found: dict[str, str] = {}
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
            name, sign, value = line.partition("=")
            name = name.strip()
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not self._is_variable(flag, name, f" in line {number}"):
                continue
            if sign:
                found[name] = value
            elif name in local:
                self.text(flag, local[name])
                found[name] = local[name]
            else:
                detail = f"line {number}: {shown(name)} has no value here: set it in your shell, or write NAME=VALUE"
                self.refuse(InvalidReason.INVALID_ENVIRONMENT, flag, detail)
        return found

    def words(self, flag: str, text: str, reason: InvalidReason = InvalidReason.INVALID_COMPONENT) -> tuple[str, ...]:
        """The words of a text, split like in a shell."""
        try:
            return tuple(shlex.split(text))
        except ValueError as wrong:
            detail = f"cannot be parted into words as a shell does it: {wrong}; got {shown(text)}"
            self.refuse(reason, flag, detail)
            return ()

    def amounts(self, flag: str, texts: Iterable[str]) -> dict[str, dict[str, str]]:
        """Quantities, ``limits.memory=50G`` each, by list and resource; an empty one means none."""
        found: dict[str, dict[str, str]] = {name: {} for name in RESOURCE_LISTS}
        for path, amount in self.pairs(flag, texts, InvalidReason.INVALID_RESOURCES).items():
            kind, _, resource = path.partition(".")
            if kind not in RESOURCE_LISTS or not is_qualified_name(resource):
                meant = near(kind, RESOURCE_LISTS)
                detail = f"must be requests.NAME=QUANTITY or limits.NAME=QUANTITY, got {shown(path)}{meant}"
                self.refuse(InvalidReason.INVALID_RESOURCES, flag, detail)
            elif self._is_quantity(flag, path, amount):
                found[kind][resource] = amount
        return found

    def name(self, flag: str, text: str) -> None:
        """A name that another object may have."""
        if not is_dns_subdomain(text):
            detail = f"must be the name of an object: lower case letters, digits, - and ., got {shown(text)}"
            self.refuse(InvalidReason.INVALID_NAME, flag, detail)

    def number(self, reason: InvalidReason, flag: str, value: int | None) -> int | None:
        """A number in the range of the API's fields; None if it is invalid, or not given."""
        if value is not None and not 0 <= value <= INT32_MAX:
            self.refuse(reason, flag, f"must be at least 0 and at most {INT32_MAX}, got {shown(value)}")
            return None
        return value

    def _is_key(self, flag: str, key: str) -> bool:
        if is_qualified_name(key):
            return True
        self.refuse(InvalidReason.MALFORMED, flag, f"{shown(key)} is no key: {KEY_RULE}")
        return False

    def _is_label(self, flag: str, key: str, value: str) -> bool:
        if is_label_value(value):
            return True
        detail = f"the value of {shown(key)} must be {VALUE_RULE}; got {shown(value)}"
        self.refuse(InvalidReason.MALFORMED, flag, detail)
        return False

    def _is_variable(self, flag: str, name: str, where: str = "") -> bool:
        if VARIABLE.fullmatch(name):
            return True
        detail = f"{shown(name)}{where} is no name of a variable: letters, digits and _, first no digit"
        self.refuse(InvalidReason.INVALID_ENVIRONMENT, flag, detail)
        return False

    def _is_quantity(self, flag: str, path: str, amount: str) -> bool:
        if not amount:
            return True
        try:
            sound = parse_quantity(amount) >= 0
        except ValueError:
            sound = False
        if not sound:
            detail = f"{path} must be a quantity such as 24, 500m or 100G, got {shown(amount)}"
            self.refuse(InvalidReason.INVALID_RESOURCES, flag, detail)
        return sound

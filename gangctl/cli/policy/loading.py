"""Policies of files, loaded for evaluation, or all their errors with positions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final
from unicodedata import east_asian_width

from gangctl.api.documents import Document
from gangctl.cli.inputs import position
from gangctl.cli.messages import InvalidInputError, plural, printable
from gangctl.cli.policy.bundle import Bundle, check_names, check_unique, name_of, no_policies
from gangctl.errors import InputError, ValidationError
from gangctl.policy.export import is_exported
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import (
    LoadedException,
    LoadedPolicy,
    PolicyError,
    PolicyProblem,
    load_exception,
    problem_of_field,
)
from gangctl.policy.native import load_pair, pair

_WIDTH: Final = 110
"""Of a line of a policy as it is shown; longer ones are cut around the caret."""
_BEFORE: Final = 60
_CUT: Final = "..."
_WORD: Final = re.compile(r"[-.\w]+")


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to say about a policy's file; ``code`` is stable.

    ``path`` is the field. With ``offset`` the remark is about ``length`` characters of the text in it.
    """

    document: Document
    severity: Severity
    code: str
    path: str
    message: str
    hint: str = ""
    offset: int | None = None
    length: int = 1
    policy: str = ""

    @property
    def position(self) -> tuple[int, int]:
        """Line and column in the file, from 1."""
        if self.offset is None:
            return position(self.document, self.path)
        try:
            return self.document.position_in(self.path, self.offset)
        except InputError:  # a key that the notation of paths cannot carry
            return self.document.position("")

    @property
    def end(self) -> tuple[int, int]:
        """Line and column behind the words that it is about, or behind the key of the field."""
        if self.offset is None:
            line, column = self.position
            word = _WORD.match(self.document.line_at(line), column - 1)
            return line, column + (len(word[0]) if word is not None else 1)
        try:
            line, column = self.document.position_in(self.path, self.offset + self.length - 1)
        except InputError:
            return self.position
        return line, column + 1

    def lines(self) -> list[str]:
        """For a person: the place and the message, the line of the file, the caret, the hint."""
        line, column = self.position
        lines = [f"{self.document.source}:{line}:{column}: {self.severity}: {self.message} ({self.code})"]
        if text := self.document.line_at(line):
            end_line, end_column = self.end
            width = (end_column if end_line == line else len(text) + 1) - column
            lines += underlined(text, column, max(1, width))
        if self.hint:
            lines.append(f"    hint: {self.hint}")
        return [printable(line) for line in lines]

    def as_data(self) -> dict[str, Any]:
        """For a program."""
        line, column = self.position
        end_line, end_column = self.end
        return {
            "file": self.document.source,
            "line": line,
            "column": column,
            "endLine": end_line,
            "endColumn": end_column,
            "severity": self.severity.value,
            "code": self.code,
            "policy": self.policy,
            "field": self.path,
            "message": self.message,
            "hint": self.hint,
        }


def underlined(text: str, column: int, width: int) -> list[str]:
    """A line and carets under ``width`` of its characters from ``column`` (from 1); long lines are cut."""
    start = 0 if len(text) <= _WIDTH else max(0, min(column - 1 - _BEFORE, len(text) - _WIDTH))
    cut = text[start : start + _WIDTH]
    before, marked = cut[: column - 1 - start], cut[column - 1 - start :][:width]
    front = _CUT if start else ""
    back = _CUT if start + _WIDTH < len(text) else ""
    indent = " " * (len(front) + _columns(before))
    return [f"    {front}{_shown(cut)}{back}".rstrip(), f"    {indent}{'^' * max(1, _columns(marked))}"]


def _shown(text: str) -> str:
    # A tab as one column, so that carets can be counted.
    return printable(text.replace("\t", " "))


def _columns(text: str) -> int:
    """How wide a text is on a terminal."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in _shown(text))


def in_order(remarks: Iterable[Remark]) -> list[Remark]:
    """Remarks by file and place, each once."""
    seen: dict[tuple[str, int, int, str, str], Remark] = {}
    for remark in remarks:
        place = (remark.document.source, *remark.position, remark.code)
        seen.setdefault((*place, remark.message), remark)
    return [remark for _, remark in sorted(seen.items(), key=lambda item: item[0][:4])]


@dataclass(frozen=True, slots=True)
class LoadedPolicies:
    """What was loaded: policies in the order of their names, where each was written, and exceptions."""

    policies: tuple[LoadedPolicy, ...] = ()
    documents: Mapping[str, Document] = field(default_factory=dict)
    exceptions: tuple[LoadedException, ...] = ()
    remarks: tuple[Remark, ...] = ()
    """Errors, when :func:`try_to_load` was asked; none otherwise."""

    def named(self, name: str) -> list[LoadedPolicy]:
        """Policies of that name: a native one also by its own, without that of its binding."""
        return [policy for policy in self.policies if name in {policy.name, policy.name.partition("/")[0]}]

    @property
    def read_namespaces(self) -> bool:
        """Whether labels or other fields of Namespaces decide what is found."""
        selectors = [exception.spec.match.namespace_selector for exception in self.exceptions]
        excepts = any(not selector.selects_everything for selector in selectors)
        return excepts or any(policy.reads_namespace for policy in self.policies)

    @property
    def unbound(self) -> list[str]:
        """Native policies that nothing binds, and that are taken to be bound with Deny."""
        return [policy.name for policy in self.policies if policy.native and "/" not in policy.name]


def load(bundle: Bundle, minor: str) -> LoadedPolicies:
    """Load all policies, without those that were exported from others of them; InvalidInputError with all errors."""
    if not bundle.rules:
        raise no_policies(bundle)
    loaded = try_to_load(bundle, minor)
    if loaded.remarks:
        raise refusal(loaded.remarks)
    # What was exported from a GangPolicy would report its violations a second time.
    own = {policy.name: policy for policy in loaded.policies if not policy.native}
    shown = (policy for policy in loaded.policies if not is_exported(policy, own, loaded.exceptions))
    return replace(loaded, policies=tuple(shown))


def try_to_load(bundle: Bundle, minor: str) -> LoadedPolicies:
    """Load what can be loaded; the rest becomes remarks."""
    check_names([*bundle.rules, *bundle.bindings, *bundle.exceptions])
    check_unique(bundle.policies, "GangPolicy")
    check_unique(bundle.natives, "ValidatingAdmissionPolicy")
    check_unique(bundle.exceptions, "GangPolicyException")
    policies: list[tuple[LoadedPolicy, Document]] = []
    remarks: list[Remark] = []
    for document in bundle.policies:
        try:
            policies.append((load_policy(document.value), document))
        except PolicyError as error:
            remarks += remarks_of(error.problems, document, error.policy)
    # `pair` returns the objects themselves: their identity leads back to their files.
    documents = {id(document.value): document for document in (*bundle.natives, *bundle.bindings)}
    for both in pair(document.value for document in documents.values())[0]:
        document = documents[id(both.policy)]
        try:
            policies.append((load_pair(both, minor), document))
        except PolicyError as error:
            binding = document if both.binding is None else documents[id(both.binding)]
            for problem in error.problems:
                remarks += remarks_of([problem], binding if problem.binding else document, error.policy)
    exceptions = []
    for document in bundle.exceptions:
        try:
            exceptions.append(load_exception(document.value))
        except ValidationError as error:
            remarks += remarks_of(map(problem_of_field, error.errors), document, name_of(document.value))
    policies.sort(key=lambda pair: pair[0].name)
    return LoadedPolicies(
        tuple(policy for policy, _ in policies),
        {policy.name: document for policy, document in policies},
        tuple(sorted(exceptions, key=lambda exception: exception.name)),
        tuple(in_order(remarks)),
    )


def remarks_of(problems: Iterable[PolicyProblem], document: Document, policy: str) -> list[Remark]:
    """Problems of a policy as remarks about its file."""
    return [
        Remark(
            document,
            Severity.ERROR,
            problem.kind,
            problem.path,
            f"{problem.path}: {problem.message}" if problem.path else problem.message,
            problem.hint,
            problem.offset,
            problem.length or 1,
            policy,
        )
        for problem in problems
    ]


def refusal(remarks: Iterable[Remark]) -> InvalidInputError:
    """All errors of the policies, as one."""
    remarks = list(remarks)
    files = {(remark.document.source, remark.document.line) for remark in remarks}
    lines = [line for remark in remarks for line in remark.lines()]
    return InvalidInputError(lines, f"{plural(len(remarks), 'error')} in {plural(len(files), 'policy', 'policies')}")


def is_parameter(document: Document, policies: Iterable[LoadedPolicy]) -> bool:
    """Whether some policy takes parameters of this kind."""
    value = document.value
    kinds = (policy.spec.param_kind for policy in policies)
    return any(k and (k.api_version, k.kind) == (value.get("apiVersion"), value.get("kind")) for k in kinds)


def orphans(bundle: Bundle) -> list[str]:
    """Bindings of policies that are not in the files."""
    return [name_of(binding) for binding in pair(d.value for d in (*bundle.natives, *bundle.bindings))[1]]

"""``gangctl-test.yaml``: what a policy should say of which objects (``docs/gangctl-test.schema.json``); if it does."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic import ValidationError as PydanticError
from pydantic.alias_generators import to_camel

from gangctl.api.documents import Document
from gangctl.api.meta import API_VERSION
from gangctl.api.modelerrors import field_errors
from gangctl.api.objects import kind_of
from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cli.inputs import files_below, read_documents, reason, where
from gangctl.cli.messages import errors_in
from gangctl.cli.policy.bundle import Bundle, check_names, only, sort_documents
from gangctl.cli.policy.requests import GROUPS_OF_USER, USER, Sent, sent_for
from gangctl.cli.queuefiles import stock_of
from gangctl.cluster.stock import Stock
from gangctl.errors import InputError
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction

FILE_NAME: Final = "gangctl-test.yaml"
KIND: Final = "PolicyTest"


class Expected(StrEnum):
    """What a rule, or a policy as a whole, says of an object."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"
    ERROR = "error"


def _below(path: str) -> str:
    """Refuse what would make a test depend on where its directory stands."""
    parts = PurePosixPath(path).parts
    if not path.strip():
        raise ValueError("the path is empty")
    if path.startswith(("/", "~")) or "\\" in path:
        raise ValueError("paths are relative to the test file and written with /")
    if ".." in parts:
        raise ValueError('".." is not allowed: a test reads only what is in its directory or below')
    return path


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


def _text(value: Any) -> Any:
    """A rule without a name is known by its index, which YAML reads as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


RelativePath = Annotated[str, AfterValidator(_below)]
Pattern = Annotated[str, AfterValidator(_pattern)]
RuleId = Annotated[str, BeforeValidator(_text, json_schema_input_type=str | int)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Selector(_Strict):
    """Which objects of the resources; what is absent does not matter."""

    kind: str | None = Field(None, description="Kind of the object.")
    namespace: str | None = Field(None, description="Namespace, as written in the file; default where it names none.")
    name: str = Field(description="Name of the object.")


def _selector(value: Any) -> Any:
    """``name``, ``namespace/name`` and ``Kind/namespace/name`` are short for a selector."""
    if not isinstance(value, str):
        return value
    parts = value.split("/")
    if len(parts) > 3 or not all(parts):  # noqa: PLR2004 - kind, namespace, name
        raise ValueError("write NAME, NAMESPACE/NAME or KIND/NAMESPACE/NAME")
    return dict(zip(("kind", "namespace", "name")[-len(parts) :], parts, strict=True))


Selected = Annotated[Selector, BeforeValidator(_selector, json_schema_input_type=str | Selector)]


class SuiteRow(_Strict):
    """One expectation. Each object that it selects is a test of its own."""

    policy: str = Field(description="Name of the policy.")
    rule: RuleId | None = Field(
        None, description="Name of the rule, or its index where it has none. Absent: the policy as a whole."
    )
    resources: Annotated[
        list[Selected],
        BeforeValidator(_several, json_schema_input_type=str | Selector | list[str | Selector]),
        Field(min_length=1, description="Objects by NAME, NAMESPACE/NAME, KIND/NAMESPACE/NAME or as selectors."),
    ]
    operation: Literal["CREATE", "UPDATE", "DELETE"] = Field("CREATE", description="What is asked for.")
    old: RelativePath | None = Field(
        None, description="File with the object as it was: at UPDATE, needed. At DELETE the resource itself is it."
    )
    params: str | None = Field(None, description="Only what is found with the parameter object of this name.")
    user: str = Field(USER, description="request.userInfo.username.")
    groups: tuple[str, ...] = Field(
        default=(), description=f"request.userInfo.groups. Where none is written: {GROUPS_OF_USER}."
    )
    result: Expected = Field(
        description="pass; fail: violated, and the request is refused; warn: violated, and the request goes through; "
        "skip: the policy does not apply, or an exception covers it; error: the rule has no answer."
    )
    message: str | None = Field(None, description="The exact message of the violation or the error.")
    message_regex: Pattern | None = Field(None, description="A pattern (Python) found in the message.")
    description: str = Field("", description="What this shows; the test's name in reports.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.operation == "UPDATE" and self.old is None:
            raise ValueError("UPDATE needs old: the file with the object as it was")
        if self.operation != "UPDATE" and self.old is not None:
            raise ValueError(f"old is for UPDATE, the operation is {self.operation}")
        if self.message is not None and self.message_regex is not None:
            raise ValueError("message and messageRegex are alternatives")
        if self.result in {Expected.PASS, Expected.SKIP} and (self.message or self.message_regex):
            raise ValueError(f"there is no message where the result is {self.result}")
        return self


class SuiteMetadata(_Strict):
    """How the tests are called in reports."""

    name: str = Field(description="Name of the suite; by default its directory.")


class Suite(_Strict):
    """A test file: what is read, and what is expected of it. Paths are relative to the file."""

    api_version: Literal["gangctl.dev/v1alpha1"] = API_VERSION
    kind: Literal["PolicyTest"] = KIND
    metadata: SuiteMetadata | None = None
    policies: tuple[RelativePath, ...] = Field(
        min_length=1, description="Files or directories with GangPolicies, or native policies with their bindings."
    )
    resources: tuple[RelativePath, ...] = Field(
        min_length=1,
        description="Files or directories with the objects. Namespaces, exceptions and policies among them count, too.",
    )
    params: tuple[RelativePath, ...] = Field((), description="Files with parameter objects.")
    namespaces: tuple[RelativePath, ...] = Field((), description="Files with Namespaces.")
    queues: tuple[RelativePath, ...] = Field(
        (), description="Files with Kueue's objects and configuration, for the variable fit."
    )
    exceptions: tuple[RelativePath, ...] = Field((), description="Files with GangPolicyExceptions.")
    kubernetes: Literal["1.35", "1.36", "1.37", "1.38"] | None = Field(
        None, description="Kubernetes minor that gang plans are made for; by default the newest, or --kube."
    )
    now: AwareDatetime | None = Field(None, description="The time at which exceptions may have expired; default: now.")
    results: tuple[SuiteRow, ...] = Field(min_length=1, description="What is expected.")


_SEVERITY: Final = (Expected.SKIP, Expected.PASS, Expected.WARN, Expected.FAIL, Expected.ERROR)
"""Of several results the last one counts."""


@dataclass(frozen=True, slots=True)
class Actual:
    """What was said: the result, and the messages of the findings that made it."""

    result: Expected
    messages: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    steps: int = 0


def actual(outcome: Outcome, row: SuiteRow, rules: Collection[str]) -> Actual:
    """What ``outcome`` says about the rule of ``row``, or about the whole policy; ``rules`` are all of its rules."""
    if not outcome.matched and not outcome.findings:
        return Actual(Expected.SKIP, (outcome.skipped,) if outcome.skipped else (), (), outcome.steps)
    # What concerns no rule in particular (a match condition, missing parameters) concerns each of them.
    findings = tuple(
        finding
        for finding in outcome.findings
        if (row.rule is None or finding.rule == row.rule or finding.rule not in rules)
        and (row.params is None or finding.params in {row.params, ""} or finding.params.endswith(f"/{row.params}"))
    )
    results = [_result(finding, outcome.actions) for finding in findings]
    worst = max(results, key=_SEVERITY.index, default=Expected.SKIP)
    messages = tuple(f.message for f, result in zip(findings, results, strict=True) if result is worst and f.message)
    return Actual(worst, messages, findings, outcome.steps)


def _result(finding: Finding, actions: Collection[ValidationAction]) -> Expected:
    match finding.result:
        case Result.PASS:
            return Expected.PASS
        case Result.EXEMPT:
            return Expected.SKIP
        case Result.ERROR:
            return Expected.ERROR
        case _:
            return Expected.FAIL if finding.always or ValidationAction.DENY in actions else Expected.WARN


def difference(row: SuiteRow, seen: Actual) -> str:
    """What is not as expected, empty when everything is."""
    if seen.result is not row.result:
        said = f": {seen.messages[0]}" if seen.messages else ""
        return f"expected {row.result}, got {seen.result}{said}"
    if row.message is not None and row.message not in seen.messages:
        return f"expected the message {row.message!r}, got {_quoted(seen.messages)}"
    if row.message_regex is not None and not any(re.search(row.message_regex, message) for message in seen.messages):
        return f"expected a message that matches {row.message_regex!r}, got {_quoted(seen.messages)}"
    return ""


def _quoted(messages: Sequence[str]) -> str:
    return " and ".join(map(repr, messages)) or "none"


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """One test file with everything that it names; ``old`` by row."""

    document: Document
    suite: Suite
    generation: Generation
    """Gangs are planned, and PathwaysJobs rendered, for it."""
    bundle: Bundle
    subjects: tuple[Sent, ...]
    params: tuple[Document, ...]
    old: dict[int, tuple[Sent, ...]]
    queues: Stock | None

    @property
    def path(self) -> str:
        """As it was found."""
        return self.document.source

    @property
    def name(self) -> str:
        """Its own, or that of its directory."""
        if self.suite.metadata is not None:
            return self.suite.metadata.name
        return Path(self.path).resolve().parent.name

    def line(self, row: int) -> int:
        """The line of a row."""
        return self.document.position(f"results[{row}]")[0]

    def selected(self, row: SuiteRow) -> list[Sent]:
        """The objects of a row; InputError when one of its selectors fits none."""
        selected: list[Sent] = []
        for selector in row.resources:
            fitting = [subject for subject in self.subjects if _fits(selector, subject)]
            if not fitting:
                where = self.document.where(f"results[{self.suite.results.index(row)}].resources")
                names = ", ".join(sorted({subject.name for subject in self.subjects})) or "none"
                wanted = "/".join(part for part in (selector.kind, selector.namespace, selector.name) if part)
                raise InputError(f"{where}: no resource fits {wanted}", hint=f"there are: {names}")
            selected += [subject for subject in fitting if subject not in selected]
        return selected


def _fits(selector: Selector, subject: Sent) -> bool:
    # The name alone of a PathwaysJob means its JobSet, which is what tests are about.
    if subject.only_if_matched and selector.kind is None:
        return False
    wanted = ((selector.kind, subject.kind), (selector.namespace, subject.namespace), (selector.name, subject.name))
    return all(want in {None, have} for want, have in wanted)


def find_suite_files(paths: Sequence[str]) -> list[Path]:
    """Files as they are named, and those called ``gangctl-test.yaml`` below directories; InputError without any."""
    files: dict[Path, None] = {}
    for path in map(Path, paths):
        with _followed(str(path)):
            files |= dict.fromkeys(_suite_files(path))
    if not files:
        raise InputError(f"no tests: no {FILE_NAME} in {', '.join(paths)} or below")
    return list(files)


def _suite_files(path: Path) -> list[Path]:
    if not path.is_dir():
        if not path.exists():
            raise InputError(f"{path}: no such file or directory")
        return [path]
    below = files_below(path, lambda file: file.name == FILE_NAME)
    # A test file may itself be a link.
    for file in below:
        if not file.resolve().is_relative_to(path.resolve()):
            raise InputError(f"{file} leads out of {path}")
    return below


@contextmanager
def _followed(place: str) -> Iterator[None]:
    """InputError where the system does not follow a path: it is too long, not to be searched, a loop of links."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:  # the others are a loop, before Python 3.13, and a null
        why = reason(error) if isinstance(error, OSError) else "no path that can be followed"
        raise InputError(f"{place}: {why}") from error


def read_suite_file(path: Path, default: Generation = NEWEST) -> SuiteFile:
    """Read a test file and what it names; InputError with everything that is wrong with the file itself.

    Its gangs are planned for the ``default`` unless it has another ``kubernetes``.
    """
    documents = read_documents([str(path)])
    if len(documents) != 1:
        raise InputError(f"{path}: one document is wanted, found {len(documents)}")
    (document,) = documents
    try:
        suite = Suite.model_validate(document.value)
    except PydanticError as problem:
        lines = [f"{where(document, error.path)}: {error}" for error in field_errors(problem)]
        raise errors_in(document.source, lines, hint="see docs/policies.md") from problem
    generation = generation_of_minor(suite.kubernetes or "") or default

    def documents_of(field: str, paths: Sequence[str]) -> list[Document]:
        return _documents(document, path.parent, field, paths)

    policies = sort_documents(documents_of("policies", suite.policies))
    exceptions = only("exceptions", documents_of("exceptions", suite.exceptions), "exceptions", "GangPolicyExceptions")
    namespaces = only("namespaces", documents_of("namespaces", suite.namespaces), "namespaces", "Namespaces")
    resources = sort_documents(documents_of("resources", suite.resources))
    old = {
        index: _subjects(sort_documents(documents_of(f"results[{index}].old", [row.old])), generation)
        for index, row in enumerate(suite.results)
        if row.old is not None
    }
    params = documents_of("params", suite.params)
    check_names(params)
    bundle = replace(policies + resources + exceptions + namespaces, others=())
    subjects = _subjects(resources, generation)
    queues = stock_of(documents_of("queues", suite.queues)) if suite.queues else None
    return SuiteFile(document, suite, generation, bundle, subjects, tuple(params), old, queues)


def _documents(test: Document, directory: Path, field: str, paths: Sequence[str]) -> list[Document]:
    """The documents of some paths of a test file, which stay in its directory also where they are links."""
    root = directory.resolve()
    for index, path in enumerate(paths):
        place = test.where(field if len(paths) == 1 and field.endswith(".old") else f"{field}[{index}]")
        with _followed(f"{place}: {path}"):
            real = (directory / path).resolve()
            if not real.is_relative_to(root):
                raise InputError(f"{place}: {path} leads out of {directory}")
            if not real.exists():
                raise InputError(f"{place}: {directory / path}: no such file or directory")
            # Links to directories are not followed, but those to files are.
            for file in files_below(directory / path) if real.is_dir() else ():
                if not file.resolve().is_relative_to(root):
                    raise InputError(f"{place}: {file.relative_to(directory)} leads out of {directory}")
    return read_documents([str(directory / path) for path in paths]) if paths else []


def _subjects(bundle: Bundle, generation: Generation) -> tuple[Sent, ...]:
    """What rows select from; a PathwaysJob comes with the JobSet that it becomes, which has its name."""
    documents = [document for document in bundle.others if kind_of(document.value)[1] != KIND]
    check_names(documents)
    return tuple(sent_for(documents, "CREATE", generation))

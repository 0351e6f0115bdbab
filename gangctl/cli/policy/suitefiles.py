"""Finding test files and reading what they name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError as PydanticError

from gangctl.api.documents import Document
from gangctl.api.modelerrors import field_errors
from gangctl.api.objects import Object, object_at
from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cli.inputs import kind_of, read_documents, where
from gangctl.cli.kueuesnapshot import Stock, stock_of
from gangctl.cli.messages import InvalidInputError, plural
from gangctl.cli.policy.bundle import Bundle, check_names, name_of, sort_documents
from gangctl.cli.policy.requests import NAMESPACE, sent_for
from gangctl.cli.policy.suite import FILE_NAME, KIND, Row, Selector, Suite
from gangctl.errors import InputError


@dataclass(frozen=True, slots=True)
class Subject:
    """An object that is evaluated, and where it was read."""

    document: Document
    kind: str
    namespace: str
    name: str
    value: Object
    """The object: what the document holds, or the JobSet that a PathwaysJob becomes."""
    only_by_kind: bool = False
    """Whether its name alone means another: a PathwaysJob has the name of its JobSet, which is what tests are about."""

    @property
    def title(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """One test file with everything that it names; ``old`` by row."""

    document: Document
    suite: Suite
    bundle: Bundle
    subjects: tuple[Subject, ...]
    params: tuple[Document, ...]
    old: dict[int, tuple[Subject, ...]]
    queues: Stock | None = None

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

    def where(self, row: int) -> tuple[int, int]:
        """Line and column of a row."""
        return self.document.position(f"results[{row}]")

    def selected(self, row: Row) -> list[Subject]:
        """The objects of a row; InputError when one of its selectors fits none."""
        found: list[Subject] = []
        for selector in row.resources:
            fitting = [subject for subject in self.subjects if _fits(selector, subject)]
            if not fitting:
                where = self.document.where(f"results[{self.suite.results.index(row)}].resources")
                names = ", ".join(sorted({subject.name for subject in self.subjects})) or "none"
                raise InputError(f"{where}: no resource fits {_shown(selector)}", hint=f"there are: {names}")
            found += [subject for subject in fitting if subject not in found]
        return found


def _fits(selector: Selector, subject: Subject) -> bool:
    if subject.only_by_kind and selector.kind is None:
        return False
    wanted = ((selector.kind, subject.kind), (selector.namespace, subject.namespace), (selector.name, subject.name))
    return all(want in {None, have} for want, have in wanted)


def _shown(selector: Selector) -> str:
    return "/".join(part for part in (selector.kind, selector.namespace, selector.name) if part)


def find_suite_files(paths: Sequence[str]) -> list[Path]:
    """Files as they are named, and those called ``gangctl-test.yaml`` below directories; InputError without any."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            found |= dict.fromkeys(sorted(_files_below(path)))
        elif path.exists():
            found[path] = None
        else:
            raise InputError(f"{path}: no such file or directory")
    if not found:
        raise InputError(f"no tests: no {FILE_NAME} in {', '.join(paths)} or below")
    return list(found)


def _files_below(directory: Path) -> list[Path]:
    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: {(error.strerror or type(error).__name__).lower()}")

    return [Path(parent) / FILE_NAME for parent, _, names in os.walk(directory, onerror=refuse) if FILE_NAME in names]


def read_suite_file(path: Path) -> SuiteFile:
    """Read a test file and what it names; InputError with everything that is wrong with the file itself."""
    documents = read_documents([str(path)])
    if len(documents) != 1:
        raise InputError(f"{path}: one document is wanted, found {len(documents)}")
    (document,) = documents
    suite = _read_suite(document)
    directory = path.parent
    generation = generation_of_minor(suite.kubernetes or "") or NEWEST

    def documents_of(field: str, paths: Sequence[str]) -> list[Document]:
        return _documents(document, directory, field, paths)

    policies = sort_documents(documents_of("policies", suite.policies))
    exceptions = sort_documents(documents_of("exceptions", suite.exceptions))
    namespaces = sort_documents(documents_of("namespaces", suite.namespaces))
    old = {
        index: _subjects(documents_of(f"results[{index}].old", [row.old]), generation)
        for index, row in enumerate(suite.results)
        if row.old is not None
    }
    params = documents_of("params", suite.params)
    check_names(params)
    bundle = Bundle(
        policies.policies,
        policies.natives,
        policies.bindings,
        policies.exceptions + exceptions.exceptions,
        policies.namespaces + namespaces.namespaces,
    )
    subjects = _subjects(documents_of("resources", suite.resources), generation)
    queues = stock_of(documents_of("queues", suite.queues)) if suite.queues else None
    return SuiteFile(document, suite, bundle, subjects, tuple(params), old, queues)


def _read_suite(document: Document) -> Suite:
    try:
        return Suite.model_validate(document.value)
    except PydanticError as problem:
        lines = [f"{where(document, error.path)}: {error}" for error in field_errors(problem)]
        raise InvalidInputError(
            lines, f"{plural(len(lines), 'error')} in {document.source}", hint="see docs/policies.md"
        ) from problem


def _documents(test: Document, directory: Path, field: str, paths: Sequence[str]) -> list[Document]:
    """The documents of some paths of a test file, which stay in its directory also where they are links."""
    root = directory.resolve()
    for index, path in enumerate(paths):
        place = test.where(field if len(paths) == 1 and field.endswith(".old") else f"{field}[{index}]")
        real = (directory / path).resolve()
        if not real.is_relative_to(root):
            raise InputError(f"{place}: {path} leads out of {directory}")
        if not real.exists():
            raise InputError(f"{place}: {directory / path}: no such file or directory")
    return read_documents([str(directory / path) for path in paths]) if paths else []


def _subjects(documents: Iterable[Document], generation: Generation) -> tuple[Subject, ...]:
    """What rows select from; a PathwaysJob comes with the JobSet that it becomes, which has its name."""
    documents = [each for each in sort_documents(documents).others if kind_of(each.value)[1] != KIND]
    check_names(documents)
    return tuple(
        Subject(
            sent.document,
            kind_of(sent.obj)[1],
            str(object_at(sent.obj, "metadata").get("namespace") or NAMESPACE),
            name_of(sent.obj),
            sent.obj,
            sent.only_if_matched,
        )
        for sent in sent_for(documents, "CREATE", generation)
    )

"""Reading what ``-f`` names: files, directories and stdin, as documents with their positions; what all of them are."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gangctl.api.documents import Document, parse_documents
from gangctl.cli.messages import InvalidInputError, note
from gangctl.errors import InputError

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "<stdin>"

_READ_BYTES: Final = 64 * 2**20
"""Of one source: far above what the parser takes, so that a pipe without end is not read to it."""

_WRITER_SECONDS: Final = 10.0
"""How long a named pipe is watched for somebody who writes to it."""
_LOOK_SECONDS: Final = 0.05


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _below(directory: Path) -> list[Path]:
    """Manifests below a directory, in the order of their paths; links to directories are not followed."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: {_reason(error)}")

    found = [
        Path(parent) / name
        for parent, _, names in os.walk(directory, onerror=refuse)
        for name in names
        if name.lower().endswith(SUFFIXES) and not _is_special(Path(parent) / name)
    ]
    if not found:
        raise InputError(f"{directory}: no manifests below this directory", hint=f"looked for {', '.join(SUFFIXES)}")
    return sorted(found)


def _is_special(path: Path) -> bool:
    """Whether what is below a directory is a pipe or a device: named on purpose these are read, found they are not."""
    return path.exists() and not path.is_file()


def _content(path: Path) -> bytes:
    """What a file holds, as far as anybody wants to know it; OSError when it cannot be read."""
    # A pipe is opened without waiting for its writer, who then has a while to come.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        first = _await_writer(descriptor, path) if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else b""
        os.set_blocking(descriptor, True)
        return first + file.read(_READ_BYTES)


def _await_writer(descriptor: int, path: Path) -> bytes:
    """What could be read at once, when there is a writer at last; InputError when none comes."""
    end = time.monotonic() + _WRITER_SECONDS
    while not select.select([descriptor], [], [], _LOOK_SECONDS)[0]:
        try:
            if first := os.read(descriptor, 1):
                return first
        except BlockingIOError:  # somebody has it open, and has not written yet
            return b""
        if time.monotonic() >= end:
            raise InputError(f"{path}: nothing was written to this pipe for {_WRITER_SECONDS:g} s")
    return b""


def _expand(filename: str) -> list[str | Path]:
    """The sources that one ``-f`` names; stdin is the only one that is no path."""
    if filename == "-":
        return [filename]
    if not filename:
        raise InputError("-f: the name of a file is empty")
    path = Path(filename)
    try:
        return [*_below(path)] if path.is_dir() else [path]
    except OSError as error:
        raise InputError(f"{filename}: {_reason(error)}") from error


def _read(source: str | Path) -> list[Document]:
    """The documents of one source."""
    if isinstance(source, str):
        if sys.stdin is None:
            raise InputError("stdin is closed")
        return parse_documents(sys.stdin.buffer.read(_READ_BYTES), STDIN)
    try:
        content = _content(source)
    except OSError as error:
        raise InputError(f"{source}: {_reason(error)}") from error
    return parse_documents(content, str(source))


def _collect(filename: str, seen: set[str | Path], problems: list[InputError]) -> list[Document]:
    """The documents of what one ``-f`` names and no earlier one did."""
    documents: list[Document] = []
    try:
        sources = [source for source in _expand(filename) if source not in seen]
    except InputError as problem:
        problems.append(problem)
        return documents
    for source in sources:
        seen.add(source)
        try:
            documents += _read(source)
        except InputError as problem:
            problems.append(problem)
    return documents


def read_documents(filenames: Sequence[str]) -> list[Document]:
    """Every document of every source, each source once; what cannot be read is reported for all of them together."""
    problems: list[InputError] = []
    seen: set[str | Path] = set()
    documents = [document for filename in filenames for document in _collect(filename, seen, problems)]
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidInputError([problem.message for problem in problems], f"cannot read {len(problems)} inputs")
    if not documents:
        names = ", ".join(STDIN if filename == "-" else filename for filename in filenames)
        raise InputError(f"{names}: empty", hint="expected at least one Kubernetes object in YAML or JSON")
    return documents


def kind_of(value: Mapping[str, Any]) -> tuple[str, str]:
    """API group and kind of an object, as far as it says them."""
    version = value.get("apiVersion")
    group, slash, _ = str(version if isinstance(version, str) else "").partition("/")
    kind = value.get("kind")
    return group if slash else "", kind if isinstance(kind, str) else ""


def kind_in_words(document: Document) -> str:
    """The kind of an object, or that it has none."""
    return str(document.value.get("kind") or "object without kind")


def count_kinds(documents: Iterable[Document]) -> str:
    """How many documents there are of each kind: ``2 ConfigMap, 1 Service``."""
    kinds = Counter(kind_in_words(document) for document in documents)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def note_skipped(documents: Iterable[Document]) -> None:
    """Say of which kinds there was something that is of no use, if there was."""
    if others := count_kinds(documents):
        note(f"skipped {others}")


def placed(raw: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    """The object in a namespace, if one is given and it names none."""
    metadata = raw.get("metadata") or {}
    if not namespace or not isinstance(metadata, dict) or metadata.get("namespace"):
        return raw
    return {**raw, "metadata": {**metadata, "namespace": namespace}}


def position(document: Document, path: str) -> tuple[int, int]:
    """Line and column of a field, or of the object where the path cannot be read."""
    try:
        return document.position(path)
    except InputError:  # a key that the notation of paths cannot carry
        return document.position("")


def where(document: Document, path: str) -> str:
    """The same as ``source:line:column``."""
    line, column = position(document, path)
    return f"{document.source}:{line}:{column}"

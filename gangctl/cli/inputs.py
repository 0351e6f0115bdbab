"""Read the inputs of ``-f``: files, directories, URLs and stdin, as documents with their positions."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from gangctl.api.documents import Document, parse_documents
from gangctl.api.objects import kind_of, object_at, text_at
from gangctl.cli.messages import InvalidInputError, full_name, note
from gangctl.errors import InputError, one_line

SUFFIXES: Final = (".yaml", ".yml", ".json")
_SCHEMES: Final = ("http://", "https://")
STDIN: Final = "<stdin>"
DEFAULT_NAMESPACE: Final = "default"
"""Namespace of objects in files without one, as in kubectl."""
_NAMESPACED: Final = frozenset(
    {
        *("JobSet", "Job", "Pod", "PodGroup", "CompositePodGroup", "Workload", "Event"),
        *("LocalQueue", "LimitRange", "ResourceQuota"),
        *("PersistentVolumeClaim", "ResourceClaim", "ResourceClaimTemplate"),
    }
)
"""Kinds of objects of gangs and queues that have a namespace."""

Seen = dict[tuple[str, str, str, str], Document]
"""Where objects stand, by group, kind, namespace and name."""

_READ_BYTES: Final = 64 * 2**20
"""Limit of one source: far above the parser's, and stops at an endless pipe."""

_WRITER_SECONDS: Final = 10.0
"""Timeout for the writer of a named pipe."""
_LOOK_SECONDS: Final = 0.05


def reason(error: OSError) -> str:
    """What the system says, in the words of gangctl's messages."""
    return (error.strerror or type(error).__name__).lower()


def files_below(directory: Path, wanted: Callable[[Path], bool] = lambda _: True) -> list[Path]:
    """The wanted files below a directory, each once, in order of path; links to directories are not followed."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: {reason(error)}")

    files = (Path(parent, name) for parent, _, names in os.walk(directory, onerror=refuse) for name in names)
    # A mounted ConfigMap has each file in a directory ..2026_11_29, and a link to it, which comes later and is shown.
    return sorted({os.path.realpath(path): path for path in sorted(filter(wanted, files))}.values())


def _below(directory: Path) -> list[Path]:
    """Manifests below a directory."""
    named = files_below(directory, lambda path: path.name.lower().endswith(SUFFIXES))
    # Pipes and devices below a directory are read only if named explicitly.
    # A link that leads nowhere is kept, so that reading it is an error.
    manifests = [path for path in named if path.is_file() or not path.exists()]
    if not manifests:
        raise InputError(f"{directory}: no manifests below this directory", hint=f"looked for {', '.join(SUFFIXES)}")
    return manifests


def _content(path: Path) -> bytes:
    """Content of a file, up to the limit; OSError if it cannot be read."""
    # A pipe is opened without waiting for its writer, which has a timeout.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        first = _await_writer(descriptor, path) if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else b""
        # O_NONBLOCK was for opening: what follows the first data is waited for.
        os.set_blocking(descriptor, True)
        return first + file.read(_READ_BYTES)


def _await_writer(descriptor: int, path: Path) -> bytes:
    """The first data after a writer has opened the pipe; InputError if there is none."""
    end = time.monotonic() + _WRITER_SECONDS
    while not select.select([descriptor], [], [], _LOOK_SECONDS)[0]:
        try:
            # Only reading shows whether there is a writer: without one the pipe is at its end, with one it would block.
            if first := os.read(descriptor, 1):
                return first
        except BlockingIOError:  # a writer has it open, and has not written yet
            return b""
        if time.monotonic() >= end:
            raise InputError(f"{path}: nothing was written to this pipe for {_WRITER_SECONDS:g} s")
    return b""


def _expand(filename: str) -> list[str | Path]:
    """The sources that one ``-f`` names; stdin and URLs are not paths."""
    if filename == "-" or filename.startswith(_SCHEMES):
        return [filename]
    if not filename:
        raise InputError("-f: the name of a file is empty")
    path = Path(filename)
    try:
        return [*_below(path)] if path.is_dir() else [path]
    except OSError as error:
        raise InputError(f"{filename}: {reason(error)}") from error


def _read(source: str | Path) -> list[Document]:
    """The documents of one source."""
    if isinstance(source, Path):
        try:
            content = _content(source)
        except OSError as error:
            raise InputError(f"{source}: {reason(error)}") from error
        return parse_documents(content, str(source))
    if source != "-":
        from gangctl.cli.urls import read_url, url_for_messages  # noqa: PLC0415 -- 50 ms that files do without

        return parse_documents(read_url(source, _READ_BYTES), url_for_messages(source))
    try:
        content = sys.stdin.buffer.read(_READ_BYTES)
    except OSError as error:
        raise InputError(f"{STDIN}: {reason(error)}") from error
    return parse_documents(content, STDIN)


def _collect(filename: str, seen: set[str | Path], problems: list[InputError]) -> list[Document]:
    """The documents of one ``-f``, without those of earlier ones."""
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
    """Every document of every source, each source once; read errors are reported together."""
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


def kind_in_words(document: Document) -> str:
    """The kind of an object, or that it has none."""
    return str(document.value.get("kind") or "object without kind")


def _kind_of_group(document: Document) -> str:
    group, slash, _ = str(document.value.get("apiVersion") or "").partition("/")
    return f"{kind_in_words(document)} of {one_line(group)}" if slash else kind_in_words(document)


def count_kinds(documents: Iterable[Document], *, groups: bool = False) -> str:
    """The number of documents of each kind: ``2 ConfigMap, 1 Service``; with the API group, if it is asked for."""
    kinds = Counter(_kind_of_group(document) if groups else kind_in_words(document) for document in documents)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def note_skipped(documents: Iterable[Document]) -> None:
    """Print the kinds of ignored documents, if there are any."""
    if others := count_kinds(documents):
        note(f"skipped {others}")


def placed(raw: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    """The object with the given namespace, if it has none."""
    metadata = raw.get("metadata") or {}
    if not namespace or not isinstance(metadata, dict) or metadata.get("namespace"):
        return raw
    return {**raw, "metadata": {**metadata, "namespace": namespace}}


def in_namespace(raw: dict[str, Any], namespace: str | None = None) -> dict[str, Any]:
    """An object of a gang or a queue, in ``namespace`` or ``default`` if its kind has namespaces and it names none."""
    named = kind_of(raw)[1] in _NAMESPACED and isinstance(raw.get("metadata"), dict)
    return placed(raw, namespace or DEFAULT_NAMESPACE if named else None)


def position(document: Document, path: str) -> tuple[int, int]:
    """Line and column of a field, or of the object if the path is not found."""
    try:
        return document.position(path)
    except InputError:  # a key that field paths cannot express
        return document.position("")


def where(document: Document, path: str) -> str:
    """The same as ``source:line:column``."""
    line, column = position(document, path)
    return f"{document.source}:{line}:{column}"


def is_again(raw: dict[str, Any], seen: Seen) -> bool:
    """Whether an earlier document is the same object in the same state: ``oc adm inspect`` writes pods twice."""
    earlier = seen.get(_identity(raw))
    if earlier is None:
        return False
    before, now = object_at(earlier.value, "metadata"), object_at(raw, "metadata")
    uid, version = text_at(now, "uid"), text_at(now, "resourceVersion")
    if not uid or text_at(before, "uid") != uid:
        return False
    return text_at(before, "resourceVersion") == version if version else earlier.value == raw


def repeated(document: Document, raw: dict[str, Any], seen: Seen) -> list[str]:
    """The error of an object that was in an earlier document, none of one without a name; ``seen`` learns it."""
    identity = _identity(raw)
    earlier = seen.setdefault(identity, document)
    _, kind, namespace, name = identity
    if earlier is document or not name:
        return []
    return [f"{document.where()}: {kind} {full_name(namespace, name)} is there already, at {earlier.where()}"]


def _identity(raw: dict[str, Any]) -> tuple[str, str, str, str]:
    """Group, kind, namespace and name."""
    metadata = object_at(raw, "metadata")
    return *kind_of(raw), text_at(metadata, "namespace"), text_at(metadata, "name")

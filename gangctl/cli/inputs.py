"""Read the inputs of ``-f``: files, directories, URLs and stdin, as documents with their positions."""

from __future__ import annotations

import os
import select
import ssl
import stat
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit

from gangctl.api.documents import Document, parse_documents
from gangctl.cli.messages import InvalidInputError, note
from gangctl.errors import InputError, escaped, one_line

_SILENCE_SECONDS: Final = 10.0
_WHOLE_SECONDS: Final = 60.0
_CHUNK: Final = 2**16


def url_for_messages(url: str) -> str:
    """The URL without a password, and without a query, which may be one."""
    try:
        parts = urlsplit(url)
        return escaped(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))
    except ValueError:
        return "a URL that cannot be read"


def read_url(url: str, limit: int) -> bytes:
    """
    Read at most ``limit`` bytes of the answer; redirects are followed.

    InputError for an answer other than 200, for a server that cannot be reached, does not prove its name, or
    takes longer than a minute.
    """
    shown = url_for_messages(url)
    end = time.monotonic() + _WHOLE_SECONDS
    chunks, size = [], 0
    try:
        # Its schemes are checked by the caller, and a redirect to a file is refused by urllib.
        with urllib.request.urlopen(url, timeout=_SILENCE_SECONDS) as answer:  # noqa: S310
            while size < limit and (chunk := answer.read(min(_CHUNK, limit - size))):
                chunks.append(chunk)
                size += len(chunk)
                if time.monotonic() > end:
                    raise InputError(f"{shown}: not read to its end within {_WHOLE_SECONDS:g} s")
    except HTTPError as error:
        with error:
            raise InputError(f"{shown}: HTTP {error.code} {one_line(error.reason, 80)}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise InputError(f"{shown}: cannot be read: {_url_reason(error)}") from error
    return b"".join(chunks)


def _url_reason(error: Exception) -> str:
    """What the system or OpenSSL says, without Python's names."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message
    if isinstance(cause, TimeoutError):
        return f"no answer within {_SILENCE_SECONDS:g} s"
    if isinstance(cause, ssl.SSLError):
        return (cause.reason or "the server speaks no TLS").lower().replace("_", " ")
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    valid = isinstance(cause, HTTPException) and not isinstance(cause, InvalidURL)
    return "the server does not answer with HTTP" if valid else "not a valid URL"


SUFFIXES: Final = (".yaml", ".yml", ".json")
_SCHEMES: Final = ("http://", "https://")
STDIN: Final = "<stdin>"

_READ_BYTES: Final = 64 * 2**20
"""Limit of one source: far above the parser's, and stops at an endless pipe."""

_WRITER_SECONDS: Final = 10.0
"""Timeout for the writer of a named pipe."""
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
    """Whether a path below a directory is a pipe or a device: these are read only if named explicitly."""
    return path.exists() and not path.is_file()


def _content(path: Path) -> bytes:
    """Content of a file, up to the limit; OSError if it cannot be read."""
    # A pipe is opened without waiting for its writer, which has a timeout.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        first = _await_writer(descriptor, path) if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else b""
        os.set_blocking(descriptor, True)
        return first + file.read(_READ_BYTES)


def _await_writer(descriptor: int, path: Path) -> bytes:
    """The first data after a writer has opened the pipe; InputError if there is none."""
    end = time.monotonic() + _WRITER_SECONDS
    while not select.select([descriptor], [], [], _LOOK_SECONDS)[0]:
        try:
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
        raise InputError(f"{filename}: {_reason(error)}") from error


def _read(source: str | Path) -> list[Document]:
    """The documents of one source."""
    if isinstance(source, Path):
        try:
            content = _content(source)
        except OSError as error:
            raise InputError(f"{source}: {_reason(error)}") from error
        return parse_documents(content, str(source))
    if source != "-":
        from gangctl.cli.inputs import read_url, url_for_messages  # noqa: PLC0415 -- 50 ms that files do without

        return parse_documents(read_url(source, _READ_BYTES), url_for_messages(source))
    if sys.stdin is None:
        raise InputError("stdin is closed")
    return parse_documents(sys.stdin.buffer.read(_READ_BYTES), STDIN)


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


def kind_of(value: Mapping[str, Any]) -> tuple[str, str]:
    """API group and kind of an object, if present."""
    version = value.get("apiVersion")
    group, slash, _ = str(version if isinstance(version, str) else "").partition("/")
    kind = value.get("kind")
    return group if slash else "", kind if isinstance(kind, str) else ""


def kind_in_words(document: Document) -> str:
    """The kind of an object, or that it has none."""
    return str(document.value.get("kind") or "object without kind")


def count_kinds(documents: Iterable[Document]) -> str:
    """The number of documents of each kind: ``2 ConfigMap, 1 Service``."""
    kinds = Counter(kind_in_words(document) for document in documents)
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

"""Reads kubeconfig files: merge, select a context, check the required fields.

Errors name the file and the key, never a value: values are secrets, and so are the lines around a mistake in YAML.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from gangctl.api.documents import parse_documents
from gangctl.api.documents_reader import SourceError
from gangctl.errors import ConfigError, one_line

_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_CLUSTER_FILES = ("certificate-authority",)
_USER_FILES = ("client-certificate", "client-key", "tokenFile")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LONGEST_HOST: Final = 253
FILE_BYTES: Final = 8 * 2**20
"""Limit of a kubeconfig; the files that it names are smaller."""
MATERIAL_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class SelectedContext:
    """One context with its cluster and user, file references made absolute; ``user`` is empty without one."""

    name: str
    file: Path
    namespace: str
    server: str
    cluster: Mapping[str, Any] = field(repr=False)
    user: Mapping[str, Any] = field(repr=False)

    def fail(self, key: str, problem: str, *, hint: str = "") -> ConfigError:
        """Make the error for one ``key`` of this context."""
        return ConfigError(f"{self.file}: context {one_line(self.name, 80)!r}: {key}: {problem}", hint=hint)

    def material(self, section: Mapping[str, Any], key: str) -> bytes | None:
        """Return the content of ``key-data`` or of the file at ``key``, None when neither is there."""
        data = section.get(f"{key}-data")
        if data:
            # As Go's decoder: base64 writes lines.
            text = data.replace("\r", "").replace("\n", "") if isinstance(data, str) else data
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise self.fail(f"{key}-data", "not base64") from None
        return self.file_content(section, key)

    def file_content(self, section: Mapping[str, Any], key: str) -> bytes | None:
        """Return the content of the file under ``key``, None when none is named."""
        path = section.get(key)
        if not path:
            return None
        try:
            return read_file(Path(path), MATERIAL_BYTES)
        except OSError as error:
            raise self.fail(key, f"{path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class _NamedEntry:
    file: Path
    value: Mapping[str, Any] = field(repr=False)


def read_file(path: Path, limit: int) -> bytes:
    """Return the content of a file; OSError when it cannot be read, or has no end within ``limit`` bytes.

    A pipe without a writer is empty: there is no waiting.
    """
    try:
        # A named pipe without a writer would block the open itself.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        raise OSError(0, "not the name of a file") from error
    with os.fdopen(descriptor, "rb") as file:
        os.set_blocking(descriptor, True)
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(0, f"larger than {limit} bytes")
    return content


def select_context(files: Sequence[Path], context: str | None = None) -> SelectedContext:
    """Merge ``files`` and select ``context``, or the current one.

    As for kubectl, the first file with a value wins, and relative paths start at the directory of their file.
    """
    documents = [(file, _read(file)) for file in files]
    sections = {section: _merge(documents, section) for section in _SECTIONS}
    where = ", ".join(str(file) for file in files)
    name = context or next((d["current-context"] for _, d in documents if d.get("current-context")), None)
    if name is not None and not isinstance(name, str):
        raise ConfigError(f"{where}: current-context: expected text")
    if name is None:
        raise ConfigError(f"{where}: current-context: not set", hint="choose one with --context")
    entry = sections["contexts"].get(name)
    if entry is None:
        known = one_line(", ".join(sorted(sections["contexts"])), 400) or "none"
        shown = one_line(name, 80)
        raise ConfigError(f"{where}: contexts: no context named {shown!r}", hint=f"contexts in these files: {known}")
    cluster = _refer(sections["clusters"], entry, name, "cluster")
    user = _refer(sections["users"], entry, name, "user") if entry.value.get("user") else _NamedEntry(entry.file, {})
    namespace = entry.value.get("namespace") or "default"
    if not isinstance(namespace, str):
        raise ConfigError(f"{entry.file}: context {one_line(name, 80)!r}: namespace: expected text")
    return SelectedContext(
        name,
        entry.file,
        namespace,
        _server(cluster, name),
        _absolute(cluster, _CLUSTER_FILES),
        _with_command(_absolute(user, _USER_FILES), user.file),
    )


def _read(file: Path) -> Mapping[str, Any]:
    try:
        documents = parse_documents(read_file(file, FILE_BYTES).removeprefix(_BYTE_ORDER_MARK), str(file))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except SourceError as error:
        # The message quotes the line, which may hold a token.
        place = f"{file}:{error.line}:{error.column}"
        problem = "not YAML of a kubeconfig: unreadable here, nested too deep, or a key that stands there twice"
        raise ConfigError(f"{place}: {problem}") from None
    if len(documents) > 1:
        raise ConfigError(f"{file}: not a kubeconfig: {len(documents)} documents instead of one")
    return documents[0].value if documents else {}


def _merge(documents: Sequence[tuple[Path, Mapping[str, Any]]], section: str) -> dict[str, _NamedEntry]:
    key, merged = _SECTIONS[section], dict[str, _NamedEntry]()
    for file, document in documents:
        entries = document.get(section) or []
        if not isinstance(entries, list):
            raise ConfigError(f"{file}: {section}: expected a list")
        for index, entry in enumerate(entries):
            place = f"{file}: {section}[{index}]"
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise ConfigError(f"{place}.name: required")
            value = entry.get(key) or {}
            if not isinstance(value, dict):
                raise ConfigError(f"{place}.{key}: expected a mapping")
            merged.setdefault(entry["name"], _NamedEntry(file, value))
    return merged


def _refer(entries: Mapping[str, _NamedEntry], context: _NamedEntry, name: str, key: str) -> _NamedEntry:
    wanted = context.value.get(key)
    place = f"{context.file}: context {one_line(name, 80)!r}: {key}"
    if not wanted:
        raise ConfigError(f"{place}: required")
    if not isinstance(wanted, str):
        raise ConfigError(f"{place}: expected text")
    entry = entries.get(wanted)
    if entry is None:
        raise ConfigError(f"{place}: no {key} named {one_line(wanted, 80)!r}")
    return entry


def _server(cluster: _NamedEntry, name: str) -> str:
    server = cluster.value.get("server")
    place = f"{cluster.file}: context {one_line(name, 80)!r}: cluster.server"
    if not isinstance(server, str) or not server:
        raise ConfigError(f"{place}: required")
    if not is_server_url(server) or "@" in urlsplit(server).netloc:
        raise ConfigError(f"{place}: not an http or https URL of a server")
    return server.rstrip("/")


def is_server_url(url: str) -> bool:
    """Whether this is an http or https URL with a host that can be looked up."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        usable = parts.scheme in {"http", "https"} and 0 < len(host) <= _LONGEST_HOST and parts.port != 0
    except ValueError:
        return False
    # Otherwise urlsplit would drop line breaks, and the request would still contain them.
    return usable and url.isascii() and url.isprintable() and " " not in url


def _absolute(entry: _NamedEntry, keys: Sequence[str]) -> dict[str, Any]:
    value = dict(entry.value)
    for key in keys:
        if value.get(key):
            value[key] = str(entry.file.parent / str(value[key]))
    return value


def _with_command(user: dict[str, Any], file: Path) -> dict[str, Any]:
    """Resolve an exec plugin given by a relative path; a bare name is looked up in PATH."""
    plugin = user.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command", "")):
        user["exec"] = {**plugin, "command": str(file.parent / str(plugin["command"]))}
    return user

"""Reading kubeconfig files: merge, select a context, check what will be needed.

Errors name the file and the key, never a value: values are secrets, and so are
the lines around a mistake in YAML.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from gangctl.errors import ConfigError

_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_CLUSTER_FILES = ("certificate-authority",)
_USER_FILES = ("client-certificate", "client-key", "tokenFile")


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
        return ConfigError(f"{self.file}: context {self.name!r}: {key}: {problem}", hint=hint)

    def material(self, section: Mapping[str, Any], key: str) -> bytes | None:
        """Return what ``key-data`` holds or ``key`` points to, None when neither is there."""
        data = section.get(f"{key}-data")
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise self.fail(f"{key}-data", "not base64") from None
        path = section.get(key)
        if not path:
            return None
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise self.fail(key, f"{path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class _Entry:
    file: Path
    value: Mapping[str, Any] = field(repr=False)


def select_context(files: Sequence[Path], context: str | None = None) -> SelectedContext:
    """Merge ``files`` and select ``context``, or the current one.

    As for kubectl, the first file that says something wins, and relative paths
    start at the file they stand in.
    """
    documents = [(file, _read(file)) for file in files]
    sections = {section: _merge(documents, section) for section in _SECTIONS}
    where = ", ".join(str(file) for file in files)
    name = context or next((str(d["current-context"]) for _, d in documents if d.get("current-context")), None)
    if name is None:
        raise ConfigError(f"{where}: current-context: not set", hint="choose one with --context")
    entry = sections["contexts"].get(name)
    if entry is None:
        known = ", ".join(sorted(sections["contexts"])) or "none"
        raise ConfigError(f"{where}: contexts: no context named {name!r}", hint=f"contexts in these files: {known}")
    cluster = _refer(sections["clusters"], entry, name, "cluster")
    user = _refer(sections["users"], entry, name, "user") if entry.value.get("user") else _Entry(entry.file, {})
    namespace = entry.value.get("namespace") or "default"
    return SelectedContext(
        name,
        entry.file,
        str(namespace),
        _server(cluster, name),
        _absolute(cluster, _CLUSTER_FILES),
        _with_command(_absolute(user, _USER_FILES), user.file),
    )


def _read(file: Path) -> Mapping[str, Any]:
    try:
        document = yaml.load(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ConfigError(f"{file}{place}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeError):
        raise ConfigError(f"{file}: not YAML: unreadable characters") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: not a kubeconfig: expected a mapping")
    return document


def _merge(documents: Sequence[tuple[Path, Mapping[str, Any]]], section: str) -> dict[str, _Entry]:
    key, merged = _SECTIONS[section], dict[str, _Entry]()
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
            merged.setdefault(entry["name"], _Entry(file, value))
    return merged


def _refer(entries: Mapping[str, _Entry], context: _Entry, name: str, key: str) -> _Entry:
    wanted = context.value.get(key)
    if not wanted:
        raise ConfigError(f"{context.file}: context {name!r}: {key}: required")
    entry = entries.get(str(wanted))
    if entry is None:
        raise ConfigError(f"{context.file}: context {name!r}: {key}: no {key} named {wanted!r}")
    return entry


def _server(cluster: _Entry, name: str) -> str:
    server = cluster.value.get("server")
    place = f"{cluster.file}: context {name!r}: cluster.server"
    if not isinstance(server, str) or not server:
        raise ConfigError(f"{place}: required")
    try:
        parts = urlsplit(server)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc:
        raise ConfigError(f"{place}: not an http or https URL of a server")
    return server.rstrip("/")


def _absolute(entry: _Entry, keys: Sequence[str]) -> dict[str, Any]:
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

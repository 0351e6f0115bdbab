"""ConfigMaps and Secrets."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata, validate_metadata_update

_MAX_BYTES: Final = 1024 * 1024
_WHEN_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_REQUIRED_KEYS: Final = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
}


def check_encoding(kind: ResourceKind, obj: Object) -> None:
    """400 for a value that is not base64 where bytes are wanted."""
    values = obj.get("binaryData" if kind.plural == "configmaps" else "data", {})
    for value in values.values():
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            at = next((index for index, mark in enumerate(value) if not (mark.isalnum() or mark in "+/")), len(value))
            told = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            raise errors.bad_request(f"{told}illegal base64 data at input byte {at}") from None


def default_secret(secret: Object) -> None:
    """Put ``stringData`` where it belongs, and name the type."""
    for key, value in secret.pop("stringData", {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
    secret.setdefault("type", "Opaque")


def validate_config_map(new: Object, old: Object | None) -> Causes:
    """What is wrong with a ConfigMap, or with a change of one."""
    causes = _metadata(new, old)
    if old is not None and old.get("immutable"):
        _unchanged(new, old, ("data", "binaryData"), causes)
    for key in new.get("data", {}):
        causes.invalid_each(f"data[{key}]", key, names.config_key(key))
        if key in new.get("binaryData", {}):
            causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in new.get("binaryData", {}):
        causes.invalid_each(f"binaryData[{key}]", key, names.config_key(key))
    size = sum(len(value.encode()) for value in new.get("data", {}).values())
    size += sum(len(value) * 3 // 4 for value in new.get("binaryData", {}).values())
    if size > _MAX_BYTES:
        causes.too_long("[]", _MAX_BYTES)
    return causes


def validate_secret(new: Object, old: Object | None) -> Causes:
    """What is wrong with a Secret, or with a change of one."""
    causes = _metadata(new, old)
    if old is not None:
        if new.get("type") != old.get("type"):
            causes.invalid("type", new.get("type"), "field is immutable")
        if old.get("immutable"):
            _unchanged(new, old, ("data",), causes)
    data = new.get("data", {})
    for key in data:
        causes.invalid_each(f"data[{key}]", key, names.config_key(key))
    if sum(len(value) * 3 // 4 for value in data.values()) > _MAX_BYTES:
        causes.too_long("data", _MAX_BYTES)
    for key in _REQUIRED_KEYS.get(new.get("type", ""), ()):
        if key not in data:
            causes.required(f"data[{key}]")
    return causes


def _metadata(new: Object, old: Object | None) -> Causes:
    if old is None:
        return validate_metadata(new, names.dns_subdomain, namespaced=True)
    return validate_metadata_update(new, old)


def _unchanged(new: Object, old: Object, fields: tuple[str, ...], causes: Causes) -> None:
    if not new.get("immutable"):
        causes.forbidden("immutable", _WHEN_IMMUTABLE)
    for field in fields:
        if new.get(field, {}) != old.get(field, {}):
            causes.forbidden(field, _WHEN_IMMUTABLE)

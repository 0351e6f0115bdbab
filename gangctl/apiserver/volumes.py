"""What an API server refuses of the volumes of a pod: ``ValidateVolumes`` of ``pkg/apis/core/validation``.

Left out are bundles and certificates of projected volumes, and the sources of single vendors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from gangctl.api.quantity import parse_quantity
from gangctl.apiserver.claims import validate_claim
from gangctl.apiserver.downwardapi import FIELDS_OF_VOLUMES, validate_field, validate_resource_field
from gangctl.apiserver.metadata import Causes, Object, validate_member
from gangctl.apiserver.paths import validate_file, validate_no_backsteps
from gangctl.apiserver.pods import PULL_POLICIES

_REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    "configMap": ("name",),
    "csi": ("driver",),
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "secret": ("secretName",),
}
"""Texts that a source must have."""
_HOST_PATHS: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_OF_TEMPLATES: Final = frozenset({"annotations", "labels"})
_OF_PROJECTIONS: Final = ("secret", "configMap", "downwardAPI")
"""Parts of a projected volume that list their files."""
_MOST_MODE: Final = 0o777
_LEAST_TOKEN: Final = 600
_MOST_TOKEN: Final = 2**32


def validate_volumes(volumes: Sequence[Object], path: str, causes: Causes) -> dict[str, str]:
    """The sources of the valid volumes by name: a mount of another one is refused as well."""
    sources: dict[str, str] = {}
    for index, volume in enumerate(volumes):
        before, place, name = len(causes), f"{path}[{index}]", volume.get("name", "")
        # A volume without a source is an emptyDir.
        given = [field for field, value in volume.items() if field != "name" and value is not None] or ["emptyDir"]
        if len(given) == 1:
            _source(given[0], volume.get(given[0]) or {}, f"{place}.{given[0]}", causes)
        validate_member(name, sources, f"{place}.name", causes)
        for source in given[1:]:
            causes.forbidden(f"{place}.{source}", "may not specify more than 1 volume type")
        if len(causes) == before:
            sources[name] = given[0]
    return sources


def _source(source: str, value: Object, path: str, causes: Causes) -> None:
    missing = [field for field in _REQUIRED.get(source, ()) if not value.get(field)]
    for field in missing:
        causes.required(f"{path}.{field}")
    _mode(value.get("defaultMode", 0), f"{path}.defaultMode", causes)
    match source:
        case "emptyDir":
            _size(value.get("sizeLimit", 0), f"{path}.sizeLimit", causes)
        case "hostPath" if not missing:
            _host_path(value, path, causes)
        case "nfs" if not value.get("path", "").startswith("/"):
            causes.invalid(f"{path}.path", value.get("path", ""), "must be an absolute path")
        case "configMap" | "secret":
            _items(value, path, causes)
        case "image" if (policy := value.get("pullPolicy") or "Always") not in PULL_POLICIES:
            causes.unsupported(f"{path}.pullPolicy", policy, PULL_POLICIES)
        case "ephemeral":
            _claim(value.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate", causes)
        case "downwardAPI":
            _files(value, path, causes)
        case "projected":
            _projected(value.get("sources") or (), path, causes)


def _host_path(value: Object, path: str, causes: Causes) -> None:
    validate_no_backsteps(value["path"], f"{path}.path", causes)
    if (kind := value.get("type", "")) not in _HOST_PATHS:
        causes.unsupported(f"{path}.type", kind, _HOST_PATHS)


def _claim(template: Object | None, path: str, causes: Causes) -> None:
    if template is None:
        causes.required(path)
        return
    for field in sorted(template.get("metadata") or {}):
        if field not in _OF_TEMPLATES:
            causes.forbidden(f"{path}.metadata.{field}", "cannot be set")
    validate_claim(template, path, causes)


def _mode(mode: int, path: str, causes: Causes) -> None:
    if not 0 <= mode <= _MOST_MODE:
        causes.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def _size(limit: object, path: str, causes: Causes) -> None:
    with suppress(ValueError):
        if parse_quantity(str(limit)) < 0:
            causes.forbidden(path, "SizeLimit field must be a valid resource quantity")


def _items(holder: Object, path: str, causes: Causes) -> None:
    for index, item in enumerate(holder.get("items") or ()):
        place = f"{path}.items[{index}]"
        if not item.get("key"):
            causes.required(f"{place}.key")
        _file(item, place, causes)


def _file(item: Object, path: str, causes: Causes) -> None:
    """Check the path and the mode of a file in a volume."""
    validate_file(item.get("path", ""), f"{path}.path", causes)
    _mode(item.get("mode", 0), f"{path}.mode", causes)


def _files(holder: Object, path: str, causes: Causes) -> None:
    # Without an index, as ``validateDownwardAPIVolumeSource`` reports them.
    for item in holder.get("items") or ():
        _file(item, path, causes)
        if "fieldRef" in item:
            validate_field(item["fieldRef"], FIELDS_OF_VOLUMES, f"{path}.fieldRef", causes)
            if "resourceFieldRef" in item:
                detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
                causes.invalid(path, "resource", detail)
        elif "resourceFieldRef" in item:
            validate_resource_field(item["resourceFieldRef"], f"{path}.resourceFieldRef", causes, of_volume=True)
        else:
            causes.required(path, "one of fieldRef and resourceFieldRef is required")


def _projected(parts: Sequence[Object], path: str, causes: Causes) -> None:
    files: set[str] = set()
    for index, part in enumerate(parts):
        _projection(part, path, f"{path}.sources[{index}]", causes)
        for source in _OF_PROJECTIONS:
            for item in (part.get(source) or {}).get("items") or ():
                file = item.get("path", "")
                if file in files:
                    value = part[source].get("name", "") if source != "downwardAPI" else file
                    causes.invalid(path, value, "conflicting duplicate paths")
                files |= {file} if file else set()


def _projection(part: Object, volume: str, path: str, causes: Causes) -> None:
    """Check one part of a projected volume."""
    for field in ("configMap", "secret"):
        if field in part:
            if not part[field].get("name"):
                causes.required(f"{path}.{field}.name")
            _items(part[field], f"{path}.{field}", causes)
    if "downwardAPI" in part:
        _files(part["downwardAPI"], f"{path}.downwardAPI", causes)
    if "serviceAccountToken" in part:
        _token(part["serviceAccountToken"], volume, f"{path}.serviceAccountToken", causes)
    if len(part) > 1:
        causes.forbidden(path, "may not specify more than 1 volume type per source")


def _token(token: Object, volume: str, path: str, causes: Causes) -> None:
    seconds = token.get("expirationSeconds", _LEAST_TOKEN)
    if seconds < _LEAST_TOKEN:
        causes.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    elif seconds > _MOST_TOKEN:
        causes.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    # At the volume, as ``validateProjectionSources`` reports the path of a token.
    validate_file(token.get("path", ""), f"{volume}.path", causes)

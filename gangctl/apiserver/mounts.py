"""What an API server refuses of the mounts and the block devices of a container.

``ValidateVolumeMounts`` and ``ValidateVolumeDevices`` of ``pkg/apis/core/validation``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.apiserver.metadata import Causes, FieldCause, Object
from gangctl.apiserver.paths import validate_relative

_PLACES: Final = {"volumeMounts": "mountPath", "volumeDevices": "devicePath"}
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")
_OF_CLAIMS: Final = ("persistentVolumeClaim", "ephemeral")
"""Sources of volumes that a container may use as a block device."""


def validate_mounts(container: Object, volumes: Mapping[str, str], path: str, causes: Causes) -> None:
    """Check mounts and devices; ``volumes`` are the sources of the pod's volumes by name."""
    _uses(container, ("volumeMounts", "volumeDevices"), volumes, path, causes)
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("subPath") and (expression := mount.get("subPathExpr")):
            detail = "subPathExpr and subPath are mutually exclusive"
            causes.invalid(f"{path}.volumeMounts[{index}].subPathExpr", expression, detail)
        # Without an index, as ``ValidateVolumeMounts`` reports them.
        _mount(mount, container, f"{path}.volumeMounts", causes)
    _uses(container, ("volumeDevices", "volumeMounts"), volumes, path, causes)
    names: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        _device(device, names, volumes, f"{path}.volumeDevices[{index}]", causes)


def _uses(container: Object, fields: tuple[str, str], volumes: Mapping[str, str], path: str, causes: Causes) -> None:
    """Check what mounts and devices have in common; ``fields`` are those to check, and the others."""
    field, other = fields
    others = {use.get("name", ""): use.get(_PLACES[other], "") for use in container.get(other) or ()}
    taken = {*others.values()}
    places: set[str] = set()
    for index, use in enumerate(container.get(field) or ()):
        name, place = use.get("name", ""), use.get(_PLACES[field], "")
        of_name, of_place = f"{path}.{field}[{index}].name", f"{path}.{field}[{index}].{_PLACES[field]}"
        if not name:
            causes.required(of_name)
        if name not in volumes:
            causes.append(FieldCause("FieldValueNotFound", of_name, f'Not found: "{name}"'))
        if not place:
            causes.required(of_place)
        if place in places:
            causes.invalid(of_place, place, "must be unique")
        places.add(place)
        if name in others:
            causes.invalid(of_name, name, f"must not already exist in {other}")
        if place in taken:
            causes.invalid(of_place, place, f"must not already exist as a path in {other}")


def _mount(mount: Object, container: Object, path: str, causes: Causes) -> None:
    for field in ("subPath", "subPathExpr"):
        validate_relative(mount.get(field, ""), f"{path}.{field}", causes)
    propagation, place = mount.get("mountPropagation"), f"{path}.mountPropagation"
    _recursive(mount, f"{path}.recursiveReadOnly", causes)
    if propagation is None:
        return
    if propagation not in _PROPAGATIONS:
        causes.unsupported(place, propagation, _PROPAGATIONS)
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        causes.forbidden(place, "Bidirectional mount propagation is available only to privileged containers")


def _recursive(mount: Object, path: str, causes: Causes) -> None:
    how = mount.get("recursiveReadOnly")
    if how is not None and how not in _RECURSIVE:
        causes.unsupported(path, how, _RECURSIVE)
    if how not in _RECURSIVE[1:]:
        return
    if not mount.get("readOnly"):
        causes.forbidden(path, "may only be specified when readOnly is true")
    if mount.get("mountPropagation") not in {None, "None"}:
        causes.forbidden(path, "may only be specified when mountPropagation is None or not specified")


def _device(device: Object, names: set[str], volumes: Mapping[str, str], path: str, causes: Causes) -> None:
    name, place = device.get("name", ""), device.get("devicePath", "")
    if name in names:
        causes.invalid(f"{path}.name", name, "must be unique")
    names |= {name} if name else set()
    if volumes.get(name, _OF_CLAIMS[0]) not in _OF_CLAIMS:
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        causes.invalid(f"{path}.name", name, detail)
    if ".." in place.split("/"):
        causes.invalid(f"{path}.devicePath", place, "can not contain backsteps ('..')")

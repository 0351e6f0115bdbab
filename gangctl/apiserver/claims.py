"""What an API server refuses of a PersistentVolumeClaim: ``ValidatePersistentVolumeClaimSpec`` of core/validation.

The spec of a claim stands in ``volumeClaimPolicies`` of a JobSet and in the template of an ephemeral volume.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from gangctl.api.names import dns_subdomain
from gangctl.api.quantity import parse_quantity
from gangctl.apiserver.metadata import Causes, Object, selector_causes, validate_annotations, validate_labels

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_OF_ONE_POD: Final = "ReadWriteOncePod"
_VOLUME_MODES: Final = ("Block", "Filesystem")
_CLAIM: Final = "PersistentVolumeClaim"
_NAMED: Final = ("apiGroup", "kind", "name")


def validate_claim(template: Object, path: str, causes: Causes) -> None:
    """Add the errors of a template of a claim: of labels and annotations, and of ``spec``."""
    metadata = template.get("metadata") or {}
    validate_labels(metadata.get("labels") or {}, f"{path}.metadata.labels", causes)
    validate_annotations(metadata.get("annotations") or {}, f"{path}.metadata.annotations", causes)
    _spec(template.get("spec") or {}, f"{path}.spec", causes)


def _spec(spec: Object, path: str, causes: Causes) -> None:
    _access_modes(spec.get("accessModes") or [], f"{path}.accessModes", causes)
    causes += selector_causes(spec.get("selector") or {}, f"{path}.selector")
    _storage((spec.get("resources") or {}).get("requests") or {}, f"{path}.resources[storage]", causes)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if name := spec.get(field):
            causes.invalid_each(f"{path}.{field}", name, dns_subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        causes.unsupported(f"{path}.volumeMode", mode, _VOLUME_MODES)
    _sources(spec, path, causes)


def _access_modes(modes: list[str], path: str, causes: Causes) -> None:
    if not modes:
        causes.required(path, "at least 1 access mode is required")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            causes.unsupported(path, mode, _ACCESS_MODES)
    if _OF_ONE_POD in modes and {*modes} & {*_ACCESS_MODES} - {_OF_ONE_POD}:
        causes.forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _storage(requests: Object, path: str, causes: Causes) -> None:
    amount = requests.get("storage")
    if amount is None:
        causes.required(path)
        return
    with suppress(ValueError):
        if parse_quantity(str(amount)) <= 0:
            causes.invalid(path, str(amount), "must be greater than zero")


def _sources(spec: Object, path: str, causes: Causes) -> None:
    """Check what the volume is filled from."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    # Without the reference a new claim loses a wrong source. One of another namespace is kept or not by a feature gate.
    if reference is None or reference.get("namespace"):
        return
    for field, given in (("dataSource", source), ("dataSourceRef", reference)):
        if given is not None:
            _source(given, f"{path}.{field}", causes)
    if source is not None and any(source.get(field) != reference.get(field) for field in _NAMED):
        causes.invalid(path, f"{path}.dataSource", "must match dataSourceRef")


def _source(source: Object, path: str, causes: Causes) -> None:
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    for field in ("name", "kind"):
        if not source.get(field):
            causes.required(f"{path}.{field}")
    if group:
        causes.invalid_each(f"{path}.apiGroup", group, dns_subdomain(group))
    elif kind != _CLAIM:
        causes.invalid(path, kind, f"must be '{_CLAIM}' when referencing the default apiGroup")

"""What an API server refuses of the volumes of a pod: ``ValidateVolumes`` of ``pkg/apis/core/validation``."""

from __future__ import annotations

from collections.abc import Sequence

from gangctl.apiserver.metadata import Causes, Object, validate_member


def validate_volumes(volumes: Sequence[Object], path: str, causes: Causes) -> set[str]:
    """Names of the valid volumes: a mount of another one is refused as well."""
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        before, own = len(causes), set(names)
        validate_member(volume.get("name", ""), own, f"{path}[{index}].name", causes)
        for source in [field for field, value in volume.items() if field != "name" and value is not None][1:]:
            causes.forbidden(f"{path}[{index}].{source}", "may not specify more than 1 volume type")
        if len(causes) == before:
            names = own
    return names

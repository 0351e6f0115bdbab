"""What an API server refuses of the resources of a container: ``validateResourceRequirements`` of core/validation.

``pods.py`` checks their names.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from gangctl.api.quantity import parse_quantity
from gangctl.apiserver.metadata import Causes, FieldCause, Object

_OVERCOMMITTED: Final = re.compile(r"[^/]*|([^/]*\.)?kubernetes\.io/.*")
"""Resources whose requests may be below their limits: those without a prefix, and Kubernetes' own."""
_HUGE_PAGES: Final = "hugepages-"


def validate_resources(resources: Object, claims: set[str], path: str, causes: Causes) -> None:
    """Check requests against limits, amounts, and claims against ``claims``, those of the pod."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            _amount(name, amount, f"{path}.{field}[{name}]", causes)
    for name, amount in requests.items():
        overcommitted = _OVERCOMMITTED.fullmatch(name) is not None and not name.startswith(_HUGE_PAGES)
        if name in limits:
            _request(name, amount, limits[name], f"{path}.requests", causes, exactly=not overcommitted)
        elif not overcommitted:
            causes.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    names = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        causes.forbidden(path, "HugePages require cpu or memory")
    for index, claim in enumerate(resources.get("claims") or ()):
        if claim.get("name") not in claims:
            name = claim.get("name", "")
            causes.append(FieldCause("FieldValueNotFound", f"{path}.claims[{index}]", f'Not found: "{name}"'))


def _amount(name: str, amount: object, path: str, causes: Causes) -> None:
    with suppress(ValueError):
        value = parse_quantity(str(amount))
        if value < 0:
            causes.invalid(path, str(amount), "must be greater than or equal to 0")
        elif not _OVERCOMMITTED.fullmatch(name) and value.denominator != 1:
            causes.invalid(path, str(amount), "must be an integer")


def _request(name: str, amount: object, limit: object, path: str, causes: Causes, *, exactly: bool) -> None:
    with suppress(ValueError):
        wanted, most = parse_quantity(str(amount)), parse_quantity(str(limit))
        if wanted > most or (exactly and wanted != most):
            relation = "equal to" if exactly else "less than or equal to"
            causes.invalid(path, str(amount), f"must be {relation} {name} limit of {limit}")

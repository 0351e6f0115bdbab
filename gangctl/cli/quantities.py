"""Amounts of reports as quantities, as Kubernetes writes them: ``-o json`` has ``500m`` and ``16Gi``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

from gangctl.api.quantity import exact
from gangctl.api.reportfields import AsQuantity


def with_quantities(report: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """A report of a type in which every amount is a quantity; policies read the same amounts as integers."""
    return {name: _value(report[name], hint, report) for name, hint in _hints(kind).items()}


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _value(value: Any, hint: Any, owner: Mapping[str, Any]) -> Any:
    if value is None:
        return None
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        if any(isinstance(part, AsQuantity) for part in parts):
            return _amounts(value, owner)
        return _value(value, parts[0], owner)
    if origin is UnionType:
        return _value(value, next(part for part in parts if part is not NoneType), owner)
    if origin is list:
        return [_value(item, parts[0], owner) for item in value]
    return with_quantities(value, hint) if is_typeddict(hint) else value


def _amounts(value: Any, owner: Mapping[str, Any]) -> Any:
    """Amounts by resource, or one of the resource that its owner names."""
    if isinstance(value, dict):
        return {name: exact(name, amount) for name, amount in value.items()}
    return exact(owner["resource"], value)

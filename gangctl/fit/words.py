"""Amounts and names as text for users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gangctl.api.quantity import show_bytes, show_milli
from gangctl.kueue.objects import PODS

_BYTES: Final = ("memory", "storage", "ephemeral-storage", "hugepages-")
_NAMED: Final = 4


def show(resource: str, amount: int) -> str:
    """An amount with its resource: ``1.5 cpu``, ``3Gi memory``, ``8 nvidia.com/gpu``."""
    name = resource.removesuffix("s") if resource == PODS and amount == 1 else resource
    return f"{figure(resource, amount)} {name}"


def is_bytes(resource: str) -> bool:
    """Whether amounts of a resource are bytes."""
    return resource.startswith(_BYTES)


def figure(resource: str, amount: int) -> str:
    """An amount alone, in the unit of its resource."""
    if resource == "cpu":
        return show_milli(amount)
    return show_bytes(amount) if is_bytes(resource) else str(amount)


def show_all(amounts: Mapping[str, int]) -> str:
    """Several amounts: ``2 cpu and 8 nvidia.com/gpu``."""
    return joined([show(resource, amount) for resource, amount in amounts.items()])


def joined(parts: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return f" {last} ".join([part for part in (", ".join(parts[:-1]), *parts[-1:]) if part])


def quoted(names: Iterable[str]) -> str:
    """Names in quotes, the first few of many."""
    listed = list(dict.fromkeys(names))
    shown = [f'"{name}"' for name in listed[:_NAMED]]
    return joined([*shown, f"{len(listed) - _NAMED} more"] if len(listed) > _NAMED else shown)

"""Types of CEL as Kubernetes declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type: ``name`` and, for lists, maps, optionals and types, ``parameters``."""

    name: str
    parameters: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = None
    """Of an object with declared fields (``gang``, ``request``): the selectable fields; None allows any."""

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


DYN: Final = Type("dyn")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DURATION: Final = Type("google.protobuf.Duration")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
QUANTITY: Final = Type("kubernetes.Quantity")
URL: Final = Type("kubernetes.URL")
IP: Final = Type("net.IP")
CIDR: Final = Type("net.CIDR")
SEMVER: Final = Type("kubernetes.Semver")
FORMAT: Final = Type("kubernetes.NamedFormat")


def list_of(element: Type) -> Type:
    """``list(element)``."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """``map(key, value)``."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """``optional_type(value)``."""
    return Type("optional_type", (value,))

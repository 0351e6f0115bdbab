"""Errors of an object, worded like ``k8s.io/apimachinery`` ``field.Error``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from gangctl.sandbox.errors import Cause


def spelled(value: Any) -> str:
    """A value as a field error quotes it: JSON, with what HTML minds escaped as Go does."""
    text = orjson.dumps(value).decode()
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


class Causes(list[Cause]):
    """Errors of one object, in the order they were found."""

    def required(self, path: str, detail: str = "") -> None:
        """A value is missing."""
        self.append(Cause("FieldValueRequired", path, f"Required value: {detail}" if detail else "Required value"))

    def invalid(self, path: str, value: Any, detail: str) -> None:
        """A value is wrong."""
        self.append(Cause("FieldValueInvalid", path, f"Invalid value: {spelled(value)}: {detail}"))

    def invalid_each(self, path: str, value: Any, details: Iterable[str]) -> None:
        """A value is wrong in several ways."""
        for detail in details:
            self.invalid(path, value, detail)

    def unsupported(self, path: str, value: Any, supported: Sequence[str]) -> None:
        """A value is none of an enumeration; ``supported`` in the server's order."""
        message = ", ".join(spelled(each) for each in supported)
        self.append(
            Cause("FieldValueNotSupported", path, f"Unsupported value: {spelled(value)}: supported values: {message}")
        )

    def duplicate(self, path: str, value: Any) -> None:
        """A value was there before."""
        self.append(Cause("FieldValueDuplicate", path, f"Duplicate value: {spelled(value)}"))

    def forbidden(self, path: str, detail: str) -> None:
        """A field may not be set, or changed."""
        self.append(Cause("FieldValueForbidden", path, f"Forbidden: {detail}"))

    def too_long(self, path: str, limit: int) -> None:
        """A text has more than ``limit`` bytes."""
        self.append(Cause("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes"))

    def too_many(self, path: str, count: int, limit: int) -> None:
        """A list has more than ``limit`` items."""
        items = "item" if limit == 1 else "items"
        self.append(Cause("FieldValueTooMany", path, f"Too many: {count}: must have at most {limit} {items}"))

"""The three JSON patch operations that gangctl answers with, as strict as an API server applies them (RFC 6902)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any


def _step(container: Any, token: str) -> Any:
    return int(token) if isinstance(container, list) else token


def apply(raw: Mapping[str, Any], patch: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A copy of ``raw`` with the patch applied; KeyError where a parent or a replaced value is missing."""
    result = copy.deepcopy(dict(raw))
    for operation in patch:
        *parents, last = [t.replace("~1", "/").replace("~0", "~") for t in operation["path"].split("/")[1:]]
        target: Any = result
        for token in parents:
            target = target[_step(target, token)]
        assert isinstance(target, dict), f"{operation['path']}: the parent is not an object"
        if operation["op"] == "remove":
            del target[last]
        elif operation["op"] == "add" or (operation["op"] == "replace" and last in target):
            target[last] = copy.deepcopy(operation["value"])
        else:
            raise KeyError(operation["path"])
    return result

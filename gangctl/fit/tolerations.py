"""Tolerations that admission may add to pods: no template has them, and of pods that exist they are known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.meta import DEFAULT_TOLERATIONS
from gangctl.api.objects import Object, object_at
from gangctl.fit.floor import affinity_terms
from gangctl.fit.placedpods import texts
from gangctl.kueue.objects import Amounts

_SELECTED: Final = ("kubernetes.io/arch", "cloud.google.com/")
"""Prefixes of taints of which GKE adds tolerations to pods that select the same label: Arm nodes, compute classes.

Not those that users give to nodes: there a toleration is forgotten more often than a webhook adds it.
"""


@dataclass(frozen=True, slots=True)
class PossibleToleration:
    """A toleration, and what may add it."""

    toleration: Object
    by: str


def possible_tolerations(spec: Object, requests: Amounts, annotations: Mapping[str, str]) -> list[PossibleToleration]:
    """Those of pods with a spec and their requests, in a namespace with annotations."""
    extended = "kube-apiserver --enable-admission-plugins=ExtendedResourceToleration"
    selected = "GKE adds it to pods that select the label"
    of_namespace = f"annotation {DEFAULT_TOLERATIONS} of its namespace"
    return [
        *(PossibleToleration(_exists(name), extended) for name in requests if _is_extended(name)),
        *(PossibleToleration(one, selected) for one in _selected(spec)),
        *(PossibleToleration(one, of_namespace) for one in _defaults(annotations.get(DEFAULT_TOLERATIONS, ""))),
    ]


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _exists(key: str) -> Object:
    return {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def _selected(spec: Object) -> Iterator[Object]:
    pairs: list[tuple[object, str]] = list(object_at(spec, "nodeSelector").items())
    for term, _ in affinity_terms(spec):
        for rule in term:
            pairs += [(rule.get("key"), value) for value in texts(rule.get("values")) if rule.get("operator") == "In"]
    for key, value in pairs:
        if isinstance(key, str) and key.startswith(_SELECTED):
            yield {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}


def _defaults(text: str) -> list[dict[str, Any]]:
    """The tolerations of an annotation; none of a text with which the API server creates no pod."""
    try:
        written = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [one for one in written if isinstance(one, dict)] if isinstance(written, list) else []

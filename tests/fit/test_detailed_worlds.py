"""A fit that overlooks something gives another verdict of a world that is played beside kube-scheduler."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from gangctl.api import pods, requests
from gangctl.fit import floor, nodes, placedpods, scheduling, volumes
from gangctl.fit import requests as podsets
from tests.live.detailedworlds import PLAYED, world
from tests.live.nodeground import said
from tests.rows import each

Spec = dict[str, Any]
_HOLDERS = (requests, placedpods, podsets)
_counted = requests.pod_requests


@cache
def verdicts() -> dict[int, str]:
    """As they are."""
    return {seed: said(world(seed))["verdict"] for seed in PLAYED}


def of_containers(spec: Spec) -> Any:
    """Without resources of the pod as a whole."""
    return _counted({**spec, "resources": None})


def of_limits(spec: Spec) -> Any:
    """With the limits of the pod as its requests."""
    level = spec.get("resources") or {}
    return _counted({**spec, "resources": {"requests": (level.get("limits") or {}) | (level.get("requests") or {})}})


def of_main_containers(spec: Spec) -> Any:
    """Without init containers."""
    return _counted({**spec, "initContainers": []})


def without_sidecars(spec: Spec) -> Any:
    """With sidecars that end like other init containers."""
    plain = [{**one, "restartPolicy": None} for one in spec.get("initContainers") or []]
    return _counted({**spec, "initContainers": plain})


def without_overhead(spec: Spec) -> Any:
    """Without that of the RuntimeClass."""
    return _counted({**spec, "overhead": None})


def without_huge_pages(spec: Spec) -> Any:
    """Of CPU and memory and devices."""
    total, errors = _counted(spec)
    return {name: amount for name, amount in total.items() if not name.startswith("hugepages-")}, errors


@each(
    ("owner", "name", "blind"),
    [
        *((_HOLDERS, "pod_requests", blind) for blind in (of_containers, of_limits, of_main_containers)),
        *((_HOLDERS, "pod_requests", blind) for blind in (without_sidecars, without_overhead, without_huge_pages)),
        ((placedpods,), "resized_requests", lambda _: None),
        ((floor,), "features_of", lambda _: frozenset()),
        ((pods, floor), "beyond", lambda *_: False),
        ((volumes,), "_zones", lambda _: iter(())),
        ((scheduling,), "is_of_one_pod", lambda _: False),
        ((nodes,), "_requesting", dict),
    ],
)
def test_what_is_overlooked_changes_a_verdict(
    owner: tuple[object, ...], name: str, blind: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = verdicts()
    with monkeypatch.context() as patched:
        for module in owner:
            patched.setattr(module, name, blind)
        blinded = {seed: said(world(seed))["verdict"] for seed in PLAYED}
    assert [seed for seed in PLAYED if blinded[seed] not in {right[seed], "unknown"}]

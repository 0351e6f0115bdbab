"""A fit that overlooks something gives another verdict of a namespace that is played beside kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from gangctl.api.requests import of_whole_pod, pod_requests
from gangctl.fit import creation, devices, limitranges, requests
from tests.live.creationground import said
from tests.live.creationworlds import PLAYED, SHARED, CreationWorld, world
from tests.rows import each

_Amounts = dict[str, Any]
_read = limitranges._amounts


def _without(key: str) -> Callable[[Mapping[str, Any], str], _Amounts]:
    return lambda entry, named: {} if named == key else _read(entry, named)


def _said(made: CreationWorld) -> tuple[str, str]:
    """Without pods of others."""
    report = said(made, [*SHARED, *made.classes, *made.rules, *made.templates])
    return report["verdict"], report["reason"]


@cache
def _verdicts() -> dict[int, tuple[str, str]]:
    """As they are."""
    return {seed: _said(world(seed)) for seed in PLAYED}


@each(
    ("owner", "name", "blind"),
    [
        *((limitranges, "_amounts", _without(key)) for key in ("min", "max", "maxLimitRequestRatio", "default")),
        (limitranges, "_exceeds", lambda *_: iter(())),
        (creation, "pod_limits", lambda _, **__: {}),
        (limitranges, "pod_limits", lambda spec: pod_requests({"containers": spec["containers"]})[0]),
        (limitranges, "pod_requests", lambda spec: pod_requests({**spec, "resources": None})),
        (requests, "of_whole_pod", lambda spec: (of_whole_pod(spec)[0], {})),
        (requests, "of_whole_pod", lambda spec: ({}, of_whole_pod(spec)[1])),
        (creation, "refused_by_classes", lambda *_: iter(())),
        (creation._PodsToCreate, "is_in", lambda *_: True),
        (creation._PodsToCreate, "unset", lambda *_: []),
        (creation, "_JOBS", "none"),
        (creation, "_LIMITED", ("cpu",)),
        (creation, "_COUNTED_PODS", "none"),
        (creation, "counted_by_quotas", lambda *_: {}),
        (devices, "_MOST_OF_A_CLAIM", 1),
        (devices, "_CLAIMS", "none"),
    ],
)
def test_what_is_overlooked_changes_a_verdict(
    owner: object, name: str, blind: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = _verdicts()
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, blind)
        blinded = {seed: _said(world(seed)) for seed in PLAYED}
    assert [seed for seed in PLAYED if blinded[seed] != right[seed]]

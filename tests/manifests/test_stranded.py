"""The component that evicts stranded gangs: one right, and two settings of which one is off."""

from __future__ import annotations

import pytest

from gangctl.errors import ConfigError
from gangctl.manager.settings import load_settings
from tests.manifests.component import Component, overlay
from tests.manifests.files import MANIFESTS, documents
from tests.rows import each

COMPONENT = Component("stranded")


def test_lists_every_file_beside_it() -> None:
    assert COMPONENT.listed == COMPONENT.beside


def test_the_role_has_exactly_the_listed_rights() -> None:
    assert COMPONENT.rights == [("", "pods/eviction", "create")]
    assert COMPONENT.unexplained == []


def test_no_other_role_may_evict() -> None:
    evicting = [
        path
        for path in MANIFESTS.rglob("*.yaml")
        for document in documents(path)
        for rule in document.get("rules", ())
        if {"pods/eviction", "pods/*", "*/*", "*"} & set(rule.get("resources", ()))
    ]
    assert [path.parent.name for path in evicting] == ["stranded"]


def test_an_overlay_switches_it_on() -> None:
    settings, _ = overlay("stranded")
    assert settings.evict_stranded
    assert settings.evict_stranded_after is None


@each(
    ("flags", "words"),
    [
        ({"evict_stranded": True, "readiness": "off"}, "evict-stranded has no effect with readiness off"),
        ({"evict_stranded_after": 60.0}, "evict-stranded-after has no effect without evict-stranded"),
        ({"evict_stranded": True, "evict_stranded_after": 0.0}, "evict-stranded-after"),
    ],
)
def test_flags_that_have_no_effect_are_refused(flags: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_settings(flags, None)

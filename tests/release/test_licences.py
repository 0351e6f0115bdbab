"""Which licences are let in, and that ours are read right."""

from __future__ import annotations

from importlib.metadata import distribution, metadata
from pathlib import Path

import pytest

from release import licences
from release.licences import ALLOWED, READ_IN_THE_TEXT, is_allowed, is_spdx, licence_of, refused
from release.lock import Locked, read_lock
from tests.rows import each

PACKAGES = read_lock(Path(__file__).parents[2] / "locks" / "runtime.txt")
SAYS = {
    "Apache-2.0": "Apache License Version 2.0, January 2004",
    "BSD-3-Clause": "Neither the name of",
    "MIT": "Permission is hereby granted, free of charge, to any person obtaining a copy",
}


def test_every_licence_of_what_is_shipped_is_allowed() -> None:
    assert refused(PACKAGES) == []


def test_every_allowed_licence_is_used() -> None:
    said = " ".join(licence_of(package).expression for package in PACKAGES)
    assert {name for name in ALLOWED if name not in said} == set()


@each(("name", "licence"), sorted(READ_IN_THE_TEXT.items()))
def test_a_licence_read_from_a_text_is_in_no_metadata(name: str, licence: str) -> None:
    assert name in {package.name for package in PACKAGES}
    about = metadata(name)
    assert not any(is_spdx(said) for key in ("License-Expression", "License") for said in about.get_all(key) or [])
    files = [file for file in distribution(name).files or () if "LICENSE" in file.name.upper()]
    texts = [" ".join(Path(str(file.locate())).read_text(encoding="utf-8").split()) for file in files]
    assert any(SAYS[licence] in text for text in texts)


@each(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MPL-2.0 AND (Apache-2.0 OR GPL-2.0-only)", True),
        ("(MIT OR GPL-3.0-only) AND AGPL-3.0-only", False),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("LicenseRef-Proprietary", False),
        ("MIT License", False),
        ("MIT AND", False),
        ("", False),
    ],
)
def test_an_expression_is_allowed(expression: str, allowed: bool) -> None:
    assert is_allowed(expression) is allowed


def test_a_licence_that_is_not_allowed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    (pydantic,) = [package for package in PACKAGES if package.name == "pydantic"]
    monkeypatch.setattr(licences, "ALLOWED", frozenset({"ISC"}))
    assert refused([pydantic]) == [f"pydantic {pydantic.version}: MIT is not among ISC"]


def test_a_package_that_is_not_installed_is_reported() -> None:
    with pytest.raises(ValueError, match="nosuchpackage is not installed here: run make setup"):
        licence_of(Locked("nosuchpackage", "1", (), ()))


def test_another_version_than_the_locked_one_is_reported() -> None:
    with pytest.raises(ValueError, match=r"is installed, 0\.0\.1 is locked: run make setup"):
        licence_of(Locked("rich", "0.0.1", (), ()))


def test_metadata_without_an_spdx_expression_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    (pendulum,) = [package for package in PACKAGES if package.name == "pendulum"]
    monkeypatch.setattr(licences, "READ_IN_THE_TEXT", {})
    with pytest.raises(ValueError, match="'MIT License', which is no SPDX expression: read the text"):
        licence_of(pendulum)

"""Licences of what gangctl runs with, as SPDX expressions, and which of them are let in."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from typing import Final

from license_expression import ExpressionError, get_spdx_licensing

from release.lock import Locked

ALLOWED: Final = frozenset(
    {
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "MIT",
        "MIT-0",
        "MPL-2.0",  # copyleft of the files that are under it, and those are shipped as they are
        "PSF-2.0",
    }
)

# Read in the text that the package carries, because its metadata do not say it as SPDX does.
READ_IN_THE_TEXT: Final = {
    "aiosignal": "Apache-2.0",
    "cel-python": "Apache-2.0",
    "google-re2": "BSD-3-Clause",
    "markdown-it-py": "MIT",
    "mdurl": "MIT",
    "pendulum": "MIT",
}

_SPDX: Final = get_spdx_licensing()


@dataclass(frozen=True)
class Licence:
    """An SPDX expression, and whether the package says it in its metadata."""

    expression: str
    declared: bool


def licence_of(package: Locked) -> Licence:
    """The licence of a package, of which the locked version has to be installed.

    Raises ``ValueError`` where that is not so, or where neither its metadata nor the table above have one in SPDX.
    """
    try:
        found = metadata(package.name)
    except PackageNotFoundError as problem:
        raise ValueError(f"{package.name} is not installed here: run make setup") from problem
    if found["Version"] != package.version:
        raise ValueError(f"{package.name} {found['Version']} is installed, {package.version} is locked: run make setup")
    said = (found.get_all("License-Expression") or found.get_all("License") or [""])[0]
    if is_spdx(said):
        return Licence(said, declared=True)
    if package.name in READ_IN_THE_TEXT:
        return Licence(READ_IN_THE_TEXT[package.name], declared=False)
    raise ValueError(
        f"{package.name} {package.version} says its licence as {said[:80]!r}, which is no SPDX expression: "
        "read the text that it carries and add it to READ_IN_THE_TEXT of release/licences.py"
    )


def is_spdx(text: str) -> bool:
    """Whether it is an expression of identifiers that SPDX has."""
    return bool(text) and not _SPDX.validate(text, strict=False).errors


def is_allowed(expression: str) -> bool:
    """Whether one may choose so that every licence one has to keep is an allowed one; none with an exception is."""
    try:
        return _holds(_SPDX.parse(expression, validate=True))
    except ExpressionError:
        return False


def refused(packages: list[Locked]) -> list[str]:
    """One message for each package whose licence is not let in."""
    return [
        f"{package.name} {package.version}: {expression} is not among {', '.join(sorted(ALLOWED))}"
        for package in packages
        if not is_allowed(expression := licence_of(package).expression)
    ]


def _holds(parsed: object) -> bool:
    if isinstance(parsed, _SPDX.AND):
        return all(map(_holds, parsed.args))
    if isinstance(parsed, _SPDX.OR):
        return any(map(_holds, parsed.args))
    return str(parsed) in ALLOWED

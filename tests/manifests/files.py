"""The YAML files under manifests/."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"


def documents(place: Path) -> list[dict[str, Any]]:
    """Every document of one file, or of the files in a directory (not below it), in the order of their names."""
    paths = sorted(place.glob("*.yaml")) if place.is_dir() else [place]
    found: list[dict[str, Any]] = []
    for path in paths:
        for document in yaml.safe_load_all(path.read_text()):
            if not isinstance(document, dict):
                raise TypeError(f"{path} holds a {type(document).__name__}, not an object")
            found.append(document)
    return found


def one(path: Path) -> dict[str, Any]:
    """The only document of a file."""
    (document,) = documents(path)
    return document

"""Overlays of our manifests, built by kustomize as an operator would have it built."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.api import Object
from tests.manifests.files import MANIFESTS
from tests.manifests.kubectl import Kubectl


async def build_overlay(
    directory: Path, components: Iterable[str] = (), root: str = "base", **more: Any
) -> list[Object]:
    """The objects of ``root`` with components, in this order; ``more`` are further fields of the kustomization."""
    built = await Kubectl(directory).run("kustomize", str(write_overlay(directory / "overlay", components, root, more)))
    return list(yaml.safe_load_all(built.text))


def write_overlay(directory: Path, components: Iterable[str], root: str, more: Mapping[str, Any]) -> Path:
    directory.mkdir()
    # kustomize wants the way there to be relative.
    paths = {each: os.path.relpath(MANIFESTS / each, directory.resolve()) for each in (root, *components)}
    body = {"resources": [paths[root]], "components": [paths[each] for each in components], **more}
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    return directory

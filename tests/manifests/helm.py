"""Helm of the pinned release, as a user would call it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.api import Object
from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import NEWEST
from tests.manifests.chart import CHART

_VERSION = "--kube-version"


class HelmFailed(Exception):  # noqa: N818 - it states what happened
    """A non-zero exit, with the output of Helm."""


@dataclass(frozen=True)
class Helm:
    home: Path
    """Its caches go here and not to the person's home."""
    kubeconfig: Path | None = None

    def run(self, *arguments: str) -> str:
        """Run to the end; HelmFailed on a non-zero exit."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("KUBECONFIG", "HELM_", "XDG_"))}
        kubeconfig = {} if self.kubeconfig is None else {"KUBECONFIG": str(self.kubeconfig)}
        version = [_VERSION, NEWEST] if arguments[0] == "template" and _VERSION not in arguments else []
        done = subprocess.run(
            [str(ensure_binary("helm", NEWEST)), *arguments, *version],
            env={**kept, **kubeconfig, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            raise HelmFailed(f"helm {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def template(
        self, values: Object | None = None, namespace: str = "gangctl-system", release: str = "any"
    ) -> list[Any]:
        """What ``helm install`` would create, with these values, and the image of the manifests; no hooks."""
        text = self.run("template", release, str(CHART), "-n", namespace, "--no-hooks", *_with_image(values or {}))
        return [each for each in yaml.safe_load_all(text) if each is not None]

    def hooks(self, values: Object | None = None, namespace: str = "gangctl-system") -> list[Any]:
        """What ``helm test`` would create."""
        flags = ("--show-only", "templates/tests/canary.yaml", *_with_image(values or {}))
        return list(yaml.safe_load_all(self.run("template", "any", str(CHART), "-n", namespace, *flags)))

    def notes(self, values: Object | None = None) -> str:
        """What ``helm install`` would print after it."""
        flags = ("-n", "gangctl-system", "--dry-run=client", *_with_image(values or {}))
        return self.run("install", "any", str(CHART), *flags).partition("\nNOTES:\n")[2]


def _with_image(values: Object) -> list[str]:
    return as_flags({**values, "image": {"repository": "gangctl", **values.get("image", {})}})


def as_flags(values: Object) -> list[str]:
    return [word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}")]

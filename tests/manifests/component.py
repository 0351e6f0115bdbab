"""A component of the manifests that switches something on: its files, its rights, and what an overlay gets by it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gangctl.cli.install.rendering import InstallationOptions, render
from gangctl.manager.settings import ControllerSettings, load_settings
from tests.controlplane.api import Object
from tests.manifests.files import MANIFESTS, documents, one

OWN_ACCOUNT = {"kind": "ServiceAccount", "name": "gangctl", "namespace": "gangctl-system"}

Right = tuple[str, str, str]
"""Group, resource, verb."""


@dataclass(frozen=True)
class Component:
    """A directory below ``manifests``."""

    name: str

    @property
    def directory(self) -> Path:
        """Where it is."""
        return MANIFESTS / self.name

    def of_kind(self, kind: str) -> Object:
        """Its only object of a kind."""
        (found,) = [each for each in documents(self.directory) if each["kind"] == kind]
        return found

    @property
    def listed(self) -> set[str]:
        """What its kustomization has as resources."""
        return set(one(self.directory / "kustomization.yaml")["resources"])

    @property
    def beside(self) -> set[str]:
        """Its files, but for that one."""
        return {path.name for path in self.directory.glob("*.yaml")} - {"kustomization.yaml"}

    @property
    def rules(self) -> list[Object]:
        """Of its ClusterRole, which is bound to gangctl's account only."""
        role, binding = self.of_kind("ClusterRole"), self.of_kind("ClusterRoleBinding")
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert binding["subjects"] == [OWN_ACCOUNT]
        rules: list[Object] = role["rules"]
        return rules

    @property
    def rights(self) -> list[Right]:
        """What these rules grant, in order; one that is granted twice is there twice."""
        return sorted(
            (g, r, v)
            for each in self.rules
            for g in each["apiGroups"]
            for r in each["resources"]
            for v in each["verbs"]
        )

    @property
    def unexplained(self) -> list[str]:
        """Rules that no comment stands above."""
        lines = (self.directory / "clusterrole.yaml").read_text().splitlines()
        return [
            line
            for before, line in pairwise(lines)
            if line.startswith("  - apiGroups:") and not before.startswith("  # ")
        ]


def overlay(*components: str) -> tuple[ControllerSettings, list[tuple[str, str]]]:
    """Of an installation with these components: settings of the process, and kinds and names of objects, none twice."""
    objects = render(InstallationOptions(frozenset(components)))
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    _, *flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    identities = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(identities)) == len(identities)
    return load_settings(dict(flag.removeprefix("--").split("=", 1) for flag in flags), None), identities

"""The content of our kustomizations, read without kustomize: the few of its features that they use, and nothing else.

``test_installation.py`` compares what comes of it with what kustomize makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gangctl.api import jsonpatch
from tests.manifests.files import MANIFESTS, documents, one

Object = dict[str, Any]

# What `configurations` say is for overlays that move or rename, and changes nothing here.
_KEYS = {"apiVersion", "kind", "resources", "patches", "labels", "namespace", "configurations"}
CLUSTER = {
    *("Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"),
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    *("FlowSchema", "PriorityLevelConfiguration"),
}


@dataclass(frozen=True)
class Patch:
    """Operations of RFC 6902; ``kind`` and ``name`` are regular expressions, as for kustomize."""

    kind: str
    name: str
    operations: list[Object]

    def concerns(self, each: Object) -> bool:
        return all(
            re.fullmatch(pattern, found) for pattern, found in ((self.kind, each["kind"]), (self.name, name_of(each)))
        )


@dataclass(frozen=True)
class Read:
    """Objects and patches of one kustomization; a component's patches are for whatever is there before it, too."""

    objects: list[Object] = field(default_factory=list)
    patches: list[Patch] = field(default_factory=list)


def name_of(each: Object) -> str:
    return str(each["metadata"]["name"])


def read_component(name: str) -> Read:
    """A directory with a component."""
    directory = MANIFESTS / name
    said = _kustomization(directory, "Component")
    assert not said.keys() & {"labels", "namespace"}, f"{directory} says what is not understood here"
    return Read([each for _, each in _objects(directory, said)], list(_patches(said)))


def read_root(name: str) -> list[Object]:
    """Every object of a directory that stands by itself."""
    return [each for _, each in read_files(MANIFESTS / name)]


def read_files(directory: Path) -> list[tuple[Path, Object]]:
    """Every object, and the file that it comes from."""
    said = _kustomization(directory, "Kustomization")
    found = list(_objects(directory, said))
    for patch in _patches(said):
        found = [
            (path, jsonpatch.apply(each, patch.operations) if patch.concerns(each) else each) for path, each in found
        ]
    return [(path, _labelled(_placed(each, said), said)) for path, each in found]


def _kustomization(directory: Path, kind: str) -> Object:
    said = one(directory / "kustomization.yaml")
    assert said["kind"] == kind, directory
    assert said.keys() <= _KEYS, f"{directory} uses features that are not understood here: {said.keys() - _KEYS}"
    return said


def _objects(directory: Path, said: Object) -> Iterator[tuple[Path, Object]]:
    for entry in said.get("resources", []):
        path = (directory / entry).resolve()
        if path.is_dir():
            yield from read_files(path)
        else:
            yield from ((path, each) for each in documents(path))


def _patches(said: Object) -> Iterator[Patch]:
    for patch in said.get("patches", []):
        target, operations = patch["target"], yaml.safe_load(patch["patch"])
        assert target.keys() <= {"group", "kind", "name"}, target
        assert {each["op"] for each in operations} <= {"add", "replace", "test"}
        yield Patch(target["kind"], target.get("name", ".*"), operations)


def _placed(each: Object, said: Object) -> Object:
    """In the namespace of the kustomization, which is that of the manifests wherever they name one."""
    if "namespace" in said:
        assert said["namespace"] == "gangctl-system"
        inside = each["metadata"].get("namespace")
        assert inside == (None if each["kind"] in CLUSTER else "gangctl-system"), name_of(each)
    return each


def _labelled(each: Object, said: Object) -> Object:
    for label in said.get("labels", []):
        assert label.keys() == {"pairs", "includeSelectors"}
        assert label["includeSelectors"] is False
        metadata = {**each["metadata"], "labels": {**each["metadata"].get("labels", {}), **label["pairs"]}}
        each = {**each, "metadata": metadata}
    return each

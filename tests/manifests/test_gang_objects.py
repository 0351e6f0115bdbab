"""The component of the Gang objects: its definition is that of the report, its rights are few, API servers take it."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangctl.gang.reasons import Reason
from gangctl.manager.settings import load_settings
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.report import gang_object
from gangctl.readiness.result import Cause, Counts, GroupReadiness, Readiness
from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.crds import GANG_PLACE, render_for_gangs
from tests.manifests.files import MANIFESTS, documents, one
from tests.manifests.kubectl import Kubectl

COMPONENT = MANIFESTS / "gang-objects"
GRANTED = {
    ("gangctl.dev", "gangs", "list"),
    ("gangctl.dev", "gangs", "watch"),
    ("gangctl.dev", "gangs", "create"),
    ("gangctl.dev", "gangs", "delete"),
    ("gangctl.dev", "gangs/status", "patch"),
}


def of_kind(kind: str) -> Object:
    (found,) = [each for each in documents(COMPONENT) if each["kind"] == kind]
    return found


def test_the_definition_is_what_the_types_say() -> None:
    found = {path.name: path.read_text() for path in GANG_PLACE.glob("gangs*.yaml")}
    assert found == render_for_gangs(), "run python -m tests.manifests.crds"


def test_every_field_of_the_status_is_described_and_none_is_demanded() -> None:
    (version,) = one(GANG_PLACE / "gangs.yaml")["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    plain = {"pods", "message", "lastTransitionTime", "status"}

    def walk(schema: Object, path: str) -> None:
        if schema["type"] == "array":
            walk(schema["items"], f"{path}[]")
        for name, each in schema.get("properties", {}).items():
            assert "description" in each or name in plain, f"{path}.{name}"
            walk(each, f"{path}.{name}")
        if schema["type"] == "object":
            assert schema["x-kubernetes-preserve-unknown-fields"] is True, path
            assert schema.get("required", []) == (["type"] if path.endswith("conditions[]") else []), path

    walk(status, "status")


def test_lists_every_file_beside_it() -> None:
    listed = set(one(COMPONENT / "kustomization.yaml")["resources"])
    beside = {path.name for path in COMPONENT.glob("*.yaml")} - {"kustomization.yaml"}
    assert listed == {"crds", *beside}


def test_rights_are_these() -> None:
    rules = of_kind("ClusterRole")["rules"]
    found = [(g, r, v) for rule in rules for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]]
    assert sorted(found) == sorted(GRANTED)
    binding = of_kind("ClusterRoleBinding")
    assert binding["roleRef"]["name"] == of_kind("ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gangctl", "namespace": "gangctl-system"}]
    for before, line in pairwise((COMPONENT / "clusterrole.yaml").read_text().splitlines()):
        assert not line.startswith("  - apiGroups:") or before.startswith("  # "), line


def overlay(directory: Path) -> Path:
    """gangctl in a cluster with the component."""
    directory.mkdir()
    base, component = (os.path.relpath(MANIFESTS / each, directory.resolve()) for each in ("base", "gang-objects"))
    body: dict[str, Any] = {"resources": [base], "components": [component]}
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return directory


@pytest.mark.controlplane
async def test_an_overlay_switches_it_on(tmp_path: Path) -> None:
    built = await Kubectl(tmp_path).run("kustomize", str(overlay(tmp_path / "overlay")))
    objects = list(yaml.safe_load_all(built.text))
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    _, *flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert load_settings(dict(flag.removeprefix("--").split("=", 1) for flag in flags), None).gang_objects
    identities = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(identities)) == len(identities)
    assert ("CustomResourceDefinition", "gangs.gangctl.dev") in identities


@pytest.mark.controlplane
async def test_servers_take_it_without_a_warning(plane: ControlPlane, tmp_path: Path) -> None:
    kubectl = Kubectl(tmp_path, plane.kubeconfig)
    built = await kubectl.run("kustomize", str(overlay(tmp_path / "overlay")))
    ours = {"gangs.gangctl.dev", "gangctl-gang-objects"}
    objects = [each for each in yaml.safe_load_all(built.text) if each["metadata"]["name"] in ours]
    applied = await kubectl.run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), given=yaml.safe_dump_all(objects)
    )
    assert len(applied.text.splitlines()) == len(objects) == 3
    assert applied.warnings == []


@pytest.mark.controlplane
async def test_servers_keep_every_field_and_those_of_a_newer_gangctl(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Strict validation finds nothing unknown in what gangctl writes, and kubectl shows it."""
    kubectl = Kubectl(tmp_path, plane.kubeconfig)
    await kubectl.run("apply", "--server-side", "--validate=strict", "-f", str(GANG_PLACE / "gangs.yaml"))
    await kubectl.run("wait", "--for=condition=Established", "crd/gangs.gangctl.dev")
    gangs = path_of("gangctl.dev/v1alpha1", "gangs", namespace=namespace)
    group = GroupReadiness("g", "t", ("w",), GangPhase.PARTIALLY_PLACED, 1_700_000_000, Counts(8, 8, 8, 8, 3))
    cause = Cause(Reason.UNSCHEDULABLE, "no room", ("0/4 nodes",), "add nodes", "kubectl get nodes", ("g",), 5, 1)
    readiness = Readiness(
        *(namespace, "train", "uid", GangPhase.PARTIALLY_PLACED, 1_700_000_000, group.counts, (group,), (cause,)),
        local_queue="research",
    )
    wanted = gang_object(readiness)

    async def created() -> Object:
        try:
            return await plane.api.create(gangs, {**wanted, "status": {}}, fieldValidation="Strict")
        except Exception as error:
            raise NotYet(str(error)) from error

    await wait_for(created, what="gangs to be served")
    body = {"status": {**wanted["status"], "guess": {"at": 1}}}
    kept = await plane.api.patch(f"{gangs}/train/status", body, fieldValidation="Strict")
    assert kept["status"] == body["status"]
    for refused in ({"phase": 1}, {"pods": {"ready": "many"}}, {"conditions": [{"status": "True"}]}):
        with pytest.raises(Exception, match=r"Invalid value|Required value"):
            await plane.api.patch(f"{gangs}/train/status", {"status": refused})
    shown = await kubectl.run("get", "gangs", "-n", namespace, "-o", "wide")
    head, row = shown.text.splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "REASON", "SINCE", "AGE", "QUEUE", "MESSAGE"]
    assert row.split()[:4] == ["train", "PartiallyPlaced", "0/8", "Unschedulable"]
    assert row.endswith("research   no room")
    await plane.api.delete(f"{gangs}/train")

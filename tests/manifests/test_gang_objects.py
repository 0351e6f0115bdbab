"""The component of the Gang objects: its definition is that of the report, its rights are few, and no field is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangctl.gang.reasons import Reason
from gangctl.readiness.report import gang_object
from gangctl.readiness.result import Cause, Counts, GangPhase, GroupReadiness, Readiness
from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.component import Component, overlay
from tests.manifests.crds import GANG_PLACE, render_for_gangs
from tests.manifests.files import one
from tests.manifests.kubectl import Kubectl

COMPONENT = Component("gang-objects")
GRANTED = {
    ("gangctl.dev", "gangs", "list"),
    ("gangctl.dev", "gangs", "watch"),
    ("gangctl.dev", "gangs", "create"),
    ("gangctl.dev", "gangs", "delete"),
    ("gangctl.dev", "gangs/status", "patch"),
}


def test_the_definition_is_that_of_the_types() -> None:
    found = {path.name: path.read_text() for path in GANG_PLACE.glob("gangs*.yaml")}
    assert found == render_for_gangs(), "run python -m tests.manifests.crds"


def test_every_field_of_the_status_is_described_and_optional() -> None:
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
    assert COMPONENT.listed == {"crds", *COMPONENT.beside}


def test_the_role_has_exactly_the_listed_rights() -> None:
    assert COMPONENT.rights == sorted(GRANTED)
    assert COMPONENT.unexplained == []


def test_an_overlay_switches_it_on() -> None:
    settings, identities = overlay("gang-objects")
    assert settings.gang_objects
    assert ("CustomResourceDefinition", "gangs.gangctl.dev") in identities


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
    cause = Cause(
        Reason.UNSCHEDULABLE,
        "no room",
        evidence=("0/4 nodes",),
        remedy="add nodes",
        command="kubectl get nodes",
        groups=("g",),
        pods=5,
        since=1,
    )
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

"""The ConfigMaps of the dashboards: each holds its file, small enough for kubectl apply, and API servers take them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.controlplane.api import Object
from tests.controlplane.plane import ControlPlane
from tests.grafana.queries import DASHBOARDS
from tests.manifests.files import MANIFESTS, one
from tests.manifests.kubectl import Kubectl

DIRECTORY = MANIFESTS / "monitoring" / "dashboards"
MOST_BYTES = 262_144
"""What all annotations of an object may be together; kubectl apply keeps the whole object in one of them."""


async def built(kubectl: Kubectl) -> list[Object]:
    return list(yaml.safe_load_all((await kubectl.run("kustomize", str(DIRECTORY))).text))


def test_every_file_is_in_a_config_map() -> None:
    generated = one(DASHBOARDS / "kustomization.yaml")["configMapGenerator"]
    assert sorted(name for each in generated for name in each["files"]) == sorted(
        path.name for path in DASHBOARDS.glob("*.json")
    )
    for each in generated:
        assert [each["name"].replace("-dashboard-", "-") + ".json"] == each["files"]
    assert (DIRECTORY / one(DIRECTORY / "kustomization.yaml")["resources"][0]).resolve() == DASHBOARDS


@pytest.mark.controlplane
async def test_servers_accept_the_committed_config_maps(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    kubectl = Kubectl(tmp_path, plane.kubeconfig)
    objects = await built(kubectl)
    assert {path.name: path.read_text() for path in DASHBOARDS.glob("*.json")} == {
        name: text for each in objects for name, text in each["data"].items()
    }
    for each in objects:
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["namespace"] == "gangctl-system"
        assert len(yaml.safe_dump(each).encode()) < MOST_BYTES
        each["metadata"]["namespace"] = namespace
    # Not a dry run: only what is kept shows that the annotation of apply has room.
    for _ in range(2):
        applied = await kubectl.run("apply", "--validate=strict", "-f", "-", given=yaml.safe_dump_all(objects))
        assert len(applied.text.splitlines()) == len(objects)
        assert applied.warnings == []
    assert all(line.endswith(" unchanged") for line in applied.text.splitlines())

"""What gangctl says that no pod of a Job can be is what API servers refuse, and no more than that."""

from __future__ import annotations

import secrets

import pytest

from tests.apiserver.containers import PROBES, SOURCES
from tests.apiserver.podrows import listed, pod_of, shown
from tests.apiserver.pods import AFFINITIES, CONTEXTS, PODS
from tests.apiserver.volumes import VOLUMES
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.rows import each

pytestmark = pytest.mark.controlplane


def _job(fragment: Object) -> Object:
    template = {"spec": {"restartPolicy": "Never", **pod_of(fragment)}}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    name = f"templates-{secrets.token_hex(3)}"
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def _refused(plane: ControlPlane, fragment: Object) -> list[str]:
    try:
        await plane.api.create(path_of("batch/v1", "jobs", namespace="default"), _job(fragment), dryRun="All")
    except ApiFailure as failure:
        causes = [(cause["reason"], cause["field"]) for cause in failure.body["details"]["causes"]]
        # Before 1.37 this field is said to be below securityContext.
        named = [(reason, field.replace("securityContext.shareP", "shareP")) for reason, field in causes]
        return shown(named, "spec.template.spec.")
    return []


# What a release accepts that another refuses is not refused before a JobSet is created.
@pytest.mark.differs("1.35", "1.36")
@each(("refused", "fields", "accepted"), [*SOURCES, *PROBES, *VOLUMES, *AFFINITIES, *CONTEXTS, *PODS])
async def test_pods_are_refused_as_foreseen(
    plane: ControlPlane, refused: Object, fields: str | list[str], accepted: Object
) -> None:
    assert await _refused(plane, refused) == listed(fields)
    assert await _refused(plane, accepted) == []

"""JobSets get the recorded answers of a real server; jobset_cases has the cases and the recorder."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from pathlib import Path

import pytest
import yaml

from gangctl.api.objects import copy
from gangctl.sandbox.api import Api, Caller, WriteOptions
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from tests.cli.manifests import EXAMPLES
from tests.controlplane.plane import ControlPlane
from tests.rows import each
from tests.sandbox.asking import create, patch
from tests.sandbox.jobset_cases import ANSWERS, CHANGED, CHANGES, NEW, OLD, STATUSES, ask, recorded

ME = Caller("me")
DRY = WriteOptions(dry_run=True)
REAL: dict[str, dict[str, Object]] = json.loads(ANSWERS.read_text())


@pytest.fixture
async def changed(api: Api) -> Api:
    await api.create(api.kind("jobsets.jobset.x-k8s.io"), "default", copy(OLD), ME)
    return api


async def _said(call: Awaitable[Object]) -> Object:
    try:
        return {"spec": (await call)["spec"]}
    except StatusError as error:
        return recorded(error.body())


@each("name", NEW)
async def test_a_new_jobset_gets_the_answer_of_a_real_server(api: Api, name: str) -> None:
    kind = api.kind("jobsets.jobset.x-k8s.io")
    assert await _said(api.create(kind, "default", copy(NEW[name]), ME, DRY)) == REAL["new"][name]


@each("name", CHANGES)
async def test_a_change_of_a_jobset_gets_the_answer_of_a_real_server(changed: Api, name: str) -> None:
    kind = changed.kind("jobsets.jobset.x-k8s.io")
    said = await _said(changed.patch(kind, "default", CHANGED, CHANGES[name], "json", ME, DRY))
    assert said == REAL["changes"][name]


async def test_a_new_jobset_has_no_status(api: Api) -> None:
    kind = api.kind("jobsets.jobset.x-k8s.io")
    assert "status" not in await api.create(kind, "default", copy(NEW["status given"]), ME)


@each("name", STATUSES)
async def test_a_status_of_a_jobset_gets_the_answer_of_a_real_server(changed: Api, name: str) -> None:
    kind, patch = changed.kind("jobsets.jobset.x-k8s.io"), {"status": STATUSES[name]}
    with pytest.raises(StatusError) as caught:
        await changed.patch(kind, "default", CHANGED, patch, "merge", ME, DRY, subresource="status")
    assert recorded(caught.value.body()) == REAL["statuses"][name]


async def test_scheduling_directives_of_a_jobset_are_mutable_only_while_suspended(changed: Api) -> None:
    kind = changed.kind("jobsets.jobset.x-k8s.io")
    await changed.patch(kind, "default", CHANGED, {"spec": {"suspend": False}}, "merge", ME)
    with pytest.raises(StatusError, match="field is immutable"):
        await changed.patch(kind, "default", CHANGED, CHANGES["places of pods"], "json", ME)
    suspending = [*CHANGES["places of pods"], {"op": "replace", "path": "/spec/suspend", "value": True}]
    await changed.patch(kind, "default", CHANGED, suspending, "json", ME)


async def test_the_size_of_a_finished_jobset_is_immutable(changed: Api) -> None:
    kind = changed.kind("jobsets.jobset.x-k8s.io")
    done = {
        "type": "Completed",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await changed.patch(kind, "default", CHANGED, {"status": {"conditions": [done]}}, "merge", ME, subresource="status")
    with pytest.raises(StatusError, match="when JobSet is in a terminal state"):
        await changed.patch(kind, "default", CHANGED, CHANGES["parallelism and completions"], "json", ME)


async def test_without_elastic_jobset_the_size_is_immutable() -> None:
    api = Api(gates={"ElasticJobSet": False})
    kind = api.kind("jobsets.jobset.x-k8s.io")
    await api.create(kind, "default", copy(OLD), ME)
    with pytest.raises(StatusError, match="field is immutable"):
        await api.patch(kind, "default", CHANGED, CHANGES["parallelism and completions"], "json", ME)


@pytest.mark.controlplane
async def test_the_recorded_answers_equal_those_of_a_real_server(plane_1_37: ControlPlane, namespace: str) -> None:
    assert await ask(plane_1_37.api, namespace) == REAL


def _spec_in(file: Path) -> Object:
    (written,) = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    spec: Object = written["spec"]
    return spec


@each("example", EXAMPLES, ids=lambda path: path.stem)
async def test_the_file_of_an_example_can_be_applied_again(example: Path) -> None:
    """kubectl apply sends a list as a whole once a default in it differs from the file; JobSet defaults at creation."""
    spec, api = _spec_in(example), Api()
    await create(api, "jobsets.jobset.x-k8s.io", spec=spec)
    await patch(api, "jobsets.jobset.x-k8s.io", {"spec": {"replicatedJobs": spec["replicatedJobs"]}})

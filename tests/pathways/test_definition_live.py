"""What a real API server makes of the definition: defaults, what stays as it is, and what it refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gangctl.pathways.accelerators import MACHINE_TYPES_OF_JOBS, of_job
from gangctl.pathways.words import API_VERSION, PLURAL
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.definitions import serve
from tests.manifests.definitions.pathwaysjobs import definitions
from tests.pathways.refused import REFUSED
from tests.pathways.samples import component, container, pathways_job, template
from tests.pathways.upstream_definition import upstream_definition

pytestmark = pytest.mark.controlplane

FULL: dict[str, Any] = {
    "workers": {"nodeSelector": {"a": "b"}, "terminationGracePeriodSeconds": 60, "priorityClassName": "high"},
    "controller": {
        "mainContainerName": "log",
        "elasticSlices": 1,
        "enableMetricsCollection": True,
        "template": template(
            container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            container("log", restartPolicyRules=[{"of": "a newer release"}]),
            metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}},
            tolerations=[{"operator": "Exists"}],
        ),
    },
    "customComponents": [component("worker", customEnv=[{"name": "A", "valueFrom": {"fileKeyRef": {"key": "k"}}}])],
    "maxRestarts": 2,
}
LONG_AGO = "2026-01-01T00:00:00Z"


class Jobs:
    """PathwaysJobs of one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._api = plane.api
        self.path = path_of(API_VERSION, PLURAL, namespace=namespace)
        self._namespace = namespace

    async def create(self, value: Object, **how: Any) -> Object:
        metadata = {**value.get("metadata", {}), "namespace": self._namespace}
        return await self._api.create(self.path, {**value, "metadata": metadata}, **how)

    def taken(self, value: Object) -> Callable[[], Awaitable[bool]]:
        """Whether the server has come to take an object."""
        return self._answered(value, refused=False)

    def refused(self, value: Object) -> Callable[[], Awaitable[bool]]:
        """Whether it has come to refuse it."""
        return self._answered(value, refused=True)

    def _answered(self, value: Object, *, refused: bool) -> Callable[[], Awaitable[bool]]:
        other = {**value, "metadata": {"generateName": "asked-"}}

        async def answered() -> bool:
            if await self.refuses(other) is not refused:
                raise NotYet
            return True

        return answered

    async def change(self, name: str, spec: Object) -> Object:
        return await self._api.patch(f"{self.path}/{name}", {"spec": spec}, dryRun="All")

    async def refuses(self, value: Object) -> bool:
        try:
            await self.create(value, dryRun="All")
        except ApiFailure as failure:
            if failure.status not in {400, 422}:
                raise
            return True
        return False

    async def keeps(self, name: str, spec: Object) -> str:
        """Why the API server does not change a spec so."""
        with pytest.raises(ApiFailure) as refused:
            await self.change(name, spec)
        assert refused.value.status == 422
        return refused.value.message


@pytest.fixture
async def jobs(plane_1_37: ControlPlane, namespace: str) -> AsyncIterator[Jobs]:
    await serve(plane_1_37.api, definitions().values())
    found = Jobs(plane_1_37, namespace)
    yield found
    await plane_1_37.api.request("DELETE", found.path)


async def test_every_field_is_kept_and_defaults_are_written(jobs: Jobs) -> None:
    small = await jobs.create(pathways_job("small", controller={"template": None}), fieldValidation="Strict")
    assert small["spec"]["controller"] == {"deploymentMode": "default", "mainContainerName": "main"}
    assert small["spec"]["workers"][0]["maxSliceRestarts"] == 1
    wanted = pathways_job("full", **FULL)
    wanted["spec"]["workers"][0]["maxSliceRestarts"] = 1
    full = await jobs.create(wanted, fieldValidation="Strict")
    assert full["spec"] == wanted["spec"]


async def test_the_server_refuses_what_a_schema_can_express_of_the_offline_rules(jobs: Jobs) -> None:
    reported = {case.title: await jobs.refuses(dict(case.value)) for case in REFUSED if case.path not in _ENVELOPE}
    assert reported == {case.title: case.by_server for case in REFUSED if case.title in reported}


_ENVELOPE = {"apiVersion", "kind", "metadata.namespace"}
"""What the path of a request contains."""


async def test_every_listed_topology_is_accepted(jobs: Jobs) -> None:
    for machine in MACHINE_TYPES_OF_JOBS:
        for topology in (of_job(machine)[0].upper(), f" {of_job(machine)[-1]} "):
            assert not await jobs.refuses(pathways_job(workers={"type": machine, "topology": topology})), topology


async def test_the_spec_is_immutable(jobs: Jobs) -> None:
    await jobs.create(pathways_job("full", **FULL))
    await jobs.create(pathways_job("headless", headless=True))
    group = pathways_job(**FULL)["spec"]["workers"][0]
    for spec, name in (
        ({"maxRestarts": 3}, "maxRestarts"),
        ({"maxRestarts": None}, "maxRestarts"),
        ({"pathwaysDir": "gs://c"}, "pathwaysDir"),
        ({"pathwaysVersion": "v2"}, "pathwaysVersion"),
        ({"workers": [{**group, "numSlices": 3}]}, "workers"),
        ({"customComponents": None}, "customComponents"),
        ({"customComponents": [component("worker", image="a/b")]}, "customComponents"),
        ({"controller": {"deploymentMode": "colocate_head_with_workers"}}, "deploymentMode"),
        ({"controller": {"mainContainerName": "main"}}, "mainContainerName"),
        ({"controller": {"mainContainerName": None}}, "mainContainerName"),
        ({"controller": {"enableMetricsCollection": None}}, "enableMetricsCollection"),
        ({"controller": {"elasticSlices": 0}}, "elasticSlices"),
        ({"controller": {"template": None}}, "template"),
        ({"controller": {"template": {"spec": {"tolerations": []}}}}, "template"),
        ({"controller": {"template": {"metadata": {"labels": {"a": "c"}}}}}, "template"),
    ):
        assert f"{name} is immutable" in await jobs.keeps("full", spec), spec
    assert "template is immutable" in await jobs.keeps("headless", {"controller": {"template": template()}})
    # Omitted fields, as written by a client that makes no difference.
    same = {"maxRestarts": 0, "customComponents": [], "controller": {"elasticSlices": 0, "mainContainerName": "main"}}
    await jobs.change("headless", same)


async def test_conditions_are_unique_by_type(jobs: Jobs, plane_1_37: ControlPlane) -> None:
    await jobs.create(pathways_job())
    one = {
        "type": "Running",
        "status": "True",
        "reason": "A",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"conditions": [one], "restarts": 1, "terminalState": ""}
    kept = await plane_1_37.api.patch(f"{jobs.path}/pw/status", {"status": status}, fieldValidation="Strict")
    assert kept["status"] == status
    with pytest.raises(ApiFailure, match="Duplicate value"):
        await plane_1_37.api.patch(f"{jobs.path}/pw/status", {"status": {"conditions": [one, one]}})


async def test_the_status_of_jobs_admitted_by_upstream_can_be_written(jobs: Jobs, plane_1_37: ControlPlane) -> None:
    """The definition is replaced by ours below objects that ours would refuse: their status can still be written."""
    loose = pathways_job("loose", workers={"numSlices": 0, "topology": "9x9"}, controller={"elasticSlices": 5})
    one = {"type": "Running", "status": "False", "reason": "A", "message": "", "lastTransitionTime": LONG_AGO}
    try:
        await serve(plane_1_37.api, [upstream_definition()])
        await wait_for(jobs.taken(loose), what="the definition of upstream to be in force")
        await jobs.create(loose)
        await plane_1_37.api.patch(f"{jobs.path}/loose/status", {"status": {"conditions": [one, one]}})
    finally:
        await serve(plane_1_37.api, definitions().values())
    await wait_for(jobs.refused(loose), what="our definition to be in force")
    status = {"conditions": [{**one, "type": "Failed", "status": "True"}, one], "terminalState": "Failed"}
    kept = await plane_1_37.api.patch(f"{jobs.path}/loose/status", {"status": status})
    assert kept["status"] == status

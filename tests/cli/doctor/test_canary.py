"""The two JobSets of the canary beside a scripted API server, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from gangctl.api.meta import JOBSET_NAME
from gangctl.cli.doctor.canary import Canary, run_canary
from gangctl.cli.doctor.checks.installed import refused_by_rule
from gangctl.cli.doctor.cluster import UnseenError
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from tests.cli.httpserver import HERE, listening
from tests.credentials import StaticCredentials
from tests.faults.virtual_time import run
from tests.rows import each

Object = dict[str, Any]
ROOT = "/apis/scheduling.k8s.io"


@dataclass
class CanaryServer:
    """Creates the pods of a JobSet once it was read ``queued`` times; lists of ``forbidden`` are refused."""

    queued: int = 0
    forbidden: frozenset[str] = frozenset()
    jobsets: dict[str, Object] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)
    deadlines: list[int] = field(default_factory=list)
    """Of all Jobs, in seconds."""

    async def canary(self, timeout_seconds: float) -> Canary:
        """Run it."""
        async with listening(self.answer) as url, Transport(StaticCredentials(url)) as transport:
            return await run_canary(Client(transport), HERE, timeout_seconds)

    async def answer(self, request: web.Request) -> web.Response:
        """As the API server and all controllers."""
        collection, _, name = request.path.rpartition("/")
        if request.path == ROOT:
            return web.json_response({"versions": [{"version": "v1beta1"}]})
        if request.path == f"{ROOT}/v1beta1":
            return web.json_response({"resources": [{"name": "workloads"}, {"name": "podgroups"}]})
        if request.method == "POST":
            body = await request.json()
            self.jobsets[body["metadata"]["name"]] = body
            jobs = [rj["template"]["spec"] for rj in body["spec"]["replicatedJobs"]]
            self.deadlines += [job["activeDeadlineSeconds"] for job in jobs]
            return web.json_response(body, status=201)
        if collection.endswith("/jobsets"):
            return self._one(request.method, name)
        if name in self.forbidden:
            message = f'{name} is forbidden: User "u" cannot list resource "{name}" in API group ""'
            return _status(403, "Forbidden", message)
        selected = request.query.get("labelSelector", "").rpartition("=")[2]
        listed = {"pods": self._pods(selected), "podgroups": self._groups()}
        return web.json_response({"metadata": {}, "items": listed.get(name, [])})

    def _one(self, method: str, name: str) -> web.Response:
        jobset = self.jobsets.get(name)
        if jobset is None:
            return _status(404, "NotFound", f"{name} not found")
        if method == "DELETE":
            return web.json_response(self.jobsets.pop(name))
        self.reads[name] = self.reads.get(name, 0) + 1
        return web.json_response({**jobset, "spec": {**jobset["spec"], "suspend": self._waits(name)}})

    def _waits(self, name: str) -> bool:
        return self.reads.get(name, 0) <= self.queued

    def _pods(self, name: str) -> list[Object]:
        if name not in self.jobsets or self._waits(name):
            return []
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
        status = {"conditions": [refused]} if name.endswith("torn") else {}
        spec = {} if name.endswith("torn") else {"nodeName": "n"}
        labels = {JOBSET_NAME: name}
        return [
            {"metadata": {"name": f"{name}-{n}", "labels": labels}, "spec": spec, "status": status} for n in range(2)
        ]

    def _groups(self) -> list[Object]:
        owners = [{"kind": "JobSet", "name": name, "controller": True} for name in self.jobsets]
        return [{"metadata": {"name": "g", "ownerReferences": [owner]}} for owner in owners]


def _status(code: int, reason: str, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": message, "code": code}, status=code)


@pytest.mark.parametrize("queued", [0, 3])
def test_a_queue_may_admit_the_canary_within_the_timeout(queued: int) -> None:
    made = run(CanaryServer(queued).canary(30.0))
    assert [pod.node for pod in made.whole.pods] == ["n", "n"]
    assert all(pod.refused for pod in made.torn.pods)
    assert made.left_behind == ()


def test_its_jobs_outlast_the_timeout() -> None:
    server = CanaryServer()
    run(server.canary(900.5))
    assert set(server.deadlines) == {901 + 600}


def test_a_queue_that_does_not_admit_the_canary_is_reported() -> None:
    made = run(CanaryServer(9999).canary(30.0))
    assert (made.whole.suspended, made.torn.suspended, made.left_behind) == (True, True, ())
    assert made.whole.seconds >= 30


@pytest.mark.parametrize("plural", ["pods", "podgroups"])
def test_without_the_right_to_see_its_objects_both_jobsets_are_deleted(plural: str) -> None:
    server = CanaryServer(forbidden=frozenset({plural}))
    with pytest.raises(UnseenError) as refused:
        run(server.canary(30.0))
    assert (refused.value.right, server.jobsets) == (f"list {plural} cluster-wide", {})
    assert "left behind" not in refused.value.why


@each(
    ("refusal", "by_rule"),
    [
        ('pods "a" is forbidden: minimum cpu usage per Container is 100m, but request is 1m', True),
        ('pods "a" is forbidden: [minimum cpu usage per Container is 100m, but request is 1m, minimum memory]', True),
        ('pods "a" is forbidden: unable to validate against any security context constraint: [x]', True),
        ('pods "a" is forbidden: User "u" cannot create resource "pods" in API group ""', False),
    ],
)
def test_refusals_by_rules_of_a_cluster_are_known(refusal: str, by_rule: bool) -> None:
    assert refused_by_rule(refusal) is by_rule

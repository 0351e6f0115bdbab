"""An API server with the objects of a test, as far as ``gangctl pathways`` reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.cli.httpserver import HERE, kubeconfig, listening
from tests.cli.run import Answer, gangctl

Object = dict[str, Any]

PATHWAYS = f"/apis/pathways-job.pathways.domain/v1/namespaces/{HERE}/pathwaysjobs"
JOBSETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{HERE}/jobsets"
PODS = f"/api/v1/namespaces/{HERE}/pods"
NODES = "/api/v1/nodes"


@dataclass
class Cluster:
    """Objects by the path of their collection; a path that is not here is not served, one of ``forbidden`` is."""

    served: dict[str, list[Object]] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    answers: dict[str, Object] = field(default_factory=dict)
    """Answers to anything else, such as discovery."""
    asked: list[str] = field(default_factory=list)
    refuses: bool = False
    """Whether it refuses every request."""

    def answerer(self) -> Callable[[web.Request], Awaitable[web.Response]]:
        """What :func:`~tests.cli.httpserver.listening` wants."""

        async def answer(request: web.Request) -> web.Response:
            self.asked.append(f"{request.method} {request.path_qs}")
            if self.refuses:
                return _status(401, "Unauthorized", "who are you?")
            if request.path in self.forbidden:
                return _status(403, "Forbidden", f"{request.path} is forbidden")
            if request.method == "POST":
                return web.json_response(await request.json(), status=201)
            if request.path in self.answers:
                return web.json_response(self.answers[request.path])
            if request.path in self.served:
                return web.json_response({"metadata": {"resourceVersion": "1"}, "items": self.served[request.path]})
            collection, _, name = request.path.rpartition("/")
            for each in self.served.get(collection, []):
                if each["metadata"]["name"] == name:
                    return web.json_response(each)
            return _status(404, "NotFound", f"{request.path} not found")

        return answer


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code)


async def ask(directory: Path, cluster: Cluster, *args: str) -> Answer:
    """Run gangctl beside this cluster, in this process: a start of its own costs more than all else."""
    async with listening(cluster.answerer()) as url:
        return await asyncio.to_thread(gangctl, *args, "--kubeconfig", kubeconfig(directory, url))

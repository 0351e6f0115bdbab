"""An API server with the objects it was given, which may be asked for all of them, or for some."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import yaml
from aiohttp import web

from gangctl.cli.kueuecluster import CONFIGS
from gangctl.client.resources import EVENTS, JOBS, JOBSETS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS
from gangctl.cluster import kinds
from gangctl.controllers.policy_sources import GANG_POLICIES
from gangctl.kueue.configuration import CONFIG_KEY
from gangctl.kueue.names import GROUP, VERSION
from tests.cli.httpserver import listening
from tests.cli.kueueobjects import Object

RESOURCES: Final = (
    *(
        kinds.CLUSTER_QUEUES,
        kinds.COHORTS,
        kinds.LOCAL_QUEUES,
        kinds.RESOURCE_FLAVORS,
        kinds.QUEUED_WORKLOADS,
    ),
    *(
        kinds.TOPOLOGIES,
        kinds.ADMISSION_CHECKS,
        kinds.PRIORITY_CLASSES,
        kinds.LIMIT_RANGES,
        RESOURCE_QUOTAS,
        kinds.RUNTIME_CLASSES,
    ),
    *(kinds.RESOURCE_SLICES, kinds.RESOURCE_CLAIMS, kinds.CLAIM_TEMPLATES, kinds.DEVICE_CLASSES, kinds.TAINT_RULES),
    replace(kinds.TAINT_RULES, version="v1alpha3"),
    *(kinds.CONFIG_MAPS, JOBSETS, JOBS, NAMESPACES, NODES, PODS, EVENTS, CONFIGS, GANG_POLICIES),
)


class Server:
    """``forbidden`` are paths that answer 403, ``unserved`` those of collections that it does not have."""

    def __init__(
        self, objects: Iterable[Object], forbidden: Collection[str], unserved: Collection[str], *, kueue: bool
    ) -> None:
        self.objects = list(objects)
        self.forbidden = forbidden
        self.resources = [
            resource for resource in RESOURCES if resource.path() not in unserved and (kueue or resource.group != GROUP)
        ]
        self.asked: list[tuple[str, str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path))
        if request.path in self.forbidden:
            return _status(403, "Forbidden")
        groups = [
            resource for resource in self.resources if resource.group and request.path == f"/apis/{resource.group}"
        ]
        if groups:
            versions = dict.fromkeys(resource.version for resource in groups)
            return web.json_response({"kind": "APIGroup", "versions": [{"version": version} for version in versions]})
        served = [{"name": kind.plural} for kind in self.resources if request.path == f"/apis/{kind.api_version}"]
        if served:
            return web.json_response({"kind": "APIResourceList", "resources": served})
        if request.path == f"/openapi/v3/apis/{GROUP}/{VERSION}":
            return web.json_response({"components": {"schemas": {}}})
        found = self._find(request.path)
        return web.json_response(found) if found is not None else _status(404, "NotFound")

    def _find(self, path: str) -> Object | None:
        """The list or the object of a path."""
        version, rest = _version(path)
        namespace, plural, name = _parts(rest)
        for resource in self.resources:
            if (resource.api_version, resource.plural) == (version, plural):
                break
        else:
            return None
        own = [each for each in self.objects if (each["apiVersion"], each["kind"]) == (version, resource.kind)]
        here = [each for each in own if namespace in {"", each["metadata"].get("namespace")}]
        if name:
            return next((each for each in here if each["metadata"]["name"] == name), None)
        items = [{key: each[key] for key in each if key not in {"apiVersion", "kind"}} for each in here]
        return {"kind": f"{resource.kind}List", "metadata": {"resourceVersion": "7"}, "items": items}


def _version(path: str) -> tuple[str, str]:
    """apiVersion, and what follows it."""
    steps = path.split("/")[1:]
    size = 1 if steps[0] == "api" else 2
    return "/".join(steps[1 : size + 1]), "/".join(steps[size + 1 :])


def _parts(rest: str) -> tuple[str, str, str]:
    """Namespace, plural and name: ``namespaces/t`` alone is an object."""
    parts = rest.split("/")
    if parts[0] == "namespaces" and len(parts) > 2:
        return parts[1], parts[2], "".join(parts[3:])
    return "", parts[0], "".join(parts[1:])


def _status(code: int, reason: str) -> web.Response:
    body = {"kind": "Status", "reason": reason, "message": f"that is {reason.lower()}", "code": code}
    return web.json_response(body, status=code)


@asynccontextmanager
async def serving(
    *objects: Object, forbidden: Collection[str] = (), unserved: Collection[str] = (), kueue: bool = True
) -> AsyncIterator[tuple[Server, str]]:
    """The server and its URL."""
    server = Server(objects, forbidden, unserved, kueue=kueue)
    async with listening(server.answer) as url:
        yield server, url


def config_map(configuration: Object, namespace: str = "kueue-system") -> Object:
    """Kueue's configuration where Kueue has it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": kinds.CONFIG_NAME, "namespace": namespace},
        "data": {CONFIG_KEY: yaml.safe_dump(configuration)},
    }


def labelled(name: str, **labels: str) -> Object:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}

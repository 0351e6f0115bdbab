"""An API server that lists what it was given, page by page, and takes nothing; dry runs, if it is told how."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from gangctl.api.labelselector import label_test
from tests.cli import httpserver
from tests.cli.policy.policies import Object
from tests.cli.run import Answer

POLICIES = "/apis/gangctl.dev/v1alpha1/gangpolicies"
EXCEPTIONS = "/apis/gangctl.dev/v1alpha1/gangpolicyexceptions"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
NAMESPACES = "/api/v1/namespaces"
CONFIG_MAPS = "/api/v1/configmaps"
_CORE = {"kind": "APIResourceList", "resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}]}
_GROUP = {"kind": "APIGroup", "versions": [{"version": "v1beta1"}]}
_SCHEDULING = {"kind": "APIResourceList", "resources": [{"name": "workloads"}, {"name": "podgroups"}]}
_FIXED = {
    "/api/v1": _CORE,
    "/apis/scheduling.k8s.io": _GROUP,
    "/apis/scheduling.k8s.io/v1beta1": _SCHEDULING,
}


class Server:
    """Collections by path, in pages of ``page`` objects, None for one that may not be read; ``asked`` are requests."""

    def __init__(self, collections: dict[str, list[Object] | None], page: int, namespaces: list[Object]) -> None:
        """Serve these, and Namespaces by their names."""
        self.collections = collections
        self.namespaces = namespaces
        self.page = page
        self.asked: list[tuple[str, str]] = []
        self.named: dict[str, Object] = {}
        """Objects by their path."""
        self.dry_run: Callable[[Object], web.Response] | None = None
        """Answers a create."""

    async def answer(self, request: web.Request) -> web.Response:
        """One request."""
        self.asked.append((request.method, request.path))
        if (fixed := (_FIXED | self.named).get(request.path)) is not None:
            return web.json_response(fixed)
        names = {each["metadata"]["name"]: each for each in self.namespaces}
        if (named := request.path.removeprefix(f"{NAMESPACES}/")) in names:
            return web.json_response(names[named])
        if self.dry_run is not None and request.query.get("dryRun") == "All":
            return self.dry_run(await request.json())
        path, namespace = _collection(request.path)
        if path not in self.collections or request.method != "GET":
            status = {"kind": "Status", "reason": "NotFound", "message": "not found", "code": 404}
            return web.json_response(status, status=404)
        if (collection := self.collections[path]) is None:
            message = f"cannot list {path.rpartition('/')[2]}"
            status = {"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}
            return web.json_response(status, status=403)
        if path == NAMESPACES != request.path:
            # One that does not exist.
            return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)
        found = [each for each in collection if namespace in {"", each["metadata"].get("namespace", "")}]
        if (test := label_test(request.query.get("labelSelector", ""))) is not None:
            found = [each for each in found if test(each["metadata"].get("labels") or {})]
        start = int(request.query.get("continue", 0))
        following = str(start + self.page) if start + self.page < len(found) else ""
        items = [{key: each[key] for key in each if key not in {"apiVersion", "kind"}} for each in found]
        metadata = {"resourceVersion": "7", "continue": following}
        body: dict[str, Any] = {"kind": "List", "metadata": metadata, "items": items[start : start + self.page]}
        return web.json_response(body)


def _collection(path: str) -> tuple[str, str]:
    """The path of a collection over all namespaces, and the namespace that was named."""
    before, found, after = path.partition("/namespaces/")
    namespace, _, plural = after.partition("/")
    return (f"{before}/{plural}", namespace) if plural else (before + found.rstrip("/"), "")


@asynccontextmanager
async def serving(
    page: int = 2, named: list[Object] | None = None, **collections: list[Object] | None
) -> AsyncIterator[tuple[Server, str]]:
    """The server and its URL; collections by the names of this module's paths.

    Namespaces that may be read by their name are those of ``named``, else of the collection.
    """
    namespaces = collections.get("namespaces") if named is None else named
    server = Server({globals()[name.upper()]: found for name, found in collections.items()}, page, namespaces or [])
    async with httpserver.listening(server.answer) as url:
        yield server, url


async def ask(directory: Path, url: str, *arguments: str) -> Answer:
    """Run ``gangctl policy`` against that server."""
    return await httpserver.ask(directory, url, "policy", *arguments)

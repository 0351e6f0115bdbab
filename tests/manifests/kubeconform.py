"""kubeconform of the pinned release, with the schemas that an API server publishes."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

from tests.controlplane.api import ApiClient, ApiFailure, Object
from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import NEWEST
from tests.controlplane.wait import NotYet, wait_for


async def write_schemas(api: ApiClient, objects: list[Object], directory: Path) -> None:
    """A file for each kind among the objects; a field that a type does not have is an error by it."""
    for api_version, kind in sorted({(each["apiVersion"], each["kind"]) for each in objects}):
        schema = await wait_for(partial(_schema, api, api_version, kind), what=f"the schema of {kind}")
        group, _, version = api_version.rpartition("/")
        suffix = "-".join(filter(None, (kind, group.partition(".")[0], version))).lower()
        (directory / f"{suffix}.json").write_text(json.dumps(schema), encoding="utf-8")


async def _schema(api: ApiClient, api_version: str, kind: str) -> Object:
    """What the API server publishes of a kind; of one that it has just been given it does so a moment later."""
    group, _, version = api_version.rpartition("/")
    try:
        components = (await api.get(f"/openapi/v3/{f'apis/{group}' if group else 'api'}/{version}"))["components"]
    except ApiFailure as failure:
        if failure.status != 404:
            raise
        raise NotYet(str(failure)) from failure
    wanted = {"group": group, "version": version, "kind": kind}
    for name, schema in components["schemas"].items():
        if wanted in schema.get("x-kubernetes-group-version-kind", []):
            return {"$ref": f"#/components/schemas/{name}", "components": _closed(components)}
    raise NotYet(f"{api_version} has no {kind} among {[*components['schemas']]}")


def _closed(value: Any) -> Any:
    if isinstance(value, list):
        return [_closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    closed = {key: _closed(each) for key, each in value.items()}
    open_ended = closed.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in closed
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object" and not open_ended:
        closed["additionalProperties"] = False
    return closed


async def kubeconform(manifests: str, schemas: Path) -> Object:
    """Its summary: how many resources are valid, invalid, errors and skipped, and what is wrong with which."""
    process = await asyncio.create_subprocess_exec(
        *(str(ensure_binary("kubeconform", NEWEST)), "-strict", "-summary", "-output", "json"),
        *("-schema-location", f"{schemas}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json", "-"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate(manifests.encode())
    found: Object = json.loads(out)
    return found

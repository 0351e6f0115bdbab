"""What is kept of a Gang object: its owner, and enough of its status to detect a difference.

There may be 10,000 of them with hundreds of groups each, so the status itself is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from gangctl.api.meta import JOBSET_GROUP
from gangctl.api.reportschema import Definitions, object_schema
from gangctl.client.resources import Resource
from gangctl.policy.crd import Schema, column, definition_of
from gangctl.readiness.report import API_VERSION, KIND, GangStatus
from gangctl.readiness.result import Readiness

PLURAL: Final = "gangs"


def definitions() -> dict[str, dict[str, Any]]:
    """The definition by file name."""
    return {
        f"{PLURAL}.yaml": definition_of(
            KIND,
            PLURAL,
            _schema(),
            scope="Namespaced",
            columns=[
                column("Phase", ".status.phase", "How far it has come."),
                column("Ready", ".status.ready", "Ready pods of those wanted."),
                column("Reason", ".status.reason", "Why it is not ready."),
                column("Since", ".status.since", "How long it has been in its phase.", "date"),
                column("Age", ".metadata.creationTimestamp", "", "date"),
                column("Queue", ".status.localQueue", "Its queue of Kueue.", wide=True),
                column("Message", ".status.message", "The reason in a sentence.", wide=True),
            ],
            status=True,
        )
    }


def _schema() -> Schema:
    """Nothing is required, and unknown fields are kept: the definition may be older than the gangctl that writes."""
    definitions = Definitions()
    status = _open(object_schema(GangStatus, definitions), definitions)
    status["properties"]["conditions"] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    # The keys of a list map are the only fields that an API server requires.
    status["properties"]["conditions"]["items"]["required"] = ["type"]
    return {
        "description": "Where the JobSet of the same name stands, as gangctl sees it; only gangctl writes it.",
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "status": status,
        },
    }


def _open(schema: Schema, definitions: Definitions) -> Schema:
    """One schema without references, in which every object accepts unknown fields."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return _open({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    if "enum" in schema:
        return {**schema, "type": "string"}
    if "items" in schema:
        return {**schema, "items": _open(schema["items"], definitions)}
    if "properties" not in schema:
        return schema
    properties = {name: _open(each, definitions) for name, each in schema["properties"].items()}
    return {
        "description": schema["description"],
        "type": "object",
        "properties": properties,
        "x-kubernetes-preserve-unknown-fields": True,
    }


_GROUP, _, _VERSION = API_VERSION.partition("/")
GANGS: Final = Resource(_GROUP, _VERSION, PLURAL, KIND)

_DIGEST_BYTES: Final = 16
_MOMENTS: Final = frozenset({"since", "lastTransitionTime"})
"""A difference in these fields alone is not written: after a restart, some hold the time of gangctl's first check."""


@dataclass(frozen=True, slots=True)
class GangCopy:
    """A Gang object as the API server has it, or as gangctl's last write left it."""

    uid: str
    version: int
    """Its resourceVersion, which grows; 0 for one that is not a number."""
    owner: str
    """UID of its controller, empty without one."""
    of_jobset: bool
    """Whether its controller is a JobSet of its own name."""
    gist: tuple[str, str]
    """Phase and ready pods."""
    digest: bytes
    """Digest of its status, see :func:`digest`."""
    condition: tuple[str, str]
    """Status of its condition Ready, and since when."""


def project_gang(raw: dict[str, Any]) -> GangCopy:
    """Read a Gang object; a status of another shape matters only as different."""
    metadata = raw["metadata"]
    references = metadata.get("ownerReferences") or []
    owner: Mapping[str, Any] = next((each for each in references if each.get("controller")), {})
    status = raw.get("status")
    status = status if isinstance(status, dict) else {}
    version = str(metadata.get("resourceVersion", ""))
    return GangCopy(
        uid=str(metadata.get("uid", "")),
        version=int(version) if version.isdigit() else 0,
        owner=str(owner.get("uid", "")),
        of_jobset=(_kind(owner), owner.get("name")) == ((JOBSET_GROUP, "JobSet"), metadata["name"]),
        gist=(str(status.get("phase", "")), str(status.get("ready", ""))),
        digest=digest(status),
        condition=_condition(status),
    )


def status_after(status: GangStatus, before: GangCopy) -> GangStatus:
    """The status with the stored transition time of Ready, where Ready is unchanged."""
    (ready,) = status["conditions"]
    if before.condition[0] != ready["status"] or not before.condition[1]:
        return status
    return {**status, "conditions": [{**ready, "lastTransitionTime": before.condition[1]}]}


def digest(status: Mapping[str, Any]) -> bytes:
    """Equal for statuses with equal content."""
    text = json.dumps(_timeless(status), sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


def gist(readiness: Readiness) -> tuple[str, str]:
    """The fields whose changes are written soon: phase and ready pods, as a copy has them."""
    return readiness.phase.value, f"{readiness.counts.ready}/{readiness.counts.wanted}"


def _timeless(value: Any) -> Any:
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in _MOMENTS}
    return value


def _kind(owner: Mapping[str, Any]) -> tuple[str, str]:
    return str(owner.get("apiVersion", "")).partition("/")[0], str(owner.get("kind", ""))


def _condition(status: Mapping[str, Any]) -> tuple[str, str]:
    conditions = status.get("conditions")
    for each in conditions if isinstance(conditions, list) else []:
        if isinstance(each, dict) and each.get("type") == "Ready":
            return str(each.get("status", "")), str(each.get("lastTransitionTime", ""))
    return "", ""

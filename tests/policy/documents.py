"""Policies, exceptions and requests as tests write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gangctl.policy.review import Operation, Review

Object = dict[str, Any]

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LATER = "2026-07-01T00:00:00Z"


def policy(*expressions: str, name: str = "p", **spec: Any) -> Object:
    """A GangPolicy with these validations, if any, and these further fields of its spec."""
    if expressions:
        spec["validations"] = [{"expression": each} for each in expressions]
    return {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": name}, "spec": spec}


def exception(*policies: Object, name: str = "x", **spec: Any) -> Object:
    """A GangPolicyException."""
    spec = {"owner": "team-a", "reason": "migration", "expiresAt": LATER, **spec, "policies": list(policies)}
    return {
        "apiVersion": "gangctl.dev/v1alpha1",
        "kind": "GangPolicyException",
        "metadata": {"name": name},
        "spec": spec,
    }


def review_of(
    obj: Object | None,
    operation: Operation = "CREATE",
    *,
    old: Object | None = None,
    namespace: Object | None = None,
    resource: tuple[str, str, str] = ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    subresource: str = "",
    **more: Any,
) -> Review:
    """A request for an object, as the API server would describe it."""
    metadata = ((obj if obj is not None else old) or {}).get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    group, version, plural = resource
    request: Object = {
        "operation": operation,
        "kind": {"group": group, "version": version, "kind": "JobSet" if plural == "jobsets" else "Other"},
        "resource": {"group": group, "version": version, "resource": plural},
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "userInfo": {"username": "alice", "groups": ["dev"]},
        "dryRun": False,
    }
    if subresource:
        request["subResource"] = subresource
    return Review(
        operation=operation, now=NOW, request=request, object=obj, old_object=old, namespace=namespace, **more
    )


def rule(*operations: str, **fields: Any) -> Object:
    """A resource rule about JobSets."""
    return {
        "apiGroups": ["jobset.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": list(operations) or ["*"],
        "resources": ["jobsets"],
        **fields,
    }

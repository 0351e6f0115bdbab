"""PolicyReport as a cluster with the policy working group's definitions has it: what gangctl writes, held strictly."""

from typing import Any

_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}


def _fields(**fields: object) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def policy_report_definition() -> dict[str, Any]:
    """CustomResourceDefinition of ``policyreports.wgpolicyk8s.io`` with the fields of v1alpha2."""
    reference = _fields(apiVersion=_TEXT, kind=_TEXT, namespace=_TEXT, name=_TEXT, uid=_TEXT)
    texts = {"type": "object", "additionalProperties": _TEXT}
    result = {
        **_fields(
            source=_TEXT,
            policy=_TEXT,
            rule=_TEXT,
            category=_TEXT,
            severity={"type": "string", "enum": ["high", "low", "medium"]},
            timestamp={
                **_fields(seconds={"type": "integer", "format": "int64"}, nanos={"type": "integer", "format": "int32"}),
                "required": ["seconds", "nanos"],
            },
            result={"type": "string", "enum": ["pass", "fail", "warn", "error", "skip"]},
            scored={"type": "boolean"},
            message=_TEXT,
            properties=texts,
            resources={"type": "array", "items": reference},
        ),
        "required": ["policy"],
    }
    counts = dict.fromkeys(("pass", "fail", "warn", "error", "skip"), _COUNT)
    schema = _fields(
        apiVersion=_TEXT,
        kind=_TEXT,
        metadata={"type": "object"},
        scope=reference,
        summary=_fields(**counts),
        results={"type": "array", "items": result},
    )
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "policyreports.wgpolicyk8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, in tests"},
        },
        "spec": {
            "group": "wgpolicyk8s.io",
            "scope": "Namespaced",
            "names": {
                "plural": "policyreports",
                "singular": "policyreport",
                "kind": "PolicyReport",
                "listKind": "PolicyReportList",
                "shortNames": ["polr"],
            },
            "versions": [{"name": "v1alpha2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }

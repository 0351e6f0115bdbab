"""The answers of a real kube-apiserver to expressions, many in one ValidatingAdmissionPolicy that is not stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import aiohttp

from tests.controlplane.api import ApiClient, ApiFailure, path_of

PLACE: Final = Path(__file__).parent / "compile_cases.json"
POLICIES: Final = path_of("admissionregistration.k8s.io/v1", "validatingadmissionpolicies")
Kind = Literal["variables", "validations", "messages", "annotations"]
_BATCH: Final = 150


def recorded() -> dict[str, list[str]]:
    """Minors that accept each expression, as recorded."""
    cases: dict[str, list[str]] = json.loads(PLACE.read_text())
    return cases


async def refused(api: ApiClient, expressions: Sequence[str], kind: Kind = "variables") -> set[str]:
    """Those that the server does not take; also those over which it breaks down (lists of optional dyn, in 1.37)."""
    found: set[str] = set()
    for start in range(0, len(expressions), _BATCH):
        found |= await _refused(api, expressions[start : start + _BATCH], kind)
    return found


async def _refused(api: ApiClient, expressions: Sequence[str], kind: Kind) -> set[str]:
    try:
        await api.create(POLICIES, _policy(expressions, kind), dryRun="All")
    except ApiFailure as failure:
        return {expressions[_index(cause["field"])] for cause in failure.body["details"]["causes"]}
    except aiohttp.ClientError:
        if len(expressions) == 1:
            return set(expressions)
        half = len(expressions) // 2
        return await _refused(api, expressions[:half], kind) | await _refused(api, expressions[half:], kind)
    return set()


def _index(field: str) -> int:
    return int(field.partition("[")[2].partition("]")[0])


def _policy(expressions: Sequence[str], kind: Kind) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec: dict[str, Any] = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "true"}],
    }
    if kind == "variables":
        spec["variables"] = [{"name": f"v{index}", "expression": each} for index, each in enumerate(expressions)]
    elif kind == "validations":
        spec["validations"] = [{"expression": each} for each in expressions]
    elif kind == "messages":
        spec["validations"] = [{"expression": "true", "messageExpression": each} for each in expressions]
    else:
        spec["auditAnnotations"] = [
            {"key": f"k{index}", "valueExpression": each} for index, each in enumerate(expressions)
        ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "expressions"},
        "spec": spec,
    }

"""Policies in the cluster of scenarios: their definitions, some objects, and what is to be seen of them at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from gangctl.evaluation.options import EvaluatorOptions
from gangctl.sandbox.api import Api
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.requests import Caller
from tests.manifests.definitions.policies import definitions
from tests.policy.reportcrd import policy_report_definition

Object = dict[str, Any]

_CONFIGURATIONS = (
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
)
ABOUT = frozenset(
    {
        "configmaps",
        "gangpolicies.gangctl.dev",
        "gangpolicyexceptions.gangctl.dev",
        "list jobsets.jobset.x-k8s.io",
        "namespaces",
        "policyreports.wgpolicyk8s.io",
        *(f"{verb} {each}" for verb in ("create", "update", "patch", "delete") for each in _CONFIGURATIONS),
    }
)
"""Resources, some with a verb, that gangctl asks for because of policies; other scenarios are about all else."""

_PLURALS = {
    "ConfigMap": "configmaps",
    "GangPolicy": "gangpolicies.gangctl.dev",
    "GangPolicyException": "gangpolicyexceptions.gangctl.dev",
}
_TIMES = frozenset({"time", "timestamp", "lastScanTime", "lastTransitionTime", "uid"})


async def define(api: Api, caller: Caller) -> None:
    """Install the definitions of policies and of reports, so that no reader waits for them."""
    kind = api.kind("customresourcedefinitions.apiextensions.k8s.io")
    for each in (*definitions().values(), policy_report_definition()):
        await api.create(kind, "", dict(each), caller)


@contextmanager
def evaluated_locally() -> Iterator[None]:
    """Let the evaluator need no processes, which know nothing of virtual time; the policies here are cheap enough."""
    options = partial(EvaluatorOptions, ahead=False, slice_seconds=60.0)
    with patch("gangctl.manager.policies.EvaluatorOptions", options):
        yield


def limits(pods: int) -> Object:
    """The parameters of :func:`size`."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"pods": str(pods)}}


def size(*actions: str) -> Object:
    """A policy with parameters, and with defaults."""
    return _policy(
        "size",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        paramRef={"name": "limits", "parameterNotFoundAction": "Deny"},
        defaults={"queue": "research"},
        validationActions=list(actions),
        validations=[
            {
                "name": "pods",
                "expression": "gang == null || gang.gangedPods <= int(params.data.pods)",
                "messageExpression": "'at most ' + params.data.pods + ' pods'",
            }
        ],
    )


def named() -> Object:
    """A policy that is about names, and passed by when that is impossible."""
    return _policy(
        "named", failurePolicy="Ignore", validations=[{"name": "short", "expression": "size(object.metadata.name) < 9"}]
    )


def broken() -> Object:
    """A policy that cannot be used."""
    return _policy("broken", failurePolicy="Ignore", validations=[{"expression": "object.nmae ++ 1"}])


def exception(name: str) -> Object:
    """An exception from the size of one JobSet."""
    spec = {
        "policies": [{"name": "size"}],
        "match": {"names": [name]},
        "owner": "team-a",
        "reason": "benchmark",
        "expiresAt": "2999-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "gangctl.dev/v1alpha1",
        "kind": "GangPolicyException",
        "metadata": {"name": "benchmark"},
        "spec": spec,
    }


def _policy(name: str, **spec: Any) -> Object:
    return {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": name}, "spec": spec}


async def found(api: Api) -> dict[str, Any]:
    """Statuses, reports and registrations, but for times."""
    seen: dict[str, Any] = {}
    for kind in ("gangpolicies.gangctl.dev", "gangpolicyexceptions.gangctl.dev", "policyreports.wgpolicyk8s.io"):
        for each in (await api.list(api.kind(kind))).items:
            reported = {key: each[key] for key in ("status", "summary", "results") if key in each}
            seen[f"{kind}/{each['metadata']['name']}"] = _timeless(reported)
    for kind in ("mutating", "validating"):
        for each in (await api.list(api.kind(f"{kind}webhookconfigurations.admissionregistration.k8s.io"))).items:
            hooks = [(hook["name"], hook["failurePolicy"], hook["rules"]) for hook in each.get("webhooks") or []]
            seen[f"{kind}/{each['metadata']['name']}"] = hooks
    return seen


async def put(api: Api, raw: Object, caller: Caller, namespace: str = "") -> None:
    """Create an object, or replace its content."""
    kind, name = api.kind(_PLURALS[raw["kind"]]), raw["metadata"]["name"]
    namespace = namespace if kind.namespaced else ""
    try:
        live = await api.get(kind, namespace, name)
    except StatusError:
        await api.create(kind, namespace, dict(raw), caller)
    else:
        metadata = {**raw["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
        await api.update(kind, namespace, name, {**raw, "metadata": metadata}, caller)


async def drop(api: Api, raw: Object, caller: Caller, namespace: str = "") -> None:
    """Delete an object."""
    kind = api.kind(_PLURALS[raw["kind"]])
    await api.delete(kind, namespace if kind.namespaced else "", raw["metadata"]["name"], caller)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in _TIMES}
    return [_timeless(item) for item in value] if isinstance(value, list) else value

"""Native policies have the outcome of a real API server: verdict, status, reason and message."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gangctl.cel.meter import StepMeter
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.loaded import PolicyError
from gangctl.policy.model import LabelSelector
from gangctl.policy.native import load_native
from gangctl.policy.variables import NOT_FOUND, Scope, with_params
from gangctl.policy.verdict import merge
from tests.controlplane.api import ApiFailure, path_of
from tests.controlplane.components.addon import create_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.policy.documents import Object, review_of
from tests.policy.native_cases import CASES, DATA, Case, named
from tests.policy.native_cases import with_params as case_with_params

pytestmark = pytest.mark.controlplane

ADMISSION = "admissionregistration.k8s.io/v1"
POLICIES = path_of(ADMISSION, "validatingadmissionpolicies")
BINDINGS = path_of(ADMISSION, "validatingadmissionpolicybindings")
AUTHENTICATION = path_of("v1", "configmaps", namespace="kube-system", name="extension-apiserver-authentication")
CANARY = "zzz-canary"

PARAMS = {
    "one": {"limit": "1"},
    "two": {"limit": "2"},
}
LAST_PARAM = list(PARAMS)[-1]


@dataclass(frozen=True)
class Answer:
    """The answer to a request; ``refused`` if the policy could not even be created."""

    code: int = 201
    reason: str = ""
    message: str = ""
    warnings: tuple[str, ...] = ()
    refused: bool = False


def documents(case_id: str, case: Case, prefix: str, namespace: str) -> tuple[Object, Object]:
    """A case's policy and binding, about objects with its label in one namespace."""
    name = f"{prefix}-{case_id}"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
        **case.rules,
    }
    constraints = {
        "resourceRules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchLabels": {"case": case_id}},
    }
    policy = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": constraints, **case.spec},
    }
    binding = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], **case.binding},
    }
    return policy, binding


def subject(case_id: str, case: Case, namespace: str) -> Object:
    metadata: Object = {"namespace": namespace, "labels": {"case": case_id}}
    if case.name.endswith("*"):
        metadata["generateName"] = case.name.removesuffix("*")
    else:
        metadata["name"] = case.name
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": DATA}


@contextlib.asynccontextmanager
async def installed(plane: ControlPlane, prefix: str, namespace: str) -> AsyncIterator[dict[str, str]]:
    """Every case's policy in force; yields those that the server refused, with its message."""
    api = plane.api
    refused: dict[str, str] = {}
    made: list[tuple[Object, Object]] = []
    canary = case_with_params({"expression": "false"}, reference=named(LAST_PARAM))
    try:
        for case_id, case in [*CASES.items(), (CANARY, canary)]:
            policy, binding = documents(case_id, case, prefix, namespace)
            try:
                await api.create(POLICIES, policy)
            except ApiFailure as failure:
                refused[case_id] = failure.message
            else:
                made.append((policy, binding))
        for _, binding in made:
            await api.create(BINDINGS, binding)

        async def in_force() -> bool:
            answer = await ask(plane, subject(CANARY, canary, namespace))
            if answer.code == 201 or NOT_FOUND in answer.message:
                raise NotYet(f"the canary lives: {answer}")
            return True

        # It and its parameters were created last on all ways that the API server learns of them.
        await wait_for(in_force, what="the policies to be in force")
        yield refused
    finally:
        for policy, binding in made:
            for place, each in ((BINDINGS, binding), (POLICIES, policy)):
                with contextlib.suppress(ApiFailure):
                    await api.delete(f"{place}/{each['metadata']['name']}")


_WARNING = re.compile(r'299 - "(.*)"')


async def ask(plane: ControlPlane, obj: Object) -> Answer:
    """A dry run of the object's creation."""

    async def decided() -> Answer:
        answer = await _ask(plane, obj)
        # It reads a parameter that it does not know within a second: a slow machine is no evidence against it.
        if "context deadline exceeded" in answer.message:
            raise NotYet(answer.message)
        return answer

    return await wait_for(decided, what="the API server to decide")


async def _ask(plane: ControlPlane, obj: Object) -> Answer:
    path = path_of("v1", "configmaps", namespace=obj["metadata"]["namespace"])
    answer = await plane.api.exchange(
        "POST",
        path,
        data=json.dumps(obj),
        parameters={"dryRun": "All"},
        headers={"Content-Type": "application/json"},
    )
    warnings = tuple(
        found[1].partition("': ")[2]
        for each in answer.headers.getall("Warning", [])
        if (found := _WARNING.match(each)) and "ValidatingAdmissionPolicy" in found[1]
    )
    if answer.status < 400:
        return Answer(warnings=warnings)
    message = answer.body["message"].partition(" denied request: ")[2]
    return Answer(answer.status, answer.body["reason"], comparable(message), warnings)


def comparable(message: str) -> str:
    """Without what engines add to the class of an error."""
    return re.sub(r"(no such overload).*", r"\1", message)


class ConfigMaps:
    """Parameters as they are in the cluster."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self._objects = objects

    def scope(self, api_version: str, kind: str) -> Scope | None:
        return "Namespaced" if (api_version, kind) == ("v1", "ConfigMap") else None

    def find(
        self, api_version: str, kind: str, namespace: str, *, name: str = "", selector: LabelSelector | None = None
    ) -> list[Object]:
        inside = [
            each
            for each in self._objects
            if (each["apiVersion"], each["kind"], each["metadata"]["namespace"]) == (api_version, kind, namespace)
        ]
        if selector is None:
            return [each for each in inside if each["metadata"]["name"] == name]
        return [each for each in inside if selector.matches(each["metadata"].get("labels", {}))]


def ours(policy: Object, binding: Object, obj: Object, namespace: Object, params: Sequence[Object]) -> Answer:
    """The verdict of gangctl on the object, with the name that the API server has made before any policy sees it."""
    metadata = obj["metadata"]
    obj = {**obj, "metadata": {"name": f"{metadata.get('generateName')}xxxxx", **metadata}}
    try:
        (loaded,) = load_native([policy, binding])
    except PolicyError:
        return Answer(refused=True)
    review = review_of(obj, namespace=namespace, resource=("", "v1", "configmaps"))
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    request: Mapping[str, Any] = {
        **review.request,
        "kind": kind,
        "requestKind": kind,
        "requestResource": review.request["resource"],
        "dryRun": True,
        # The server adds how the user was authenticated.
        "userInfo": {**review.request["userInfo"], "extra": {"example.com/how": ["certificate"]}},
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    review = with_params(replace(review, request=request), [loaded], ConfigMaps(params))
    verdict = merge([Evaluation(review).evaluate(loaded, StepMeter.request(lambda: 0.0))])
    warnings = tuple(each.partition("': ")[2] for each in verdict.warnings)
    if verdict.allowed:
        return Answer(warnings=warnings)
    return Answer(verdict.code, verdict.denials[0].reason, comparable(verdict.denials[0].message), warnings)


@pytest.mark.minor("1.37")
async def test_every_case_has_the_verdict_of_the_api_server() -> None:
    """On a control plane of its own, where no policy with ConfigMaps as parameters was before.

    kube-apiserver takes ConfigMaps from an informer that other parts of it share. It stops it with the last policy that
    needs it, and does not start it again: later policies select among the ConfigMaps of that moment.
    """
    async with ControlPlane.start("1.37", (), scheduler=False, controller_manager=False) as plane:
        assert await differences(plane, "native") == []


async def differences(plane: ControlPlane, namespace: str) -> list[str]:
    """Cases of which gangctl has another verdict than the API server, with both."""
    api = plane.api
    await create_namespace(api, namespace)
    # kube-apiserver makes this one some time after it is ready, and a case has it as a parameter.
    await wait_for(lambda: api.get(AUTHENTICATION), what=AUTHENTICATION, tolerate=(ApiFailure,))
    maps = path_of("v1", "configmaps", namespace=namespace)
    for name, data in PARAMS.items():
        await api.create(maps, {"metadata": {"name": name, "labels": {"param": "both"}}, "data": data})
    params = [
        {**each, "apiVersion": "v1", "kind": "ConfigMap"}
        for each in [*await api.list(maps), *await api.list(path_of("v1", "configmaps", namespace="kube-system"))]
    ]
    found = await api.get(path_of("v1", "namespaces", name=namespace))
    different: list[str] = []
    async with installed(plane, namespace, namespace) as refused:
        answers = await asyncio.gather(
            *(ask(plane, subject(case_id, case, namespace)) for case_id, case in CASES.items())
        )
    for (case_id, case), native in zip(CASES.items(), answers, strict=True):
        policy, binding = documents(case_id, case, namespace, namespace)
        answer = ours(policy, binding, subject(case_id, case, namespace), found, params)
        expected = Answer(refused=True) if case_id in refused else native
        if answer != expected:
            different.append(f"{case_id}: the API server: {refused.get(case_id, expected)}; gangctl: {answer}")
    return different

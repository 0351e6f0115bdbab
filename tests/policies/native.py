"""
The pack's native policies on a real kube-apiserver: each as a ValidatingAdmissionPolicy with a binding that warns.

A warning names the policy and carries the message of one rule, so one dry-run create says what every rule thinks. Each
binding is about the names of its own test's JobSets only, because the server cuts warnings when there are many.
"""

import json
from collections.abc import Sequence
from typing import Final

from gangctl.api.meta import API_VERSION
from gangctl.cli.policy.export import warned
from gangctl.client.responses import warnings_of
from gangctl.policy.export import export
from gangctl.policy.load import load_policy
from gangctl.policy.model import POLICY_KIND
from tests.controlplane.api import ApiClient, path_of
from tests.controlplane.components.addon import NAMESPACES, create_namespace
from tests.controlplane.wait import wait_for
from tests.policies.pack import Object, Shipped

POLICIES: Final = path_of("admissionregistration.k8s.io/v1", "validatingadmissionpolicies")
BINDINGS: Final = path_of("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
BARE: Final = "bare"
"""Name of the JobSets that every policy sees."""
_MOST_CHARACTERS: Final = 4096


def policy_of(spec: Object, name: str) -> Object:
    """The exported policy; errors count as broken, so that none looks like a pass."""
    metadata = {"name": name}
    document = {"apiVersion": API_VERSION, "kind": POLICY_KIND, "metadata": metadata}
    exported = export(load_policy({**document, "spec": {**spec, "failurePolicy": "Fail"}}))
    return dict(exported.objects[0])


def binding_of(spec: Object, name: str, objects: list[str], action: str = "Warn") -> Object:
    """A binding of it, about objects of these names."""
    rule = {
        "apiGroups": ["jobset.x-k8s.io"],
        "apiVersions": ["v1alpha2"],
        "operations": ["*"],
        "resources": ["jobsets"],
        "resourceNames": objects,
    }
    own = {"paramRef": spec["paramRef"]} if "paramRef" in spec else {}
    match = {"resourceRules": [rule]}
    return {
        "metadata": {"name": f"{name}-{action.lower()}"},
        "spec": {"policyName": name, "validationActions": [action], "matchResources": match, **own},
    }


def denied_name(policy: Shipped) -> str:
    """Name of the JobSets that this policy denies instead of warning."""
    return f"denied-by-{policy.name}"


async def install(api: ApiClient, policies: Sequence[Shipped]) -> None:
    """Create what the policies need, and return once the server refuses an object that breaks each of them."""
    for name, namespace in {
        each["metadata"]["name"]: each for policy in policies for each in policy.namespaces
    }.items():
        await create_namespace(api, name)
        await api.patch(f"{NAMESPACES}/{name}", {"metadata": namespace["metadata"]})
    for policy in policies:
        for each in policy.params:
            namespace = each["metadata"]["namespace"]
            await api.create(path_of("v1", "configmaps", namespace=namespace), each)
        await api.create(POLICIES, policy_of(policy.spec, policy.name))
        # The server learns of bindings in their order: where the last one counts, the others do.
        await api.create(BINDINGS, binding_of(policy.spec, policy.name, [denied_name(policy)], "Deny"))
        await api.create(BINDINGS, binding_of(policy.spec, policy.name, [*policy.resources, BARE]))
    for policy in policies:
        broken = next(case.resource for case in policy.cases if case.row.message and case.old is None)

        async def known(name: str = policy.name, broken: Object = broken) -> bool:
            return bool(await said_of(api, broken, None, name))

        # Until then another webhook may refuse the object, without a warning of the policy's.
        await wait_for(known, f"the server to know {policy.name}", tolerate=(AssertionError,))


async def said_of(api: ApiClient, obj: Object, old: Object | None, policy: str) -> list[str]:
    """What one policy warns of when the object is created, or when `old` becomes it. Nothing of the change stays."""
    path = path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace=obj["metadata"]["namespace"])
    if old is None:
        return await _said(api, "POST", path, obj, policy)
    await api.create(path, old)
    stored = f"{path}/{old['metadata']['name']}"
    try:
        return await _said(api, "PATCH", stored, difference(old, obj), policy)
    finally:
        await api.delete(stored)


def difference(old: Object, new: Object) -> Object:
    """The merge patch (RFC 7386) that makes one of the other, leaving alone what the server filled in."""
    patch: Object = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            patch |= {key: inner} if (inner := difference(before, value)) else {}
        elif before != value:
            patch[key] = value
    return patch


async def _said(api: ApiClient, method: str, path: str, obj: Object, policy: str) -> list[str]:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await api.exchange(
        method,
        path,
        data=json.dumps(obj),
        parameters={"dryRun": "All", "fieldValidation": "Strict"},
        headers={"Content-Type": kind},
    )
    warnings = answer.headers.getall("Warning", [])
    assert sum(map(len, warnings)) < _MOST_CHARACTERS, "the server may have cut them"
    reported = messages(warnings, policy)
    # JobSet's own webhook comes after the policies, and may refuse what they warn of, or pass.
    assert answer.status in {200, 201} or "vjobset.kb.io" in answer.text, answer.text
    return reported


def messages(headers: Sequence[str], policy: str) -> list[str]:
    """Those of one policy's warnings."""
    return [message for name, message in warned(warnings_of(headers)) if name == policy]

"""
A policy of the corpus as a GangPolicy, and as what is exported of it.

Objects of the corpus are of a group of their own, so that no other policy or webhook sees them; what is exported is
about JobSets, and is moved to those. What no GangPolicy can be, such as a refused expression, is a native policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from gangctl.api.meta import API_VERSION
from gangctl.policy.export import export
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy, PolicyError
from gangctl.policy.model import POLICY_KIND, MatchResources
from gangctl.policy.native import BINDING_KIND
from gangctl.policy.native import POLICY_KIND as NATIVE_KIND

Object = dict[str, Any]

GROUP: Final = "parity.gangctl.dev"
LABEL: Final = f"{GROUP}/policies"
"""Which policies see an object."""
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_ABOUT: Final = {
    "resourceRules": [{"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["*"], "operations": ["*"]}]
}


class Native(NamedTuple):
    """A ValidatingAdmissionPolicy, its binding, and the GangPolicy that both are exported from, if there is one."""

    policy: Object
    binding: Object
    own: LoadedPolicy | None


def resource_of(kind: str) -> str:
    """Its objects in the plural."""
    return f"{kind.lower()}s"


def labelled(obj: Mapping[str, Any], label: str) -> Object:
    """The object as the policies with this label see it."""
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), LABEL: label}}}


def native_policy(name: str, spec: Mapping[str, Any], label: str = "") -> Native:
    """The policy about objects of the corpus with this value of :data:`LABEL`, or with any."""
    any_label = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
    about = {**_ABOUT, "objectSelector": {"matchLabels": {LABEL: label}} if label else any_label}
    try:
        loaded = load_policy(_document(POLICY_KIND, name, {"validationActions": ["Warn"], **spec}))
    except PolicyError:
        exported: Sequence[Mapping[str, Any]] = ()
    else:
        exported = export(loaded).objects
    if not exported:
        return Native(*_written(name, spec, about), None)
    policy, binding = exported
    own = loaded.spec.model_copy(update={"match_constraints": MatchResources.model_validate(about)})
    moved = {**policy, "spec": {**policy["spec"], "matchConstraints": about}}
    return Native(moved, dict(binding), replace(loaded, spec=own))


def _written(name: str, spec: Mapping[str, Any], about: Object) -> tuple[Object, Object]:
    policy = {key: value for key, value in spec.items() if key != "paramRef"}
    reference = {key: value for key, value in spec.items() if key == "paramRef"}
    return (
        _document(NATIVE_KIND, name, {**policy, "matchConstraints": about}),
        _document(BINDING_KIND, name, {"policyName": name, "validationActions": ["Warn"], **reference}),
    )


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    version = API_VERSION if kind == POLICY_KIND else _ADMISSION
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}

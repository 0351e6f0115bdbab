"""A GangPolicy as ValidatingAdmissionPolicy and binding, which the API server evaluates without gangctl.

Only what needs nothing of gangctl's can be exported: the API server has no ``gang``, no ``fit``, no defaults and no
exceptions. The rest means the same there, because a GangPolicy has the fields of both objects; rules have no names
there. A condition leaves out objects that are being deleted, the binding the namespaces that gangctl leaves out. One
thing differs: failurePolicy Ignore excuses also what exceeds the limits of CEL.

Where the GangPolicy stays beside what was exported from it, :func:`difference` is why gangctl still has to evaluate it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.labelselector import Requirement
from gangctl.api.objects import Object, object_at
from gangctl.cel.ast import Name, Select, walk
from gangctl.policy.load import DEFAULT_MINOR
from gangctl.policy.loaded import LoadedException, LoadedPolicy, PolicyError
from gangctl.policy.model import GangPolicySpec, MatchResources
from gangctl.policy.native import (
    BINDING_KIND,
    GROUP,
    POLICY_KIND,
    NativeMatch,
    NativeSelector,
    Pair,
    load_native,
    read_pair,
)
from gangctl.policy.review import EVALUATED, JOBSET_RULES, NOT_DELETED_CONDITION
from gangctl.policy.variables import COMPUTED

EXPORTED_FROM: Final = "gangctl.dev/exported-from"
"""Annotation of both objects: the name of the GangPolicy."""
EXPORTED_LABEL: Final = "gangctl.dev/exported"
"""Label of both objects, ``true``: by it they are found."""
API_VERSION: Final = f"{GROUP}/v1"


_COPIED: Final = ("paramKind", "variables", "validations", "auditAnnotations")
_INSTEAD: Final = {
    "gang.totalPods": "a sum over object.spec.replicatedJobs of replicas times the smaller of parallelism and "
    "completions (parallelism where completions is absent)",
    "gang.queue": "label kueue.x-k8s.io/queue-name of object",
}
"""What CEL can compute from the object, by field."""
_PREFIX: Final = "policies.gangctl.dev/"


@dataclass(frozen=True, slots=True)
class Exported:
    """Both objects, or the ``reasons`` why the API server cannot evaluate the policy."""

    name: str
    objects: tuple[Object, ...] = ()
    reasons: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    """What CEL computes from the object, for each field of ``gang`` and ``fit`` that the policy reads; empty for those
    that only gangctl has."""


def export(
    policy: LoadedPolicy,
    exceptions: Iterable[LoadedException] = (),
    *,
    minor: str = DEFAULT_MINOR,
    namespaces: Sequence[Mapping[str, Any]] = EVALUATED,
) -> Exported:
    """Export one GangPolicy for the CEL of a Kubernetes minor.

    The binding is about the namespaces that gangctl evaluates, by their ``matchExpressions``.
    """
    instead = {name: _INSTEAD.get(name, "") for name in sorted(_computed(policy))}
    reasons = [*_obstacles(policy, exceptions)]
    objects = _objects(policy, namespaces)
    if not reasons:
        try:
            # For its errors: a cluster before 1.37 refuses what gangctl has loaded, such as fields in backticks.
            load_native(objects, minor)
        except PolicyError as error:
            reasons += [f"Kubernetes {minor} would refuse it: {problem}" for problem in error.problems]
    return Exported(policy.name, () if reasons else objects, tuple(reasons), instead)


def is_exported(
    policy: LoadedPolicy, origins: Mapping[str, LoadedPolicy], exceptions: Iterable[LoadedException]
) -> bool:
    """Whether a native policy does all that one of these GangPolicies, by name, does, from which it was exported."""
    if not policy.native:
        return False
    native, *bindings = policy.source["items"]
    origin = origins.get(origin_of(native))
    if origin is None or not bindings:
        return False
    return not difference(origin, exceptions, Pair(native, bindings[0]), EVALUATED)


def origin_of(native: Object) -> str:
    """Name of the GangPolicy that a native policy was exported from; empty where it was not."""
    return str(object_at(object_at(native, "metadata"), "annotations").get(EXPORTED_FROM) or "")


def difference(
    policy: LoadedPolicy,
    exceptions: Iterable[LoadedException],
    native: Pair,
    namespaces: Iterable[Mapping[str, Any]],
) -> str:
    """Why an API server with ``native`` does not do all that gangctl does with the policy; empty where it does.

    ``namespaces`` are the ``matchExpressions`` of the namespaces that gangctl evaluates.
    """
    for obstacle in _obstacles(policy, exceptions):
        return obstacle
    # As models: the API server has added its defaults to the stored objects. The namespaces are compared below.
    wanted, actual = read_pair(Pair(*_objects(policy, ()))), read_pair(native)
    if wanted is None or actual is None:
        return "one of the two objects is missing, or is not understood"
    for name, field_info in GangPolicySpec.model_fields.items():
        if getattr(wanted[0], name) != getattr(actual[0], name):
            return f"{field_info.alias} is not the same in both"
    terms = [Requirement(term["key"], term["operator"], tuple(term.get("values") or ())) for term in namespaces]
    return "" if _covers(actual[1], terms) else "matchResources of the binding leaves out more than gangctl does"


def _covers(narrowing: MatchResources, terms: Iterable[Requirement]) -> bool:
    """Whether a binding is about every namespace that has these terms, and everything in it."""
    selector = narrowing.namespace_selector
    if narrowing.model_copy(update={"namespace_selector": NativeSelector()}) != NativeMatch():
        return False
    own = [
        *(Requirement(term.key, term.operator, term.values) for term in selector.match_expressions),
        *(Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()),
    ]
    return all(any(_follows(term, known) for known in terms) for term in own)


def _follows(term: Requirement, known: Requirement) -> bool:
    """Whether every namespace with the one term has the other as well."""
    if (term.key, term.operator) != (known.key, known.operator):
        return False
    return set(term.values) <= set(known.values) if term.operator == "NotIn" else set(known.values) <= set(term.values)


def _obstacles(policy: LoadedPolicy, exceptions: Iterable[LoadedException]) -> Iterator[str]:
    if policy.native:
        yield "it is a ValidatingAdmissionPolicy already"
    for name in sorted(policy.reads & COMPUTED.keys()):
        yield f"it reads {name}, which only gangctl computes"
    if policy.spec.defaults is not None:
        yield "it sets defaults, and a ValidatingAdmissionPolicy changes nothing"
    if not policy.validates:
        yield "it has no rules"
    names = sorted(one.name for one in exceptions if any(named.name == policy.name for named in one.spec.policies))
    if names:
        yield f"GangPolicyException {', '.join(names)} names it, and the API server has no exceptions"


def _computed(policy: LoadedPolicy) -> frozenset[str]:
    """Each field of gangctl's variables that it reads, such as ``gang.totalPods``."""
    nodes = [node for expression in policy.programs.expressions() for node in walk(expression.checked.node)]
    return frozenset(
        f"{node.operand.name}.{node.field}"
        for node in nodes
        if isinstance(node, Select) and isinstance(node.operand, Name) and node.operand.name in COMPUTED
    )


def _objects(policy: LoadedPolicy, namespaces: Sequence[Mapping[str, Any]]) -> tuple[Object, Object]:
    spec = object_at(policy.source, "spec")
    constraints = object_at(spec, "matchConstraints")
    rules = constraints.get("resourceRules") or [
        rule.model_dump(by_alias=True, exclude_unset=True) for rule in JOBSET_RULES
    ]
    written = {key: spec[key] for key in _COPIED if spec.get(key)}
    written["matchConditions"] = [NOT_DELETED_CONDITION, *(spec.get("matchConditions") or ())]
    if validations := written.get("validations"):
        written["validations"] = [{key: rule[key] for key in rule if key != "name"} for rule in validations]
    native: dict[str, Any] = {
        "failurePolicy": policy.spec.failure_policy,
        "matchConstraints": {**constraints, "resourceRules": rules},
        **written,
    }
    binding: dict[str, Any] = {
        "policyName": policy.name,
        "validationActions": list(policy.spec.validation_actions),
        "matchResources": {"namespaceSelector": {"matchExpressions": [dict(term) for term in namespaces]}},
        **({"paramRef": spec["paramRef"]} if spec.get("paramRef") else {}),
    }
    return _object(policy, POLICY_KIND, native), _object(policy, BINDING_KIND, binding)


def _object(policy: LoadedPolicy, kind: str, spec: dict[str, Any]) -> Object:
    annotations = object_at(object_at(policy.source, "metadata"), "annotations")
    kept = {key: value for key, value in annotations.items() if key.startswith(_PREFIX)}
    marked = {"labels": {EXPORTED_LABEL: "true"}, "annotations": {**kept, EXPORTED_FROM: policy.name}}
    metadata = {"name": policy.name, **marked}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}

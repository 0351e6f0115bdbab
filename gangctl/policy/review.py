"""One request as policies see it, and whether a policy or an exception applies to it, before any expression.

The rules of ``MatchResources`` are those of the API server (``k8s.io/apiserver``,
``pkg/admission/plugin/policy/matching``), for requests as they are made: the cluster's conversions between API versions
are not known here, so ``Equivalent`` is ``Exact``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from gangctl.api.labelselector import NAMESPACE_NAME
from gangctl.api.meta import JOBSET_GROUP, SKIP_LABEL
from gangctl.api.objects import Object, object_at, within
from gangctl.policy.model import LabelSelector, MatchResources, ResourceRule
from gangctl.policy.verdict import is_rule

if TYPE_CHECKING:
    from gangctl.policy.loaded import BrokenPolicy, LoadedException, LoadedPolicy

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class Review:
    """The input of an evaluation, complete, so that any process can evaluate it: of JSON but for ``now``.

    ``request`` is the CEL variable of that name: the AdmissionRequest without its objects. ``namespace`` is the
    Namespace object of a namespaced request, None where it is unknown. ``gang`` is the plan of the JobSet as ``gangctl
    plan -o json`` prints it, or the reason (a text) why it cannot be planned; ``fit`` what ``gangctl fit -o json``
    prints. Both are None at DELETE and where no policy reads them. ``now`` decides whether exceptions have expired.
    """

    operation: Operation
    now: datetime
    request: Object
    object: Object | None = None
    old_object: Object | None = None
    namespace: Object | None = None
    gang: Object | str | None = None
    fit: Object | None = None
    params: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    """Parameter objects by policy name, of :mod:`gangctl.policy.variables`; no entry: the policy takes none."""
    param_errors: Mapping[str, str] = field(default_factory=dict)
    """Why the parameters of some policies are not available, by policy name: their failurePolicy decides."""


_KIND: Final = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"}
_RESOURCE: Final = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"}


def review_of_existing(
    jobset: Object, namespace: Object | None, gang: Object | str | None, now: datetime, fit: Object | None = None
) -> Review:
    """The review of a stored JobSet, without params.

    Its creator is not known any more: ``request.userInfo`` is empty, and ``dryRun`` true, because the request has no
    effect.
    """
    metadata = jobset.get("metadata") or {}
    request: dict[str, Any] = {
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "name": str(metadata.get("name", "")),
        "namespace": str(metadata.get("namespace", "")),
        "operation": "CREATE",
        "userInfo": {},
        "dryRun": True,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return Review(operation="CREATE", now=now, request=request, object=jobset, namespace=namespace, gang=gang, fit=fit)


JOBSETS: Final = "jobsets"

JOBSET_RULES: Final = (
    ResourceRule.model_validate(
        {"apiGroups": [JOBSET_GROUP], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [JOBSETS]}
    ),
)
"""The match of a GangPolicy without rules: no update, which may be Kueue's, JobSet's or the garbage collector's."""

APPLIES: Final = ""


def matches(policy: LoadedPolicy | BrokenPolicy, review: Review) -> str:
    """:data:`APPLIES` (the empty string), or why the policy does not apply, by the names of its fields."""
    constraints = policy.spec.match_constraints
    # An object that was being deleted before the request, which can only finish that; no CREATE can say so.
    if (
        not policy.native
        and review.operation != "CREATE"
        and within(review.old_object or {}, "metadata").get("deletionTimestamp")
    ):
        return "deletionTimestamp"
    if reason := _misses(constraints, constraints.resource_rules or JOBSET_RULES, review):
        return reason
    narrowing = policy.narrowing
    if narrowing is not None and (reason := _misses(narrowing, narrowing.resource_rules, review)):
        return f"binding: {reason}"
    return APPLIES


NOT_DELETED_CONDITION: Final = {
    # oldObject, because it is there for an UPDATE and for a DELETE. No request can set or remove the timestamp.
    "name": "not-being-deleted",
    "expression": "request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)",
}
"""What :func:`matches` says of objects in deletion, as a matchCondition for API servers."""


def namespace_terms(excluded: Iterable[str]) -> list[dict[str, Any]]:
    """``matchExpressions`` of the namespaces that gangctl serves: not break-glass ones, nor those that are excluded."""
    named = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": sorted(set(excluded))}
    return [{"key": SKIP_LABEL, "operator": "NotIn", "values": ["true"]}, named]


EVALUATED: Final[Sequence[Mapping[str, Any]]] = tuple(namespace_terms(["kube-system"]))
"""Those of every gangctl, as far as its settings do not exclude more."""


def _misses(constraints: MatchResources, rules: Iterable[ResourceRule], review: Review) -> str:
    if not selects_namespace(constraints.namespace_selector, review):
        return "namespaceSelector"
    if not selects_object(constraints.object_selector, review):
        return "objectSelector"
    if not all(_uncovered(rule, review) for rule in constraints.exclude_resource_rules):
        return "excludeResourceRules"
    reasons = [_uncovered(rule, review) for rule in rules]
    # The reason of the nearest rule; no rules cover everything.
    return APPLIES if not reasons or APPLIES in reasons else max(reasons, key=_ORDER.index)


_ORDER: Final = ("resource", "scope", "operation", "resourceNames")
"""Reasons why a rule does not cover a request, the furthest from a match first."""


def _uncovered(rule: ResourceRule, review: Review) -> str:
    request = review.request
    resource = request.get("resource") or {}
    if not (
        _has(rule.api_groups, str(resource.get("group") or ""))
        and _has(rule.api_versions, str(resource.get("version") or ""))
        and any(_names(pattern, review) for pattern in rule.resources)
    ):
        return "resource"
    # A request for a Namespace has its name as namespace, and is about a cluster-scoped object.
    is_namespaced = bool(request.get("namespace")) and not _is_of_namespaces(review)
    if rule.scope != "*" and (rule.scope == "Namespaced") is not is_namespaced:
        return "scope"
    if not _has(rule.operations, review.operation):
        return "operation"
    if rule.resource_names and request.get("name") not in rule.resource_names:
        return "resourceNames"
    return APPLIES


def _has(values: Sequence[str], value: str) -> bool:
    return "*" in values or value in values


def _names(pattern: str, review: Review) -> bool:
    """Whether ``pods``, ``pods/status``, ``pods/*``, ``*/status``, ``*`` or ``*/*`` names the requested resource."""
    wanted, _, part = pattern.partition("/")
    resource = review.request.get("resource") or {}
    return wanted in {"*", resource.get("resource")} and part in {"*", review.request.get("subResource") or ""}


def _is_of_namespaces(review: Review) -> bool:
    resource = review.request.get("resource") or {}
    return not resource.get("group") and resource.get("resource") == "namespaces"


def labels_of(obj: Mapping[str, Any] | None) -> dict[str, str]:
    """Labels of an object of any shape; invalid labels are left out."""
    labels = within(obj or {}, "metadata", "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def selects_namespace(selector: LabelSelector, review: Review) -> bool:
    """Whether the selector matches the Namespace of the request; it does not limit cluster-scoped objects.

    Of an unknown Namespace only the name is known, which is a label of every Namespace.
    """
    if selector.selects_everything:
        return True
    if _is_of_namespaces(review):
        # As GetNamespaceLabels of the API server: a change of the Namespace itself is matched by its new labels.
        changed = review.operation in {"CREATE", "UPDATE"} and not review.request.get("subResource")
        return selector.matches(labels_of(review.object if changed else review.namespace or review.old_object))
    name = review.request.get("namespace")
    if not name:
        return True
    return selector.matches({NAMESPACE_NAME: str(name), **labels_of(review.namespace)})


def selects_object(selector: LabelSelector, review: Review) -> bool:
    """Whether the selector matches the labels of the object, new or old."""
    if selector.selects_everything:
        return True
    return any(selector.matches(labels_of(obj)) for obj in (review.object, review.old_object) if obj is not None)


def covers(exception: LoadedException, policy: str, rule: str, review: Review) -> bool:
    """Whether the exception allows this request although the rule of the policy forbids it.

    A ``rule`` that is not a rule's id stands for the policy as a whole (its parameters, say): only an exception without
    ``rules`` covers that.
    """
    if exception.expired(review.now) or not any(
        named.name == policy and (not named.rules or (rule in named.rules and is_rule(rule)))
        for named in exception.spec.policies
    ):
        return False
    match = exception.spec.match
    namespace = str(review.request.get("namespace") or "")
    if match.namespaces and namespace not in match.namespaces:
        return False
    if match.names and not any(_fits(pattern, review) for pattern in match.names):
        return False
    return selects_namespace(match.namespace_selector, review) and selects_object(match.object_selector, review)


def covering(exceptions: Iterable[LoadedException], policy: str, rule: str, review: Review) -> str:
    """Name of the first exception, by name, that covers it; empty when none does."""
    return min((one.name for one in exceptions if covers(one, policy, rule, review)), default="")


def _fits(pattern: str, review: Review) -> bool:
    """Whether a name, or the prefix of a name before ``*``, is the object's.

    An object without a name yet has its generateName: a pattern matches when every name with that prefix would.
    """
    prefix, star, _ = pattern.partition("*")
    metadata = object_at(review.object or review.old_object or {}, "metadata")
    name = str(review.request.get("name") or metadata.get("name") or "")
    if name:
        return name.startswith(prefix) if star else name == pattern
    generate_name = str(metadata.get("generateName") or "")
    return bool(star) and bool(generate_name) and generate_name.startswith(prefix)

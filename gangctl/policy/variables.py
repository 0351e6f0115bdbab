"""The variables ``gang``, ``fit`` and ``params`` of policies: a JobSet's gang, whether it can run, and parameters.

``gang`` equals ``gangctl plan -o json`` of that JobSet and ``fit`` equals ``gangctl fit -o json``: the same functions
make them.

``params`` are as natively (``CollectParams`` of the API server), one evaluation for each of them: a policy without
paramKind or without paramRef is evaluated once, with ``params`` null; one whose objects are missing is left out or
cannot be evaluated, as ``parameterNotFoundAction`` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Protocol, get_args, get_origin, get_type_hints, is_typeddict

from gangctl.api.jobset import read_jobset
from gangctl.api.objects import Object, object_at
from gangctl.cel.types import BOOL, DYN, INT, STRING, Type, list_of, map_of
from gangctl.fit.report import FitReport, report_of
from gangctl.gang.desired import plan_of
from gangctl.gang.plan import stored_stamps
from gangctl.gang.report import Planned, PlanReport, plan_report
from gangctl.gang.resolve import ClusterRules
from gangctl.gang.validate import MAX_JOBS
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.model import GangPolicySpec, LabelSelector
from gangctl.policy.review import Review, matches

TYPE_PREFIX: Final = "gangctl."

_PLAIN: Final[dict[object, Type]] = {str: STRING, int: INT, bool: BOOL}


def type_of(kind: Any) -> Type:
    """The CEL type of one type of a report; a nullable one is dyn, because CEL's null is a separate type."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if is_typeddict(kind):
        fields = {name: type_of(field) for name, field in get_type_hints(kind, include_extras=True).items()}
        return Type(f"{TYPE_PREFIX}{kind.__name__.removesuffix('Report')}", fields=fields)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_of(parts[0])
    if origin is Literal:
        return type_of(type(parts[0]))
    if origin is list:
        return list_of(type_of(parts[0]))
    if origin is dict:
        return map_of(type_of(parts[0]), type_of(parts[1]))
    if origin is UnionType and NoneType in parts:
        return DYN
    raise TypeError(f"no CEL type for {kind}")


def gang_of(
    raw: Mapping[str, Any], rules: ClusterRules, *, new: bool = True, decided: bool = False
) -> PlanReport | str:
    """The plan of a JobSet, or the reason why it cannot be planned: malformed, refused, or without bounds.

    Such a JobSet may run all the same, because JobSet and the API server check less: to a policy it is an error, never
    the same as one that asks for no gang.

    One that is not ``new`` is the gang that its stamps say, as for the controller: what it asks for may be refused now,
    and without stamps it is none. So is a new one that the webhook for gangs has ``decided`` on and has not stamped,
    because another controller's Workload is for it, or because no gang can be made: its pods are scheduled one by one.
    """
    jobset, malformed = read_jobset(raw)
    if malformed:
        return _unplanned(malformed[0])
    # Before the plan is made, whose size grows with the Jobs.
    if jobset.jobs > MAX_JOBS:
        return _unplanned(f"{jobset.jobs} Jobs, at most {MAX_JOBS} can be planned")
    jobset = jobset.named
    # One in a file, without a UID and stamps, stands for one that was accepted.
    plan, notices, refused = plan_of(jobset, rules, accepted=not new, unstamped=not jobset.uid)
    if refused:
        return _unplanned(refused[0])
    if new and decided and not any(stored_stamps(jobset)[0]):
        plan = None
    report, errors = plan_report(raw, Planned(jobset, plan, notices, rules.generation))
    return _unplanned(errors[0]) if errors else report


def _unplanned(why: object) -> str:
    return f"this JobSet cannot be planned: {why}"


GANG_TYPE: Final = type_of(PlanReport)
"""Type of ``gang``, an object with declared fields, from the published types of the report."""


FIT_TYPE: Final = type_of(FitReport)
"""Type of ``fit``, an object with declared fields, from the published types of the report."""

COMPUTED: Final = {"gang": GANG_TYPE, "fit": FIT_TYPE}
"""Variables that only GangPolicies have, by name. A JobSet has a value of both or, without a plan, of neither."""


class Fit(Protocol):
    """Answers from the state of queues."""

    def __call__(self, raw: Mapping[str, Any], namespace: str, *, new: bool = True) -> FitReport:
        """Whether a JobSet (of this namespace, where it names none) can be admitted; ``new`` if it is being created."""


def unknown_fit(raw: Mapping[str, Any], namespace: str, why: Sequence[str]) -> FitReport:
    """The answer without the state of queues: verdict ``unknown``, which a rule that forbids does not admit."""
    jobset, _ = read_jobset(raw)
    message = f"It is not known whether this JobSet can be admitted: {'; '.join(why)}."
    report = report_of(jobset, namespace, "unknown", "Unknown", message)
    return {**report, "queue": jobset.queue, "unknown": [*why]}


NOT_FOUND: Final = "no params found for policy binding with `Deny` parameterNotFoundAction"

Scope = Literal["Namespaced", "Cluster"]


class ParamsError(Exception):
    """Parameters that are not available: the policy cannot be evaluated, and failurePolicy decides."""


class ParamCatalogue(Protocol):
    """The objects that can be parameters: an informer's cache, or the files of a command."""

    def scope(self, api_version: str, kind: str) -> Scope | None:
        """Whether objects of this kind have a namespace; None for a kind that is not known (yet)."""

    def find(
        self, api_version: str, kind: str, namespace: str, *, name: str = "", selector: LabelSelector | None = None
    ) -> Sequence[Object]:
        """The object of that name, or all that the selector matches.

        ``namespace`` is empty for a cluster-scoped kind.
        """


def takes_params(spec: GangPolicySpec) -> bool:
    """Whether there is anything to look up."""
    return spec.param_kind is not None and spec.param_ref is not None


def params_of(policy: LoadedPolicy, review: Review, catalogue: ParamCatalogue) -> tuple[Object, ...]:
    """The parameters of one policy, in the order of their names.

    Empty where it takes none, and where there are none and that is allowed. :class:`ParamsError` for everything that
    failurePolicy has to decide.
    """
    kind, reference = policy.spec.param_kind, policy.spec.param_ref
    if kind is None or reference is None:
        return ()
    scope = catalogue.scope(kind.api_version, kind.kind)
    if scope is None:
        raise ParamsError(f"paramKind kind `{kind.api_version}, Kind={kind.kind}` not known")
    if scope == "Cluster" and reference.namespace:
        raise ParamsError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    namespace = ""
    if scope == "Namespaced":
        namespace = reference.namespace or str(review.request.get("namespace") or "")
        if not namespace:
            raise ParamsError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    objects = catalogue.find(kind.api_version, kind.kind, namespace, name=reference.name, selector=reference.selector)
    if not objects and reference.parameter_not_found_action == "Deny":
        raise ParamsError(NOT_FOUND)
    # Lists leave the type out of their items.
    typed = {"apiVersion": kind.api_version, "kind": kind.kind}
    params = [obj if obj.keys() >= typed.keys() else {**obj, **typed} for obj in objects]
    # The order of a cache changes, and that of the findings follows from this one.
    return tuple(sorted(params, key=name_of))


def name_of(params: Object) -> str:
    """``NAMESPACE/NAME``, or the name of what has no namespace."""
    metadata = object_at(params, "metadata")
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    return f"{namespace}/{name}" if namespace else name


def with_params(review: Review, policies: Iterable[LoadedPolicy], catalogue: ParamCatalogue) -> Review:
    """The review with the parameters of every policy that applies, and the errors where they are not available."""
    params: dict[str, tuple[Object, ...]] = dict(review.params)
    errors: dict[str, str] = dict(review.param_errors)
    for policy in policies:
        # A policy that does not apply must not fail for parameters that are missing.
        if not takes_params(policy.spec) or matches(policy, review):
            continue
        try:
            params[policy.name] = params_of(policy, review, catalogue)
        except ParamsError as error:
            errors[policy.name] = str(error)
    return replace(review, params=params, param_errors=errors)

"""Answers to the requests of the ``gangctl-policies`` webhooks: the verdict of the policies in force on a JobSet.

A handler makes a :class:`~gangctl.policy.review.Review` of the request, has it evaluated, and formats the verdict. All
lookups are from memory, and nothing is written: a dry run is evaluated like any other request.

Also answers the requests of the ``gangctl-defaults`` webhook: the fields that policies set on a JobSet without them. A
queue or a gang mode is fixed when a JobSet is created, so a missed default cannot be added later. That is why the
failurePolicy of the policy that sets it also applies here, while gangctl is down and when match conditions fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeVar

from gangctl.api.objects import Object
from gangctl.cel.faults import EvalKind
from gangctl.errors import one_line
from gangctl.fit.report import FitReport
from gangctl.gang.resolve import ClusterRules
from gangctl.policy.defaults import defaults_of, is_conditional, refusals
from gangctl.policy.evaluate import refused_by_broken, unanswered
from gangctl.policy.loaded import BrokenPolicy, LoadedPolicy, PolicySet, refuses
from gangctl.policy.model import LabelSelector
from gangctl.policy.review import JOBSET_RULES, Review, matches
from gangctl.policy.variables import COMPUTED, ParamCatalogue, gang_of, with_params
from gangctl.policy.verdict import Finding, Outcome, Verdict, cause, left_out, merge, show
from gangctl.webhooks.configurations import (
    AGAIN,
    MUTATE_DEFAULTS,
    OPERATIONS,
    VALIDATE_FAIL,
    VALIDATE_IGNORE,
    NeededWebhooks,
)
from gangctl.webhooks.reach import Reach, divided, reach_of, reach_of_defaults
from gangctl.webhooks.review import TOO_MANY, AdmissionRequest, AdmissionResponse, Handler, StatusCause

_MOST_CAUSES: Final = 256
_MESSAGE_CHARACTERS: Final = 4096
_NAME_CHARACTERS: Final = 63
_DIGEST_CHARACTERS: Final = 8


class PolicyView(Protocol):
    """The policies and cluster state that the webhooks need."""

    @property
    def in_force(self) -> PolicySet:
        """The policies, those that cannot be used, and the exceptions."""

    @property
    def catalogue(self) -> ParamCatalogue:
        """Parameter objects."""

    def cluster_rules(self) -> ClusterRules:
        """Rules by which gangs are planned on this cluster."""

    def fit(self, raw: Object, namespace: str, *, new: bool = True) -> FitReport:
        """Whether a JobSet can be admitted by its queue, in bounded time; ``new`` if it is being created."""

    def now(self) -> datetime:
        """The time, for exceptions that expire."""

    async def namespace(self, name: str) -> Object | None:
        """A namespace by name; None where it is not known even after a moment."""

    async def evaluate(self, review: Review, policies: Collection[str] | None = None) -> tuple[Outcome, ...]:
        """Outcome of each policy in force at admission, or of each named one; in bounded time."""


class PolicyAdmission:
    """The endpoints of both configurations; those that validate differ in their answer while they cannot evaluate."""

    def __init__(self, view: PolicyView) -> None:
        """Answer from ``view``."""
        self._view = view

    def routes(self) -> Mapping[str, Handler]:
        """Handlers by path."""
        return {
            VALIDATE_FAIL: self.validate_or_refuse,
            VALIDATE_IGNORE: self.validate_or_pass,
            MUTATE_DEFAULTS: self.set_defaults,
        }

    def oversized(self) -> Mapping[str, Handler]:
        """Handlers by path of requests whose objects are too large to be read."""
        return {
            VALIDATE_FAIL: self._refuse_oversized,
            VALIDATE_IGNORE: self._refuse_oversized,
            MUTATE_DEFAULTS: self._leave_out_defaults,
        }

    async def validate_or_refuse(self, request: AdmissionRequest) -> AdmissionResponse:
        """Evaluate; some policy fails closed."""
        return await self._validate(request, VALIDATE_FAIL)

    async def validate_or_pass(self, request: AdmissionRequest) -> AdmissionResponse:
        """Evaluate; every policy fails open."""
        return await self._validate(request, VALIDATE_IGNORE)

    async def _validate(self, request: AdmissionRequest, path: str) -> AdmissionResponse:
        # API servers may call until they notice that the webhooks are gone.
        if not (self._view.in_force.at_admission or self._view.in_force.broken):
            return AdmissionResponse.allow()
        namespace, unknown = await self._namespace(request)
        if unknown:
            return unready(path, unknown)
        # The set in force may have changed; from here on nothing is awaited until the evaluator has taken the review.
        review = review_of(request, self._view, namespace, self._view.in_force.at_admission, decided=True)
        return answer(merge(await self._view.evaluate(review)))

    async def _refuse_oversized(self, request: AdmissionRequest) -> AdmissionResponse:
        """Every policy that may be about an object too large to be read is violated, whatever its failurePolicy."""
        namespace, unknown = await self._namespace(request)
        if unknown:
            return unready(VALIDATE_FAIL, unknown)
        review = Review(request.operation, self._view.now(), request.variable, namespace=namespace)
        message = f"the object cannot be evaluated: it {TOO_MANY}"
        outcomes = [
            unanswered(policy, review, EvalKind.BUDGET_EXCEEDED, message)
            for policy in _about(self._view.in_force.at_admission, review)
        ]
        unusable = map(_whatever_its_labels, self._view.in_force.broken)
        return answer(merge([*outcomes, *(refused_by_broken(policy, review) for policy in unusable)]))

    async def set_defaults(self, request: AdmissionRequest) -> AdmissionResponse:
        """A patch with the defaults; 422 where policies disagree on one."""
        return await self._where_known(request, self._set_defaults)

    async def _leave_out_defaults(self, request: AdmissionRequest) -> AdmissionResponse:
        """422 if a policy with defaults that fails closed may be about an object too large to be read."""
        return await self._where_known(request, self._refuse_without_defaults)

    async def _where_known(
        self,
        request: AdmissionRequest,
        answer_in: Callable[[AdmissionRequest, Object | None], Awaitable[AdmissionResponse]],
    ) -> AdmissionResponse:
        """The answer about the defaults of a new object in its namespace, if there are policies with some."""
        policies = self._with_defaults()
        if not policies or request.operation != "CREATE":
            return AdmissionResponse.allow()
        namespace, unknown = await self._namespace(request)
        return defaults_unready(policies, unknown) if unknown else await answer_in(request, namespace)

    async def _set_defaults(self, request: AdmissionRequest, namespace: Object | None) -> AdmissionResponse:
        # The set in force may have changed; from here on nothing is awaited until the evaluator has taken the review.
        policies = self._with_defaults()
        conditional = [policy for policy in policies if is_conditional(policy)]
        review = review_of(request, self._view, namespace, conditional)
        asked = {policy.name for policy in conditional if not matches(policy, review)}
        outcomes = await self._view.evaluate(review, asked) if asked else ()
        if (refusal := next(refusals(conditional, outcomes), None)) is not None:
            return _refuse(refusal)
        applied = defaults_of(policies, review, outcomes)
        if applied.conflicts:
            message = one_line("; ".join(str(conflict) for conflict in applied.conflicts), _MESSAGE_CHARACTERS)
            return AdmissionResponse.deny(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, applied.conflicts)
        return AdmissionResponse.allow(
            applied.patch, [warning for outcome in outcomes for warning in left_out(outcome)]
        )

    async def _refuse_without_defaults(self, request: AdmissionRequest, namespace: Object | None) -> AdmissionResponse:
        review = Review(request.operation, self._view.now(), request.variable, namespace=namespace)
        policies = _about(self._with_defaults(), review)
        why = f"the object {TOO_MANY}"
        if any(policy.fail_closed for policy in policies):
            text = f"defaults of GangPolicies cannot be found out: {why}"
            return AdmissionResponse.deny(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", text)
        return _without_defaults(why) if policies else AdmissionResponse.allow()

    def _with_defaults(self) -> list[LoadedPolicy]:
        return [policy for policy in self._view.in_force.policies if policy.spec.defaults is not None]

    async def _namespace(self, request: AdmissionRequest) -> tuple[Object | None, str]:
        """The namespace of the request, and why it is unknown: it may have labels that no policy excludes."""
        namespace = await self._view.namespace(request.namespace) if request.namespace else None
        if namespace is not None or not request.namespace:
            return namespace, ""
        return None, f"namespace {one_line(request.namespace, _NAME_CHARACTERS)} has not been seen yet"


def routes_without_policies() -> Mapping[str, Handler]:
    """Handlers of the same paths, also for large objects, of a replica that does not read policies."""
    text = "gangctl does not evaluate GangPolicies here (--policies off)"
    return dict.fromkeys(
        (VALIDATE_FAIL, VALIDATE_IGNORE, MUTATE_DEFAULTS), lambda _: AdmissionResponse.allow(warnings=[text])
    )


P = TypeVar("P", LoadedPolicy, BrokenPolicy)
Q = TypeVar("Q")


def _whatever_its_labels(policy: P) -> P:
    """The policy without a selector for labels of the object, which are not known."""
    constraints = policy.spec.match_constraints.model_copy(update={"object_selector": LabelSelector()})
    return replace(policy, spec=policy.spec.model_copy(update={"match_constraints": constraints}))


def _about(policies: Iterable[LoadedPolicy], review: Review) -> list[LoadedPolicy]:
    """Those that may be about an object that is not known."""
    return [policy for policy in policies if not matches(_whatever_its_labels(policy), review)]


def read_by(policies: Iterable[LoadedPolicy]) -> frozenset[str]:
    """Variables that some policy reads: the others need not be computed."""
    return frozenset[str]().union(*(policy.reads for policy in policies))


def review_of(
    request: AdmissionRequest,
    view: PolicyView,
    namespace: Object | None,
    policies: Collection[LoadedPolicy],
    *,
    decided: bool = False,
) -> Review:
    """The request as these policies see it, complete with the parameters of those that apply.

    ``decided`` is after the webhook for gangs.
    """
    reads = read_by(policies)
    raw, new = request.object, request.operation == "CREATE"
    gang = None
    if raw is not None and reads & COMPUTED.keys():
        gang = gang_of(raw, view.cluster_rules(), new=new, decided=decided)
    review = Review(
        operation=request.operation,
        now=view.now(),
        request=request.variable,
        object=request.object,
        old_object=request.old_object,
        namespace=namespace,
        gang=gang,
        fit=view.fit(raw, request.namespace, new=new) if raw is not None and "fit" in reads else None,
    )
    return with_params(review, policies, view.catalogue)


def unready(path: str, why: str = "gangctl has just started and does not know the policies yet") -> AdmissionResponse:
    """The answer of a path that cannot evaluate: a refusal that is temporary, or a warning."""
    if path == VALIDATE_IGNORE:
        return AdmissionResponse.allow(warnings=[f"GangPolicies were not evaluated: {why}"])
    text = f"GangPolicies cannot be evaluated: {why}: {AGAIN}"
    return AdmissionResponse.deny(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", text)


def answer(verdict: Verdict) -> AdmissionResponse:
    """The verdict as an admission answer: the first denial is the message, ``causes`` has every one."""
    shown_warnings = [*verdict.warnings]
    notes = {annotation_key(key): value for key, value in verdict.audit_annotations.items()}
    if verdict.allowed:
        return AdmissionResponse.allow(warnings=shown_warnings, audit_annotations=notes)
    first = verdict.denials[0]
    causes = [cause_of(cause(finding)) for finding in verdict.denials[:_MOST_CAUSES]]
    if len(verdict.denials) > _MOST_CAUSES:
        shown_warnings.append(f"{len(verdict.denials) - _MOST_CAUSES} more violations are not listed")
    message = one_line(show(first), _MESSAGE_CHARACTERS)
    return AdmissionResponse.deny(
        verdict.code, first.reason, message, causes, warnings=shown_warnings, audit_annotations=notes
    )


def cause_of(entry: Mapping[str, Any]) -> StatusCause:
    """An entry of ``details.causes``, of bounded length."""
    return StatusCause(str(entry["reason"]), one_line(str(entry["message"])), one_line(str(entry["field"])))


def annotation_key(key: str) -> str:
    """``POLICY/KEY`` as the API server accepts it behind the webhook's name and a slash: no slash, 63 characters.

    A policy's name has no underscore, so the first one separates.
    """
    name = key.replace("/", "_", 1)
    if len(name) <= _NAME_CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{name[: _NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]}-{digest}"


def demand_of(in_force: PolicySet) -> NeededWebhooks:
    """The webhooks that these policies need; a policy that cannot be used also needs them."""
    validating: list[LoadedPolicy | BrokenPolicy] = [
        *in_force.at_admission,
        *in_force.broken,
    ]
    operations = {policy.name: _operations(policy) for policy in validating}
    closed = [policy for policy in validating if refuses(policy)]
    opened = [policy for policy in validating if not refuses(policy)]
    fail = frozenset[str]().union(*(operations[policy.name] for policy in closed))
    ignore = frozenset[str]().union(*(operations[policy.name] for policy in opened))
    fail_reach, elsewhere = _reaches(
        reach_of(policy for policy in closed if operations[policy.name]),
        [policy for policy in opened if operations[policy.name] & fail],
        reach_of,
    )
    defaulting = [policy for policy in in_force.policies if policy.spec.defaults is not None]
    strict = [policy for policy in defaulting if policy.fail_closed]
    defaults_reach, defaults_elsewhere = _reaches(
        reach_of_defaults(strict or defaulting),
        [policy for policy in defaulting if strict and not policy.fail_closed],
        reach_of_defaults,
    )
    return NeededWebhooks(
        fail=fail,
        ignore=ignore,
        defaults=None if not defaulting else "Fail" if strict else "Ignore",
        fail_reach=fail_reach,
        ignore_reach=reach_of(policy for policy in opened if operations[policy.name] - fail),
        defaults_reach=defaults_reach,
        elsewhere=elsewhere,
        defaults_elsewhere=defaults_elsewhere,
    )


def _reaches(reach: Reach, lenient: Sequence[Q], of: Callable[[Iterable[Q]], Reach]) -> tuple[Reach, Reach | None]:
    """The reach of the entry with Fail, and of one with Ignore for the ``lenient`` policies outside of it.

    One entry evaluates all policies, so that it has to reach what any of them matches in its part.
    """
    return divided(reach, of(lenient)) if lenient else (reach, None)


def _operations(policy: LoadedPolicy | BrokenPolicy) -> frozenset[str]:
    """Operations on JobSets that a policy is about."""
    rules = policy.spec.match_constraints.resource_rules or JOBSET_RULES
    named = {operation for rule in rules for operation in rule.operations}
    return frozenset(OPERATIONS if "*" in named else named & set(OPERATIONS))


def _refuse(finding: Finding) -> AdmissionResponse:
    message = one_line(show(finding), _MESSAGE_CHARACTERS)
    return AdmissionResponse.deny(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, [cause_of(cause(finding))])


def defaults_unready(policies: Iterable[LoadedPolicy], why: str) -> AdmissionResponse:
    """The answer without an evaluation: a temporary refusal if one of the policies fails closed."""
    if any(policy.fail_closed for policy in policies):
        text = f"defaults of GangPolicies cannot be found out: {why}: {AGAIN}"
        return AdmissionResponse.deny(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", text)
    return _without_defaults(why)


def _without_defaults(why: str) -> AdmissionResponse:
    return AdmissionResponse.allow(warnings=[f"defaults of GangPolicies were left out: {why}"])

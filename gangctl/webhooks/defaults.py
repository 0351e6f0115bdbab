"""Answers to the requests of the ``gangctl-defaults`` webhook: what policies give a JobSet that says nothing itself.

A queue or a gang mode is settled when a JobSet is created, so a default that was missed is missed for good.
That is why the failurePolicy of the policy that sets it also holds here, for gangctl away and for match
conditions that have no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

from gangctl.errors import one_line
from gangctl.policy.defaults import defaults_of, without_answer
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.match import matches
from gangctl.policy.verdict import Finding, cause, show
from gangctl.webhooks.endpoints import Handler
from gangctl.webhooks.policies import PolicyView, cause_of, review_of
from gangctl.webhooks.policy_configurations import MUTATE_DEFAULTS
from gangctl.webhooks.review import AdmissionRequest, AdmissionResponse

_MESSAGE_CHARACTERS: Final = 4096


class DefaultsAdmission:
    """The endpoint."""

    def __init__(self, view: PolicyView) -> None:
        """Answer from ``view``."""
        self._view = view

    def routes(self) -> Mapping[str, Handler]:
        """The handler by its path."""
        return {MUTATE_DEFAULTS: self.mutate}

    def _policies(self) -> list[LoadedPolicy]:
        return [each for each in self._view.in_force.policies if each.spec.defaults is not None]

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        """A patch with the defaults; 422 where policies disagree on one."""
        policies = self._policies()
        if not policies or request.operation != "CREATE":
            return AdmissionResponse.allow()
        namespace = await self._view.namespace(request.namespace) if request.namespace else None
        if request.namespace and namespace is None:
            name = one_line(request.namespace, 63)
            return unready(policies, f"namespace {name} has not been seen yet")
        # Others may be in force by now; from here on nothing is waited for until the evaluator has taken the review.
        policies = self._policies()
        conditional = [each for each in policies if each.spec.match_conditions]
        review = review_of(request, self._view, namespace, conditional)
        asked = {each.name for each in conditional if not matches(each, review)}
        outcomes = await self._view.evaluate(review, asked) if asked else ()
        unanswered = {outcome.policy: finding for outcome in outcomes for finding in without_answer(outcome)}
        for policy in conditional:
            if policy.fail_closed and policy.name in unanswered:
                return _refuse(unanswered[policy.name])
        applied = defaults_of(policies, review, outcomes)
        if applied.conflicts:
            message = one_line("; ".join(str(each) for each in applied.conflicts), _MESSAGE_CHARACTERS)
            return AdmissionResponse.deny(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, applied.conflicts)
        return AdmissionResponse.allow(applied.patch)


def _refuse(finding: Finding) -> AdmissionResponse:
    message = one_line(show(finding), _MESSAGE_CHARACTERS)
    return AdmissionResponse.deny(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, [cause_of(cause(finding))])


def unready(policies: Iterable[LoadedPolicy], why: str) -> AdmissionResponse:
    """The answer where nothing can be said: a refusal that passes if one of the policies is fail-closed."""
    if any(policy.fail_closed for policy in policies):
        text = f"defaults of GangPolicies cannot be found out: {why}: try again in a few seconds"
        return AdmissionResponse.deny(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", text)
    return AdmissionResponse.allow(warnings=[f"defaults of GangPolicies were left out: {why}"])

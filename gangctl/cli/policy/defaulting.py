"""What policies give a JobSet before any of them evaluates it: the mutating phase comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gangctl.api.objects import Object
from gangctl.cli.policy.evaluator import CommandEvaluator
from gangctl.cli.policy.requests import Request, Setting, request_of
from gangctl.errors import FieldError
from gangctl.policy.defaults import Source, defaults_of
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.params import ParamCatalogue
from gangctl.policy.review import Operation
from gangctl.policy.verdict import Action, Finding, Outcome, Result
from gangctl.sandbox.patches import json_patch

DEFAULTS: Final = "defaults"
CONFLICT: Final = "conflict"


@dataclass(frozen=True, slots=True)
class Met:
    """A request as the validating phase meets it.

    ``defaults`` says by field which value it was given, and by which policies; with ``conflicts`` the request
    gets no further, because policies disagree.
    """

    request: Request
    defaults: Mapping[str, Source] = field(default_factory=dict)
    conflicts: tuple[FieldError, ...] = ()

    def refusal(self, policy: str = DEFAULTS) -> Outcome:
        """What is said of conflicts, in the name of ``policy``."""
        findings = tuple(Finding(policy, CONFLICT, Result.FAIL, str(each), always=True) for each in self.conflicts)
        return Outcome(policy, matched=True, actions=frozenset({Action.DENY}), findings=findings, violations=findings)


@dataclass(frozen=True, slots=True)
class Admission:
    """The way of requests to the policies."""

    evaluator: CommandEvaluator
    policies: Sequence[LoadedPolicy]
    setting: Setting
    catalogue: ParamCatalogue

    def meet(self, subject: Object, operation: Operation, old: Object | None = None) -> Met:
        """The request that creates ``subject``, turns ``old`` into it or deletes it."""
        request = self._request(subject, operation, old)
        giving = [policy for policy in self.policies if policy.spec.defaults is not None]
        if not giving or operation != "CREATE" or request.review.object is None:
            return Met(request)
        asked = [policy.name for policy in giving if policy.spec.match_conditions]
        outcomes = self.evaluator.evaluate(request.review, asked) if asked else ()
        applied = defaults_of(giving, request.review, outcomes)
        if applied.conflicts or not applied.patch:
            return Met(request, conflicts=applied.conflicts)
        given = json_patch(dict(request.review.object), list(applied.patch))
        again = self._request(given, operation, None)
        return Met(replace(again, notes=request.notes), applied.sources)

    def _request(self, subject: Object, operation: Operation, old: Object | None) -> Request:
        return request_of(subject, operation, self.setting, self.policies, self.catalogue, old=old)

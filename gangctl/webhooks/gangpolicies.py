"""Answers to the requests of the webhook for GangPolicies and GangPolicyExceptions: whether gangctl can load them.

A verdict needs nothing of the cluster, and so there is one from the start, and also where policies are switched off.
Only warnings come from the policies that are known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final

from gangctl.api.objects import Object
from gangctl.errors import ValidationError, one_line
from gangctl.policy.loaded import (
    KnownRules,
    LoadedPolicy,
    PolicyError,
    PolicyProblem,
    load_exception,
    problem_of_field,
    unknown_names,
)
from gangctl.policy.model import EXCEPTION_KIND
from gangctl.webhooks.configurations import VALIDATE_GANGPOLICIES
from gangctl.webhooks.review import AdmissionRequest, AdmissionResponse, Handler, StatusCause

_MOST_CAUSES: Final = 20
_NO_EFFECT: Final = "the exception has no effect on it until there is one"


class GangPolicyAdmission:
    """The endpoint; loads with the function by which the controller does."""

    def __init__(self, known: Callable[[], KnownRules | None] = lambda: None) -> None:
        """Start no thread before the first policy; ``known`` returns the policies that exist, None while unknown."""
        self._known = known
        # The largest policies take seconds. One thread: several would take turns with the event loop.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy-admission")

    def routes(self) -> Mapping[str, Handler]:
        """Handlers by path."""
        return {VALIDATE_GANGPOLICIES: self.validate}

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """422 with every problem of the object; a warning for each probable mistake."""
        document = {**(request.object or {})}
        try:
            if request.kind.kind == EXCEPTION_KIND:
                exception, known = load_exception(document), self._known()
                # No refusal: the policy, or the version that has the rule, may be created later.
                missing = () if known is None else unknown_names(exception, known)
                return AdmissionResponse.allow(warnings=[f"{problem.sentence}: {_NO_EFFECT}" for problem in missing])
            policy = await asyncio.get_running_loop().run_in_executor(self._thread, _load, document)
        except PolicyError as error:
            return _refusal(error.problems)
        except ValidationError as error:
            return _refusal(map(problem_of_field, error.errors))
        return AdmissionResponse.allow(warnings=[problem.sentence for problem in policy.warnings])


def _load(document: Object) -> LoadedPolicy:
    from gangctl.policy.load import load_policy  # noqa: PLC0415 -- the compiler is large, and most clusters do not need it

    return load_policy(document)


def _refusal(problems: Iterable[PolicyProblem]) -> AdmissionResponse:
    first, *others = problems
    # kubectl prints the causes, other clients the message.
    causes = [
        StatusCause(problem.kind, one_line(": ".join(filter(None, (problem.position, problem.advice)))), problem.path)
        for problem in (first, *others[: _MOST_CAUSES - 1])
    ]
    more = f"; {len(others)} more problems" if others else ""
    message = f"{one_line(first.sentence)}{more}"
    return AdmissionResponse.deny(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, causes)

"""Answers to the requests of the webhook for GangPolicies and GangPolicyExceptions: whether gangctl can load them.

Needs nothing of the cluster, and so answers from the start, and also where policies are switched off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final

from gangctl.api.objects import Object
from gangctl.errors import ValidationError, one_line
from gangctl.policy.loaded import LoadedPolicy, PolicyError, PolicyProblem, load_exception, problem_of_field
from gangctl.policy.model import EXCEPTION_KIND
from gangctl.webhooks.configurations import VALIDATE_GANGPOLICIES
from gangctl.webhooks.review import AdmissionRequest, AdmissionResponse, Handler, StatusCause

_MOST_CAUSES: Final = 20


class GangPolicyAdmission:
    """The endpoint; loads with the function by which the controller does."""

    def __init__(self) -> None:
        """Start no thread before the first policy."""
        # The largest policies take seconds. One thread: several would take turns with the event loop.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy-admission")

    def routes(self) -> Mapping[str, Handler]:
        """Handlers by path."""
        return {VALIDATE_GANGPOLICIES: self.validate}

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """422 with every problem of the object; a warning for each probable mistake of a policy."""
        document = {**(request.object or {})}
        try:
            if request.kind.kind == EXCEPTION_KIND:
                load_exception(document)
                return AdmissionResponse.allow()
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

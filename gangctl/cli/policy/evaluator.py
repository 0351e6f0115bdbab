"""The policy evaluator of admission, for commands: in an event loop of their own, defaults before rules."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api.objects import Object
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import EvalError
from gangctl.cel.meter import POLICY_SECONDS, StepMeter
from gangctl.cel.program import Bindings
from gangctl.cli.messages import log_to_stderr
from gangctl.cli.policy.requests import Setting, request_of
from gangctl.errors import FieldError
from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.policy.defaults import Source, defaults_of
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.loaded import Expression, LoadedPolicy
from gangctl.policy.review import Operation, Review, matches
from gangctl.policy.variables import ParamCatalogue
from gangctl.policy.verdict import Action, Finding, Outcome, Result
from gangctl.runtime.workers import WorkersBrokenError
from gangctl.sandbox.patches import json_patch

_SHOWN: Final = 400


class Variables(dict[str, Any]):
    """Variables computed when they are read, as at admission."""

    def __init__(self, policy: LoadedPolicy, bindings: Bindings, meter: StepMeter) -> None:
        """None of them yet; what they cost is the meter's."""
        super().__init__()
        self._policy = policy
        self._bindings = bindings
        self._meter = meter

    def __missing__(self, name: str) -> Any:
        self[name] = self.value(self._policy.programs.variables[name])
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in self._policy.programs.variables

    def value(self, expression: Expression) -> Any:
        """The value of an expression that may read them; EvalError."""
        return expression.program.evaluate(self._bindings, self, self._meter.expression())


def variables_of(policies: Sequence[LoadedPolicy], review: Review) -> dict[str, dict[str, str]]:
    """Values of all variables by policy and name, as text; of policies that the request is about."""
    evaluation = Evaluation(review)
    found: dict[str, dict[str, str]] = {}
    for policy in policies:
        if matches(policy, review) or not policy.programs.variables:
            continue
        params = review.params.get(policy.name, ())
        for one in params or (None,):
            suffix = f" (params {_name(one)})" if len(params) > 1 else ""
            values = _computed(policy, evaluation, one)
            found.setdefault(policy.name, {}).update({f"{name}{suffix}": text for name, text in values.items()})
    return found


def fault_of_message(policy: LoadedPolicy, rule_id: str, review: Review) -> str:
    """Why a rule's messageExpression has no result for a request, so that its message is used; empty if it has.

    Admission does not report that, because the user of the request could not fix it.
    """
    rule = next((each for each in policy.programs.rules if each.id == rule_id), None)
    if rule is None or rule.message_expression is None:
        return ""
    evaluation = Evaluation(review)
    for one in review.params.get(policy.name, ()) or (None,):
        variables = Variables(policy, bound(evaluation, one), StepMeter.request(time.monotonic).policy())
        try:
            message = plain(variables.value(rule.message_expression))
        except EvalError as error:
            return f"{error.kind}: {error.message}"
        text = message.strip() if isinstance(message, str) else ""
        if not text or "\n" in text:
            return "it has more than one line" if text else "it is empty"
    return ""


def bound(evaluation: Evaluation, params: Object | None) -> Bindings:
    """The variables of a request, with one parameter object or with none."""
    bindings = evaluation.bindings
    return bindings if params is None else {**bindings, "params": params}


def _computed(policy: LoadedPolicy, evaluation: Evaluation, params: Object | None) -> dict[str, str]:
    values = Variables(policy, bound(evaluation, params), StepMeter.request(time.monotonic).policy())
    shown = {}
    for name in policy.programs.variables:
        try:
            shown[name] = _text(plain(values[name]))
        except EvalError as error:
            shown[name] = f"{error.kind}: {error.message}"
    return shown


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _name(params: Object | None) -> str:
    metadata = (params or {}).get("metadata") or {}
    return str(metadata.get("name") or "")


def now() -> datetime:
    """The time by which exceptions expire."""
    return datetime.now(tz=UTC)


@asynccontextmanager
async def evaluator_of(minor: str) -> AsyncIterator[PolicyEvaluator]:
    """The evaluator of a command, which runs one review at a time: mostly in this process, workers may start slowly.

    Native policies have the CEL libraries of this Kubernetes minor; the limits of a policy are those of admission.
    WorkersBrokenError at the end where workers were needed and do not work: there is no result.
    """
    log_to_stderr()
    options = EvaluatorOptions(
        minor=minor,
        ahead=False,
        workers=1,
        spares=0,
        slice_seconds=0.25,
        local_text=1 << 20,
        local_values=1 << 20,
        slow_seconds=POLICY_SECONDS,
        load_seconds=30.0,
        request_seconds=60.0,
    )
    async with PolicyEvaluator(options) as evaluator:
        yield evaluator
        if evaluator.problem:
            raise WorkersBrokenError(evaluator.problem)


DEFAULTS: Final = "defaults"
CONFLICT: Final = "conflict"


@dataclass(frozen=True, slots=True)
class Met:
    """A request as the validating phase meets it.

    ``defaults`` says by field which value it was given, and by which policies; with ``conflicts`` the request
    gets no further, because policies disagree.
    """

    review: Review
    notes: tuple[str, ...]
    defaults: Mapping[str, Source] = field(default_factory=dict)
    conflicts: tuple[FieldError, ...] = ()

    def refusal(self, policy: str = DEFAULTS) -> Outcome:
        """What is said of conflicts, in the name of ``policy``."""
        findings = tuple(Finding(policy, CONFLICT, Result.FAIL, str(each), always=True) for each in self.conflicts)
        return Outcome(policy, matched=True, actions=frozenset({Action.DENY}), findings=findings, violations=findings)


async def meet(
    evaluator: PolicyEvaluator,
    policies: Sequence[LoadedPolicy],
    setting: Setting,
    catalogue: ParamCatalogue,
    subject: Object,
    *,
    operation: Operation,
    old: Object | None,
) -> Met:
    """The request that creates ``subject``, turns ``old`` into it or deletes it."""
    review, notes = request_of(subject, operation, setting, policies, catalogue, old=old)
    giving = [policy for policy in policies if policy.spec.defaults is not None]
    if not giving or operation != "CREATE" or review.object is None:
        return Met(review, notes)
    asked = [policy.name for policy in giving if policy.spec.match_conditions]
    outcomes = await evaluator.evaluate(review, asked) if asked else ()
    applied = defaults_of(giving, review, outcomes)
    if applied.conflicts or not applied.patch:
        return Met(review, notes, conflicts=applied.conflicts)
    given = json_patch(dict(review.object), list(applied.patch))
    review, _ = request_of(given, operation, setting, policies, catalogue)
    return Met(review, notes, applied.sources)

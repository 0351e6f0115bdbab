"""The policy evaluator of admission, for commands: in an event loop of their own, defaults before rules."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import structlog

from gangctl.api.objects import Object
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import EvalError
from gangctl.cel.meter import POLICY_SECONDS, StepMeter
from gangctl.cel.program import Bindings
from gangctl.cli.policy.requests import Request, Setting, request_of
from gangctl.errors import FieldError
from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.policy.defaults import Source, defaults_of
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.exemptions import LoadedException
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.policy.match import matches
from gangctl.policy.params import ParamCatalogue
from gangctl.policy.review import Operation, Review
from gangctl.policy.verdict import Action, Finding, Outcome, Result
from gangctl.sandbox.patches import json_patch

_SHOWN: Final = 400


class Variables(Mapping[str, Any]):
    """Variables computed when they are read, as at admission."""

    def __init__(self, policy: LoadedPolicy, bindings: Bindings, meter: StepMeter) -> None:
        """None of them yet; what they cost is the meter's."""
        self._policy = policy
        self._bindings = bindings
        self._meter = meter
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            expression = self._policy.programs.variables[name]
            self._known[name] = expression.program.evaluate(self._bindings, self, self._meter.expression())
        return self._known[name]

    def __iter__(self) -> Any:
        return iter(self._policy.programs.variables)

    def __len__(self) -> int:
        return len(self._policy.programs.variables)


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
        bindings, meter = _bound(evaluation, one), StepMeter.request(time.monotonic).policy()
        variables = Variables(policy, bindings, meter)
        try:
            message = plain(rule.message_expression.program.evaluate(bindings, variables, meter.expression()))
        except EvalError as error:
            return f"{error.kind}: {error.message}"
        text = message.strip() if isinstance(message, str) else ""
        if not text or "\n" in text:
            return "it has more than one line" if text else "it is empty"
    return ""


def _bound(evaluation: Evaluation, params: Object | None) -> Bindings:
    bindings = evaluation.bindings
    return bindings if params is None else {**bindings, "params": params}


def _computed(policy: LoadedPolicy, evaluation: Evaluation, params: Object | None) -> dict[str, str]:
    bindings = _bound(evaluation, params)
    meter = StepMeter.request(time.monotonic).policy()
    values = Variables(policy, bindings, meter)
    shown = {}
    for name in values:
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


def options_of(minor: str) -> EvaluatorOptions:
    """Options for a command, which runs one review at a time: most of it in this process, and workers may start slowly.

    The limits of a policy are those of admission.
    """
    return EvaluatorOptions(
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


class CommandEvaluator:
    """A policy evaluator that a command calls without ``await``."""

    def __init__(self, minor: str) -> None:
        """Evaluate native policies with the CEL libraries of a Kubernetes minor."""
        self._runner = asyncio.Runner()
        self._evaluator = PolicyEvaluator(options_of(minor))
        self._generation = 0

    def __enter__(self) -> Self:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
        self._runner.__enter__()
        self._runner.run(self._evaluator.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self._evaluator.__aexit__(kind, error, traceback))
        finally:
            self._runner.__exit__(kind, error, traceback)

    def install(self, policies: Sequence[LoadedPolicy], exceptions: Sequence[LoadedException]) -> None:
        """Evaluate by these from now on."""
        self._generation += 1
        installed = PolicySet(self._generation, policies=tuple(policies), exceptions=tuple(exceptions))
        self._runner.run(self._evaluator.install(installed))

    def evaluate(self, review: Review, policies: Sequence[str] | None = None) -> tuple[Outcome, ...]:
        """The outcomes of the policies of these names, or of all of them, for one request."""
        return self._runner.run(self._evaluator.evaluate(review, policies))


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

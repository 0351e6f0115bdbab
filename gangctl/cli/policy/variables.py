"""Values of a policy's variables for one request: for ``--details``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gangctl.api.objects import Object
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import EvalError
from gangctl.cel.meter import StepMeter
from gangctl.cel.program import Bindings
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.match import matches
from gangctl.policy.review import Review

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

"""The policies of a command and the evaluator of admission: defaults before rules, as admission has them."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gangctl.api import jsonpatch
from gangctl.api.objects import Object, object_at
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import EvalError
from gangctl.cel.meter import POLICY_SECONDS, StepMeter
from gangctl.cli.messages import log_to_stderr
from gangctl.cli.policy.loading import LoadedPolicies
from gangctl.cli.policy.requests import RequestSetting, before_defaults, is_left_alone, request_of
from gangctl.errors import FieldError
from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.policy.defaults import DefaultSource, defaults_of, is_conditional, refusals, without_answer
from gangctl.policy.evaluate import Evaluation, PolicyRun
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.policy.review import Operation, Review, matches
from gangctl.policy.variables import ParamCatalogue, name_of
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction, merge
from gangctl.runtime.workers import WorkersBrokenError

DEFAULTS: Final = "defaults"
CONFLICT: Final = "conflict"
_SHOWN: Final = 400


@asynccontextmanager
async def evaluator_of(minor: str, *, log: bool = True) -> AsyncIterator[PolicyEvaluator]:
    """The evaluator of a command, which runs one review at a time: mostly in this process, workers may start slowly.

    Native policies have the CEL libraries of this Kubernetes minor; the limits of a policy are those of admission.
    ``log`` is False where the command has set up its logs.
    WorkersBrokenError at the end where workers were needed and do not work: there is no result.
    """
    if log:
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


@dataclass(frozen=True, slots=True)
class Met:
    """A request as the validating phase meets it.

    ``defaults`` says by field which value it was given, and by which policies; with ``conflicts`` the request
    gets no further, because policies disagree. ``unanswered`` is why it is not known of a policy whether it gives any,
    ``refused`` those of it for which admission refuses the request. In a namespace that gangctl leaves ``alone``, API
    servers evaluate native policies, and GangPolicies are not evaluated.
    """

    review: Review
    notes: tuple[str, ...] = ()
    defaults: Mapping[str, DefaultSource] = field(default_factory=dict)
    conflicts: tuple[FieldError, ...] = ()
    unanswered: tuple[Finding, ...] = ()
    refused: tuple[Finding, ...] = ()
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """Policies in force, with the objects that can be their parameters."""

    evaluator: PolicyEvaluator
    loaded: LoadedPolicies
    catalogue: ParamCatalogue

    @classmethod
    async def start(
        cls, evaluator: PolicyEvaluator, loaded: LoadedPolicies, catalogue: ParamCatalogue, generation: int = 1
    ) -> Session:
        """Put policies in force in place of those before, which had a lower ``generation``."""
        await evaluator.install(PolicySet(generation, policies=loaded.policies, exceptions=loaded.exceptions))
        return cls(evaluator, loaded, catalogue)

    async def meet(
        self, subject: Object, setting: RequestSetting, operation: Operation = "CREATE", old: Object | None = None
    ) -> Met:
        """The request that creates ``subject``, turns ``old`` into it or deletes it."""
        policies = self.loaded.policies
        review, notes = request_of(subject, operation, setting, policies, self.catalogue, old=old)
        home = str(review.request.get("namespace") or "")
        if is_left_alone(home, review.namespace, setting.evaluated):
            note = f"no GangPolicy applies in namespace {home}"
            own = any(not policy.native for policy in policies)
            return Met(review, (*notes, note) if own else notes, alone=True)
        giving = [policy for policy in policies if policy.spec.defaults is not None]
        if not giving or operation != "CREATE" or review.object is None:
            return Met(review, notes)
        # One that is not conditional gives its defaults to all that it matches: nothing has to be evaluated.
        asked = [policy.name for policy in giving if is_conditional(policy)]
        early = before_defaults(review)
        outcomes = await self.evaluator.evaluate(early, asked) if asked else ()
        refused = tuple(refusals(giving, outcomes))
        applied = defaults_of(giving, early, outcomes)
        unanswered = tuple(finding for outcome in outcomes for finding in without_answer(outcome))
        if applied.conflicts or not applied.patch:
            return Met(review, notes, conflicts=applied.conflicts, unanswered=unanswered, refused=refused)
        given = jsonpatch.apply(early.object or {}, applied.patch)
        # Defaults change the gang and the queue, so that what policies read of these is computed again.
        review, _ = request_of(given, operation, setting, policies, self.catalogue)
        return Met(review, notes, applied.sources, unanswered=unanswered, refused=refused)

    async def outcomes(self, met: Met, policy: str = "") -> tuple[Outcome, ...]:
        """The outcomes of all policies, or of one; of conflicts the refusal, in the name of that policy."""
        if met.alone:
            chosen = [one for one in self.loaded.policies if policy in {"", one.name}]
            native = await self.evaluator.evaluate(met.review, [one.name for one in chosen if one.native])
            left = (Outcome(one.name, matched=False, skipped="namespace") for one in chosen if not one.native)
            return tuple(sorted((*native, *left), key=lambda outcome: outcome.policy))
        if not met.conflicts:
            outcomes = await self.evaluator.evaluate(met.review, [policy] if policy else None)
            denials = {(finding.policy, finding.rule) for finding in merge(outcomes).denials}
            refused = [replace(one, always=True) for one in met.refused if (one.policy, one.rule) not in denials]
            # A test is about what its policy says.
            return outcomes if policy or not refused else (*outcomes, _refusal(DEFAULTS, refused))
        name = policy or DEFAULTS
        return (
            _refusal(name, [Finding(name, CONFLICT, Result.FAIL, str(error), always=True) for error in met.conflicts]),
        )


def _refusal(name: str, findings: Sequence[Finding]) -> Outcome:
    actions = frozenset({ValidationAction.DENY})
    return Outcome(name, matched=True, actions=actions, findings=tuple(findings), violations=tuple(findings))


def variables_of(policies: Sequence[LoadedPolicy], review: Review) -> dict[str, dict[str, str]]:
    """Values of all variables by policy and name, as text; of policies that the request is about."""
    evaluation = Evaluation(review)
    texts: dict[str, dict[str, str]] = {}
    for policy in policies:
        # It returns why a policy does not apply, and an empty text where it does.
        if matches(policy, review) or not policy.programs.variables:
            continue
        params = review.params.get(policy.name, ())
        for obj in params or (None,):
            suffix = f" (params {object_at(obj or {}, 'metadata').get('name') or ''})" if len(params) > 1 else ""
            run = _run(evaluation, policy, obj)
            for name in policy.programs.variables:
                texts.setdefault(policy.name, {})[f"{name}{suffix}"] = _text(run.variables, name)
    return texts


def _run(evaluation: Evaluation, policy: LoadedPolicy, params: Object | None) -> PolicyRun:
    """What expressions of a policy read at admission, with limits of its own."""
    run = PolicyRun(evaluation, policy, params, StepMeter.request(time.monotonic).policy())
    run.bind()
    return run


def _text(variables: Mapping[str, Any], name: str) -> str:
    try:
        text = json.dumps(plain(variables[name]), ensure_ascii=False, default=str)
    except EvalError as error:
        return f"{error.kind}: {error.message}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def fault_of_message(policy: LoadedPolicy, broken: Finding, review: Review) -> str:
    """Why the messageExpression of a broken rule has no result, so that its message is used; empty if it has.

    Admission does not report that, because the user of the request could not fix it.
    """
    expression = next((rule.message_expression for rule in policy.programs.rules if rule.id == broken.rule), None)
    if expression is None:
        return ""
    evaluation = Evaluation(review)
    for params in review.params.get(policy.name, ()) or (None,):
        # Where the rule holds, its message may read what is not there.
        if params is not None and name_of(params) != broken.params:
            continue
        try:
            message = plain(_run(evaluation, policy, params).value(expression))
        except EvalError as error:
            return f"{error.kind}: {error.message}"
        text = message.strip() if isinstance(message, str) else ""
        if not text or "\n" in text:
            return "it has more than one line" if text else "it is empty"
    return ""


def finding_data(finding: Finding) -> dict[str, Any]:
    """One rule of a verdict, as ``-o json`` prints it."""
    return {
        "policy": finding.policy,
        "rule": finding.rule,
        "result": finding.result.value,
        "message": finding.message,
        "reason": finding.reason,
        "params": finding.params,
        "error": finding.error,
        "exception": finding.exception,
    }

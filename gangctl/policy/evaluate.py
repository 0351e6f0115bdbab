"""The outcome of one policy for one request: the semantics of ValidatingAdmissionPolicy, step by step.

Match, then for each parameter object: match conditions, rules with their messages, audit annotations; variables when
they are first read. Source of every rule and text: ``k8s.io/apiserver``, ``pkg/admission/plugin/policy``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gangctl.api.objects import Object, object_at
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.meter import EXHAUSTED, StepMeter
from gangctl.cel.program import Bindings
from gangctl.policy.loaded import BrokenPolicy, Expression, LoadedException, LoadedPolicy, Rule
from gangctl.policy.model import MESSAGE_BYTES
from gangctl.policy.review import Review, covering, matches
from gangctl.policy.variables import NOT_FOUND, name_of
from gangctl.policy.verdict import WHOLE_POLICY, Finding, Outcome, Result

BROKEN: Final = "Broken"
NO_PARAMS: Final = "NoParams"
"""Errors other than those of expressions."""

PARAMS: Final = "spec.paramRef"
MATCH_CONDITIONS: Final = "spec.matchConditions"
# maxAuditAnnotationValueLength of the API server, which cuts each value before it joins them.
ANNOTATION_BYTES: Final = 10 * 1024

_NAMESPACE_METADATA: Final = frozenset(
    {
        "name",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    }
)
"""The visible fields of ``namespaceObject.metadata``."""
_NESTED: Final = 8
"""How deeply variables are computed within each other: Python has no stack for the calls of a chain of 64."""
_UNSET: Final = {"uid": "", "object": None, "oldObject": None}
"""Fields of ``request`` that CreateAdmissionRequest of the API server leaves empty; none of them is omitted."""


class Evaluation:
    """One request, read once for all policies that are evaluated on it."""

    def __init__(self, review: Review) -> None:
        """Bind nothing yet: a request to which no policy applies costs nothing."""
        self.review = review
        self._bound: Bindings | None = None

    @property
    def bindings(self) -> Bindings:
        """Every variable but ``params``, which is null."""
        if self._bound is None:
            review = self.review
            unplanned = EvalError(EvalKind.OTHER, review.gang) if isinstance(review.gang, str) else None
            self._bound = {
                "object": review.object,
                "oldObject": review.old_object,
                "request": {**review.request, **_UNSET},
                "namespaceObject": namespace_object(review),
                "gang": unplanned or review.gang,
                "fit": unplanned or review.fit,
                "params": None,
            }
        return self._bound

    def evaluate(self, policy: LoadedPolicy, meter: StepMeter, exceptions: Sequence[LoadedException] = ()) -> Outcome:
        """The outcome of one policy; ``meter`` is the request's."""
        review = self.review
        if reason := matches(policy, review):
            return Outcome(policy.name, matched=False, skipped=reason, actions=policy.actions)
        missing = review.param_errors.get(policy.name)
        params: Sequence[Object | None] = (None,)
        reference = policy.spec.param_ref
        if policy.spec.param_kind is not None and reference is not None:
            params = review.params.get(policy.name, ())
            if not params and missing is None:
                if reference.parameter_not_found_action != "Deny":
                    return Outcome(policy.name, matched=False, skipped="paramRef", actions=policy.actions)
                missing = NOT_FOUND
        if missing is not None:
            message = f"failed to configure binding: {missing}"
            finding = Finding(policy.name, PARAMS, Result.ERROR, message, error=NO_PARAMS, always=True)
            return _erroneous(policy, finding, exceptions, review)
        # One for all parameter objects: the budget of a policy does not grow with what a selector finds.
        own = meter.policy()
        runs = [PolicyRun(self, policy, one, own) for one in params]
        for run in runs:
            run.evaluate()
        findings = tuple(finding for run in runs for finding in run.findings)
        applied = [run for run in runs if not run.skipped]
        outcome = Outcome(
            policy=policy.name,
            matched=bool(applied),
            skipped="" if applied else runs[0].skipped,
            actions=policy.actions,
            findings=findings,
            violations=tuple(finding for finding in findings if _counts(finding, policy)) if applied else (),
            audit_annotations=_joined(pair for run in runs for pair in run.annotations),
            steps=own.spent,
        )
        return _exempted(outcome, exceptions, review)


def refused_by_broken(policy: BrokenPolicy, review: Review, exceptions: Sequence[LoadedException] = ()) -> Outcome:
    """The outcome of a policy that could not be loaded, by its failurePolicy."""
    if reason := matches(policy, review):
        return Outcome(policy.name, matched=False, skipped=reason, actions=policy.actions)
    finding = Finding(policy.name, WHOLE_POLICY, Result.ERROR, policy.reason, error=BROKEN)
    return _erroneous(policy, finding, exceptions, review)


def unanswered(
    policy: LoadedPolicy, review: Review, kind: EvalKind, message: str, exceptions: Sequence[LoadedException] = ()
) -> Outcome:
    """The outcome of a policy that applies and was not evaluated: it was killed, or used up the request's budget."""
    finding = Finding(policy.name, WHOLE_POLICY, Result.ERROR, message, error=str(kind))
    return _erroneous(policy, finding, exceptions, review)


def _erroneous(
    policy: LoadedPolicy | BrokenPolicy, finding: Finding, exceptions: Sequence[LoadedException], review: Review
) -> Outcome:
    violations = (finding,) if _counts(finding, policy) else ()
    actions = policy.actions
    outcome = Outcome(policy.name, matched=True, actions=actions, findings=(finding,), violations=violations)
    return _exempted(outcome, exceptions, review)


def _counts(finding: Finding, policy: LoadedPolicy | BrokenPolicy) -> bool:
    """Whether a finding has consequences: the one place that decides, for webhook, scan and command line.

    The failurePolicy of a GangPolicy excuses what cannot be evaluated, and not what takes more steps, time or memory
    than it may: the author of the JobSet chose its size.
    """
    excused = not policy.fail_closed and (policy.native or finding.error not in EXHAUSTED)
    return finding.result is Result.FAIL or (finding.result is Result.ERROR and not excused)


def _exempted(outcome: Outcome, exceptions: Sequence[LoadedException], review: Review) -> Outcome:
    """The outcome with findings under an exception marked, and not among its violations."""
    if not outcome.violations or not exceptions:
        return outcome
    exempt = {
        finding: replace(finding, result=Result.EXEMPT, exception=name)
        for finding in outcome.violations
        if (name := covering(exceptions, outcome.policy, finding.rule, review))
    }
    return replace(
        outcome,
        findings=tuple(exempt.get(finding, finding) for finding in outcome.findings),
        violations=tuple(finding for finding in outcome.violations if finding not in exempt),
    )


def _joined(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Audit annotations by key: different values of several parameters are joined."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        known = values.setdefault(key, [])
        if value not in known:
            known.append(value)
    return tuple((key, ", ".join(texts)) for key, texts in values.items())


def namespace_object(review: Review) -> Object | None:
    """``namespaceObject``: null without a namespace; with the metadata fields that Kubernetes shows, and no type."""
    namespace = review.namespace
    if namespace is None or not review.request.get("namespace"):
        return None
    metadata = object_at(namespace, "metadata")
    return {
        "metadata": {key: value for key, value in metadata.items() if key in _NAMESPACE_METADATA},
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }


class _PolicyVariables(Mapping[str, Any]):
    """``variables``: each computed when it is first read, and only once, even if it failed."""

    def __init__(self, run: PolicyRun) -> None:
        self._run = run
        self._known: dict[str, Any] = {}
        self._nested = 0

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            for needed in (name,) if self._nested < _NESTED else self._needed(name):
                self._compute(needed)
        known = self._known[name]
        if isinstance(known, EvalError):
            raise known
        return known

    def _needed(self, name: str) -> list[str]:
        """A variable and all that it may read, each behind those that it may read itself."""
        variables = self._run.policy.programs.variables
        needed = {name}
        for earlier in reversed([*variables]):
            if earlier in needed:
                needed |= variables[earlier].checked.variables
        return [earlier for earlier in variables if earlier in needed and earlier not in self._known]

    def _compute(self, name: str) -> None:
        self._nested += 1
        try:
            self._known[name] = self._run.value(self._run.policy.programs.variables[name])
        except EvalError as error:
            message = f'composited variable "{name}" fails to evaluate: {error.message}'
            self._known[name] = EvalError(error.kind, message)
        finally:
            self._nested -= 1

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.policy.programs.variables)

    def __len__(self) -> int:
        return len(self._run.policy.programs.variables)


@dataclass(slots=True)
class PolicyRun:
    """One evaluation of a policy: with one parameter object, or with none."""

    evaluation: Evaluation
    policy: LoadedPolicy
    params: Object | None
    meter: StepMeter
    skipped: str = ""
    findings: list[Finding] = field(default_factory=list)
    annotations: list[tuple[str, str]] = field(default_factory=list)
    bindings: Bindings = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)

    def bind(self) -> None:
        """What :meth:`value` reads: the request, the parameters, and variables that nothing has read yet."""
        bindings = self.evaluation.bindings
        self.bindings = bindings if self.params is None else {**bindings, "params": self.params}
        self.variables = _PolicyVariables(self)

    def evaluate(self) -> None:
        """Fill the findings, or record why there are none."""
        self.bind()
        conditions = self.policy.programs.match_conditions
        if conditions:
            seen = self.bindings
            if any("namespaceObject" in condition.checked.reads for condition in conditions):
                # Natively, match conditions do not see the Namespace.
                self.bindings = {**seen, "namespaceObject": None}
            if not self._conditions_hold():
                return
            self.bindings = seen
        self.findings += [self._finding(rule) for rule in self.policy.programs.rules]
        for key, expression in self.policy.programs.audit_annotations:
            self._annotate(key, expression)

    def value(self, expression: Expression) -> Any:
        """An expression's value within its own budget and the policy's; EvalError."""
        return expression.program.evaluate(self.bindings, self.variables, self.meter.expression())

    def _plain(self, expression: Expression) -> Any:
        return plain(self.value(expression))

    def _conditions_hold(self) -> bool:
        """A false condition decides, even if others fail; otherwise the failures are one error."""
        failed: list[tuple[Expression, EvalError]] = []
        for index, condition in enumerate(self.policy.programs.match_conditions):
            try:
                if self._plain(condition) is not True:
                    self.skipped = f"matchConditions[{self.policy.spec.match_conditions[index].name}]"
                    return False
            except EvalError as error:
                failed.append((condition, error))
        if not failed:
            return True
        words = list(dict.fromkeys(_error_words(condition, error) for condition, error in failed))
        # As Go prints several errors (utilerrors.Aggregate): each text once, in brackets.
        message = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
        finding = self._made(MATCH_CONDITIONS, Result.ERROR, message, error=str(failed[0][1].kind))
        self.findings.append(finding)
        if not _counts(finding, self.policy):
            self.skipped = "matchConditions: an error, and failurePolicy is Ignore"
        return False

    def _made(self, rule: str, result: Result, message: str = "", **more: Any) -> Finding:
        params = "" if self.params is None else name_of(self.params)
        return Finding(self.policy.name, rule, result, message, params=params, **more)

    def _finding(self, rule: Rule) -> Finding:
        try:
            kept = self._plain(rule.condition) is True
        except EvalError as error:
            return self._made(rule.id, Result.ERROR, _error_words(rule.condition, error), error=str(error.kind))
        if kept:
            return self._made(rule.id, Result.PASS)
        return self._made(rule.id, Result.FAIL, self._message(rule), reason=rule.reason)

    def _message(self, rule: Rule) -> str:
        """The value of messageExpression if it is a valid message, else message, else the expression itself."""
        message = "" if rule.message_expression is None else self._computed_message(rule.message_expression)
        return message or rule.message.strip() or f"failed expression: {rule.condition.text.strip()}"

    def _computed_message(self, expression: Expression) -> str:
        try:
            value = self._plain(expression)
        except EvalError:
            return ""  # as natively: the reason is for the policy's author, to whom lint and test report it
        text = value.strip() if isinstance(value, str) else ""
        # As natively, such a message is dropped, and that of the rule is used.
        return "" if "\n" in text or len(text.encode(errors="replace")) > MESSAGE_BYTES else text

    def _annotate(self, key: str, expression: Expression) -> None:
        try:
            value = self._plain(expression)
        except EvalError as error:
            rule = f"spec.auditAnnotations[{key}]"
            made = self._made(rule, Result.ERROR, _error_words(expression, error), error=str(error.kind), always=True)
            self.findings.append(made)
            return
        text = value.strip() if isinstance(value, str) else ""
        if text:
            # The limit may be within a character, which is left out then.
            cut = text.encode(errors="replace")[:ANNOTATION_BYTES].decode(errors="ignore")
            self.annotations.append((key, cut))


def _error_words(expression: Expression, error: EvalError) -> str:
    return f"expression '{expression.text}' resulted in error: {error.message}"

"""From documents to policies that can be evaluated, with warnings of probable mistakes in expressions about JobSets.

Kubernetes only warns of them (``status.typeChecking``), because another version of the API may have the field; so
they are warnings here, too, and the policy is in force.

Checks and compiles all expressions, and reports all problems at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gangctl.api.meta import JOBSET_GROUP
from gangctl.api.objects import Object, object_at
from gangctl.cel.check import check, for_jobsets, typed_check
from gangctl.cel.environments import Environment, admission
from gangctl.cel.faults import CompileError
from gangctl.cel.program import compile_expression
from gangctl.cel.types import BOOL, DURATION, DYN, NULL, STRING, TIMESTAMP, Type
from gangctl.errors import ValidationError
from gangctl.policy.loaded import (
    BrokenPolicy,
    Expression,
    LoadedPolicy,
    PolicyError,
    PolicyProblem,
    Programs,
    Rule,
    problem_of_expression,
    problem_of_field,
)
from gangctl.policy.model import GangPolicy, GangPolicySpec, MatchResources, Validation
from gangctl.policy.reading import check_policy, read_model
from gangctl.policy.review import JOBSETS
from gangctl.policy.variables import COMPUTED, TYPE_PREFIX
from gangctl.policy.verdict import ValidationAction

_OBJECTS: Final = frozenset({"object", "oldObject"})
_STORED: Final = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "null_type", DURATION.name, TIMESTAMP.name}
)


def stored(type_: Type) -> Type:
    """The type of a variable in later expressions: the API server forgets all but the plain ones.

    Those of ``gang`` and ``fit`` and their parts, which it does not know, are kept.
    """
    if type_.name in {"list", "map"}:
        return Type(type_.name, tuple(map(stored, type_.parameters)))
    return type_ if type_.name in _STORED or type_.name.startswith(TYPE_PREFIX) else DYN


def is_about_jobsets(constraints: MatchResources) -> bool:
    """Whether every object that a policy sees is a JobSet."""
    return all(
        rule.api_groups == (JOBSET_GROUP,) and rule.resources == (JOBSETS,) for rule in constraints.resource_rules
    )


def type_warnings(programs: Programs, environment: Environment) -> Iterator[PolicyProblem]:
    """The type errors in the expressions of a policy that matches only JobSets."""
    typed = for_jobsets(environment)
    names = {expression.path: name for name, expression in programs.variables.items()}
    variables: dict[str, Type] = {}
    for expression in programs.expressions():
        checked = expression.checked
        # Others read nothing that has another type here.
        if checked.variables or checked.reads & _OBJECTS:
            result = typed_check(checked, replace(typed, variables=variables))
            if isinstance(result, CompileError):
                yield problem_of_expression(expression.path, expression.text, result)
            else:
                checked = result
        if expression.path in names:
            # Types of parts of a JobSet are kept here, so that mistakes behind a variable are found.
            variables[names[expression.path]] = checked.type


_NOTHING: Final[Mapping[str, Type]] = {}
DEFAULT_MINOR: Final = "1.37"
"""The default CEL version, and always that of GangPolicies: gangctl evaluates them, not the cluster."""


def load_policy(document: Mapping[str, Any]) -> LoadedPolicy:
    """A GangPolicy as it can be evaluated, with the CEL of Kubernetes 1.37 whatever the cluster has.

    :class:`PolicyError` with all problems: fields that are wrong, expressions that Kubernetes or gangctl refuses.
    """
    try:
        model = read_model(document, GangPolicy)
    except ValidationError as error:
        problems = [problem_of_field(fault) for fault in error.errors]
        raise _refusal(document, None, problems) from error
    problems = [problem_of_field(fault) for fault in check_policy(model)]
    programs, warnings = compile_spec(model.spec, DEFAULT_MINOR, problems, COMPUTED)
    if problems:
        raise _refusal(document, model, problems)
    return LoadedPolicy(
        name=model.metadata.name,
        spec=model.spec,
        source=document,
        native=False,
        programs=programs,
        warnings=warnings,
        generation=model.metadata.generation,
    )


def _refusal(document: Object, model: GangPolicy | None, problems: list[PolicyProblem]) -> PolicyError:
    """The error, with the parts of the policy that could be read."""
    name = object_at(document, "metadata").get("name")
    name = name if isinstance(name, str) and name else "(without a name)"
    spec = _readable(document) if model is None else model.spec
    return refusal(name, document, spec, problems, fails_closed=fails_closed(document))


def _readable(document: Object) -> GangPolicySpec:
    """Of a policy of a wrong shape which requests it is about, and what follows; the default of what has one itself."""
    spec = object_at(document, "spec")
    # One field of a later version must not turn a policy for one namespace into one that refuses every JobSet.
    read = GangPolicySpec()
    for name in ("matchConstraints", "validationActions"):
        with suppress(ValidationError):
            one = read_model({name: spec[name]} if name in spec else {}, GangPolicySpec)
            read = read.model_copy(update={field: getattr(one, field) for field in one.model_fields_set})
    return read


def fails_closed(document: Object) -> bool:
    """Whether a document that cannot be loaded refuses requests: only if it says so, whatever its shape.

    The default of failurePolicy does not count here, so that no typing error refuses every JobSet of a cluster.
    """
    return object_at(document, "spec").get("failurePolicy") == "Fail"


def refusal(
    name: str,
    source: Object,
    spec: GangPolicySpec,
    problems: Sequence[PolicyProblem],
    *,
    fails_closed: bool,
    narrowing: MatchResources | None = None,
) -> PolicyError:
    """The error of a policy with these problems."""
    reason = f"the policy cannot be used: {problems[0]}"
    actions = frozenset(map(ValidationAction, spec.validation_actions))
    return PolicyError(name, problems, BrokenPolicy(name, source, reason, spec, fails_closed, actions, narrowing))


def compile_spec(
    spec: GangPolicySpec, minor: str, problems: list[PolicyProblem], computed: Mapping[str, Type] = _NOTHING
) -> tuple[Programs, tuple[PolicyProblem, ...]]:
    """Compile every expression; problems are appended to ``problems``, and the programs are then incomplete.

    The second value are probable mistakes in the expressions of a policy that matches only JobSets; none for other
    policies. ``computed`` are the types of gangctl's own variables.
    """
    environment = admission(params=spec.param_kind is not None, computed=computed, minor=minor)
    programs = _Compiler(environment, problems).programs(spec)
    if problems or not is_about_jobsets(spec.match_constraints):
        return programs, ()
    return programs, tuple(type_warnings(programs, environment))


@dataclass(slots=True)
class _Compiler:
    """Compiles the expressions of one policy, in the order in which the API server does."""

    environment: Environment
    problems: list[PolicyProblem]
    variables: dict[str, Type] = field(default_factory=dict)

    def programs(self, spec: GangPolicySpec) -> Programs:
        """Everything that can be compiled."""
        # First, without any variable: those of the API server cannot read variables either.
        conditions = [
            self._compile(condition.expression, f"spec.matchConditions[{index}].expression", BOOL)
            for index, condition in enumerate(spec.match_conditions)
        ]
        variables: dict[str, Expression] = {}
        for index, variable in enumerate(spec.variables):
            compiled = self._compile(variable.expression, f"spec.variables[{index}].expression")
            # The name of a wrong variable still exists: expressions that read it are not wrong for that.
            self.variables[variable.name] = DYN if compiled is None else stored(compiled.checked.type)
            if compiled is not None:
                variables[variable.name] = compiled
        rules = [self._rule(validation, index) for index, validation in enumerate(spec.validations)]
        place = "spec.auditAnnotations"
        annotations = [
            (note.key, self._compile(note.value_expression, f"{place}[{index}].valueExpression", STRING, NULL))
            for index, note in enumerate(spec.audit_annotations)
        ]
        return Programs(
            match_conditions=tuple(condition for condition in conditions if condition is not None),
            variables=variables,
            rules=tuple(rule for rule in rules if rule is not None),
            audit_annotations=tuple((key, value) for key, value in annotations if value is not None),
        )

    def _rule(self, validation: Validation, index: int) -> Rule | None:
        path = f"spec.validations[{index}]"
        condition = self._compile(validation.expression, f"{path}.expression", BOOL)
        message = None
        if validation.message_expression:
            message = self._compile(validation.message_expression, f"{path}.messageExpression", STRING)
        if condition is None:
            return None
        name = validation.name or str(index)
        return Rule(name, condition, validation.message, message, validation.reason)

    def _compile(self, text: str, path: str, *returns: Type) -> Expression | None:
        """An expression of exactly one of these types (dyn is none of them, as natively), of any without."""
        if not text.strip():
            return None  # its field reports it
        try:
            checked = check(text, replace(self.environment, variables=self.variables), returns=returns)
            return Expression(path, checked, compile_expression(checked))
        except CompileError as error:
            self.problems.append(problem_of_expression(path, text, error))
            return None

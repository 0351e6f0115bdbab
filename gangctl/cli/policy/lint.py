"""``gangctl policy lint``: what in policies never applies, never matters, costs much or says nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import click

from gangctl.api.documents import Document
from gangctl.api.meta import API_VERSION
from gangctl.cel.ast import Call, Literal, Node, walk
from gangctl.cel.limits import profile_of
from gangctl.cel.meter import EXPRESSION_STEPS, POLICY_STEPS
from gangctl.cli import options
from gangctl.cli.messages import plural
from gangctl.cli.output import answer_no, print_answer, wants_colour
from gangctl.cli.policy.bundle import kubernetes, name_of, no_policies, read_bundle
from gangctl.cli.policy.loading import (
    LoadedPolicies,
    Remark,
    Severity,
    in_order,
    orphans,
    refusal,
    remarks_of,
    try_to_load,
)
from gangctl.cli.policy.requests import FileCatalogue, now
from gangctl.cli.policy.writes import refused_writes
from gangctl.errors import InputError
from gangctl.policy.loaded import NO_SUCH_RULE, Expression, LoadedException, LoadedPolicy, unknown_names
from gangctl.policy.review import JOBSET_RULES

LONGEST: Final = timedelta(days=366)
"""An exception for longer is one that is forgotten."""
LISTS: Final = 32
"""Lists of lists of lists that are all longer than that are no JobSet's."""

_SCALARS: Final = "true", "false"
_UNTYPED: Final[Mapping[str, str]] = {"Undeclared": "UnknownField", "Type": "TypeMismatch"}
"""Codes of what is refused for the types of JobSets, although Kubernetes would only warn of it."""
_NULLS: Final = {"CREATE": ("oldObject",), "DELETE": ("object", "gang", "fit")}
"""What is null, by operation."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """One policy under inspection, and its file."""

    policy: LoadedPolicy
    document: Document

    def remark(self, code: str, path: str, message: str, *, hint: str = "", node: Node | None = None) -> Remark:
        """A warning about a field, or about a part of the expression in it."""
        start, length = (None, 1) if node is None else (node.span.start, node.span.end - node.span.start)
        return Remark(self.document, Severity.WARNING, code, path, message, hint, start, length, self.policy.name)

    def _about(self, code: str, expression: Expression, message: str) -> Remark:
        return self.remark(code, expression.path, message, node=expression.checked.node)

    def all(self, now: datetime) -> Iterator[Remark]:
        """Everything there is to say."""
        yield from self._types()
        yield from self._messages()
        yield from self._unused()
        yield from self._constants()
        yield from self._duplicates()
        yield from self._nulls()
        yield from self._costs()
        yield from self._deprecated()
        yield from self._writes(now)
        yield from self._parameters()

    def _types(self) -> Iterator[Remark]:
        """What is against the types of JobSets: Kubernetes would warn of it in the policy's status."""
        for remark in remarks_of(self.policy.warnings, self.document, self.policy.name):
            yield replace(remark, code=_UNTYPED.get(remark.code, remark.code))

    def _messages(self) -> Iterator[Remark]:
        for index, rule in enumerate(self.policy.programs.rules):
            path = f"spec.validations[{index}]"
            if not rule.message and rule.message_expression is None:
                hint = "say what to change, and by how much, in message or messageExpression"
                yield self.remark("MissingMessage", path, f"rule {rule.id} has no message", hint=hint)
            if not self.policy.native and rule.id == str(index):
                hint = "exceptions, tests and reports name rules; an index changes when a rule is added"
                yield self.remark("UnnamedRule", path, f"rule {rule.id} has no name", hint=hint)

    def _unused(self) -> Iterator[Remark]:
        programs = self.policy.programs
        used: set[str] = set()
        for expression in programs.expressions():
            if expression not in programs.variables.values():
                used |= expression.checked.variables
        # From the last to the first, because a variable can only read those before it.
        for name, variable in reversed(list(programs.variables.items())):
            if name in used:
                used |= variable.checked.variables
        for index, name in enumerate(programs.variables):
            if name not in used:
                path = f"spec.variables[{index}].name"
                yield self.remark("UnusedVariable", path, f"variable {name} is never used", hint="remove it")
        if self.policy.spec.param_kind is not None and "params" not in self.policy.reads:
            yield self.remark("UnusedParams", "spec.paramKind", "params is never used", hint="remove paramKind")

    def _constants(self) -> Iterator[Remark]:
        for expression in self.policy.programs.match_conditions:
            if (value := _constant(expression)) is not None:
                what = "no rule is ever reached" if value is False else "it decides nothing"
                yield self._about("ConstantCondition", expression, f"always {_SCALARS[not value]}: {what}")
        for rule in self.policy.programs.rules:
            # A literal false is the usual way to deny whatever the conditions match.
            if (value := _constant(rule.condition)) is not None and rule.condition.text.strip() != _SCALARS[1]:
                what = "the rule is never broken" if value else "the rule is always broken"
                yield self._about("ConstantRule", rule.condition, f"always {_SCALARS[not value]}: {what}")
        for expression in self.policy.programs.expressions():
            for node in _unreachable(expression.checked.node):
                message = "never evaluated, because what stands beside it decides"
                yield self.remark("Unreachable", expression.path, message, node=node)

    def _duplicates(self) -> Iterator[Remark]:
        first: dict[str, str] = {}
        for rule in self.policy.programs.rules:
            text = " ".join(rule.condition.text.split())
            if text in first:
                message = f"rule {rule.id} says the same as rule {first[text]}"
                yield self.remark("DuplicateRule", rule.condition.path, message, hint="remove one of them")
            first.setdefault(text, rule.id)
        conditions = [(one.path, " ".join(one.text.split())) for one in self.policy.programs.match_conditions]
        for path, text in conditions:
            if any(other in {f"!({text})", f"!{text}"} for _, other in conditions):
                yield self.remark("ConstantCondition", path, "contradicts another condition: no rule is ever reached")

    def _nulls(self) -> Iterator[Remark]:
        """Names that are null for every request that the policy is about."""
        rules = self.policy.spec.match_constraints.resource_rules or JOBSET_RULES
        operations = {operation for rule in rules for operation in rule.operations}
        (only,) = operations if len(operations) == 1 else ("",)
        for expression in self.policy.programs.expressions():
            for name in _NULLS.get(only, ()):
                if name in expression.checked.reads:
                    message = f"{name} is always null here: the policy is about {only} alone"
                    yield self.remark("AlwaysNull", expression.path, message)
        for expression in self.policy.programs.match_conditions:
            if "namespaceObject" in expression.checked.reads:
                message = "namespaceObject is always null in matchConditions"
                yield self.remark("AlwaysNull", expression.path, message, hint="use matchConstraints.namespaceSelector")

    def _costs(self) -> Iterator[Remark]:
        hint = "fewer loops within each other, or a variable for what does not change within one"
        for expression in self.policy.programs.expressions():
            longest = _longest(profile_of(expression.checked).bound, EXPRESSION_STEPS)
            if longest < LISTS:
                message = f"may cost more than its {EXPRESSION_STEPS} steps where a list is longer than {longest}"
                yield self.remark("Costly", expression.path, message, hint=hint, node=expression.checked.node)
            for node in walk(expression.checked.node):
                pattern = node.arguments[-1] if isinstance(node, Call) and node.function == "matches" else None
                if pattern is not None and not isinstance(pattern, Literal):
                    message = "the pattern is computed, and compiled anew for each object"
                    yield self.remark("ComputedPattern", expression.path, message, node=pattern)
        profiles = [profile_of(expression.checked) for expression in self.policy.programs.expressions()]
        longest = _longest(lambda elements: sum(profile.bound(elements) for profile in profiles), POLICY_STEPS)
        if longest < LISTS:
            together = f"may cost more than {POLICY_STEPS} steps for lists longer than {longest}"
            yield self.remark("Costly", "spec", f"its expressions together {together}", hint=hint)

    def _deprecated(self) -> Iterator[Remark]:
        version = str(self.document.value.get("apiVersion"))
        if self.policy.native and not version.endswith("/v1"):
            hint = "write v1: fields are the same"
            yield self.remark("Deprecated", "apiVersion", f"{version} is deprecated", hint=hint)

    def _writes(self, now: datetime) -> Iterator[Remark]:
        for rule, writes in refused_writes(self.policy, now):
            message = f"rule {rule.id} would refuse writes to JobSets that were there before it: {writes}"
            hint = "operations: [CREATE], or a condition that compares what the rule is about with oldObject"
            yield self.remark("RefusesUpdates", rule.condition.path, message, hint=hint)

    def _parameters(self) -> Iterator[Remark]:
        """Parameters in the namespace of the JobSet: ConfigMaps are in the role edit."""
        kind, reference = self.policy.spec.param_kind, self.policy.spec.param_ref
        if kind is None or reference is None or reference.namespace:
            return
        # Of most kinds it is not known without a cluster.
        if FileCatalogue([]).scope(kind.api_version, kind.kind) != "Cluster":
            message = "the parameters are in the namespace of the JobSet, where its owner may be able to change them"
            hint = "set namespace to one in which no tenant writes; its data can have a key for each namespace"
            yield self.remark("TenantParams", "spec.paramRef", message, hint=hint)


def _constant(expression: Expression) -> bool | None:
    """The value of a literal, or of what compares nothing but literals by being one."""
    node = expression.checked.node
    while isinstance(node, Call) and node.function == "!_" and isinstance(node.arguments[0], Literal):
        return not node.arguments[0].value
    return node.value if isinstance(node, Literal) and isinstance(node.value, bool) else None


def _unreachable(node: Node) -> Iterator[Node]:
    """Operands that a literal beside them makes superfluous."""
    for call in walk(node):
        if not isinstance(call, Call):
            continue
        if call.function in {"_&&_", "_||_"}:
            decides = call.function == "_||_"
            literals = [part for part in call.arguments if isinstance(part, Literal) and part.value is decides]
            if literals:
                yield from (part for part in call.arguments if part is not literals[0])
        elif call.function == "_?_:_" and isinstance(call.arguments[0], Literal):
            yield call.arguments[2 if call.arguments[0].value else 1]


def _longest(bound: Callable[[int], int], steps: int) -> int:
    """The length of lists up to which a cost stays within ``steps``; at most :data:`LISTS`."""
    low, high = 0, LISTS
    while low < high:
        middle = (low + high + 1) // 2
        if bound(middle) <= steps:
            low = middle
        else:
            high = middle - 1
    return low


def find_mistakes(loaded: LoadedPolicies, exceptions: Mapping[str, Document], now: datetime) -> Iterable[Remark]:
    """What is probably wrong with what was loaded; ``exceptions`` are the documents of exceptions by name."""
    remarks = [
        remark for policy in loaded.policies for remark in Inspection(policy, loaded.documents[policy.name]).all(now)
    ]
    rules = {policy.name: set(policy.rules) for policy in loaded.policies}
    for exception in loaded.exceptions:
        document = exceptions[exception.name]
        if exception.expired(now):
            message = f"expired at {exception.expires_at.isoformat()}"
            remarks.append(Remark(document, Severity.WARNING, "Expired", "spec.expiresAt", message, "remove it"))
        remarks += _too_wide(exception, document, now)
        remarks += [
            Remark(document, Severity.ERROR, "UnknownRule", problem.path, problem.message, problem.hint)
            for problem in unknown_names(exception, rules)
            # A policy may be in other files.
            if problem.kind == NO_SUCH_RULE
        ]
    return remarks


def _too_wide(exception: LoadedException, document: Document, now: datetime) -> Iterator[Remark]:
    """An exception that has no end, is for every JobSet, or for those whose owner wants it."""
    if exception.expires_at - now > LONGEST:
        message = f"ends in more than {LONGEST.days} days, at {exception.expires_at.isoformat()}"
        hint = "renew it when it is needed"
        yield Remark(document, Severity.WARNING, "NeverExpires", "spec.expiresAt", message, hint)
    match = exception.spec.match
    if match.namespaces or not match.namespace_selector.selects_everything:
        return
    hint = "write namespaces, or a namespaceSelector for labels that tenants cannot set"
    if match.names or not match.object_selector.selects_everything:
        message = "any tenant can give itself this exception: it chooses names and labels of its JobSets"
        yield Remark(document, Severity.ERROR, "TenantException", "spec.match", message, hint)
    else:
        message = "covers every JobSet in every namespace"
        yield Remark(document, Severity.ERROR, "CoversEverything", "spec.match", message, hint)


KIND: Final = "PolicyLintReport"
_COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


@click.command("lint")
@click.argument("files", nargs=-1, required=True, metavar="FILE|DIR|URL|-...", type=click.Path(allow_dash=True))
@options.output("table", "json", "yaml")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@kubernetes
@options.colour
def command(*, files: tuple[str, ...], form: str, strict: bool, kube: str) -> None:
    """Find mistakes in policies, with their places.

    Errors are what keeps a policy from being loaded, and fields that no JobSet has;
    warnings are rules that are never reached or would refuse Kueue's updates, missing messages,
    unused variables, expressions that may cost too much. Exceptions for everyone are errors, too. Each is shown as
    FILE:LINE:COLUMN, with the line and a caret.

    Exit code 0 when there are no errors, 1 when there are (with --strict also for warnings),
    2 when a policy cannot be loaded.

    \b
    Examples:
      gangctl policy lint policies/
      gangctl policy lint policy.yaml --strict -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    bundle = read_bundle(files)
    if not bundle.rules and not bundle.exceptions:
        raise no_policies(bundle)
    loaded = try_to_load(bundle, kube)
    exceptions = {name_of(document.value): document for document in bundle.exceptions}
    remarks = in_order([*loaded.remarks, *find_mistakes(loaded, exceptions, now())])
    message = "the policy that it binds is not in these files"
    remarks += [
        Remark(document, Severity.WARNING, "UnknownPolicy", "spec.policyName", message)
        for document in bundle.bindings
        if name_of(document.value) in orphans(bundle)
    ]
    checked = len(bundle.rules) + len(bundle.exceptions)
    _print(remarks, checked, form)
    if loaded.remarks:
        # Where and why was printed before.
        raise InputError(refusal(loaded.remarks).message)
    if any(strict or remark.severity is Severity.ERROR for remark in remarks):
        answer_no()


def _print(remarks: Sequence[Remark], checked: int, form: str) -> None:
    if form != "table":
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "checked": checked,
            "errors": sum(remark.severity is Severity.ERROR for remark in remarks),
            "warnings": sum(remark.severity is Severity.WARNING for remark in remarks),
            "findings": [remark.as_data() for remark in remarks],
        }
        print_answer(form, [document])
        return
    colour = wants_colour()
    for remark in remarks:
        first, *others = remark.lines()
        click.echo(click.style(first, fg=_COLOURS[remark.severity]) if colour else first)
        for line in others:
            click.echo(line)
    counts = Counter(remark.severity for remark in remarks)
    mistakes = [plural(counts[severity], severity.value) for severity in Severity if counts[severity]]
    click.echo(f"{plural(checked, 'object')} checked: {', '.join(mistakes) or 'no mistakes found'}")

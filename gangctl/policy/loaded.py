"""Policies that can be evaluated, the problems of those that cannot, and those that are in force together."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import orjson

from gangctl.api.objects import Object
from gangctl.cel.environments import CheckedExpression
from gangctl.cel.faults import CompileError
from gangctl.cel.program import Program
from gangctl.errors import FieldError, GangctlError
from gangctl.policy.model import GangPolicyExceptionSpec, GangPolicySpec, MatchResources
from gangctl.policy.reading import read_exception
from gangctl.policy.verdict import ValidationAction, is_native_name


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """One problem of a policy: its field, and for an expression the place in its text.

    ``path`` is a field path such as ``spec.validations[0].expression``; ``kind`` is an
    :class:`~gangctl.errors.ErrorKind` or a :class:`~gangctl.cel.faults.CompileKind`. ``offset`` and ``length`` count
    code points of ``expression`` and are None for other fields. ``binding`` is the name of a native policy's binding
    where the path is in that.
    """

    path: str
    message: str
    kind: str
    offset: int | None = None
    length: int | None = None
    hint: str = ""
    expression: str = ""
    binding: str = ""

    def __str__(self) -> str:
        place = f"binding {self.binding}: " if self.binding else ""
        return f"{place}{self.path}: {self.message}"

    @property
    def position(self) -> str:
        """Line and column in the expression, from 1; empty for other fields."""
        if self.offset is None:
            return ""
        lines = self.expression[: self.offset].split("\n")
        return f"line {len(lines)}, column {len(lines[-1]) + 1}"

    @property
    def advice(self) -> str:
        """What is wrong, and what to write instead."""
        return f"{self.message} ({self.hint})" if self.hint else self.message

    @property
    def sentence(self) -> str:
        """Field, position and advice, for text on its own."""
        return f"{', '.join(filter(None, (self.path, self.position)))}: {self.advice}"


def problem_of_field(error: FieldError, binding: str = "") -> PolicyProblem:
    """A problem outside of expressions."""
    return PolicyProblem(error.path, error.detail, str(error.kind), binding=binding)


def problem_of_expression(path: str, text: str, error: CompileError) -> PolicyProblem:
    """A problem in the expression ``text`` at ``path``."""
    return PolicyProblem(path, error.message, str(error.kind), error.offset, error.length, error.hint, text)


class PolicyError(GangctlError):
    """A policy that cannot be used: CLI exit code 2, a condition of its status; failurePolicy decides meanwhile.

    ``problems`` are all there are. ``broken`` has the readable parts of the policy: enough to know which requests it
    matches.
    """

    code = "InvalidPolicy"
    exit_code = 2

    def __init__(self, policy: str, problems: Iterable[PolicyProblem], broken: BrokenPolicy) -> None:
        """Keep the parts; the message joins the problems."""
        self.policy = policy
        self.problems = tuple(problems)
        self.broken = broken
        super().__init__(f"{policy}: {'; '.join(map(str, self.problems))}")


@dataclass(frozen=True, slots=True)
class BrokenPolicy:
    """A policy that could not be loaded.

    It applies where its constraints match; without any, or where these have a wrong shape, to every JobSet that is
    created. It refuses those only if its failurePolicy is written and is Fail.
    """

    name: str
    source: Object
    reason: str
    """The message for requests that it refuses."""
    spec: GangPolicySpec
    """The fields that were read, or those of a policy that has none."""
    fail_closed: bool
    actions: frozenset[ValidationAction]
    narrowing: MatchResources | None = None
    """``matchResources`` of a native binding, which have to match as well."""

    @property
    def native(self) -> bool:
        """Whether it is a ValidatingAdmissionPolicy."""
        return is_native_name(self.name)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression and its field."""

    path: str
    checked: CheckedExpression
    program: Program

    @property
    def text(self) -> str:
        """As it was written."""
        return self.checked.text


@dataclass(frozen=True, slots=True)
class Rule:
    """One validation; ``id`` is its name or its index."""

    id: str
    condition: Expression
    message: str
    message_expression: Expression | None
    reason: str


@dataclass(frozen=True, slots=True)
class Programs:
    """Everything of a policy that is evaluated, in the order in which it is written."""

    match_conditions: tuple[Expression, ...] = ()
    variables: Mapping[str, Expression] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    audit_annotations: tuple[tuple[str, Expression], ...] = ()

    def expressions(self) -> Iterator[Expression]:
        """All of them."""
        yield from self.match_conditions
        yield from self.variables.values()
        for rule in self.rules:
            yield rule.condition
            if rule.message_expression is not None:
                yield rule.message_expression
        for _, expression in self.audit_annotations:
            yield expression


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy that can be evaluated.

    ``source`` is the document (of a native policy both, as a ``v1`` List), from which another process loads it again.
    ``name`` is a native policy's and its binding's with a slash between them. ``warnings`` are probable mistakes, for
    which Kubernetes only warns, too.
    """

    name: str
    spec: GangPolicySpec
    source: Object
    native: bool
    programs: Programs
    warnings: tuple[PolicyProblem, ...] = ()
    narrowing: MatchResources | None = None
    generation: int = 0

    @property
    def fail_closed(self) -> bool:
        """Whether a failed evaluation counts as a violation."""
        return self.spec.failure_policy == "Fail"

    @property
    def actions(self) -> frozenset[ValidationAction]:
        """The consequences of a broken rule."""
        return frozenset(map(ValidationAction, self.spec.validation_actions))

    @property
    def rules(self) -> tuple[str, ...]:
        """Ids of the rules in findings, exceptions and reports."""
        return tuple(rule.id for rule in self.programs.rules)

    @property
    def validates(self) -> bool:
        """Whether it validates requests, beyond its defaults."""
        return bool(self.programs.rules or self.programs.audit_annotations)

    @property
    def reads(self) -> frozenset[str]:
        """The CEL variables that any expression reads: without ``gang``, no plan has to be made for it."""
        return frozenset[str]().union(*(expression.checked.reads for expression in self.programs.expressions()))

    @property
    def reads_namespace(self) -> bool:
        """Whether labels or other fields of the Namespace decide."""
        selects = self.narrowing is not None and not self.narrowing.namespace_selector.selects_everything
        return selects or self.spec.selects_namespaces or "namespaceObject" in self.reads


def refuses(policy: LoadedPolicy | BrokenPolicy) -> bool:
    """Whether a request that it cannot evaluate is refused: one that only warns or audits lets it pass."""
    return policy.fail_closed and ValidationAction.DENY in policy.actions


@dataclass(frozen=True, slots=True)
class LoadedException:
    """An exception ready for evaluation; ``source`` is its document."""

    name: str
    spec: GangPolicyExceptionSpec
    source: Object
    generation: int = 0

    @property
    def expires_at(self) -> datetime:
        """When it expires."""
        return self.spec.expires_at

    def expired(self, now: datetime) -> bool:
        """Whether it has expired."""
        return now >= self.spec.expires_at


def load_exception(document: Mapping[str, Any]) -> LoadedException:
    """Read an exception; :class:`~gangctl.errors.ValidationError` with everything that is wrong with it."""
    read = read_exception(document)
    return LoadedException(read.metadata.name, read.spec, document, read.metadata.generation)


KnownRules = Mapping[str, Collection[str] | None]
"""Ids of the rules of each policy that exists, by its name; None where they are not known."""

NO_SUCH_POLICY: Final = "NoSuchPolicy"
NO_SUCH_RULE: Final = "NoSuchRule"


def unknown_names(exception: LoadedException, known: KnownRules) -> Iterator[PolicyProblem]:
    """What an exception names that does not exist: policies (:data:`NO_SUCH_POLICY`), rules (:data:`NO_SUCH_RULE`)."""
    for index, named in enumerate(exception.spec.policies):
        path = f"spec.policies[{index}]"
        if named.name not in known:
            message, hint = f'there is no GangPolicy "{named.name}"', _nearest(named.name, known)
            yield PolicyProblem(f"{path}.name", message, NO_SUCH_POLICY, hint=hint)
        elif (rules := known[named.name]) is not None:
            for number, rule in enumerate(named.rules):
                if rule not in rules:
                    message = f'GangPolicy "{named.name}" has no rule "{rule}"'
                    listed = f"Its rules: {', '.join(sorted(rules))}" if rules else "It has no rules"
                    hint = " ".join(filter(None, (_nearest(rule, rules), listed)))
                    yield PolicyProblem(f"{path}.rules[{number}]", message, NO_SUCH_RULE, hint=hint)


def has_effect(exception: LoadedException, known: KnownRules) -> bool:
    """Whether any of the policies and rules that an exception names exists, or may."""
    for named in exception.spec.policies:
        if named.name in known:
            rules = known[named.name]
            if not named.rules or rules is None or not set(named.rules).isdisjoint(rules):
                return True
    return False


def _nearest(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(names), n=1)
    return f"did you mean {near[0]}?" if near else ""


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Each review is evaluated by exactly one set. ``generation`` counts the sets of one source.

    ``broken`` are policies that could not be loaded: those refuse that say failurePolicy Fail. ``exported`` are names
    of those that API servers evaluate at admission: only the scan evaluates them here.
    """

    generation: int = 0
    policies: tuple[LoadedPolicy, ...] = ()
    exceptions: tuple[LoadedException, ...] = ()
    broken: tuple[BrokenPolicy, ...] = ()
    exported: frozenset[str] = frozenset()

    @property
    def at_admission(self) -> tuple[LoadedPolicy, ...]:
        """The policies that gangctl evaluates at admission: those with defaults alone have their own webhook."""
        return tuple(policy for policy in self.policies if policy.validates and policy.name not in self.exported)


class PolicyData(NamedTuple):
    """The data from which another process loads a policy."""

    document: Object
    native: bool


class KeyedPolicy(NamedTuple):
    """A policy, and a key that is the same for the same content."""

    key: str
    policy: LoadedPolicy

    @property
    def source(self) -> PolicyData:
        """What it is loaded from."""
        return PolicyData(self.policy.source, self.policy.native)


class KeyedSet(NamedTuple):
    """A set with its keys."""

    policies: PolicySet
    entries: tuple[KeyedPolicy, ...]
    exceptions_key: str

    @property
    def keys(self) -> frozenset[str]:
        """Of all its policies and of its exceptions."""
        return frozenset([*(entry.key for entry in self.entries), self.exceptions_key])


def snapshot_of(policies: PolicySet) -> KeyedSet:
    """Compute the keys; done once for each set."""
    entries = tuple(KeyedPolicy(_policy_key(policy), policy) for policy in policies.policies)
    # JSON has no line breaks, so that they separate.
    digest = hashlib.sha256(b"\n".join(_text(exception.source) for exception in policies.exceptions))
    return KeyedSet(policies, entries, f"exceptions:{digest.hexdigest()}")


def _policy_key(policy: LoadedPolicy) -> str:
    # A native policy has an entry per binding.
    return hashlib.sha256(f"{policy.name}\n{policy.native}\n".encode() + _text(policy.source)).hexdigest()


def _text(document: Object) -> bytes:
    """The document without fields that do not change its meaning."""
    metadata = document.get("metadata")
    kept = {key: value for key, value in document.items() if key not in {"metadata", "status"}}
    if isinstance(metadata, dict):
        kept["metadata"] = {key: metadata.get(key) for key in ("name", "generation")}
    # Documents of YAML files have times, and keys that are no strings, neither of which JSON has.
    return orjson.dumps(kept, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)

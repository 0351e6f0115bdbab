"""MutatingAdmissionPolicies and their bindings, of ``admissionregistration.k8s.io/v1``.

They are in effect as soon as they are stored; a real server takes a moment. Left out: params, the types of variables
and of object literals, which are maps here, and ``jsonpatch.escapeKey``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api import jsonpatch
from gangctl.api.objects import copy, same
from gangctl.apiserver import expressions
from gangctl.apiserver.metadata import FieldCause
from gangctl.cel.faults import CompileError, EvalError, EvalKind
from gangctl.cel.tokens import Token, tokens
from gangctl.sandbox import errors, patches
from gangctl.sandbox.admission import hooks
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.managed import ATOMIC, Path, map_keys
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import Attributes, admission_request, variables
from gangctl.sandbox.store import ObjectStore, Stored

_LITERALS: Final = frozenset({"Object", "JSONPatch"})
_FIELDS: Final[Mapping[str, str]] = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
"""The field of a mutation by its ``patchType``."""


@dataclass(frozen=True, slots=True)
class _Mutation:
    """One mutation: a JSON patch, or an ApplyConfiguration."""

    patches: bool
    evaluate: expressions.Evaluate


@dataclass(frozen=True, slots=True)
class _Policy:
    """One policy."""

    name: str
    match: hooks.Match
    conditions: expressions.MatchConditions
    variables: Mapping[str, expressions.Evaluate]
    mutations: tuple[_Mutation, ...]
    ignores_failure: bool
    again_if_needed: bool


@dataclass(frozen=True, slots=True)
class _Binding:
    """One binding; without ``match`` it is for every request that its policy is for."""

    name: str
    policy: str
    match: hooks.Match | None


class Policies:
    """The policies in a store, in the order of their names; a policy without a binding has no effect."""

    def __init__(self, store: ObjectStore) -> None:
        """Read from ``store`` for each request."""
        self._store = store
        self._read: dict[tuple[str, str], tuple[Stored, Any]] = {}

    def mutate(self, attributes: Attributes, obj: Object, invocations: hooks.Invocations) -> Object:
        """``obj`` after the policies for this request; StatusError 403 for an error that is not to be ignored."""
        # A deletion has no object to change: the API refuses rules that name this operation.
        if attributes.operation == "DELETE":
            return obj
        failures: list[str] = []
        applied = False
        for policy, binding in self._matching(attributes, obj):
            key = policy.name, binding.name
            names = variables(admission_request(attributes, obj))
            # As in dispatchInvocations of the API server, a Namespace has none, although it is in itself.
            in_itself = attributes.kind.storage == "namespaces"
            names["namespaceObject"] = None if in_itself else hooks.namespace_of(attributes, self._store)
            reasons: list[str] = []
            if _holds(policy, names, reasons) and invocations.includes(key):
                before, applied = obj, True
                obj = _applied(policy, attributes, obj, names, reasons)
                if not same(obj, before):
                    invocations.changed()
                if policy.again_if_needed:
                    invocations.called(key)
            if not policy.ignores_failure:
                said = f"policy '{policy.name}' with binding '{binding.name}' denied request"
                failures += [f"{said}: {failure}" for failure in reasons]
        if applied:
            # The server counts the last policy as a change in any case.
            invocations.changed()
        invocations.end(obj)
        if failures:
            causes = [FieldCause("", "", failure) for failure in failures]
            error = errors.forbidden(attributes.kind, attributes.name, "", causes)
            raise StatusError(error.code, "Invalid", failures[0], error.details)
        return obj

    def _matching(self, attributes: Attributes, obj: Object) -> Iterator[tuple[_Policy, _Binding]]:
        """The policies and bindings for a request; the labels are those before the first of them."""
        stored = sorted(self._store.items(hooks.POLICIES), key=_name)
        if not stored:
            return
        bindings = [
            self._cached(hooks.BINDINGS, binding) for binding in sorted(self._store.items(hooks.BINDINGS), key=_name)
        ]
        namespace = hooks.namespace_of(attributes, self._store)
        for policy in (self._cached(hooks.POLICIES, policy) for policy in stored):
            if not policy.match.includes(attributes, obj, namespace):
                continue
            for binding in bindings:
                if binding.policy == policy.name and (
                    binding.match is None or binding.match.includes(attributes, obj, namespace)
                ):
                    yield policy, binding

    def _cached(self, storage: str, stored: Stored) -> Any:
        key = storage, _name(stored)
        known = self._read.get(key)
        # What is stored is frozen, so that another state is another object.
        if known is None or known[0] is not stored:
            known = self._read[key] = stored, (_policy if storage == hooks.POLICIES else _binding)(stored.obj)
        return known[1]


def _holds(policy: _Policy, names: Object, failures: list[str]) -> bool:
    try:
        return policy.conditions.hold(names)
    except expressions.ConditionError as error:
        failures.append(str(error))
        return False


def _applied(policy: _Policy, attributes: Attributes, obj: Object, names: Object, failures: list[str]) -> Object:
    """The object after all mutations; the server goes on after one that fails."""
    for mutation in policy.mutations:
        names["object"] = obj
        try:
            obj = _mutated(attributes, obj, mutation, names, _Variables(policy.variables, names))
        except expressions.ConditionError as error:
            failures.append(str(error))
    return obj


def _name(stored: Stored) -> str:
    return str(stored.obj["metadata"]["name"])


def _policy(obj: Object) -> _Policy:
    spec = obj["spec"]
    evaluate = {place: _compiled(text, names) for place, text, names in _expressions(spec)}
    return _Policy(
        name=obj["metadata"]["name"],
        match=hooks.Match.of(spec["matchConstraints"]),
        conditions=expressions.MatchConditions(spec.get("matchConditions") or ()),
        variables={name: evaluate[f"variables[{at}]"] for at, name in enumerate(_variable_names(spec))},
        mutations=tuple(
            _Mutation(mutation["patchType"] == "JSONPatch", evaluate[place])
            for at, mutation in enumerate(spec["mutations"])
            for place in [_place(at, mutation)]
        ),
        ignores_failure=spec["failurePolicy"] == "Ignore",
        again_if_needed=spec["reinvocationPolicy"] == "IfNeeded",
    )


def _variable_names(spec: Object) -> tuple[str, ...]:
    return tuple(variable["name"] for variable in spec.get("variables") or ())


def _place(at: int, mutation: Object) -> str:
    return f"mutations[{at}].{_FIELDS[mutation['patchType']]}"


def _expressions(spec: Object) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Where the expressions of variables and mutations are, their texts, and the variables that they may read."""
    names = _variable_names(spec)
    for at, variable in enumerate(spec.get("variables") or ()):
        yield f"variables[{at}]", variable.get("expression", ""), names[:at]
    for at, mutation in enumerate(spec["mutations"]):
        place = _place(at, mutation)
        yield place, mutation[place.rpartition(".")[2]].get("expression", ""), names


def problems(spec: Object) -> Iterator[tuple[str, str, str]]:
    """Expressions of a policy that do not compile: the field, the text, and what is wrong."""
    for at, condition in enumerate(spec.get("matchConditions") or ()):
        if problem := expressions.check(condition.get("expression", "")):
            yield f"matchConditions[{at}].expression", condition.get("expression", ""), problem
    for place, text, names in _expressions(spec):
        try:
            _compiled(text, names)
        except expressions.ConditionError as error:
            yield f"{place}.expression", text, str(error)


def _compiled(text: str, names: tuple[str, ...]) -> expressions.Evaluate:
    try:
        literal = _with_maps(text)
    except CompileError as error:
        raise expressions.ConditionError(f"compilation failed: {error.message}") from error
    evaluate = expressions.compiled(literal, expressions.Role.MUTATION, names)

    def named(roots: Mapping[str, Any], computed: Mapping[str, Any]) -> Any:
        try:
            return evaluate(roots, computed)
        except expressions.ConditionError as error:
            raise expressions.ConditionError(f"expression '{text}' resulted in error: {error}") from error

    return named


def _with_maps(text: str) -> str:
    """An expression with ``{'replicas': dyn(1)}`` for ``Object.spec{replicas: 1}``."""
    words = [*tokens(text)]
    written: list[str] = []
    brackets: list[str] = []
    at = 0
    while at < len(words):
        word, inside = words[at], brackets[-1] if brackets else ""
        at += 1
        if end := _end_of_type(words, at - 1):
            brackets.append("literal")
            written.append("{")
            at = end
        elif inside == "literal" and word.kind in {"name", "escaped"}:
            brackets[-1] = "value"
            # In dyn(): the values of a map literal have one type in CEL, fields have several.
            written.append(f"'{word.text.strip('`')}': dyn(")
            # The colon.
            at += 1
        elif inside == "value" and word.is_operator(",", "}"):
            brackets[-1] = "literal"
            written.append(")")
            at -= 1
        else:
            if word.is_operator("(", "[", "{"):
                brackets.append(word.text)
            elif word.is_operator(")", "]", "}") and brackets:
                brackets.pop()
            written.append(word.text)
    return " ".join(written)


def _end_of_type(words: Sequence[Token], at: int) -> int:
    """Behind the ``{`` of an object literal that begins here; 0 if none does."""
    if words[at].kind != "name" or words[at].text not in _LITERALS:
        return 0
    for end in range(at + 1, len(words)):
        if words[end].is_operator("{"):
            return end + 1
        if not words[end].is_operator(".") and words[end].kind != "name":
            return 0
    return 0


class _Variables(Mapping[str, Any]):
    """Values of variables, each computed when it is read first."""

    def __init__(self, expressions: Mapping[str, expressions.Evaluate], roots: Mapping[str, Any]) -> None:
        self._expressions, self._roots = expressions, roots
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            try:
                self._values[name] = self._expressions[name](self._roots, self)
            except expressions.ConditionError as error:
                message = f'composited variable "{name}" fails to evaluate: {error}'
                raise EvalError(EvalKind.OTHER, message) from error
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._expressions)

    def __len__(self) -> int:
        return len(self._expressions)


def _binding(obj: Object) -> _Binding:
    resources = obj["spec"].get("matchResources")
    match = None
    if resources is not None:
        # A binding without rules adds none to those of its policy.
        anything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/*"]}
        match = hooks.Match.of({**resources, "resourceRules": resources.get("resourceRules") or [anything]})
    return _Binding(obj["metadata"]["name"], obj["spec"]["policyName"], match)


def _mutated(attributes: Attributes, obj: Object, mutation: _Mutation, roots: Object, computed: _Variables) -> Object:
    """The object after one mutation; :class:`ConditionError` where that fails."""
    from gangctl.cel.evaluation.conversions import plain  # noqa: PLC0415 -- see compiled

    value = plain(mutation.evaluate(roots, computed))
    if mutation.patches:
        if not isinstance(value, list) or not all(isinstance(operation, dict) for operation in value):
            subject = "type mismatch: JSONPatchType.expression"
            raise expressions.ConditionError(f"{subject} should evaluate to array of JSONPatch")
        try:
            return jsonpatch.apply(obj, value)
        # The server does not apply a patch whose test fails, and admits the object.
        except jsonpatch.FailedTestError:
            return obj
        except jsonpatch.PatchError as error:
            raise expressions.ConditionError(f"JSON Patch: {error}") from error
    if not isinstance(value, dict):
        raise expressions.ConditionError(f"invalid return type: {type(value).__name__}")
    names = (attributes.kind.kind,)
    if atomic := [*_atomics(value, names)]:
        message = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise expressions.ConditionError(f"error applying patch: invalid ApplyConfiguration: {message}")
    merged: Object = patches.merge_applied(copy(obj), value, names)
    return merged


def _atomics(value: Any, names: Path) -> Iterator[str]:
    """The paths in an ApplyConfiguration that server-side apply replaces as a whole."""
    is_atomic = names[-1] in ATOMIC if isinstance(value, dict) else isinstance(value, list) and map_keys(names) is None
    if is_atomic:
        yield "".join(f".{name}" for name in names[1:])
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from _atomics(item, (*names, key))
    for item in value if isinstance(value, list) else ():
        yield from _atomics(item, names) if isinstance(item, dict) else ()

"""Types of every part of an expression, by cel-go's rules; the first mismatch is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

from gangctl.cel import types
from gangctl.cel.ast import Call, Comprehension, Index, ListOf, Literal, MapOf, Name, Node, Select, Span
from gangctl.cel.declarations import FUNCTIONS
from gangctl.cel.environments import Environment
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.macros import is_bind
from gangctl.cel.types import BOOL, DYN, Type, list_of, map_of, optional_of
from gangctl.cel.unify import (
    UNSUPPORTED,
    Unifier,
    did_you_mean,
    dotted,
    is_optional,
    is_variable,
    more_general,
    no_overload,
    same,
    type_named,
    unknown_function,
)

_LITERALS: Final = {
    "null": types.NULL,
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
}


class Inference:
    """One expression's inference: :attr:`types` by ``id`` of the node, and the names that the expression uses."""

    def __init__(self, environment: Environment) -> None:
        """Start without types."""
        self.types: dict[int, Type] = {}
        self.reads: set[str] = set()
        self.variables: set[str] = set()
        self.functions: set[str] = set()
        self._environment = environment
        self._unifier = Unifier()
        self._scopes: list[Mapping[str, Type]] = []
        self._kinds: dict[type[Node], Callable[..., Type]] = {
            Literal: self._literal,
            Name: self._name,
            Select: self._select,
            Index: self._index,
            Call: self._call,
            ListOf: self._list,
            MapOf: self._map,
            Comprehension: self._comprehension,
        }

    def infer(self, node: Node) -> Type:
        """The type of a whole expression; CompileError of kind UNDECLARED, TYPE or UNSUPPORTED."""
        type_ = self._unifier.resolved(self._type(node), free=False)
        # At the end, because a later part may bind a type variable of an earlier one.
        self.types = {key: self._unifier.resolved(inferred, free=False) for key, inferred in self.types.items()}
        return type_

    def _type(self, node: Node) -> Type:
        type_ = self._kinds[type(node)](node)
        self.types[id(node)] = type_
        return type_

    def _literal(self, node: Literal) -> Type:
        return _LITERALS[node.kind]

    def _name(self, node: Name) -> Type:
        for scope in reversed(self._scopes):
            if node.name in scope:
                return scope[node.name]
        if node.name == "variables":
            hint = "write variables.name"
            _refuse(CompileKind.UNSUPPORTED, "'variables' is no value of its own", node.span, hint)
        root = self._environment.roots.get(node.name)
        if root is not None:
            if root.name.startswith("kubernetes.authorization."):
                message = f"'{node.name}' would ask the API server at each request, which policies of gangctl do not"
                _refuse(CompileKind.UNSUPPORTED, message, node.span)
            self.reads.add(node.name)
            return root
        named = type_named(node.name)
        if named is None:
            if node.name in UNSUPPORTED:
                _refuse(CompileKind.UNSUPPORTED, f"the type {node.name} cannot be named", node.span)
            known = {*self._environment.roots, *(name for scope in self._scopes for name in scope), "variables"}
            hint = did_you_mean(node.name, known)
            _refuse(CompileKind.UNDECLARED, f"there is no variable '{node.name}'", node.span, hint)
        return named

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _select(self, node: Select) -> Type:
        if isinstance(node.operand, Name) and node.operand.name == "variables" and not self._is_local("variables"):
            return self._variable(node)
        name = dotted(node)
        if name is not None:
            # ``net.IP`` is a field where there is a variable ``net``, and a type elsewhere.
            root = name.partition(".")[0]
            if root not in self._environment.roots and not self._is_local(root):
                named = type_named(name)
                if named is not None:
                    return named
                if name in UNSUPPORTED:
                    _refuse(CompileKind.UNSUPPORTED, f"the type {name} cannot be named", node.span)
        operand = self._unifier.resolved(self._type(node.operand))
        unwrapped = operand.parameters[0] if is_optional(operand) else operand
        type_ = self._field(unwrapped, node)
        if node.test:
            return BOOL
        return optional_of(type_) if node.optional or is_optional(operand) else type_

    def _variable(self, node: Select) -> Type:
        type_ = self._environment.variables.get(node.field)
        if type_ is None:
            hint = did_you_mean(node.field, self._environment.variables)
            if not hint:
                hint = "variables are declared in spec.variables, before they are used"
            _refuse(CompileKind.UNDECLARED, f"there is no variable 'variables.{node.field}'", node.span, hint)
        self.variables.add(node.field)
        self.reads.add("variables")
        if node.test:
            return BOOL
        return optional_of(type_) if node.optional else type_

    def _field(self, operand: Type, node: Select) -> Type:
        if operand.fields is not None:
            type_ = operand.fields.get(node.field)
            if type_ is None:
                hint = did_you_mean(node.field, operand.fields) or f"its fields are {', '.join(sorted(operand.fields))}"
                message = f"{operand} has no field '{node.field}'"
                _refuse(CompileKind.UNDECLARED, message, _field_span(node), hint)
            return type_
        if operand.name == "map":
            return operand.parameters[1]
        if is_variable(operand):
            # As cel-go: a later part must not give it a type that lacks the field.
            self._unifier.assign([DYN], [operand])
            return DYN
        if operand.name != "dyn":
            hint = "elements of a list are selected by [index]" if operand.name == "list" else ""
            _refuse(CompileKind.TYPE, f"{operand} has no fields", _field_span(node), hint)
        return DYN

    def _index(self, node: Index) -> Type:
        arguments = (self._type(node.operand), self._type(node.index))
        function = "_[?_]" if node.optional else "_[_]"
        return self._resolve(function, None, arguments, node.span)

    def _call(self, node: Call) -> Type:
        if is_bind(node):
            _refuse(CompileKind.UNDECLARED, "there is no cel.bind", node.span, did_you_mean("cel", ()))
        if node.function not in FUNCTIONS:
            if node.target is not None:
                self._type(node.target)
            raise unknown_function(node, FUNCTIONS)
        # Before the target, as in cel-go's checkCall.
        arguments = [self._type(argument) for argument in node.arguments]
        if node.function in {"_&&_", "_||_"}:
            for operand, type_ in zip(node.arguments, arguments, strict=True):
                self._expect_bool(operand, type_, node.function[1:3])
            return BOOL
        target = None if node.target is None else self._type(node.target)
        self.functions.add(node.function)
        if target is not None:
            arguments.insert(0, target)
        return self._resolve(node.function, target, arguments, node.name_span)

    def _resolve(self, function: str, target: Type | None, arguments: Sequence[Type], span: Span) -> Type:
        """The result of all overloads that match; dyn where they differ."""
        result: Type | None = None
        for overload in FUNCTIONS[function]:
            if overload.method != (target is not None):
                continue
            parameters, produced = self._unifier.instance(overload)
            if not self._unifier.assign(arguments, parameters):
                continue
            produced = self._unifier.resolved(produced)
            if result is None:
                result = produced
            elif result.name != "dyn" and not same(result, produced):
                result = DYN
        if result is None:
            shown = [self._unifier.resolved(argument, free=False) for argument in arguments]
            raise no_overload(function, shown, FUNCTIONS[function], span, method=target is not None)
        return result

    def _expect_bool(self, node: Node, type_: Type, where: str) -> None:
        if not self._unifier.assign([type_], [BOOL]):
            actual = self._unifier.resolved(type_, free=False)
            _refuse(CompileKind.TYPE, f"{where} takes bool, but this is {actual}", node.span)

    def _list(self, node: ListOf) -> Type:
        joined: Type | None = None
        for number, element in enumerate(node.elements):
            type_ = self._type(element)
            if number in node.optional:
                type_ = self._optional_entry(element, type_)
            joined = self._join(joined, type_)
        return list_of(joined or self._unifier.fresh())

    def _map(self, node: MapOf) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for number, (key, value) in enumerate(node.entries):
            keys = self._join(keys, self._type(key))
            type_ = self._type(value)
            if number in node.optional:
                type_ = self._optional_entry(value, type_)
            values = self._join(values, type_)
        return map_of(keys or self._unifier.fresh(), values or self._unifier.fresh())

    def _optional_entry(self, node: Node, type_: Type) -> Type:
        resolved = self._unifier.resolved(type_)
        if is_optional(resolved):
            return resolved.parameters[0]
        # kube-apiserver panics over dyn here, except within a format: the context decides whether it is accepted.
        kind = CompileKind.UNSUPPORTED if resolved.name == "dyn" else CompileKind.TYPE
        hint = "write object.?field or optional.of(...)"
        return _refuse(kind, f"an entry with '?' takes an optional value, but this is {resolved}", node.span, hint)

    def _join(self, before: Type | None, type_: Type) -> Type:
        if before is None:
            return type_
        if self._unifier.assign([before], [type_]):
            return more_general(before, type_)
        return DYN  # which only the arguments of format may be: see check_literals

    def _comprehension(self, node: Comprehension) -> Type:
        target = self._unifier.resolved(self._type(node.target))
        if node.macro in {"optMap", "optFlatMap"}:
            return self._optional_macro(node, target)
        scope, key = self._loop_variables(node, target)
        self._scopes.append(scope)
        inner = [self._type(argument) for argument in node.arguments]
        self._scopes.pop()
        if len(inner) > 1 or node.macro in {"all", "exists", "exists_one", "existsOne", "filter"}:
            self._expect_bool(node.arguments[0], inner[0], f"the condition of {node.macro}")
        return self._loop_result(node, target, key, scope[node.names[0]], inner[-1])

    def _loop_variables(self, node: Comprehension, target: Type) -> tuple[dict[str, Type], Type]:
        """The types of the variables, and the type of keys."""
        if target.name == "list":
            key, value = types.INT, target.parameters[0]
            one = value
        elif target.name == "map":
            key, value = target.parameters
            one = key
        else:
            if not (target.name == "dyn" or is_variable(target)):
                hint = "macros go over lists, and over the keys of maps"
                _refuse(CompileKind.TYPE, f"{node.macro} cannot go over {target}", node.target.span, hint)
            self._unifier.assign([DYN], [target])
            key = value = one = DYN
        scope = {node.names[0]: one} if len(node.names) == 1 else dict(zip(node.names, (key, value), strict=True))
        return scope, key

    def _loop_result(self, node: Comprehension, target: Type, key: Type, variable: Type, inner: Type) -> Type:
        if node.macro in {"map", "transformList"}:
            return list_of(inner)
        if node.macro == "filter":
            return list_of(variable)
        if node.macro == "transformMap":
            return map_of(key, inner)
        if node.macro == "transformMapEntry":
            result = map_of(self._unifier.fresh(), self._unifier.fresh())
            if not self._unifier.assign([inner], [result]):
                _refuse(CompileKind.TYPE, f"transformMapEntry makes maps, but this is {inner}", node.arguments[-1].span)
            return self._unifier.resolved(result)
        if node.macro == "sortBy":
            return self._sorted(node, target, variable, inner)
        return BOOL

    def _sorted(self, node: Comprehension, target: Type, variable: Type, inner: Type) -> Type:
        # Those that cel-go's sortByMacro takes, whatever their types; an index is a call there.
        fits = isinstance(node.target, (ListOf, Select, Name, Comprehension, Call, Index))
        keys = ("bool", "bytes", "double", "int", "string", "uint", types.DURATION.name, types.TIMESTAMP.name)
        key = self._unifier.resolved(inner)
        if not fits or target.name == "map":
            _refuse(CompileKind.TYPE, f"sortBy cannot sort {target}", node.target.span)
        if not (is_variable(key) or key.name in {*keys, "dyn"}):
            _refuse(CompileKind.TYPE, f"sortBy cannot order {key}", node.arguments[-1].span)
        if target.name != "list" and (is_variable(key) or key.name == "dyn"):
            return DYN  # any of the overloads, each with elements of its own type
        return list_of(variable)

    def _optional_macro(self, node: Comprehension, target: Type) -> Type:
        if not (is_optional(target) or target.name == "dyn" or is_variable(target)):
            message = f"{node.macro} takes an optional value, but this is {target}"
            _refuse(CompileKind.TYPE, message, node.target.span, "a.?b and optional.of(a) are optional")
        value = target.parameters[0] if is_optional(target) else DYN
        self._scopes.append({node.names[0]: value})
        inner = self._type(node.arguments[0])
        self._scopes.pop()
        if node.macro == "optMap":
            return optional_of(inner)
        if not self._unifier.assign([inner], [optional_of(self._unifier.fresh())]):
            type_ = self._unifier.resolved(inner, free=False)
            message = f"optFlatMap makes an optional value, but this is {type_}"
            _refuse(CompileKind.TYPE, message, node.arguments[0].span, "use optMap")
        return self._unifier.resolved(inner)


def _field_span(node: Select) -> Span:
    """The field alone if it ends the node, as it does outside of has()."""
    if node.test:
        return node.span
    # A field that is not an identifier is in backticks.
    marks = 0 if node.field.isidentifier() else 2
    return Span(max(node.span.start, node.span.end - len(node.field) - marks), node.span.end)


def _refuse(kind: CompileKind, message: str, span: Span, hint: str = "") -> NoReturn:
    raise CompileError(kind, message, span.start, span.end - span.start, hint=hint)

"""Text to tree: cel-python's grammar for the shape, CEL's own rules where that grammar is too permissive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from gangctl.cel import limits
from gangctl.cel.ast import Call, Index, ListOf, Literal, MapOf, Name, Node, Select, Span
from gangctl.cel.declarations import NAMESPACED
from gangctl.cel.desugar import ENTRY, FIELD, INDEX, SELECT, SUGAR, plain
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.grammar import RESERVED, parse_tokens
from gangctl.cel.literals import bytes_value, double_value, int_value, string_value, uint_value
from gangctl.cel.macros import expand
from gangctl.cel.tokens import Token, tokens

if TYPE_CHECKING:
    from lark import Token as Terminal
    from lark import Tree

    Branch = Tree[Terminal]

_THROUGH: Final = frozenset(
    [
        "expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member",
        "primary", "paren_expr",
    ]
)  # fmt: skip
_OPERATORS: Final = {
    "relation_lt": "_<_",
    "relation_le": "_<=_",
    "relation_gt": "_>_",
    "relation_ge": "_>=_",
    "relation_eq": "_==_",
    "relation_ne": "_!=_",
    "relation_in": "@in",
    "addition_add": "_+_",
    "addition_sub": "_-_",
    "multiplication_mul": "_*_",
    "multiplication_div": "_/_",
    "multiplication_mod": "_%_",
}
_WITHOUT_BACKTICKS: Final = frozenset({"1.35", "1.36"})


def parse(text: str, minor: str = "1.37") -> Node:
    """The tree of an expression with macros expanded; CompileError of kind SYNTAX, LIMIT or UNSUPPORTED.

    ``minor`` is that of Kubernetes, whose grammar has fields in backticks since 1.37.
    """
    limits.check_text(text)
    words = plain(text)
    if minor in _WITHOUT_BACKTICKS:
        # From the text: in ``words`` these fields are calls already.
        _check_backticks(text)
    limits.check_nesting(words)
    _check_names(text, words)
    node = _Reader(words).read(parse_tokens(words))
    limits.check_tree(node)
    return node


def _check_names(text: str, words: Sequence[Token]) -> None:
    """Refuse names that only rewriting makes: in the user's text they would be mistaken for rewritten ones."""
    for word in words:
        if word.kind == "name" and word.text in SUGAR and text[word.start : word.end] == word.text:
            message = f"the name '{word.text}' is taken"
            raise CompileError(CompileKind.SYNTAX, message, word.start, len(word.text))


def _check_backticks(text: str) -> None:
    for word in tokens(text):
        if word.kind == "escaped":
            message = "fields in backticks exist since Kubernetes 1.37"
            hint = f"write ['{word.text.strip('`')}']"
            raise CompileError(CompileKind.SYNTAX, message, word.start, word.end - word.start, hint=hint)


class _Reader:
    """Walks cel-python's tree, whose positions are indexes of tokens."""

    def __init__(self, words: Sequence[Token]) -> None:
        self._words = words
        self._depth = 0
        self._readers: dict[str, Callable[[Branch], Node]] = {
            "expr": self._condition,
            "conditionalor": self._logic,
            "conditionaland": self._logic,
            "relation": self._binary,
            "addition": self._binary,
            "multiplication": self._binary,
            "unary": self._unary,
            "literal": self._literal,
            "ident": self._name,
            "ident_arg": self._function,
            "member_dot": self._select,
            "member_dot_arg": self._method,
            "member_index": self._index,
            "list_lit": self._list,
            "map_lit": self._map,
            "member_object": self._unsupported,
            "dot_ident": self._unsupported,
            "dot_ident_arg": self._unsupported,
        }

    def read(self, tree: Branch) -> Node:
        """A node of any kind."""
        tree = _inner(tree)
        self._depth += 1
        if self._depth > limits.DEPTH:
            raise limits.too_deep(f"more than {limits.DEPTH} operators within each other", self._span(tree).start)
        node = self._readers[tree.data](tree)
        self._depth -= 1
        return node

    def _span(self, tree: Branch) -> Span:
        start, end = _positions(tree)
        return Span(self._words[start].start, self._words[end - 1].end)

    def _word(self, index: int) -> Token:
        return self._words[index]

    def _place(self, index: int) -> Span:
        return Span(self._words[index].start, self._words[index].end)

    def _condition(self, tree: Branch) -> Node:
        parts = tuple(self.read(branch) for branch in _branches(tree))
        question = self._place(_positions(_branches(tree)[0])[1])
        return Call(self._span(tree), "_?_:_", None, parts, question)

    def _logic(self, tree: Branch) -> Node:
        """``a && b && c`` as a balanced tree, as in cel-go: chains of any length stay flat."""
        function = "_||_" if tree.data == "conditionalor" else "_&&_"
        terms: list[Branch] = []
        operators: list[int] = []
        first = tree
        while first.data == tree.data and len(first.children) > 1:
            first, right = _branches(first)
            terms.append(right)
            operators.append(_positions(first)[1])
        terms.append(first)
        nodes = [self.read(term) for term in reversed(terms)]
        places = [self._place(operator) for operator in reversed(operators)]
        return _balanced(function, nodes, places)

    def _binary(self, tree: Branch) -> Node:
        operator, right = _branches(tree)
        place = self._place(_positions(operator)[1] - 1)
        arguments = (self.read(_branches(operator)[0]), self.read(right))
        return Call(self._span(tree), _OPERATORS[operator.data], None, arguments, place)

    def _unary(self, tree: Branch) -> Node:
        """``!!a`` is ``a``, ``!-a`` is not CEL."""
        operator, operand = _branches(tree)
        count = 1
        while operand.data == "unary" and len(operand.children) > 1:
            following, deeper = _branches(operand)
            if following.data != operator.data:
                word = self._word(_positions(following)[0])
                hint = f"write {self._word(_positions(operator)[0]).text}({word.text}...)"
                message = f"'{word.text}' cannot stand here"
                raise CompileError(CompileKind.SYNTAX, message, word.start, hint=hint)
            operand = deeper
            count += 1
        node = self.read(operand)
        if count % 2 == 0:
            return node
        function = "!_" if operator.data == "unary_not" else "-_"
        return Call(self._span(tree), function, None, (node,), self._place(_positions(operator)[0]))

    def _literal(self, tree: Branch) -> Node:
        word = self._word(_positions(tree)[0])
        span = Span(word.start, word.end)
        if word.kind == "string":
            return Literal(span, "string", string_value(word))
        if word.kind == "bytes":
            return Literal(span, "bytes", bytes_value(word))
        if word.kind == "int":
            return Literal(span, "int", int_value(word))
        if word.kind == "uint":
            return Literal(span, "uint", uint_value(word))
        if word.kind == "float":
            return Literal(span, "double", double_value(word))
        if word.text == "null":
            return Literal(span, "null", None)
        return Literal(span, "bool", word.text == "true")

    def _name(self, tree: Branch) -> Node:
        word = self._word(_positions(tree)[0])
        _check_reserved(word)
        return Name(Span(word.start, word.end), word.text)

    def _function(self, tree: Branch) -> Node:
        word = self._word(_positions(tree)[0])
        _check_reserved(word)
        place = Span(word.start, word.end)
        return expand(Call(self._span(tree), word.text, None, self._arguments(tree), place))

    def _select(self, tree: Branch) -> Node:
        operand = self.read(_branches(tree)[0])
        return Select(self._span(tree), operand, self._word(_positions(tree)[1] - 1).text)

    def _method(self, tree: Branch) -> Node:
        target = _branches(tree)[0]
        index = _positions(target)[1] + 1
        word = self._word(index)
        if word.text in SUGAR:
            return self._sugar(tree, word, self.read(target))
        operand = self.read(target)
        arguments = self._arguments(tree)
        place = Span(word.start, word.end)
        if isinstance(operand, Name) and f"{operand.name}.{word.text}" in NAMESPACED:
            whole = Span(operand.span.start, word.end)
            return Call(self._span(tree), f"{operand.name}.{word.text}", None, arguments, whole)
        return expand(Call(self._span(tree), word.text, operand, arguments, place))

    def _sugar(self, tree: Branch, word: Token, operand: Node) -> Node:
        arguments = self._arguments(tree)
        if len(arguments) != 1:
            raise CompileError(CompileKind.SYNTAX, "[?...] takes one value", word.start, word.end - word.start)
        (argument,) = arguments
        if word.text == INDEX:
            return Index(self._span(tree), operand, argument, optional=True)
        if word.text in {SELECT, FIELD} and isinstance(argument, Literal):
            return Select(self._span(tree), operand, str(argument.value), optional=word.text == SELECT)
        raise CompileError(CompileKind.SYNTAX, "'?' cannot stand here", word.start)

    def _index(self, tree: Branch) -> Node:
        operand, index = _branches(tree)
        return Index(self._span(tree), self.read(operand), self.read(index))

    def _list(self, tree: Branch) -> Node:
        items = _branches(_branches(tree)[0]) if tree.children else []
        elements: list[Node] = []
        optional: set[int] = set()
        for number, item in enumerate(items):
            entry = self._entry(item)
            if entry is not None:
                optional.add(number)
            elements.append(self.read(entry or item))
        return ListOf(self._span(tree), tuple(elements), frozenset(optional))

    def _map(self, tree: Branch) -> Node:
        items = _branches(_branches(tree)[0]) if tree.children else []
        entries: list[tuple[Node, Node]] = []
        optional: set[int] = set()
        for number, (key, value) in enumerate(zip(items[::2], items[1::2], strict=True)):
            entry = self._entry(key)
            if entry is not None:
                optional.add(number)
            entries.append((self.read(entry or key), self.read(value)))
        return MapOf(self._span(tree), tuple(entries), frozenset(optional))

    def _entry(self, item: Branch) -> Branch | None:
        """The optional part of an element that was written with ``?``."""
        inner = _inner(item)
        if inner.data != "ident_arg" or self._word(_positions(inner)[0]).text != ENTRY:
            return None
        arguments = _branches(inner)
        if not arguments:
            place = self._place(_positions(inner)[0])
            raise CompileError(CompileKind.SYNTAX, "the '?' has no value", place.start, hint="a value is expected")
        return _branches(arguments[0])[0]

    def _arguments(self, tree: Branch) -> tuple[Node, ...]:
        lists = [branch for branch in _branches(tree) if branch.data == "exprlist"]
        return tuple(self.read(branch) for branch in _branches(lists[0])) if lists else ()

    def _unsupported(self, tree: Branch) -> Node:
        span = self._span(tree)
        what = "objects of a named type" if tree.data == "member_object" else "names with a leading dot"
        raise CompileError(CompileKind.UNSUPPORTED, f"{what} are not supported", span.start, span.end - span.start)


def _inner(tree: Branch) -> Branch:
    """The node below grammar levels with a single child."""
    while len(tree.children) == 1 and tree.data in _THROUGH:
        tree = _branches(tree)[0]
    return tree


def _branches(tree: Branch) -> list[Branch]:
    return [cast("Branch", child) for child in tree.children if hasattr(child, "data")]


def _positions(tree: Branch) -> tuple[int, int]:
    return tree.meta.start_pos, tree.meta.end_pos


def _balanced(function: str, terms: Sequence[Node], operators: Sequence[Span]) -> Node:
    if len(terms) == 1:
        return terms[0]
    middle = len(operators) // 2
    left = _balanced(function, terms[: middle + 1], operators[:middle])
    right = _balanced(function, terms[middle + 1 :], operators[middle + 1 :])
    return Call(Span(left.span.start, right.span.end), function, None, (left, right), operators[middle])


def _check_reserved(word: Token) -> None:
    if word.text in RESERVED:
        message = f"'{word.text}' is a reserved word"
        hint = f"fields may have that name: object.{word.text}"
        raise CompileError(CompileKind.SYNTAX, message, word.start, word.end - word.start, hint=hint)

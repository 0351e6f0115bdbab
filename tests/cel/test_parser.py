from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.ast import Call, Comprehension, Index, ListOf, Literal, MapOf, Name, Node, Select, Span, walk
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.library.values import Uint
from gangctl.cel.parser import parse
from tests.cel.oracle import recorded
from tests.cel.shown import show
from tests.rows import each

NOWHERE = Span(0, 0)


def bare(node: Any) -> Any:
    """A tree without its places."""
    if isinstance(node, tuple):
        return tuple(map(bare, node))
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return (type(node), node)
    return (
        type(node).__name__,
        *(bare(getattr(node, each.name)) for each in dataclasses.fields(node) if "span" not in each.name),
    )


def parsed(text: str) -> Node | None:
    try:
        return parse(text)
    except CompileError:
        return None


@each(
    ("text", "shown"),
    [
        ("a + b.c(d) * -1", "a + (b.c(d) * (-1))"),
        ("a && b && c && d", "(a && b) && (c && d)"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("!!a", "a"),
        ("!!!a", "!(a)"),
        ("--1", "-(-1)"),
        ("1-1", "(1) - (1)"),
        ("a -1", "a - (1)"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-1.size()", "(-1).size()"),
        ("a.?b[?c]", "a.?b[?c]"),
        ("[?a, b,]", "[?a, b]"),
        ("{?'a': b, 'c': d,}", '{?"a": b, "c": d}'),
        ("has(a.`b-c`)", "has(a.`b-c`)"),
        ("a.`b`", "a.b"),
        ("a in b in c", "(a in b) in c"),
        ("a < b == c", "(a < b) == c"),
        ("sets.contains(a, b)", "sets.contains(a, b)"),
        ("a.contains(b)", "a.contains(b)"),
        ("x.all(i, v, i < v)", "x.all(i, v, i < v)"),
        ("cel.bind(x, 1, x)", "cel.bind(x, 1, x)"),
        ("0x1F + 10u + 1e3 + .5", "(((31) + (10u)) + (1000.0)) + (0.5)"),
        (r"'\x41\u00e9\U0001F600\101\n\`\?'", '"Aé😀A\\n`?"'),
        (r"r'\n' + R'''\'''", r'"\\n" + "\\"'),
        (r"b'é\xff\101'", r'b"\xc3\xa9\xffA"'),
        ("'''a\r\nb\rc'''", r'"a\nb\nc"'),
        ("a // b\n.c", "a.c"),
    ],
)
def test_expressions_are_parsed_with_their_precedence(text: str, shown: str) -> None:
    node = parse(text)
    assert show(node) == shown
    assert bare(parse(show(node))) == bare(node)


def test_places_are_those_of_the_text_as_it_was_written() -> None:
    text = "object.?spec[?'é'].all(x, x.`a-b` != r'\\d')\n  || [?y][0] == -1"
    places = {text[node.span.start : node.span.end] for node in walk(parse(text))}
    assert {
        "object.?spec[?'é'].all(x, x.`a-b` != r'\\d')",
        "x.`a-b`",
        "r'\\d'",
        "[?y]",
        "[?y][0]",
        "-1",
        "'é'",
    } <= places
    assert "object.?spec" in places
    operators = [text[n.name_span.start : n.name_span.end] for n in walk(parse(text)) if isinstance(n, Call)]
    assert operators == ["||", "!=", "=="]


def test_macros_are_distinguished_from_functions_by_their_arguments() -> None:
    found = parse("l.map(x, p, e)")
    assert isinstance(found, Comprehension)
    assert (found.macro, found.names, len(found.arguments)) == ("map", ("x",), 2)
    assert isinstance(parse("l.map(x)"), Call)
    assert isinstance(parse("all(x, y)"), Call)
    tested = parse("has(a.b)")
    assert isinstance(tested, Select)
    assert tested.test


@each(
    ("text", "offset", "message", "hint"),
    [
        ("", 0, "the expression is empty", ""),
        ("a +", 3, "the expression ends too early", "a value is expected"),
        ("a b", 2, "'b' cannot stand here", "'(' or an operator is expected"),
        ("(a", 2, "the expression ends too early", "')'"),
        ("a\n  .b c", 7, "'c' cannot stand here", "'(' or an operator is expected"),
        ("object.in", 7, "'in' is a word of the language and no name", "write .`in` or ['in']"),
        ("for", 0, "'for' is a reserved word", "fields may have that name: object.for"),
        ("!-a", 1, "'-' cannot stand here", "write !(-...)"),
        ("9223372036854775808", 0, "the number is too large: an int has 64 bits", ""),
        ("9" * 5000, 0, "the number is too large: an int has 64 bits", ""),
        (f"0x{'f' * 5000}u", 0, "the number is too large: a uint has 64 bits", ""),
        ("x.all(1, true)", 6, "all takes the name of a variable here", ""),
        ("x.all(k, k, true)", 9, "the variables of all have the same name 'k'", ""),
        ("__field(1)", 0, "the name '__field' is taken", ""),
        ("a[?b)", 4, "')' cannot stand here", "']'"),
        ("[(a])", 3, "']' cannot stand here", "')'"),
        ("a.?null", 3, "'null' is a word of the language and no name", "write .`null` or ['null']"),
        ("a[?]", 1, "[?...] takes one value", ""),
        ("[?]", 1, "the '?' has no value", "a value is expected"),
        ("{?: 1}", 1, "the '?' has no value", "a value is expected"),
        ("`a`", 0, "a field in backticks cannot stand here", "a field in backticks comes after a dot"),
    ],
)
def test_a_syntax_error_has_place_message_and_hint(text: str, offset: int, message: str, hint: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse(text)
    assert caught.value.kind == CompileKind.SYNTAX
    assert (caught.value.offset, caught.value.message, caught.value.hint) == (offset, message, hint)


def test_zeros_before_a_number_do_not_count() -> None:
    for text, value in ((f"{'0' * 5000}7", 7), (f"-0x{'0' * 5000}f", -15), (f"{'0' * 5000}u", 0)):
        literal = parse(text)
        assert isinstance(literal, Literal)
        assert literal.value == value


def test_backticks_are_refused_before_1_37() -> None:
    with pytest.raises(CompileError, match=r"since Kubernetes 1\.37") as caught:
        parse("object.`a-b`", "1.36")
    assert caught.value.hint == "write ['a-b']"


@each(
    "text",
    [
        "a" * 65_537,
        "(" * 31 + "a" + ")" * 31,
        "[" * 4096,
        "+".join(["1"] * 101),
        "&&".join(["a"] * 1000),
        "a" + ".b" * 1500,
        "1?1:" * 1000 + "1",
        "a" + "[0]" * 1300,
        ",".join(["1"] * 2000).join("[]"),
    ],
)
def test_an_expression_above_the_limits_is_refused(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse(text)
    assert caught.value.kind == CompileKind.LIMIT


@each(
    "text",
    [
        "(" * 30 + "a" + ")" * 30,
        "[" * 30 + "]" * 30,
        "f(" * 30 + ")" * 30,
        "+".join(["1"] * 100),
        "&&".join(["a"] * 300),
        "a" + ".b" * 99,
        "!" * 4000 + "a",
        "-" * 4000 + "1",
        "{1:" * 29 + "1" + "}" * 29,
        "[[[[a]]]].all(b,b.all(c,c.all(d,d.all(e,e))))",
        "[1].map(a,a).map(b,b).map(c,c).map(d,d).map(e,e)",
    ],
)
def test_an_expression_within_the_limits_is_parsed(text: str) -> None:
    parse(text)


@given(st.text(alphabet=st.sampled_from("ab1.?[]{}(),:!-+*&|='\"`\\ \nru0x<>%e/_é"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    node = parsed(text)
    assert node is None or bare(parse(show(node))) == bare(node)


@given(st.text(max_size=200))
def test_any_characters_are_read_or_refused(text: str) -> None:
    parsed(text)


@given(
    st.lists(st.sampled_from([*recorded(), "(", ")", "[", "]", " ? ", " : ", "&&", ",", ".", "?"]), max_size=8).map(
        "".join
    )
)
def test_any_pieces_of_expressions_are_read_or_refused(text: str) -> None:
    parsed(text)


KINDS = st.sampled_from(["string", "int", "uint", "double", "bytes", "bool"])
VALUES = {
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "int": st.integers(-(2**63), 2**63 - 1),
    "uint": st.integers(0, 2**64 - 1).map(Uint),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=5),
    "bool": st.booleans(),
}
LITERALS = KINDS.flatmap(lambda kind: VALUES[kind].map(lambda value: Literal(NOWHERE, kind, value)))  # type: ignore[arg-type] # the kinds are
NAMES = st.sampled_from(["a", "object", "_x", "v2"])
FIELDS = st.sampled_from(["b", "in", "for", "a-b", "x.y/z", "true"])


def grown(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    pairs = st.lists(st.tuples(inner, inner), max_size=2).map(tuple)
    return st.one_of(
        st.builds(Select, st.just(NOWHERE), inner, FIELDS, st.booleans(), st.just(False)),
        st.builds(Select, st.just(NOWHERE), inner, FIELDS, st.just(False), st.just(True)),
        st.builds(Index, st.just(NOWHERE), inner, inner, st.booleans()),
        st.builds(
            lambda name, one, two: Call(NOWHERE, name, None, (one, two), NOWHERE),
            st.sampled_from(["_+_", "_-_", "_&&_", "_||_", "_==_", "_<=_", "@in", "f", "sets.contains"]),
            inner,
            inner,
        ),
        st.builds(lambda one: Call(NOWHERE, "!_", None, (one,), NOWHERE), inner),
        st.builds(
            lambda one, two, three: Call(NOWHERE, "_?_:_", None, (one, two, three), NOWHERE), inner, inner, inner
        ),
        st.builds(lambda target, one: Call(NOWHERE, "startsWith", target, (one,), NOWHERE), inner, inner),
        st.builds(
            lambda items: ListOf(NOWHERE, items, frozenset({0} if items else ())),
            st.lists(inner, max_size=3).map(tuple),
        ),
        st.builds(lambda entries: MapOf(NOWHERE, entries, frozenset({0} if entries else ())), pairs),
        st.builds(lambda target, body: Comprehension(NOWHERE, "all", target, ("k", "v"), (body,)), inner, inner),
    )


@given(st.recursive(st.one_of(LITERALS, st.builds(Name, st.just(NOWHERE), NAMES)), grown, max_leaves=12))
def test_a_printed_expression_is_parsed_to_the_same_tree(tree: Node) -> None:
    with contextlib.suppress(CompileError):
        node = parse(show(tree))
        assert bare(parse(show(node))) == bare(node)
        if not any(isinstance(each, Call) and each.function in {"_&&_", "_||_", "!_"} for each in walk(tree)):
            assert bare(node) == bare(tree)


@each("text", ["object.?creationTimestamp", "object.`abcde`", "object[?'abcdefghijklm']", "[?object.?a]"])
def test_names_like_those_of_the_rewriting_are_not_confused(text: str) -> None:
    assert parse(text) is not None

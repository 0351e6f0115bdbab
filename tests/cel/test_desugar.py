from __future__ import annotations

from typing import Any

import pytest
from celpy.celparser import CELParser
from lark import Token

from gangctl.cel.check import check
from gangctl.cel.desugar import desugar, plain
from gangctl.cel.environments import admission
from gangctl.cel.faults import CompileError
from gangctl.cel.grammar import parse_tokens
from tests.cel.oracle import recorded
from tests.rows import each


@each(
    ("written", "expected"),
    [
        ("a.?b.c", 'a. __optional_select("b").c'),
        ("a[?i+1].x", "a.__optional_index(i+1).x"),
        ("a.`b-c`", 'a.__field("b-c")'),
        ("a.?`b-c`", 'a. __optional_select("b-c")'),
        ("[?x, y ? z : w,]", "[__optional_entry(x), y ? z : w ]"),
        ("{?k ? a : b : v, 'x': 1,}", '{__optional_entry(k ? a : b ): v, "x": 1 }'),
        ("a in [?b]", "a in [__optional_entry(b)]"),
        ("[[?a], [b,]][?0]", "[[__optional_entry(a)], [b ]].__optional_index(0)"),
        ("x ? y : {?a: b}", "x ? y : {__optional_entry(a): b}"),
        ("{'a': c ? [d] : e}", '{"a": c ? [d] : e}'),
        ("[,]", "[ ]"),
        ("[,,]", "[,,]"),
        ("f(a,)", "f(a,)"),
        ("a[b,]", "a[b,]"),
        (r"r'\d\' + 'x'", r'"\\d\\" + "x"'),
        ("'''a\"b'''", r'"a\"b"'),
        ("'a.?b [?c]'", '"a.?b [?c]"'),
        ("a // .?b 'x\n+ c", "a\n+ c"),
        ("br'\\x'", r'b"\x5cx"'),
        ("'\u0000\u2028\U0001f600'", '"\\u0000\\u2028\U0001f600"'),
    ],
)
def test_what_cel_python_reads_is_what_was_meant(written: str, expected: str) -> None:
    assert desugar(written).text == expected


def test_every_offset_leads_back_to_the_token_it_came_from() -> None:
    written = "object.?spec[?0] == r'\\d' // end"
    changed = desugar(written)
    for word, place in (("object", 0), ("__optional_select", 8), ("__optional_index", 12), ("0)", 14), ("==", 17)):
        assert changed.original(changed.text.index(word)) == place
    assert changed.original(changed.text.index('"\\\\d"')) == written.index("r'")


def test_offsets_of_nothing_are_the_beginning() -> None:
    assert desugar("").original(0) == 0


@each(
    ("written", "offset", "message"),
    [
        ("a == 'b", 5, "the string that starts with ' has no end"),
        ("a == '\\d'", 6, "\\d is no escape"),
        ("a & b", 2, "'&' has no meaning here"),
        ("a.``", 2, "the field in backticks is not closed or empty"),
        ("'''x", 2, "the string that starts with ' has no end"),
        ("'\\ud800'", 0, "the string has an escape for U+D800, which is no character"),
        ("b'\\u0041'", 0, "bytes have no \\u escapes"),
        ("a = b", 2, "'=' has no meaning here"),
        ('"a\nb"', 0, 'the string that starts with " has no end'),
    ],
)
def test_what_is_no_token_is_refused_with_its_place(written: str, offset: int, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        desugar(written)
    assert (caught.value.offset, caught.value.message) == (offset, message)


def shape(tree: Any) -> Any:
    """A tree of cel-python without the text of literals."""
    if isinstance(tree, Token):
        return str(tree) if tree.type == "IDENT" else tree.type
    return (str(tree.data), *map(shape, tree.children))


def test_cel_python_reads_the_same_tree_that_was_checked() -> None:
    compared = 0
    for text in recorded():
        try:
            check(text, admission())
        except CompileError:
            continue
        assert shape(CELParser().parse(desugar(text).text)) == shape(parse_tokens(plain(text))), text
        compared += 1
    assert compared > 300

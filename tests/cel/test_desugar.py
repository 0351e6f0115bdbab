from __future__ import annotations

import pytest

from gangctl.cel.desugar import plain
from gangctl.cel.faults import CompileError
from gangctl.cel.parser import parse
from gangctl.cel.tokens import tokens
from tests.rows import each


@each(
    ("written", "expected"),
    [
        ("a.?b.c", 'a. __optional_select("b").c'),
        ("a[?i+1].x", "a.__optional_index(i+1).x"),
        ("a.`b-c`", 'a.__field("b-c")'),
        ("a.?`b-c`", 'a. __optional_select("b-c")'),
        ("[?x, y ? z : w,]", "[__optional_entry(x), y ? z : w ]"),
        ('{?k ? a : b : v, "x": 1,}', '{__optional_entry(k ? a : b ): v, "x": 1 }'),
        ("a in [?b]", "a in [__optional_entry(b)]"),
        ("[[?a], [b,]][?0]", "[[__optional_entry(a)], [b ]].__optional_index(0)"),
        ("x ? y : {?a: b}", "x ? y : {__optional_entry(a): b}"),
        ('{"a": c ? [d] : e}', '{"a": c ? [d] : e}'),
        ("[,]", "[ ]"),
        ("[,,]", "[,,]"),
        ("f(a,)", "f(a,)"),
        ("a[b,]", "a[b,]"),
    ],
)
def test_newer_syntax_is_rewritten_for_cel_python(written: str, expected: str) -> None:
    assert [token.text for token in plain(written)] == [token.text for token in tokens(expected)]


def test_an_added_token_has_the_place_of_what_it_replaces() -> None:
    placed = {token.text: token.start for token in plain("object.?spec[?0] == 1")}
    assert (placed["__optional_select"], placed["__optional_index"], placed["=="]) == (8, 12, 17)


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
def test_an_invalid_token_is_refused_with_its_place(written: str, offset: int, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse(written)
    assert (caught.value.offset, caught.value.message) == (offset, message)

"""Where the characters of a value stand in its file."""

from __future__ import annotations

import json
from textwrap import dedent

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.documents import Document, parse_documents
from gangctl.api.fieldpath import FieldPath
from tests.rows import each

SPACE = " \t\r\n\x85\u2028\u2029"


def one(text: str) -> Document:
    (document,) = parse_documents(dedent(text), "policy.yaml")
    return document


def shown(document: Document, path: str, value: str, word: str) -> tuple[str, str]:
    """The text of the file at the location of ``word`` in ``value``, and the position as text."""
    line, column = document.position_in(path, value.index(word))
    return document.line_at(line)[column - 1 :][: len(word)], f"{line}:{column}"


EXPRESSIONS = {
    "plain": ("spec:\n  e: a.b > 3 # c\n", "2:6", "2:12"),
    "plain over lines": ("spec:\n  e: a.b\n     >\n     3\n", "2:6", "4:6"),
    "single quotes": ("spec:\n  e: 'a.b > 3'\n", "2:7", "2:13"),
    "single quotes over lines": ("spec:\n  e: 'a.b\n\n    > 3'\n", "2:7", "4:7"),
    "double quotes": ('spec:\n  e: "a.b > 3"\n', "2:7", "2:13"),
    "double quotes, joined": ('spec:\n  e: "a.b \\\n    > 3"\n', "2:7", "3:7"),
    "double quotes, escapes": ('spec:\n  e: "a.b\\n\\t>\\x203"\n', "2:7", "2:19"),
    "literal": ("spec:\n  e: |\n    a.b\n      > 3\n  f: 1\n", "3:5", "4:9"),
    "literal, stripped": ("spec:\n  e: |- # why\n    a.b\n      > 3\n", "3:5", "4:9"),
    "literal, indentation given": ("spec:\n  e: |2\n      a.b\n    > 3\n", "3:7", "4:7"),
    "literal, empty lines first": ("spec:\n  e: |\n\n    a.b > 3\n", "4:5", "4:11"),
    "folded": ("spec:\n  e: >-\n    a.b\n    >\n    3\n", "3:5", "5:5"),
    "folded, more indented": ("spec:\n  e: >\n    a.b\n      >\n        3\n\n  f: 1\n", "3:5", "5:9"),
    "anchored": ("spec:\n  e: &x !!str a.b > 3\n", "2:15", "2:21"),
    "alias": ("spec:\n  d: &x a.b > 3\n  e: *x\n", "2:9", "2:15"),
    "flow": ("spec: {d: 1, e: a.b > 3}\n", "1:17", "1:23"),
    "JSON": ('{"spec": {"e":\n  "a.b > 3"}}', "2:4", "2:10"),
    "windows": ("spec:\r\n  e: |\r\n    a.b\r\n    > 3\r\n", "3:5", "4:7"),
}


@each(("text", "first", "last"), EXPRESSIONS.values(), ids=list(EXPRESSIONS))
def test_characters_are_located_in_every_yaml_style(text: str, first: str, last: str) -> None:
    document = one(text)
    value = document.value["spec"]["e"]
    assert shown(document, "spec.e", value, "a.b") == ("a.b", first)
    assert shown(document, "spec.e", value, "3") == ("3", last)


def test_characters_are_located_in_list_entries_and_numeric_keys() -> None:
    document = one("spec:\n  l:\n  - >-\n    a\n    b\n  - c d\n  m:\n    '0': e f\n")
    assert shown(document, "spec.l[0]", "a b", "b") == ("b", "5:5")
    assert shown(document, "spec.l[1]", "c d", "d") == ("d", "6:7")
    assert shown(document, "spec.m[0]", "e f", "f") == ("f", "8:12")


def test_an_offset_at_or_beyond_the_end_is_located_at_the_end() -> None:
    document = one("spec:\n  e: |\n    ab\n")
    assert document.position_in("spec.e", 2) == (3, 7)
    assert document.position_in("spec.e", 99) == (3, 7)
    assert document.position_in("spec.e", -1) == (3, 5)


def test_the_end_of_an_expression_in_quotes() -> None:
    assert one("e: 'ab'\n").position_in("e", 2) == (1, 7)


def test_a_value_without_text_is_located_at_its_key() -> None:
    document = one("spec:\n  k: 12\n  m: {}\n")
    assert document.position_in("spec.k", 1) == (2, 3)
    assert document.position_in("spec.m", 1) == (3, 3)
    assert document.position_in("spec.none", 1) == (1, 1)


def test_characters_are_located_in_json() -> None:
    text = '{"spec": {"a": "\x7f", "e": "\\ud83d\\ude00 > 3"}}'
    document = one(text)
    assert shown(document, "spec.e", "😀 > 3", "3") == ("3", "1:42")


def test_an_unknown_line_is_empty() -> None:
    document = one("a: 1")
    assert document.line_at(1) == "a: 1"
    assert document.line_at(2) == document.line_at(0) == ""


WORDS = st.text(st.sampled_from("abzé😀\"'\\:#{}[]&*!|>%@`,.?- \n\t\x85"), max_size=60)


@given(WORDS, st.sampled_from(["'", '"', "|", ">", None]), st.integers(20, 80))
def test_each_character_is_found_where_it_was_written(value: str, style: str | None, width: int) -> None:
    text = yaml.safe_dump(
        {"spec": {"e": value, "f": [value]}}, default_style=style, width=width, allow_unicode=True, sort_keys=False
    )
    check(text)


@given(WORDS)
def test_each_character_of_json_is_found_where_it_was_written(value: str) -> None:
    check(json.dumps({"spec": {"e": value, "f": [value]}}, indent=1))


def check(text: str) -> None:
    (document,) = parse_documents(text, "x")
    value = document.value["spec"]["e"]  # a writer may drop the odd line break
    for path in (FieldPath().child("spec", "e"), FieldPath().child("spec", "f").index(0)):
        for offset, character in enumerate(value if isinstance(value, str) else ""):
            line, column = document.position_in(path, offset)
            assert character in SPACE or document.line_at(line)[column - 1 :].startswith((character, "\\"))

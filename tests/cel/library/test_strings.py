"""Strings as cel-go's extension of version 2 has them; more in answers.json."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.registry import METHODS
from gangctl.cel.library.values import LARGEST, Uint
from tests.rows import each

texts = st.text(max_size=30)


@given(texts, st.text(min_size=1, max_size=3))
def test_a_split_string_can_be_joined(text: str, separator: str) -> None:
    assert METHODS["join"](METHODS["split"](text, separator), separator) == text


@given(texts)
def test_splitting_by_the_empty_string_gives_code_points(text: str) -> None:
    assert METHODS["split"](text, "") == list(text)
    assert METHODS["substring"](text, 0) == text
    assert "".join(METHODS["charAt"](text, index) for index in range(len(text))) == text


@given(texts, texts)
def test_index_of_is_the_position_of_the_substring(text: str, part: str) -> None:
    for method in ("indexOf", "lastIndexOf"):
        index = METHODS[method](text, part)
        assert index == -1 if part not in text else text[index:].startswith(part)


@given(texts, texts, st.integers(0, 40))
def test_last_index_of_equals_that_of_python(text: str, part: str, start: int) -> None:
    assert METHODS["lastIndexOf"](text, part) == text.rfind(part)
    before = min(start, len(text)) if not part else text.rfind(part, 0, start + len(part)) if start < len(text) else -1
    assert METHODS["lastIndexOf"](text, part, start) == before


@each(
    ("method", "arguments"),
    [
        ("indexOf", ("a", -1)),
        ("lastIndexOf", ("a", -1)),
    ],
)
def test_positions_outside_of_the_string_are_errors(method: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(EvalError) as caught:
        METHODS[method]("abc", *arguments)
    assert caught.value.kind is EvalKind.INDEX_OUT_OF_BOUNDS


@each(
    ("method", "arguments"),
    [
        ("replace", ("a" * 2000, "a", "b" * 1000)),
        ("replace", ("a" * 2000, "", "b" * 1000)),
        ("join", (["a" * 1000] * 2000,)),
        ("format", ("%s" * 2000, ["a" * 1000] * 2000)),
        ("format", ("%.2000f", [1.5])),
        ("format", ("%." + "9" * 5000 + "f", [1.5])),
    ],
)
def test_results_are_bounded(method: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(EvalError) as caught:
        METHODS[method](*arguments)
    assert caught.value.kind is EvalKind.BUDGET_EXCEEDED


def test_a_result_of_the_largest_size_is_made() -> None:
    assert len(METHODS["replace"]("a" * (LARGEST // 4), "a", "bbbb")) == LARGEST


@each(
    ("template", "arguments", "text"),
    [
        ("%s", [[1.5, "a\n", None, Uint(1)]], '[1.500000, "a\\n", null, 1]'),
        ("%s", [{"b": 1, "a": [True]}], '{"a":[true], "b":1}'),
        ("%x %X %o %b", ["hi", b"hi", -8, True], "6869 6869 -10 1"),
        ("100%% %d", [5], "100% 5"),
    ],
)
def test_formats_are_those_of_the_api_server(template: str, arguments: list[object], text: str) -> None:
    assert METHODS["format"](template, arguments) == text


@each(("template", "arguments"), [("%d", [1.5]), ("%d", []), ("%", [1]), ("%.", [1]), ("%q", [1]), ("%f", [1])])
def test_invalid_formats_are_errors(template: str, arguments: list[object]) -> None:
    with pytest.raises(EvalError) as caught:
        METHODS["format"](template, arguments)
    assert caught.value.kind is EvalKind.INVALID_ARGUMENT

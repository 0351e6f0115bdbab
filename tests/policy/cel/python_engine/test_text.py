from __future__ import annotations

import pytest

from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.python_engine.text import LONGEST_PATTERN, PATTERNS, matches, pattern
from tests.policy.cel.python_engine.evaluating import check

MISFIT = EvalKind.NO_SUCH_OVERLOAD
WRONG = EvalKind.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"size('\u00e9\U0001F600')", 2),
        ("size(b'\u00e9')", 2),
        ("size(object.m)", 2),
        ("object.l.size()", 3),
        ("size(object.n)", MISFIT),
        ("size(object.i)", MISFIT),
        ("object.n.size()", MISFIT),
        ("object.s.contains('t')", True),
        ("object.s.startsWith('st')", True),
        ("object.s.endsWith('st')", False),
        ("object.i.contains('a')", MISFIT),
        ("object.s.contains(object.i)", MISFIT),
        ("object.l.contains(1)", MISFIT),
        ("object.s.matches('^s.r$')", True),
        ("matches(object.s, 't')", True),
        ("object.s.matches('(')", WRONG),
        ("object.s.matches('(?=a)')", WRONG),
        (r"object.s.matches('(s)\\1')", WRONG),
        ("object.s.matches(object.i)", MISFIT),
        (r"object.ts.matches('\\d{4}-')", True),
        (r"'a\nb'.matches('a.b')", False),
        ("'\u00e9'.matches('^.$')", True),
        (r"r'\d' + '\x41\u00e9\101'", "\\dA\u00e9A"),
        ("'a,b'.split(',')", ["a", "b"]),
        ("['a', 'b'].join('-')", "a-b"),
        ("'%s %d'.format([duration('1.5s'), object.i])", "1.5s 5"),
    ],
)
def test_strings(text: str, expected: object) -> None:
    check(text, expected)


def test_patterns_are_compiled_once_and_few_are_kept() -> None:
    pattern.cache_clear()
    for _ in range(3):
        assert matches("abc", "^a")
    assert (pattern.cache_info().misses, pattern.cache_info().hits) == (1, 2)
    for number in range(2 * PATTERNS):
        matches("abc", f"a{{{number}}}")
    assert pattern.cache_info().currsize == PATTERNS


def test_patterns_are_short() -> None:
    assert matches("a" * LONGEST_PATTERN, "a" * LONGEST_PATTERN)
    for long in ("a" * (LONGEST_PATTERN + 1), "\u00e9" * (LONGEST_PATTERN // 2 + 1)):
        with pytest.raises(EvalError) as caught:
            matches("a", long)
        assert caught.value.kind is WRONG


def test_patterns_that_become_large_are_refused() -> None:
    with pytest.raises(EvalError) as caught:
        matches("a", "((a{100}){100}){100}")
    assert caught.value.kind is WRONG

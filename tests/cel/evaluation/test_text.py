from __future__ import annotations

from gangctl.cel.faults import EvalKind
from tests.cel.evaluation.evaluating import check
from tests.rows import each

MISFIT = EvalKind.NO_SUCH_OVERLOAD
WRONG = EvalKind.INVALID_ARGUMENT


@each(
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
        ("'a'.matches('((a{100}){100}){100}')", WRONG),
        ("'abc'.find('[bc]+')", "bc"),
        (r"r'\d' + '\x41\u00e9\101'", "\\dA\u00e9A"),
        ("'a,b'.split(',')", ["a", "b"]),
        ("['a', 'b'].join('-')", "a-b"),
        ("'%s %d'.format([duration('1.5s'), object.i])", "1.5s 5"),
    ],
)
def test_string_functions_evaluate(text: str, expected: object) -> None:
    check(text, expected)

from __future__ import annotations

from gangctl.cel.faults import EvalKind
from tests.cel.evaluation.evaluating import check
from tests.rows import each

MISFIT = EvalKind.NO_SUCH_OVERLOAD
WRONG = EvalKind.INVALID_ARGUMENT


@each(
    ("text", "expected"),
    [
        ("object.i.contains('a')", MISFIT),
        ("object.s.contains(object.i)", MISFIT),
        ("object.l.contains(1)", MISFIT),
        ("object.s.matches('(')", WRONG),
        ("object.s.matches('(?=a)')", WRONG),
        (r"object.s.matches('(s)\\1')", WRONG),
        ("object.s.matches(object.i)", MISFIT),
        ("'a'.matches('((a{100}){100}){100}')", WRONG),
    ],
)
def test_string_functions_evaluate(text: str, expected: object) -> None:
    check(text, expected)

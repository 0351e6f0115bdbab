from __future__ import annotations

from gangctl.cel.faults import EvalKind
from tests.cel.evaluation.evaluating import check, evaluate
from tests.rows import each

MISFIT = EvalKind.NO_SUCH_OVERLOAD
ZERO = EvalKind.DIVIDE_BY_ZERO


@each(
    ("text", "expected"),
    [
        ("object.l.all(x, x / 0 > 1 || x > 0)", True),
        ("object.l.all(x, x / 0 > 1)", ZERO),
        ("object.l.all(x, x / (x - 2) > 5)", False),
        ("object.l.exists(x, x / (x - 2) > 0)", True),
        ("object.l.exists(x, 1 / 0 > 0)", ZERO),
        ("object.l.exists(x, object.i)", MISFIT),
        ("object.e.all(x, 1 / 0 > 0)", True),
        ("object.e.exists(x, 1 / 0 > 0)", False),
        ("object.l.exists_one(x, x == 2)", True),
        ("object.l.exists_one(x, x > 1)", False),
        ("object.l.exists_one(x, x)", MISFIT),
        ("object.l.exists_one(x, x / (x - 3) == 0)", ZERO),
        ("object.l.filter(x, x > 1)", [2, 3]),
        ("object.l.filter(x, x)", MISFIT),
        ("object.l.filter(x, x / (x - 3) < 9)", ZERO),
        ("object.l.map(x, x * 2)", [2, 4, 6]),
        ("object.l.map(x, x > 1, x * 2)", [4, 6]),
        ("object.l.map(x, x, x * 2)", MISFIT),
        ("object.m.map(k, k)", ["a", "b"]),
        ("object.m.filter(k, k == 'a')", ["a"]),
        ("object.m.all(k, k != 'z')", True),
        ("object.i.map(x, x)", MISFIT),
        ("object.s.all(x, true)", MISFIT),
        ("object.n.exists(x, true)", MISFIT),
        ("object.mixed.filter(x, type(x) == int)", [1]),
        ("object.mixed.exists(x, x > 100)", MISFIT),
        ("object.mixed.all(x, x != 'zz')", True),
        ("object.m.exists(k, v, k == 'a' && v == 1)", True),
        ("object.m.all(k, v, k == 'a' || v == 1)", False),
        ("object.l.all(i, v, v == i + 1)", True),
        ("object.l.exists(i, v, v == i)", False),
        ("object.l.existsOne(i, v, v == 2)", True),
        ("object.l.exists_one(i, v, v > 1)", False),
        ("object.l.transformList(i, v, i + v)", [1, 3, 5]),
        ("object.l.transformList(i, v, i > 0, i + v)", [3, 5]),
        ("object.m.transformList(k, v, k)", ["a", "b"]),
        ("object.l.transformMap(i, v, i + v)", [(0, 1), (1, 3), (2, 5)]),
        ("object.l.transformMap(i, v, i > 0, i + v)", [(1, 3), (2, 5)]),
        ("object.m.transformMap(k, v, k)", {"a": "a", "b": "b"}),
        ("object.l.transformMapEntry(i, v, {string(v): i})", {"1": 0, "2": 1, "3": 2}),
        ("object.l.transformMapEntry(i, v, v > 1, {string(v): i})", {"2": 1, "3": 2}),
        ("object.l.transformMapEntry(i, v, {'same': i})", EvalKind.INVALID_ARGUMENT),
        ("object.l.transformMapEntry(i, v, v)", MISFIT),
        ("object.l.map(x, object.l.map(x, x + 1))", [[2, 3, 4]] * 3),
        ("[[1], [2, 3]].map(x, x.map(y, y * size(x)))", [[1], [4, 6]]),
    ],
)
def test_macros_evaluate(text: str, expected: object) -> None:
    check(text, expected)


def test_variables_of_macros_are_scoped() -> None:
    assert evaluate("object.map(object, object + 1) == [2, 3] && object == [1, 2]", object=[1, 2]) is True
    assert evaluate("object.exists(object, object == 1) && object == [1, 2]", object=[1, 2]) is True
    assert evaluate("(object.all(object, object / 0 == 1) || true) && object == [1, 2]", object=[1, 2]) is True
    assert evaluate("optional.of(7).optMap(object, object).value() + object", object=1) == 8
    check("object.l.exists(x, x == 1) && x == 1", EvalKind.OTHER)


def test_macros_of_cel_python_are_not_available() -> None:
    # min() is one of Kubernetes' library as well, with other errors.
    check("object.l.min()", 1)
    check("object.e.min()", EvalKind.INVALID_ARGUMENT)

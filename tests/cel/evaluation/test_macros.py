from __future__ import annotations

from gangctl.cel.faults import EvalKind
from tests.cel.evaluation.evaluating import check, evaluate
from tests.rows import each

MISFIT = EvalKind.NO_SUCH_OVERLOAD
ZERO = EvalKind.DIVIDE_BY_ZERO


@each(
    ("text", "expected"),
    [
        ("object.l.filter(x, x)", MISFIT),
        ("object.l.transformMap(i, v, i > 0, i + v)", [(1, 3), (2, 5)]),
        ("object.l.transformMapEntry(i, v, v > 1, {string(v): i})", {"2": 1, "3": 2}),
        ("object.l.transformMapEntry(i, v, v)", MISFIT),
        ("object.l.map(x, object.l.map(x, x + 1))", [[2, 3, 4]] * 3),
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


def test_a_field_of_a_variable_is_no_type() -> None:
    check("[{'IP': 'a', 'CIDR': 'b'}].map(net, net.IP + net.CIDR)", ["ab"])


def test_macros_of_cel_python_are_not_available() -> None:
    # min() is one of Kubernetes' library as well, with other errors.
    check("object.l.min()", 1)
    check("object.e.min()", EvalKind.INVALID_ARGUMENT)

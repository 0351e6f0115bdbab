from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.values import NONE, Optional
from tests.cel.evaluation.evaluating import check, error, evaluate
from tests.rows import each

MISSING = EvalKind.NO_SUCH_KEY
MISFIT = EvalKind.NO_SUCH_OVERLOAD
OUTSIDE = EvalKind.INDEX_OUT_OF_BOUNDS


def some(value: object) -> Optional:
    return Optional(present=True, value=value)


@each(
    ("text", "expected"),
    [
        ("object.m.b.c[1].d", 2),
        ("object['m']['a']", 1),
        ("object.zz", MISSING),
        ("object.s.foo", MISSING),
        ("object.n.foo", MISSING),
        ("object.l.foo", MISSING),
        ("object.m[1]", MISSING),
        ("object.m[object.l]", MISFIT),
        ("object.m[object.n]", MISFIT),
        ("object.m[b'a']", MISFIT),
        ("object.s[0]", MISSING),
        ("object.l[0]", 1),
        ("object.l[1u]", 2),
        ("object.l[1.0]", 2),
        ("object.l[1.5]", EvalKind.INVALID_ARGUMENT),
        ("object.l[0.0 / 0.0]", EvalKind.INVALID_ARGUMENT),
        ("object.l[1.0 / 0.0]", EvalKind.INVALID_ARGUMENT),
        ("object.l[-1]", OUTSIDE),
        ("object.l[3]", OUTSIDE),
        ("object.l[object.t]", MISFIT),
        ("object.l['a']", MISFIT),
        ("{1: 'a'}[1u]", "a"),
        ("{1: 'a'}[1.0]", "a"),
        ("{1: 'a'}[1.5]", MISSING),
        ("{true: 'a'}[true]", "a"),
        ("{true: 'a'}[1]", MISSING),
        ("{1: 'a'}[true]", MISSING),
        ("{0u: 'a'}[0]", "a"),
        ("{'a': 1, 'a': 2}", {"a": 2}),
        ("{[1]: 1}", EvalKind.INVALID_ARGUMENT),
        ("{b'a': 1}", EvalKind.INVALID_ARGUMENT),
        ("{true: 1, 1: 2, 1u: 3, 1.0: 4}.size()", 4),
        ("object.`s`", "str"),
    ],
)
def test_fields_and_indexes_evaluate(text: str, expected: object) -> None:
    check(text, expected)


@each(
    ("text", "expected"),
    [
        ("has(object.m.b.c)", True),
        ("has(object.n)", True),
        ("has(object.zz)", False),
        ("has(object.zz.foo)", MISSING),
        ("has(object.s.foo)", False),
        ("has(object.n.foo)", False),
        ("has(object.l.foo)", MISFIT),
        ("has(object.?zz.a)", False),
        ("has(object.?m.a)", True),
        ("has(object.`s`)", True),
    ],
)
def test_has_evaluates(text: str, expected: object) -> None:
    check(text, expected)


@each(
    ("text", "expected"),
    [
        ("object.?zz.foo", NONE),
        ("object.?m.b.c[0]", some(1)),
        ("object.?m.b.c[9]", NONE),
        ("object.?s.?foo", NONE),
        ("object.?l[1]", some(2)),
        ("object.l[?7]", NONE),
        ("object.l[?0]", some(1)),
        ("object.l[?'a']", MISFIT),
        ("object.m[?object.l]", MISFIT),
        ("object.?zz[1 / 0]", NONE),
        ("object.?m[1 / 0]", EvalKind.DIVIDE_BY_ZERO),
        ("object.?zz.orValue(5)", 5),
        ("object.?i.orValue(object.zz)", 5),
        ("object.?zz.or(optional.of(7)).value()", 7),
        ("object.?i.or(object.zz)", some(5)),
        ("object.?zz.or(object.i)", MISFIT),
        ("object.i.orValue(1)", MISFIT),
        ("object.?i.hasValue()", True),
        ("object.?zz.value()", EvalKind.INVALID_ARGUMENT),
        ("object.?zz.optMap(x, x + 1)", NONE),
        ("object.?i.optMap(x, x + 1)", some(6)),
        ("object.?i.optFlatMap(x, object.?m)", some({"a": 1, "b": {"c": [1, {"d": 2}]}})),
        ("object.?i.optFlatMap(x, optional.none())", NONE),
        ("object.?i.optFlatMap(x, x)", MISFIT),
        ("object.i.optMap(x, x)", MISFIT),
        ("optional.of(null)", some(None)),
        ("optional.ofNonZeroValue(0)", NONE),
        ("optional.ofNonZeroValue('')", NONE),
        ("optional.ofNonZeroValue([])", NONE),
        ("optional.ofNonZeroValue(null)", NONE),
        ("optional.ofNonZeroValue(false)", NONE),
        ("optional.ofNonZeroValue(duration('0s'))", NONE),
        ("optional.ofNonZeroValue(1)", some(1)),
        ("optional.ofNonZeroValue(optional.none())", some(NONE)),
        ("[optional.of(1), optional.none()].unwrapOpt()", [1]),
        ("object.l.first()", some(1)),
        ("object.l.last()", some(3)),
        ("object.e.last()", NONE),
        ("[?object.?zz, ?object.?i, 3]", [5, 3]),
        ("[?object.i]", MISFIT),
        ("{?'a': object.?zz, ?'b': object.?i, 'c': 1}", {"b": 5, "c": 1}),
        ("{?'a': object.i}", MISFIT),
    ],
)
def test_optionals_evaluate(text: str, expected: object) -> None:
    check(text, expected)


def test_numbers_beyond_64_bits_are_doubles_as_kubernetes_decodes_them() -> None:
    assert repr(evaluate("type(object.x) == double", object={"x": 10**19})) == "True"
    assert repr(evaluate("object[0]", object=[2**63])) == repr(2.0**63)


def test_unbound_names_are_an_error_and_types_are_values() -> None:
    assert error("params.x").kind is EvalKind.OTHER
    assert evaluate("int == type(1)") is True
    assert evaluate("int", int=5) == 5


@each(
    "text", ["__class__", "visit", "names", "object.__class__", "object.s.upper", "object.m.keys", "activation", "self"]
)
def test_names_do_not_reach_attributes_of_python(text: str) -> None:
    assert error(text).kind in {EvalKind.OTHER, EvalKind.NO_SUCH_KEY}


class Lazy(Mapping[str, Any]):
    """Computes what it is asked for, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getitem__(self, key: str) -> Any:
        self.asked.append(key)
        if key == "bad":
            raise EvalError(EvalKind.DIVIDE_BY_ZERO, "divide by zero", 77)
        return {"good": [1, 2]}[key]

    def __contains__(self, key: object) -> bool:
        return key in {"good", "bad"}

    def __iter__(self) -> Iterator[str]:
        return iter(("good", "bad"))

    def __len__(self) -> int:
        return 2


def test_variables_are_computed_only_when_they_are_read() -> None:
    variables = Lazy()
    assert evaluate("object.t || variables.bad > 0", variables) is True
    assert evaluate("has(variables.bad) && !has(variables.other)", variables) is True
    assert variables.asked == []
    assert evaluate("variables.good.map(x, x + 1)", variables) == [2, 3]
    assert variables.asked == ["good"]


def test_the_error_of_a_variable_has_the_place_where_it_was_read() -> None:
    caught = error("1 > 0 ? variables.bad : 2", Lazy())
    assert (caught.kind, caught.offset) == (EvalKind.DIVIDE_BY_ZERO, 17)
    assert evaluate("variables.bad || true", Lazy()) is True
    assert error("variables.other", Lazy()).kind is MISSING


@each(
    ("text", "offset"),
    [
        ("object.m.zz", 8),
        ("object.l[7]", 9),
        ("1 + (2 / 0)", 7),
        ("object.l.all(x, x.y > 0)", 17),
        ("timestamp(object.s)", 0),
        ("object.s.matches('(')", 9),
        ("object.i && object.t", 9),
    ],
)
def test_errors_have_a_place(text: str, offset: int) -> None:
    assert error(text).offset == offset


def test_error_messages_do_not_contain_values_of_the_request() -> None:
    secret = "s3cr3t"
    texts = (
        "object.zz",
        "object.l[object.s]",
        "int(object.s)",
        "timestamp(object.s)",
        "duration(object.s)",
        "nope",
        "object.s + 1",
    )
    for text in texts:
        assert secret not in error(text, object={"s": secret, "l": [secret]}).message

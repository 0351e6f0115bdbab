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
        ("object.m[object.l]", MISFIT),
        ("object.m[object.n]", MISFIT),
        ("object.m[b'a']", MISFIT),
        ("{[1]: 1}", EvalKind.INVALID_ARGUMENT),
        ("{b'a': 1}", EvalKind.INVALID_ARGUMENT),
    ],
)
def test_fields_and_indexes_evaluate(text: str, expected: object) -> None:
    check(text, expected)


@each(
    ("text", "expected"),
    [
        ("object.m[?object.l]", MISFIT),
        ("object.?m[1 / 0]", EvalKind.DIVIDE_BY_ZERO),
        ("object.?zz.or(object.i)", MISFIT),
        ("object.i.orValue(1)", MISFIT),
        ("object.?i.optFlatMap(x, x)", MISFIT),
        ("object.i.optMap(x, x)", MISFIT),
        ("optional.ofNonZeroValue(duration('0s'))", NONE),
        ("{'a': 1, ?'a': object.?zz} == {}", True),
        ("{?'a': object.?zz, 'a': 1} == {'a': 1}", True),
        ("{1: 1, 1u: 2, ?1: object.?zz} == {1u: 2}", True),
        ("{'a': 1, ?1: object.?zz} == {'a': 1}", True),
        ("[?object.i]", MISFIT),
        ("{?'a': object.i}", MISFIT),
    ],
)
def test_optionals_evaluate(text: str, expected: object) -> None:
    check(text, expected)


@each(
    ("text", "expected"),
    [
        ("{'o': object.?m}.o.?a", NONE),
        ("{'o': object.?m}.o[?'a']", NONE),
        ("{'o': object.?m}.o.a", MISSING),
        ("{'o': object.?m}.o['a']", MISSING),
        ("has({'o': object.?m}.o.a)", False),
        ("[object.?m][0].?a", NONE),
        ("[object.?m][0].a", MISSING),
        ("{'o': {'p': object.?m}}.o.p.a", MISSING),
        ("(object.t ? {'o': object.?m} : {}).o.?a", NONE),
        ("(object.t ? {'o': object.?m}.o : optional.none()).?a", NONE),
        ("{'o': object.?m}.o", some({"a": 1, "b": {"c": [1, {"d": 2}]}})),
        ("{'o': object.?m}.o.hasValue()", True),
        ("(object.t ? object.?m : optional.none()).a", some(1)),
        ("[object.?m].map(o, o.a)", [some(1)]),
        ("has(object.?m.a)", True),
        ("optional.of({'o': object.?m}).o.hasValue()", True),
        ("optional.of({'o': object.?m}).o.a", NONE),
    ],
)
def test_a_chain_unwraps_only_an_optional_that_it_begins_with(text: str, expected: object) -> None:
    check(text, expected)


def test_an_optional_variable_has_no_fields() -> None:
    variables = {"o": some({"a": 1})}
    assert evaluate("variables.o.?a", variables) == NONE
    assert evaluate("variables.o[?'a']", variables) == NONE
    assert evaluate("has(variables.o.a)", variables) is False
    assert error("variables.o.a", variables).kind is MISSING
    assert evaluate("variables.o.optMap(o, o.a)", variables) == some(1)
    assert evaluate("variables.o.orValue({}).?a", variables) == some(1)


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

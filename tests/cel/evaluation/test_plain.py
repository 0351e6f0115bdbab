from __future__ import annotations

from gangctl.cel.evaluation.conversions import plain
from tests.cel.evaluation.evaluating import evaluate
from tests.rows import each


@each(
    ("text", "json"),
    [
        ("object.m", {"a": 1, "b": {"c": [1, {"d": 2}]}}),
        ("1u", 1),
        ("1.5", 1.5),
        ("0.0 / 0.0", "NaN"),
        ("b'abc'", "YWJj"),
        ("timestamp(object.ts)", "2021-03-04T05:06:07.089Z"),
        ("duration('90s')", "90s"),
        ("{1: [duration('1s')]}", {"1": ["1s"]}),
        ("{true: 2u}", {"true": 2}),
        ("type(1)", "int"),
        ("ip('10.0.0.1')", "10.0.0.1"),
        ("quantity('1Gi')", "kubernetes.Quantity"),
        ("optional.of(duration('1s'))", "1s"),
        ("optional.none()", None),
        ("object.n", None),
    ],
)
def test_values_are_converted_to_json(text: str, json: object) -> None:
    assert repr(plain(evaluate(text))) == repr(json)

"""Scalars mean what ``kubectl`` makes of them.

The expected values were written by ``sigs.k8s.io/yaml`` v1.6.0 (``YAMLToJSONStrict``) for the same text.
"""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.documents import parse_documents
from gangctl.api.scalars import json_number, key_text, resolve_plain
from tests.rows import each

VALUES = [
    ("y", True),
    ("Y", True),
    ("yes", True),
    ("N", False),
    ("no", False),
    ("NO", False),
    ("on", True),
    ("OFF", False),
    ("TRUE", True),
    ("False", False),
    ("true", True),
    ("~", None),
    ("null", None),
    ("NULL", None),
    ("Null", None),
    ("nul", "nul"),
    ("yEs", "yEs"),
    ("1e3", 1000),
    ("1E3", 1000),
    ("1_000", 1000),
    ("0x1F", 31),
    ("0X1f", 31),
    ("0x_F", 15),
    ("0o17", 15),
    ("017", 15),
    ("08", 8),
    ("09.5", 9.5),
    ("0b101", 5),
    ("-0b11", -3),
    ("0B1", 1),
    ("0b102", "0b102"),
    ("0x", "0x"),
    ("_1", "_1"),
    ("1__0", 10),
    ("1.", 1),
    (".5", 0.5),
    ("+.5", 0.5),
    ("-.5", -0.5),
    (".5_5", 0.55),
    ("._5", "._5"),
    ("5e-7", 5e-07),
    ("1e400", "1e400"),
    ("-0", 0),
    ("-0.0", 0),
    ("+1", 1),
    ("0.0", 0),
    ("3.0", 3),
    ("3.14", 3.14),
    ("1e21", 1e21),
    ("1e18", 1000000000000000000),
    ("9223372036854775807", 9223372036854775807),
    ("9223372036854775808", 9223372036854775808),
    ("-9223372036854775808", -9223372036854775808),
    ("0777777777777777777777777", 7.777777777777778e23),
    ("0xFFFFFFFFFFFFFFFFF", "0xFFFFFFFFFFFFFFFFF"),
    ("2001-01-01", "2001-01-01"),
    ("2001-01-01T10:00:00Z", "2001-01-01T10:00:00Z"),
    ("1:30", "1:30"),
    ("12:30:45", "12:30:45"),
    ("1-2", "1-2"),
    ("1.2.3", "1.2.3"),
    ("10Gi", "10Gi"),
    ("1e", "1e"),
    ("1e+", "1e+"),
    ("+", "+"),
    (".", "."),
    ("..", ".."),
    ("=", "="),
    ("0_7", 7),
    ("1_", 1),
    ("'\"12\"'", '"12"'),
    ("''", ""),
    ("a", "a"),
    ("'12'", "12"),
    ('"true"', "true"),
    ("", None),
    ("!!str 12", "12"),
    ("!!int 12", 12),
    ("!!float 12", 12),
    ("!!bool yes", True),
    ("!!null ''", None),
    ("!!str", ""),
    ("foo bar", "foo bar"),
    ("a#b", "a#b"),
    ("a #b", "a"),
]
KEYS = [
    ("y", "true"),
    ("no", "false"),
    ("on", "true"),
    ("1", "1"),
    ("01", "1"),
    ("0x10", "16"),
    ("1.5", "1.5"),
    ("1.10", "1.1"),
    ("1e3", "1000"),
    ("1e6", "1e+06"),
    ("1234567.0", "1.234567e+06"),
    ("100000.0", "100000"),
    ("0.0001", "0.0001"),
    ("0.00001", "1e-05"),
    ("0.1", "0.1"),
    ("16777217.0", "1.6777216e+07"),
    ("3e38", "3e+38"),
    ("1e39", ".inf"),
    ("-1e39", "-.inf"),
    ("-0.0", "-0"),
    (".inf", ".inf"),
    ("-.inf", "-.inf"),
    (".nan", ".nan"),
    ("2001-01-01", "2001-01-01"),
    ("'y'", "y"),
    ("true", "true"),
]


@each(("text", "value"), VALUES)
def test_a_plain_scalar_has_its_value(text: str, value: object) -> None:
    (document,) = parse_documents(f"a: {text}\n", "f")
    assert (document.value["a"], type(document.value["a"])) == (value, type(value))


@each(("text", "key"), KEYS)
def test_a_plain_key_has_its_text(text: str, key: str) -> None:
    (document,) = parse_documents(f"{text}: x\n", "f")
    assert document.value == {key: "x"}


@given(st.text(alphabet="0123456789+-._eExXbBoOinfaNty~", max_size=12))
def test_every_text_has_one_meaning(text: str) -> None:
    meaning = resolve_plain(text)
    assert isinstance(meaning, str | int | float | bool | None)
    assert isinstance(key_text(meaning), str | None)


def test_a_number_of_any_length_is_read_in_linear_time() -> None:
    assert resolve_plain("1" * 10_000) == "1" * 10_000
    assert resolve_plain("0" * 10_000) == 0.0


@given(st.integers(-(2**63), 2**64 - 1))
def test_integers_of_64_bits_are_exact(value: int) -> None:
    assert resolve_plain(str(value)) == value


@given(st.floats())
def test_a_float_keeps_its_value_in_json(value: float) -> None:
    number = json_number(value)
    if math.isfinite(value):
        assert number is not None
        assert float(number) == value
    else:
        assert number is None

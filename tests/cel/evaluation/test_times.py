from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gangctl.cel.faults import EvalKind
from gangctl.cel.library.values import INT_MAX, INT_MIN
from gangctl.cel.times import EARLIEST, LATEST, Duration, Timestamp, parse_duration, parse_timestamp
from tests.cel.evaluation.evaluating import check, evaluate
from tests.rows import each

WRONG = EvalKind.INVALID_ARGUMENT
OVERFLOW = EvalKind.OVERFLOW
MISFIT = EvalKind.NO_SUCH_OVERLOAD


@each(
    ("text", "expected"),
    [
        ("timestamp(object.ts).getHours('../etc/passwd')", WRONG),
        ("timestamp(object.ts).getHours('/etc/passwd')", WRONG),
        ("timestamp(object.ts).getHours(object.i)", MISFIT),
    ],
)
def test_accessors_of_times_evaluate(text: str, expected: object) -> None:
    check(text, expected)


@each(
    ("text", "expected"),
    [
        ("timestamp('0001-01-01T00:00:00Z') - duration('1ns')", OVERFLOW),
        ("timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')", OVERFLOW),
        ("-duration('-2562047h47m16.854775808s')", OVERFLOW),
        ("timestamp(-62135596801)", OVERFLOW),
        ("timestamp(253402300800)", OVERFLOW),
        ("timestamp(object.ts) + timestamp(object.ts)", MISFIT),
        ("duration('1s') * 2", MISFIT),
        ("timestamp(object.f)", MISFIT),
        ("duration(object.i)", MISFIT),
    ],
)
def test_arithmetic_of_times_evaluates(text: str, expected: object) -> None:
    check(text, expected)


@each(
    ("text", "canonical"),
    [
        ("2021-01-01T00:00:00Z", "2021-01-01T00:00:00Z"),
        ("2021-01-01T00:00:00.100Z", "2021-01-01T00:00:00.1Z"),
        ("2021-01-01T00:00:00.123456789123Z", "2021-01-01T00:00:00.123456789Z"),
        ("2021-01-01T1:00:00,5Z", "2021-01-01T01:00:00.5Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
    ],
)
def test_timestamps_are_parsed(text: str, canonical: str) -> None:
    assert str(parse_timestamp(text)) == canonical


@each(
    "text",
    [
        "",
        "12:00",
        "2021-01-01T00:00:00",
        "2021-01-01T00:00:00+01:61",
        "2021-02-29T00:00:00+01:00",
        "21-01-01T00:00:00Z",
        "2021-01-01T00:00:00Z\n",
        "\u0662021-01-01T00:00:00Z",
        "2021-01-01T00:00:00." + "1" * 64 + "Z",
    ],
)
def test_invalid_timestamps_are_refused(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        parse_timestamp(text)


@each(
    ("text", "canonical"),
    [
        ("1h2m3.5s", "3723.5s"),
        ("+5s", "5s"),
        ("0", "0s"),
        ("1us2\u00b5s3\u03bcs", "0.000006s"),
        ("1ms", "0.001s"),
        ("1m1m", "120s"),
        ("2562047h47m16.854775807s", "9223372036.854776s"),
    ],
)
def test_durations_are_parsed(text: str, canonical: str) -> None:
    assert str(parse_duration(text)) == canonical


@each(
    "text",
    [
        "",
        "-",
        "1",
        "s",
        ".s",
        "--5s",
        "1h-2m",
        "5S",
        "1e3s",
        "\u0661s",
        "2562047h47m16.854775808s",
        "1" * 64 + "s",
    ],
)
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        parse_duration(text)


@given(st.integers(EARLIEST, LATEST))
def test_a_timestamp_is_its_text(nanoseconds: int) -> None:
    assert parse_timestamp(str(Timestamp(nanoseconds))) == Timestamp(nanoseconds)


@given(st.integers(-(10**15), 10**15))
def test_the_text_of_a_duration_is_parsed_within_the_precision_of_a_double(microseconds: int) -> None:
    assert parse_duration(str(Duration(microseconds * 1000))).nanoseconds == pytest.approx(
        microseconds * 1000, abs=1000
    )


@given(st.integers(EARLIEST, LATEST), st.integers(-12 * 60, 14 * 60))
def test_accessors_are_those_of_python(nanoseconds: int, offset: int) -> None:
    try:
        there = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=nanoseconds // 10**9 + offset * 60)
    except OverflowError:
        assume(condition=False)
    zone = f"{'-' if offset < 0 else ''}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    names = ("getFullYear", "getMonth", "getDate", "getHours", "getMinutes", "getSeconds")
    parts = evaluate(f"[{', '.join(f't.{name}(zone)' for name in names)}]", t=Timestamp(nanoseconds), zone=zone)
    assert parts == [there.year, there.month - 1, there.day, there.hour, there.minute, there.second]


@given(st.text(alphabet="0123456789.hmsnu-+", max_size=12))
def test_durations_are_refused_or_fit(text: str) -> None:
    try:
        found = parse_duration(text)
    except (ValueError, OverflowError):
        return
    assert INT_MIN <= found.nanoseconds <= INT_MAX

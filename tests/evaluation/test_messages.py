"""What a pool and its workers send each other arrives as it was, and what is no message is refused."""

from __future__ import annotations

import ast
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.evaluation.messages import (
    LATE,
    MEMORY,
    Evaluate,
    Evaluated,
    Load,
    plain_evaluated,
    plain_request,
    read_evaluated,
    read_request,
)
from gangctl.policy.loaded import PolicyData
from gangctl.policy.review import Operation, Review
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction
from gangctl.runtime.workerchild import HEADER, FrameError, FrameKind, pack, unpack
from tests.evaluation.scripted import NOW, review
from tests.manifests.files import ROOT
from tests.rows import each

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)
TIMES = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
SECONDS = st.floats(0, 1e6)
REVIEWS = st.builds(
    Review,
    operation=st.sampled_from(get_args(Operation)),
    now=TIMES,
    request=OBJECTS,
    **dict.fromkeys(("object", "old_object", "namespace", "gang", "fit"), st.none() | OBJECTS),
    params=st.dictionaries(TEXTS, st.lists(OBJECTS, max_size=2).map(tuple), max_size=2),
    param_errors=st.dictionaries(TEXTS, TEXTS, max_size=2),
)
FINDINGS = st.lists(
    st.builds(Finding, st.just("p"), TEXTS, st.sampled_from(Result), TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, st.booleans()),
    max_size=3,
).map(tuple)
OUTCOMES = st.builds(
    Outcome,
    policy=st.just("p"),
    matched=st.booleans(),
    skipped=TEXTS,
    actions=st.frozensets(st.sampled_from(ValidationAction)),
    findings=FINDINGS,
    violations=FINDINGS,
    audit_annotations=st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    steps=st.integers(0, 2**63),
)


def sent(value: Any) -> Any:
    """The value on the other side."""
    return unpack(pack(FrameKind.ANSWER, value, 1 << 20)[HEADER.size :])


def shape(value: Any) -> Any:
    """A value with its types: 1, 1.0 and true are equal, and so are 0.0 and -0.0, but CEL distinguishes them."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [type(value), *map(shape, value)]
    return type(value), repr(value)


@given(REVIEWS, st.lists(TEXTS, max_size=3), TEXTS, SECONDS)
def test_a_review_arrives_as_it_was(about: Review, keys: list[str], exceptions: str, seconds: float) -> None:
    message = Evaluate(about, tuple(keys), exceptions, seconds, -seconds)
    arrived = read_request(sent(plain_request(message)))
    assert arrived == message
    assert isinstance(arrived, Evaluate)
    for name in ("request", "object", "old_object", "namespace", "gang", "fit", "params"):
        assert shape(getattr(arrived.review, name)) == shape(getattr(about, name))


@given(
    st.dictionaries(TEXTS, st.tuples(TEXTS, st.builds(PolicyData, OBJECTS, st.booleans())), max_size=3),
    st.dictionaries(TEXTS, st.lists(OBJECTS, max_size=2).map(tuple), max_size=2),
    st.frozensets(TEXTS, max_size=3),
)
def test_policies_and_exceptions_arrive_as_they_were(policies: Any, exceptions: Any, forget: frozenset[str]) -> None:
    message = Load("1.37", policies, exceptions, forget)
    assert read_request(sent(plain_request(message))) == message


@given(st.builds(Evaluated, OUTCOMES | st.sampled_from([MEMORY, LATE]), SECONDS))
def test_an_outcome_arrives_as_it_was(answer: Evaluated) -> None:
    assert read_evaluated("p", sent(plain_evaluated(answer))) == answer


@given(VALUES)
def test_no_other_value_is_an_outcome(value: Any) -> None:
    with pytest.raises(FrameError):
        read_evaluated("p", value)


FINDING = Finding("p", "r", Result.FAIL)
FINE = sent(plain_evaluated(Evaluated(Outcome("p", True, "", frozenset({ValidationAction.DENY}), (FINDING,)), 0.5)))


@given(st.data())
def test_an_outcome_with_one_wrong_part_is_refused_or_read(data: st.DataObject) -> None:
    """Whatever a part is replaced by, what is read has the types of an outcome: it is written as it was read."""
    part = changed = sent(FINE)
    while (
        isinstance(part[at := data.draw(st.integers(0, len(part) - 1))], list) and part[at] and data.draw(st.booleans())
    ):
        part = part[at]
    part[at] = data.draw(VALUES)
    try:
        answer = read_evaluated("p", changed)
    except FrameError:
        return
    assert shape(sent(plain_evaluated(answer))[0]) == shape(sent(changed)[0])


@each(
    "value",
    [
        ["q", *FINE[0][1:]],
        [*FINE[0][:-1], -1],
        [*FINE[0][:-1], True],
        [*FINE[0][:3], ["Explode"], *FINE[0][4:]],
        [*FINE[0][:4], [["r", "perhaps", "", "", "", "", "", False]], *FINE[0][5:]],
    ],
    ids=["another policy", "negative steps", "steps that are true", "an unknown action", "an unknown result"],
)
def test_an_outcome_out_of_bounds_is_refused(value: list[Any]) -> None:
    assert read_evaluated("p", FINE)
    with pytest.raises(FrameError):
        read_evaluated("p", [value, 0.5])


@pytest.mark.parametrize("seconds", [-1.0, True, "1"])
def test_a_time_out_of_bounds_is_refused(seconds: Any) -> None:
    with pytest.raises(FrameError):
        read_evaluated("p", [FINE[0], seconds])


@each(
    ("part", "value"),
    [
        (0, "EXPLODE"),
        (1, "tomorrow"),
        (1, "2026-03-01T00:00:00"),
        (2, None),
        (3, "text"),
        (8, {"p": ["text"]}),
        (9, {"p": 1}),
    ],
)
def test_a_review_with_a_wrong_part_is_refused(part: int, value: Any) -> None:
    message = sent(plain_request(Evaluate(review(), (), "", 1.0, 1.0)))
    read_request(message)
    message[1][part] = value
    with pytest.raises(FrameError):
        read_request(message)


def test_the_time_of_a_review_keeps_its_microseconds() -> None:
    about = replace(review(), now=NOW.replace(microsecond=1))
    arrived = read_request(sent(plain_request(Evaluate(about, (), "", 1.0, 1.0))))
    assert isinstance(arrived, Evaluate)
    assert (arrived.review.now, arrived.review.now.tzinfo) == (about.now, UTC)


def test_nothing_that_is_read_runs_code() -> None:
    """pickle and marshal name classes and functions, and differ between versions of Python."""
    for path in sorted(Path(ROOT, "gangctl").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "marshal", "shelve"} & set(names), path

"""What an exception covers, and until when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.policy.loaded import LoadedException, load_exception
from gangctl.policy.review import Review, covering, covers
from tests.policy.documents import Object, exception, review_of
from tests.policy.reviews import created
from tests.rows import each
from tests.strategies import PROPERTY

END = datetime(2026, 7, 1, tzinfo=UTC)


def of(*policies: Object, **spec: Any) -> LoadedException:
    return load_exception(exception(*policies or ({"name": "p"},), **spec))


def at(moment: datetime, review: Review | None = None) -> Review:
    return replace(created() if review is None else review, now=moment)


def test_an_exception_expires() -> None:
    found = of()
    assert covers(found, "p", "r", at(END - timedelta(seconds=1)))
    assert not covers(found, "p", "r", at(END))
    assert not found.expired(END - timedelta(seconds=1))
    assert found.expired(END)


def test_an_expiry_in_another_time_zone_is_the_same_moment() -> None:
    found = of(expiresAt="2026-07-01T02:00:00+02:00")
    assert covers(found, "p", "r", at(END - timedelta(seconds=1)))
    assert not covers(found, "p", "r", at(END))


def test_an_exception_covers_the_listed_policies_and_rules() -> None:
    found = of({"name": "a"}, {"name": "b", "rules": ["x", "0"]})
    review = created()
    assert covers(found, "a", "anything", review)
    assert covers(found, "a", "spec.paramRef", review)
    assert covers(found, "b", "x", review)
    assert covers(found, "b", "0", review)
    assert not covers(found, "b", "y", review)
    assert not covers(found, "b", "spec.paramRef", review)
    assert not covers(found, "c", "x", review)


@each("whole", ["spec", "spec.paramRef", "spec.matchConditions", "spec.auditAnnotations[a]"])
def test_only_an_exception_without_rules_covers_a_policy_as_a_whole(whole: str) -> None:
    assert covers(of({"name": "p"}), "p", whole, created())
    assert not covers(of({"name": "p", "rules": [whole]}), "p", whole, created())


def named(name: str = "", generated: str = "", **labels: str) -> Review:
    metadata: Object = {"namespace": "ns", "labels": labels}
    metadata |= {"name": name} if name else {}
    metadata |= {"generateName": generated} if generated else {}
    return review_of({"metadata": metadata}, namespace={"metadata": {"name": "ns", "labels": {"team": "a"}}})


MATCHES: list[tuple[Object, Review, bool]] = [
    ({}, named("x"), True),
    ({"namespaces": ["ns"]}, named("x"), True),
    ({"namespaces": ["other"]}, named("x"), False),
    ({"names": ["y", "x"]}, named("x"), True),
    ({"names": ["x"]}, named("xx"), False),
    ({"names": ["x*"]}, named("xx"), True),
    ({"names": ["x-*"]}, named("x"), False),
    ({"names": ["*"]}, named("x"), True),
    ({"names": ["train-*"]}, named(generated="train-"), True),
    ({"names": ["train-*"]}, named(generated="train-big-"), True),
    ({"names": ["train-big-*"]}, named(generated="train-"), False),
    ({"names": ["train-"]}, named(generated="train-"), False),
    ({"names": ["train-*"]}, named("train-abcde", generated="train-"), True),
    ({"names": ["x"], "namespaces": ["other"]}, named("x"), False),
    ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, named("x"), True),
    ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, named("x"), False),
    ({"objectSelector": {"matchLabels": {"a": "b"}}}, named("x", a="b"), True),
    ({"objectSelector": {"matchLabels": {"a": "b"}}}, named("x"), False),
]


@each(("match", "review", "expected"), MATCHES)
def test_an_exception_covers_the_matched_objects(match: Object, review: Review, expected: bool) -> None:
    assert covers(of(match=match), "p", "r", review) is expected


def test_the_first_covering_exception_by_name_is_reported() -> None:
    found = [load_exception(exception({"name": "p"}, name=name)) for name in ("c", "a", "b")]
    assert covering(found, "p", "r", created()) == "a"
    assert covering(found, "q", "r", created()) == ""


@PROPERTY
@given(st.sampled_from(["", "a", "ab", "train-"]), st.text("ab-", max_size=4), st.text("ab-", max_size=3))
def test_a_prefix_that_covers_a_generate_name_covers_the_generated_name(
    prefix: str, generated: str, suffix: str
) -> None:
    found = of(match={"names": [f"{prefix}*"]})
    if covers(found, "p", "r", named(generated=generated)):
        assert covers(found, "p", "r", named(f"{generated}{suffix}x"))

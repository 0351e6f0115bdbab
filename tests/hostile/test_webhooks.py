"""Bodies: any POST to a webhook is answered with a review or refused with one error, and never with a 5xx."""

from __future__ import annotations

import copy
import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.hostile.calls import PATHS, check, connect, ganged, job, post, review, valid_reviews
from tests.hostile.calls import Answer as Given
from tests.hostile.listener import Child, listening
from tests.hostile.profiles import tries
from tests.hostile.words import LONG, json_values
from tests.jobsets import REF, jobset, rj
from tests.rows import each
from tests.strategies import _places as places

Raw = dict[str, Any]
PEAK_MIB = 400
"""Of the 1536 MiB of the pod: 300 on Python 3.11, 360 on 3.14."""


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with listening(tls=False) as running:
        yield running
        assert running.peak_mib() < PEAK_MIB


class Caller:
    """One connection for many calls, as API servers hold it."""

    def __init__(self, child: Child) -> None:
        self._connection = connect(child)

    def post(self, path: str, body: bytes) -> Given:
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        given = Given(response.status, {n.lower(): v for n, v in response.getheaders()}, response.read())
        if given.headers.get("connection") == "close":
            self._connection.close()
        return given

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def caller(child: Child) -> Iterator[Caller]:
    opened = Caller(child)
    yield opened
    opened.close()


def encoded(value: Any) -> bytes:
    """JSON as Python writes it: NaN, half characters and integers of any size included."""
    return json.dumps(value).encode()


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid review with something dropped, doubled, moved, retyped or nested."""
    value: Any = copy.deepcopy(draw(st.sampled_from(valid_reviews())))
    for _ in range(draw(st.integers(0, 4))):
        container, key = draw(st.sampled_from(places(value, []) or [({"x": value}, "x")]))
        match draw(st.integers(0, 4)):
            case 0:
                del container[key]
            case 1:
                container[key] = draw(json_values)
            case 2:
                container[key] = [container[key], copy.deepcopy(container[key])]
            case 3:
                container[key] = {draw(st.sampled_from(["spec", "", REF])): container[key]}
            case _:
                container[key] = copy.deepcopy(draw(st.sampled_from(places(value, [])))[0])
    return value


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The text of a review with bytes lost, added or changed."""
    text = bytearray(encoded(draw(st.sampled_from(valid_reviews()))))
    at = draw(st.integers(0, len(text) - 1))
    match draw(st.integers(0, 4)):
        case 0:
            del text[at:]
        case 1:
            text[at:at] = draw(
                st.sampled_from([b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x1b[2J", b'"', b"["])
            )
        case 2:
            text[at] = draw(st.integers(0, 255))
        case 3:
            text[0:0] = draw(st.sampled_from([b"\xef\xbb\xbf", b"\xff\xfe", b" " * 1000, b"\0"]))
        case _:
            text = bytearray(draw(st.binary(max_size=200)))
    return bytes(text)


FOREIGN_OWNER = job() | {
    "metadata": job()["metadata"] | {"ownerReferences": [*job()["metadata"]["ownerReferences"], "x", {}]}
}
DEEP_REFERENCE = job()
DEEP_REFERENCE["spec"]["template"]["spec"]["schedulingGroup"] = json.loads('{"a":' * 400 + "1" + "}" * 400)


@given(value=mutated(), path=st.sampled_from(PATHS))
@example(review(obj={**job(), "spec": {}}), "/mutate/jobs")
@example(review(obj=FOREIGN_OWNER), "/mutate/jobs")
@example(review("UPDATE", job(), DEEP_REFERENCE), "/mutate/jobs")
@tries(250)
def test_mutated_reviews_are_answered_or_refused(caller: Caller, value: Any, path: str) -> None:
    body = encoded(value)
    check(caller.post(path, body), body)


@given(body=damaged(), path=st.sampled_from(PATHS))
@tries(150)
def test_damaged_json_is_answered_or_refused(caller: Caller, body: bytes, path: str) -> None:
    check(caller.post(path, body), body)


WIDE = [{"name": f"r{n}"} for n in range(10_000)]
HUGE: dict[str, bytes] = {
    "ten-thousand": encoded(review(obj=jobset("js", *WIDE, mode="Gang"))),
    "ten-thousand-with-one-name": encoded(review(obj=jobset("js", *[rj("w", mode="Gang")] * 10_000))),
    "ten-thousand-resized": encoded(
        review("UPDATE", jobset("js", *WIDE, mode="Gang"), jobset("js", *WIDE, mode="Off"))
    ),
    "half-a-million": encoded(review(obj={"spec": {"replicatedJobs": [{}] * 400_000}})),
    "empty-lists": b"[" + b"[]," * 2_300_000 + b"[]]",
    "numbers": b"[" + b"1," * 3_400_000 + b"1]",
    "brackets": b"[" * 7_000_000,
    "nested": encoded(review()).replace(
        b'"object": null', b'"object": ' + b'{"spec":' * 100_000 + b"1" + b"}" * 100_000
    ),
    "digits": encoded(review(obj=jobset("js", rj("w")))).replace(b'"replicas": 1', b'"replicas": ' + b"9" * 6_000_000),
    "long-name": encoded(review(obj=jobset(LONG, rj(LONG, mode="Gang")), name=LONG)),
    "long-mode": encoded(review(obj=jobset("js", rj("w", mode="x" * 5_000_000)))),
    "escapes": b'{"kind":"' + b"\\u0001" * 1_000_000 + b'"}',
    "nothing": b"",
    "half-a-pair": encoded(review(obj=ganged())).replace(b'"js"', b'"\\ud800"'),
    "not-a-number": encoded(review(obj=ganged())).replace(b'"replicas": 2', b'"replicas": NaN'),
    "equal-keys": encoded(review(obj=ganged())).replace(b'"uid"', b'"uid": 1, "uid"'),
    "negative": encoded(review(obj=ganged())).replace(b'"replicas": 2', b'"replicas": -2'),
    "a-fraction": encoded(review(obj=ganged())).replace(b'"replicas": 2', b'"replicas": 2.5'),
}


@pytest.mark.parametrize("name", HUGE)
def test_large_bodies_are_answered_or_refused(child: Child, name: str) -> None:
    for path in PATHS:
        check(post(child, path, HUGE[name]), HUGE[name])
    assert post(child, PATHS[0], encoded(review(obj=ganged()))).status == 200


@pytest.mark.parametrize("size", [7 * 2**20 + 1, 8 * 2**20])
def test_a_body_above_the_limit_is_refused(child: Child, size: int) -> None:
    answer = post(child, PATHS[0], b" " * size)
    assert (answer.status, answer.body) == (413, b"the body is larger than 7 MiB\n")


@each("encoding", ["gzip", "deflate", "br", "gzip, gzip", "identity, gzip", "", "x" * 5000])
def test_encoded_bodies_are_not_decoded(child: Child, encoding: str) -> None:
    bomb = gzip.compress(gzip.compress(b" " * 50_000_000)) if "gzip" in encoding else zlib.compress(b" " * 50_000_000)
    answer = post(child, PATHS[0], bomb, Content_Encoding=encoding)
    check(answer)
    assert answer.status >= 400


@each("path", ["/", "/mutate", "/mutate/jobsets/", "/mutate/../mutate/jobsets", "//mutate/jobsets", "/%00", "/metrics"])
def test_other_paths_are_404(child: Child, path: str) -> None:
    answer = post(child, path, encoded(review(obj=ganged())))
    assert (answer.status, answer.body) == (404, b"no webhook at this path\n")


def test_the_memory_for_a_body_is_bounded(child: Child) -> None:
    """Forty times the text, for one of empty lists, was more than the pod has."""
    before = child.peak_mib()
    for _ in range(5):
        for name in ("empty-lists", "numbers", "half-a-million"):
            check(post(child, PATHS[0], HUGE[name]))
    assert child.peak_mib() - before < 100
    assert child.peak_mib() < PEAK_MIB

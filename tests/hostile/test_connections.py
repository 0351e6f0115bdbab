"""Connections: slow, idle, malformed, outdated and half-open ones do not delay others, and end."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controlplane.wait import wait_for, wait_until
from tests.hostile.calls import PATHS, SECONDS, check, ganged, post, raw, review, until_closed
from tests.hostile.listener import BRIEF, Child, listening
from tests.hostile.profiles import tries
from tests.rows import each

PEAK_MIB = 400
GOOD = json.dumps(review(obj=ganged())).encode()
HEAD = b"POST /mutate/jobsets HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with listening(tls=False) as running:
        yield running
        assert running.peak_mib() < PEAK_MIB


@pytest.fixture(scope="module")
def secure() -> Iterator[Child]:
    with listening(tls=True) as running:
        yield running
        assert running.peak_mib() < PEAK_MIB


@pytest.fixture(scope="module")
def brief() -> Iterator[Child]:
    """One that sends slow callers away within seconds; on a machine that pauses it takes others for such."""
    with listening(tls=False, patience=BRIEF) as running:
        yield running
        assert running.peak_mib() < PEAK_MIB


@pytest.fixture(scope="module")
def brief_secure() -> Iterator[Child]:
    with listening(tls=True, patience=BRIEF) as running:
        yield running
        assert running.peak_mib() < PEAK_MIB


def answers_others(child: Child) -> None:
    """A good request gets its answer. One that waited for slow callers would wait for hours: so long they may stay."""
    answer = post(child, PATHS[0], GOOD)
    assert answer.status == 200
    check(answer, GOOD)


async def still_answers(brief: Child) -> None:
    """A good request gets its answer, sent again where the machine was too slow for the time that this one gives."""

    async def answered() -> bool:
        return post(brief, PATHS[0], GOOD).status == 200

    await wait_for(answered, what="an answer", tolerate=(OSError, http.client.HTTPException))


def opened(child: Child, stack: ExitStack, count: int, first: bytes) -> list[socket.socket]:
    sockets = []
    for _ in range(count):
        sock = stack.enter_context(socket.create_connection(("127.0.0.1", child.port), timeout=SECONDS))
        sock.sendall(first)
        sockets.append(sock)
    return sockets


async def few_left(child: Child) -> None:
    """Wait until the connections have ended."""
    await wait_until(lambda: child.open_files() < 50, "connections to end")


def status_of(answer: bytes) -> int:
    match = re.match(rb"HTTP/1\.[01] ([0-9]{3}) ", answer)
    return int(match[1]) if match else 0


SLOW = {
    "silent": b"",
    "half-a-line": b"POST /mut",
    "half-a-head": HEAD + b"X-Slow: ",
    "half-a-body": HEAD + b"Content-Length: 100000\r\n\r\n{",
    "half-a-chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    "a-large-half": HEAD + b"Content-Length: 7000000\r\n\r\n" + b" " * 200_000,
}


@pytest.mark.parametrize("kind", SLOW)
def test_a_hundred_slow_clients_do_not_delay_others(child: Child, kind: str) -> None:
    """They held the places that are for bodies that have arrived: one request a second got through."""
    with ExitStack() as stack:
        opened(child, stack, 150, SLOW[kind])
        for _ in range(3):
            answers_others(child)


@pytest.mark.parametrize("kind", SLOW)
def test_slow_clients_time_out(brief: Child, kind: str) -> None:
    with ExitStack() as stack:
        (sock,) = opened(brief, stack, 1, SLOW[kind])
        received = sock.recv(65536)
        assert status_of(received) in ({408} if "body" in kind or "chunk" in kind or "large" in kind else {0})


def test_a_client_that_sends_single_bytes_times_out(brief: Child) -> None:
    """A byte now and then keeps no body alive for longer than a body may take."""
    with ExitStack() as stack:
        (sock,) = opened(brief, stack, 1, SLOW["half-a-body"])
        sock.settimeout(0.1)
        received = b""
        while not received:
            try:
                sock.sendall(b" ")
                received = sock.recv(65536)
            except TimeoutError:
                continue
        assert status_of(received) == 408


@each("deadline", ["0s", "1s", "00s", "9999s", "-1s", "1h", "1s&timeout=0s", "٣s", ""])
def test_no_timeout_of_a_client_causes_a_5xx(child: Child, brief: Child, deadline: str) -> None:
    query = f"/mutate/jobsets?timeout={deadline}".encode()
    slow = HEAD.replace(b"/mutate/jobsets", query) + b"Content-Length: 10\r\n\r\n{"
    assert status_of(raw(brief, slow)) in {400, 408}
    prompt = (
        HEAD.replace(b"/mutate/jobsets", query) + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(GOOD) + GOOD
    )
    assert status_of(raw(child, prompt)) in {200, 400}


def test_the_largest_unfinished_bodies_are_dropped_first(child: Child) -> None:
    """Twenty times six megabytes are above the limit: the largest are dropped, and other clients do not wait."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", child.port), timeout=SECONDS)) for _ in range(20)
        ]
        for sock in sockets:
            sock.sendall(HEAD + b"Content-Length: 7000000\r\n\r\n" + b" " * 6_000_000)
        answers_others(child)
        # Those that may stay are 64 MiB: ten of them, or eleven.
        given_up: set[socket.socket] = set()
        while len(given_up) < 9:
            ended, _, _ = select.select([sock for sock in sockets if sock not in given_up], [], [], SECONDS)
            assert [status_of(sock.recv(65536)) for sock in ended] == [408] * len(ended) != []
            given_up.update(ended)
    assert child.peak_mib() < PEAK_MIB


def test_idle_connections_do_not_delay_others(child: Child) -> None:
    with ExitStack() as stack:
        sockets = opened(child, stack, 400, b"")
        answers_others(child)
        # One good request on each, and then nothing more.
        request = HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD
        for sock in sockets[:100]:
            sock.sendall(request)
        for sock in sockets[:100]:
            assert status_of(sock.recv(65536)) == 200
        answers_others(child)
    asyncio.run(few_left(child))


def test_pipelined_requests_are_answered_in_order(child: Child) -> None:
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD
    last = request.replace(b"Host: x", b"Host: x\r\nConnection: close")
    received = raw(child, request * 50 + last)
    assert len(re.findall(rb"HTTP/1\.1 200 OK", received)) == 51


def test_unread_answers_do_not_accumulate(child: Child) -> None:
    """While a client does not read its answers, no more of its requests are processed."""
    before = child.peak_mib()
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", child.port), timeout=1) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # The server stops reading, and then nothing more can be sent.
        with pytest.raises(TimeoutError):
            sock.sendall(request * 400_000)
        answers_others(child)
    assert child.peak_mib() - before < 100


LIES = {
    "shorter-than-declared": HEAD + b"Content-Length: 50\r\n\r\n{}",
    "longer-than-declared": HEAD + b"Content-Length: 2\r\n\r\n{}" + b"x" * 5000,
    "two-lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "both-kinds": HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "not-a-number": HEAD + b"Content-Length: two\r\n\r\n{}",
    "negative": HEAD + b"Content-Length: -2\r\n\r\n{}",
    "huge": HEAD + b"Content-Length: 99999999999999999999\r\n\r\n{}",
    "chunk-size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
    "huge-chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}\r\n",
    "negative-chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
    "chunk-extension": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n",
    "trailers": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
    "smuggled": HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "no-host": HEAD.replace(b"Host: x\r\n", b"") + b"Content-Length: 2\r\n\r\n{}",
    "absolute": HEAD.replace(b"/mutate/jobsets", b"http://[::1:x/mutate/jobsets") + b"Content-Length: 2\r\n\r\n{}",
    "authority": HEAD.replace(b"/mutate/jobsets", b"x:99999999") + b"Content-Length: 2\r\n\r\n{}",
    "star": HEAD.replace(b"/mutate/jobsets", b"*") + b"Content-Length: 2\r\n\r\n{}",
    "connect": HEAD.replace(b"POST /mutate/jobsets", b"CONNECT x:1") + b"\r\n",
    "upgrade": HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "escapes": HEAD.replace(b"/mutate/jobsets", b"/%1b%5b2J%0a%ff%00") + b"Content-Length: 2\r\n\r\n{}",
    "a-long-path": HEAD.replace(b"/mutate/jobsets", b"/" + b"x" * 100_000) + b"\r\n",
    "a-long-query": HEAD.replace(b"/mutate/jobsets", b"/mutate/jobsets?" + b"&a=1" * 1500)
    + b"Content-Length: 2\r\n\r\n{}",
    "many-headers": HEAD + b"X: y\r\n" * 50_000 + b"\r\n",
    "odd-method": b"\x1b[2J / HTTP/1.1\r\n\r\n",
    "nul": HEAD + b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "binary": bytes(range(256)) * 100,
    "tls-hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600,
    "continue": HEAD + b"Expect: 100-continue, 200-maybe\r\nContent-Length: 2\r\n\r\n{}",
}


@each("lie", LIES)
def test_invalid_http_gets_a_4xx_or_a_closed_connection(brief: Child, lie: str) -> None:
    received = raw(brief, LIES[lie])
    for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", received):
        assert status[:1] in {b"1", b"2", b"4"}, received[:300]
    assert b"Traceback" not in received
    assert b"<html" not in received.lower()
    assert all(line.isascii() and b"\x1b" not in line for line in received.split(b"\r\n"))
    asyncio.run(still_answers(brief))


LINES = (
    *("POST /mutate/jobsets HTTP/1.1", "GET /healthz HTTP/1.1", "Host: x", "Content-Type: application/json"),
    *("Content-Length: 2", "Content-Length: 0x2", "Transfer-Encoding: chunked", "Expect: 100-continue"),
    *("Connection: close", "Content-Encoding: gzip", "", "2\r\n{}", "0\r\n", ": "),
)
PARTS = [*(line.encode() + b"\r\n" for line in LINES), b"\n", b"{}", b"\0"]


@given(parts=st.lists(st.one_of(st.sampled_from(PARTS), st.binary(max_size=8)), max_size=12))
@tries(100)
def test_fragments_of_http_in_any_order_get_no_5xx(child: Child, parts: list[bytes]) -> None:
    with socket.create_connection(("127.0.0.1", child.port), timeout=SECONDS) as sock:
        sock.sendall(b"".join(parts))
        sock.shutdown(socket.SHUT_WR)
        received = until_closed(sock)
    for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", received):
        assert status[:1] in {b"1", b"2", b"4"}, received


def hello(secure: Child, context: ssl.SSLContext) -> str | None:
    """The protocol that a handshake ends with."""
    with (
        socket.create_connection(("127.0.0.1", secure.port), timeout=SECONDS) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as wrapped,
    ):
        return wrapped.version()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tls_below_1_2_is_refused(secure: Child, version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with pytest.raises((ssl.SSLError, ConnectionError)):
        hello(secure, context)
    answers_others(secure)


@each("ciphers", ["AES256-SHA", "ECDHE-ECDSA-AES128-SHA", "AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-SHA384"])
def test_weak_ciphers_are_refused(secure: Child, ciphers: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        hello(secure, context)


def test_plain_http_to_the_tls_port_is_closed(secure: Child) -> None:
    assert status_of(raw(secure, HEAD + b"Content-Length: 2\r\n\r\n{}")) == 0
    answers_others(secure)


@pytest.mark.parametrize(
    "first",
    [b"", b"\x16", b"\x16\x03\x01\x40\x00" + b"x" * 100, b"\0" * 5000],
    ids=["nothing", "a-byte", "a-record", "zeros"],
)
def test_unfinished_handshakes_time_out_and_do_not_delay_others(
    secure: Child, brief_secure: Child, first: bytes
) -> None:
    with ExitStack() as stack:
        opened(secure, stack, 150, first)
        answers_others(secure)
    with ExitStack() as stack:
        sockets = opened(brief_secure, stack, 150, first)
        # It ends, with or without an alert before.
        until_closed(sockets[0])
        asyncio.run(few_left(brief_secure))
    asyncio.run(few_left(secure))


def test_aborted_tls_connections_do_not_delay_others(secure: Child) -> None:
    context = secure.trust
    assert context is not None
    with ExitStack() as stack:
        for _ in range(100):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", secure.port), timeout=SECONDS))
            wrapped = stack.enter_context(context.wrap_socket(sock, server_hostname="localhost"))
            wrapped.sendall(HEAD + b"Content-Length: 7000000\r\n\r\n")
        answers_others(secure)

"""Calls of the webhooks over real sockets, and what counts as an answer."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any

from tests.gang.json_patch import apply
from tests.hostile.listener import Child
from tests.hostile.words import is_printed_safely
from tests.jobsets import REF, jobset, rj, stamped_job
from tests.webhooks import test_review as reviews

SECONDS = 300.0
"""A peer that sends nothing for so long hangs; no test is about how long an answer takes."""
PATHS = ("/mutate/jobsets", "/validate/jobsets", "/validate/keys", "/mutate/jobs", "/validate/gangpolicies")
STAMP = "rj/w/js-w"


@dataclass(frozen=True)
class Answer:
    """Status, headers with lower-case names, and body."""

    status: int
    headers: dict[str, str]
    body: bytes


def connect(child: Child) -> http.client.HTTPConnection:
    """A connection that gives up after the time that an answer may take."""
    if child.trust is None:
        return http.client.HTTPConnection("127.0.0.1", child.port, timeout=SECONDS)
    return http.client.HTTPSConnection("127.0.0.1", child.port, timeout=SECONDS, context=child.trust)


def post(child: Child, path: str, body: bytes, **headers: str) -> Answer:
    """One request on a connection of its own; header names with underscores."""
    connection = connect(child)
    try:
        named = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request("POST", path, body, named)
        response = connection.getresponse()
        return Answer(response.status, {n.lower(): v for n, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def until_closed(sock: socket.socket) -> bytes:
    """What the server still sends; it may end the connection with a reset, too."""
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while chunk := sock.recv(65536):
            received += chunk
    return bytes(received)


def raw(child: Child, text: bytes) -> bytes:
    """Send bytes in the clear, and read until the server closes."""
    with socket.create_connection(("127.0.0.1", child.port), timeout=SECONDS) as sock:
        sock.sendall(text)
        return until_closed(sock)


def review(operation: str = "CREATE", obj: Any = None, old: Any = None, **changes: Any) -> dict[str, Any]:
    """An AdmissionReview as an API server writes it."""
    named = {"name": "js", "namespace": "t"}
    return reviews.review(**{**named, "operation": operation, "object": obj, "oldObject": old, **changes})


def job() -> dict[str, Any]:
    """A child Job whose pods belong into a gang."""
    return stamped_job("theirs", {REF: STAMP})


def ganged() -> dict[str, Any]:
    """A JobSet that asks for a gang, with a stamp from its creation."""
    return jobset("js", rj("w", 2, 2, 2, mode="Gang", annotations={REF: STAMP}), rj("v"))


def valid_reviews() -> list[dict[str, Any]]:
    """What API servers send: every operation, of both resources."""
    lost = job()
    held = job()
    held["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return [
        review(obj=ganged()),
        review(obj=jobset("js", rj("w"), mode="Gang")),
        review("UPDATE", ganged(), ganged()),
        review("DELETE", None, ganged()),
        review("CONNECT", None, None),
        review(obj=job()),
        review("UPDATE", lost, held),
        review("UPDATE", ganged(), ganged(), subResource="status"),
    ]


def check(answer: Answer, body: bytes = b"") -> None:
    """Fail unless it is an AdmissionReview that an API server takes, or a refusal in one sentence."""
    assert 200 <= answer.status < 300 or 400 <= answer.status < 500, answer
    if answer.status >= 400:
        text = answer.body.decode()
        assert answer.headers["content-type"].startswith("text/plain")
        assert text.endswith("\n")
        assert is_printed_safely(text.removesuffix("\n"), 400), text
        return
    reported = json.loads(answer.body)
    response = reported["response"]
    assert (reported["apiVersion"], reported["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert isinstance(response["allowed"], bool)
    assert isinstance(response["uid"], str)
    for warning in response.get("warnings", ()):
        assert is_printed_safely(warning, 256)
    assert sum(map(len, response.get("warnings", ()))) <= 4096
    if response["allowed"]:
        assert "status" not in response
        assert ("patch" in response) == ("patchType" in response)
    else:
        assert response["status"]["code"] in range(400, 600)
        assert is_printed_safely(response["status"]["message"], 4200)
        for cause in response["status"]["details"].get("causes", ()):
            assert is_printed_safely(cause["message"], 1024)
            assert is_printed_safely(cause["field"], 1024)
    if "patch" in response:
        apply(json.loads(body)["request"]["object"], json.loads(base64.b64decode(response["patch"])))

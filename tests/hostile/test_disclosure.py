"""What leaves gangctl beside its answers: logs and metrics carry no object, no secret, no control characters."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import aiohttp
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from gangctl.errors import InputError, escaped
from gangctl.runtime.metrics import RuntimeMetrics
from gangctl.runtime.probes import ProbeServer
from gangctl.webhooks.gangs import GangAdmission
from gangctl.webhooks.review import build_endpoints
from tests.hostile.calls import check, ganged, post, review, valid_reviews
from tests.hostile.listener import View, listening
from tests.hostile.profiles import tries
from tests.hostile.words import ANSI, FORGED_LOG, words
from tests.jobsets import jobset, rj
from tests.rows import each

MARK = "mark-of-an-object"
LOG = """
import sys
import structlog
from gangctl.manager import logs
logs.configure("info", sys.argv[1])
structlog.get_logger("x").warning("request refused", path=sys.argv[2], reason=sys.argv[2])
try:
    raise ValueError(sys.argv[2])
except ValueError:
    structlog.get_logger("x").warning("failed", name=sys.argv[2], n=1)
"""


@each("form", ["json", "text"])
@each("value", [ANSI, FORGED_LOG, "\u202e", "a\nb\r\nc"])
def test_a_log_keeps_one_line_for_each_record(form: str, value: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOG, form, value], capture_output=True, text=True, check=True, timeout=300
    )
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert all(escaped(line) == line for line in lines)
    if form == "json":
        assert [json.loads(line)["level"] for line in lines] == ["warning", "warning"]


def test_the_listener_logs_no_body() -> None:
    """Refused, answered and broken ones alike: where it went and where it came from is all."""
    marked = jobset(MARK, rj(MARK, mode=MARK), annotations={MARK: MARK})
    with listening(tls=False) as child:
        for value in (
            review(obj=marked),
            review("UPDATE", marked, marked, uid=MARK),
            review(obj=marked, operation=MARK),
        ):
            check(post(child, "/mutate/jobsets", json.dumps(value).encode()))
        check(post(child, "/mutate/jobsets", f'{{"{MARK}"'.encode()))
        check(post(child, "/mutate/jobsets", b"{}", Content_Type=MARK))
        check(post(child, "/mutate/jobsets", b"{}", Authorization=MARK))
        printed = child.log.read_text()
    assert printed.count("request refused") == 4
    assert MARK not in printed


async def collected(registry: CollectorRegistry) -> set[tuple[str, str]]:
    """Every label and value that a scrape shows."""
    async with (
        ProbeServer(("127.0.0.1", 0), registry=registry) as probes,
        aiohttp.ClientSession() as session,
        session.get("http://{}:{}/metrics".format(*probes.address)) as response,
    ):
        families = list(text_string_to_metric_families(await response.text()))
        return {pair for family in families for sample in family.samples for pair in sample.labels.items()}


LABELS = {"verb", "resource", "code", "controller", "result", "error_class", "name", "reason", "place", "le"}


@given(values=st.lists(words, min_size=3, max_size=3))
@tries(20)
def test_values_of_objects_are_not_used_as_labels(values: list[str]) -> None:
    """The webhooks' labels: paths of ours and four verdicts, whatever was asked."""
    seen: set[tuple[str, str]] = set()

    async def ready() -> None:
        return

    async def ask() -> None:
        endpoints = build_endpoints(
            GangAdmission(View()).routes(), ready, lambda path, verdict, _: seen.add((path, verdict))
        )
        first, second, third = values
        raw = jobset(first, rj(second, mode=third), mode=second, namespace=third)
        bodies: list[Any] = [review(obj=raw, name=first, namespace=second, uid=third or "u"), *valid_reviews()]
        for value in bodies:
            for endpoint in endpoints.values():
                try:
                    await endpoint(json.dumps(value).encode("utf-8", "replace"))
                except InputError:
                    continue

    asyncio.run(ask())
    assert {path for path, _ in seen} <= {"/mutate/jobsets", "/validate/jobsets", "/validate/keys", "/mutate/jobs"}
    assert {verdict for _, verdict in seen} <= {"allowed", "patched", "denied", "unready"}


async def test_labels_are_from_closed_lists() -> None:
    """A server that answers with any status makes no label of its own either: it is a number."""
    registry = CollectorRegistry()
    metrics = RuntimeMetrics(registry)
    for status in (0, 200, 404, 599):
        metrics.on_request("list", "jobsets.jobset.x-k8s.io", status, 0.1)
    metrics.controller_observer("gangs").failed("ConflictError")
    metrics.event_recorded("created")
    found = await collected(registry)
    assert {label for label, _ in found} <= LABELS
    assert MARK not in str(found)


def test_a_valid_review_is_still_answered() -> None:
    with listening(tls=False) as child:
        body = json.dumps(review(obj=ganged())).encode()
        answer = post(child, "/mutate/jobsets", body)
        check(answer, body)
        assert answer.status == 200

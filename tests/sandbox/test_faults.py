from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.rows import each
from tests.sandbox import faults
from tests.sandbox.faults import WRITES, Action, FaultySandbox, Match
from tests.sandbox.wire import CONFIGMAPS, MERGE, Wire

TESTER = Match("tester")


def _stored(sandbox: FaultySandbox) -> list[str]:
    return [stored.obj["metadata"]["name"] for stored in sandbox.api.store.items("configmaps")]


async def _create(wire: Wire, name: str) -> int:
    return (await wire.send("POST", CONFIGMAPS, {"metadata": {"name": name}})).status


async def test_a_rule_applies_from_its_first_match_for_its_number_of_times(sandbox: FaultySandbox, wire: Wire) -> None:
    rule = sandbox.faults.add(Match("tester", WRITES, "configmaps"), faults.error(503), first=2, times=2)
    statuses = []
    for name in "abcd":
        statuses.append(await _create(wire, name))
        await wire.get(CONFIGMAPS)
    assert statuses == [201, 503, 503, 201]
    assert (rule.seen, rule.fired) == (4, 2)
    assert _stored(sandbox) == ["a", "d"]


async def test_a_rule_does_not_affect_other_users(sandbox: FaultySandbox) -> None:
    sandbox.faults.add(TESTER, faults.error(), times=100)
    async with Wire(sandbox.url, sandbox.token("other")) as other:
        assert await _create(other, "a") == 201


@each(
    ("match", "seen"),
    [
        (Match("tester"), 4),
        (Match("tester", frozenset({"get"})), 1),
        (Match("tester", frozenset({"create"}), dry_run=False), 1),
        (Match("tester", frozenset({"create"}), dry_run=True), 1),
        (Match("tester", name="a"), 1),
        (Match("tester", namespace="kube-system"), 1),
        (Match("tester", resource="pods"), 0),
        (Match("tester", where=lambda record: record.verb == "list"), 1),
    ],
)
async def test_a_rule_matches_by_user_verb_and_resource(
    sandbox: FaultySandbox, wire: Wire, match: Match, seen: int
) -> None:
    rule = sandbox.faults.count(match)
    await _create(wire, "a")
    await wire.get(f"{CONFIGMAPS}/a")
    await wire.send("POST", f"{CONFIGMAPS}?dryRun=All", {"metadata": {"name": "b"}})
    await wire.get("/api/v1/namespaces/kube-system/configmaps")
    assert (rule.seen, rule.fired) == (seen, 0)


@each(
    ("action", "status", "reason"),
    [
        (faults.error(500), 500, "InternalError"),
        (faults.conflict(), 409, "Conflict"),
        (faults.gone(), 410, "Expired"),
        (faults.throttle(7), 429, "TooManyRequests"),
        (faults.ExpireWatch(), 410, "Expired"),
    ],
)
async def test_a_refused_write_changes_nothing(
    sandbox: FaultySandbox, wire: Wire, action: Action, status: int, reason: str
) -> None:
    begun = sandbox.audit.total
    sandbox.faults.add(TESTER, action)
    answer = await wire.send("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    assert (answer.status, answer.json["reason"]) == (status, reason)
    assert answer.headers.get("Retry-After") == ("7" if status == 429 else None)
    assert _stored(sandbox) == []
    assert [record.code for record in sandbox.audit.since(begun)] == [status]


@pytest.mark.parametrize(("action", "stored"), [(faults.CutBefore(), []), (faults.CutAfter(), ["a"])])
async def test_a_cut_connection_gives_no_response(
    sandbox: FaultySandbox, wire: Wire, action: Action, stored: list[str]
) -> None:
    sandbox.faults.add(TESTER, action)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await _create(wire, "a")
    assert _stored(sandbox) == stored
    assert [record.code for record in sandbox.audit] == [0]
    assert await _create(wire, "b") == 201


async def test_a_cut_after_the_request_carries_out_the_write(sandbox: FaultySandbox, wire: Wire) -> None:
    await wire.configmap("a")
    # aiohttp sends a DELETE that was cut a second time by itself.
    sandbox.faults.add(TESTER, faults.CutAfter(), times=3)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await wire.send("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "1"}}, content_type=MERGE)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await wire.send("DELETE", f"{CONFIGMAPS}/a")
    assert _stored(sandbox) == []


async def test_a_delayed_request_succeeds(sandbox: FaultySandbox, wire: Wire) -> None:
    sandbox.faults.add(TESTER, faults.Delay(0.05))
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await _create(wire, "a") == 201
    assert loop.time() - started >= 0.05


async def test_a_silent_server_ends_with_its_client(sandbox: FaultySandbox, wire: Wire) -> None:
    sandbox.faults.add(TESTER, faults.Silence())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await _create(wire, "a")
    assert _stored(sandbox) == []


async def test_a_stale_read_returns_an_earlier_revision(sandbox: FaultySandbox, wire: Wire) -> None:
    await wire.configmap("a")
    await wire.configmap("b")
    sandbox.faults.add(TESTER, faults.Stale(behind=1), times=2)
    stale = (await wire.get(CONFIGMAPS)).json
    assert [item["metadata"]["name"] for item in stale["items"]] == ["a"]
    assert stale["metadata"]["resourceVersion"] == str(sandbox.api.store.revision - 1)
    assert (await wire.get(f"{CONFIGMAPS}/b")).status == 404
    assert (await wire.get(f"{CONFIGMAPS}/b")).status == 200


WATCH = f"{CONFIGMAPS}?watch=true&resourceVersion=0"


async def _watched(wire: Wire, names: str) -> tuple[list[bytes], bool]:
    """The lines of a watch during which configmaps were created, and whether it ended properly."""
    lines: list[bytes] = []
    async with wire.session.get(f"{wire._url}{WATCH}") as response, asyncio.timeout(300), asyncio.TaskGroup() as group:
        reading = group.create_task(_read(response.content, lines))
        for name in names:
            await wire.configmap(name)
    return lines, reading.result()


async def _read(content: aiohttp.StreamReader, lines: list[bytes]) -> bool:
    try:
        async for line in content:
            lines.append(line)
    except aiohttp.ClientPayloadError:
        return False
    return True


@pytest.mark.parametrize(
    ("action", "events", "proper"),
    [(faults.CutAfter(events=2), 2, False), (faults.EndWatch(events=1), 1, True), (faults.CutAfter(), 0, False)],
)
async def test_a_watch_breaks_after_some_events(
    sandbox: FaultySandbox, wire: Wire, action: Action, events: int, *, proper: bool
) -> None:
    sandbox.faults.add(Match("tester", frozenset({"watch"})), action)
    lines, ended = await _watched(wire, "abc")
    assert (len(lines), ended) == (events, proper)


async def test_a_watch_may_expire_in_the_middle(sandbox: FaultySandbox, wire: Wire) -> None:
    sandbox.faults.add(Match("tester", frozenset({"watch"})), faults.ExpireWatch(events=1))
    lines, ended = await _watched(wire, "ab")
    assert ended
    assert b'"ADDED"' in lines[0]
    assert b'"ERROR"' in lines[1]
    assert b'"code":410' in lines[1]


async def test_a_watch_may_fall_silent(sandbox: FaultySandbox, wire: Wire) -> None:
    sandbox.faults.add(Match("tester", frozenset({"watch"})), faults.Silence(events=1))
    async with wire.session.get(f"{wire._url}{WATCH}") as response:
        await wire.configmap("a")
        await wire.configmap("b")
        async with asyncio.timeout(300):
            assert b'"a"' in await response.content.readline()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await response.content.readline()


async def test_cleared_rules_do_not_apply(sandbox: FaultySandbox, wire: Wire) -> None:
    sandbox.faults.add(TESTER, faults.error(), times=100)
    sandbox.faults.clear()
    assert await _create(wire, "a") == 201

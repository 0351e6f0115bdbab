"""Watches: where they begin, which events they send, and how they end."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.conformance.answers import Refusal, bad_request
from tests.conformance.grounds import Server
from tests.conformance.objects import jobsets, lease, leases
from tests.controlplane.api import ApiFailure, Parameter, WatchEvent
from tests.controlplane.wait import NotYet, wait_for
from tests.rows import each

END = "k8s.io/initial-events-end"


class History:
    """One Lease after the other: created, annotated, relabelled, deleted, beside a second one."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.api = server.api
        self.path = leases(namespace)
        self.begin = ""

    async def make(self) -> None:
        created = await self.api.create(self.path, lease("a", labels={"s": "1"}))
        self.begin = created["metadata"]["resourceVersion"]
        await self.api.patch(f"{self.path}/a", {"metadata": {"annotations": {"n": "1"}}})
        await self.api.patch(f"{self.path}/a", {"metadata": {"labels": {"s": "2"}}})
        await self.api.create(self.path, lease("b", labels={"s": "2"}))
        await self.api.patch(f"{self.path}/a", {"metadata": {"labels": {"s": "1"}}})
        await self.api.delete(f"{self.path}/b")
        version = (await self.api.get(self.path))["metadata"]["resourceVersion"]
        # A watch that names no version begins with what is in the server's cache.
        cached = partial(self.api.get, self.path, resourceVersion=version)
        await wait_for(cached, what="the server's cache to have all of it", tolerate=(ApiFailure,))

    async def watched(self, count: int, **parameters: Parameter) -> list[WatchEvent]:
        """The first events of a watch."""
        return await first(count, self.api.watch(self.path, timeoutSeconds=30, **parameters))


async def first(count: int, events: AsyncIterator[WatchEvent]) -> list[WatchEvent]:
    found = []
    async with asyncio.timeout(300):
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


def shown(events: list[WatchEvent]) -> list[str]:
    """Events as "ADDED a/1": type, name, and the label s."""
    return [
        f"{event.type} {event.object['metadata']['name']}/{event.object['metadata']['labels']['s']}" for event in events
    ]


@pytest.fixture
async def history(server: Server, namespace: str) -> History:
    made = History(server, namespace)
    await made.make()
    return made


async def test_a_watch_from_a_version_sends_later_changes(history: History) -> None:
    # A watch from a version sends later changes.
    events = await history.watched(5, resourceVersion=history.begin)
    assert shown(events) == ["MODIFIED a/1", "MODIFIED a/2", "ADDED b/2", "MODIFIED a/1", "DELETED b/2"]
    versions = [int(event.object["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(history.begin)

    # Events carry whole objects.
    (event,) = await history.watched(1, resourceVersion=history.begin)
    assert (event.object["kind"], event.object["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert event.object["metadata"]["annotations"] == {"n": "1"}

    # Deleted carries the last state with the version of its end.
    events = await history.watched(5, resourceVersion=history.begin)
    added, deleted = events[2].object, events[4].object
    assert int(deleted["metadata"].pop("resourceVersion")) > int(added["metadata"].pop("resourceVersion"))
    assert deleted == added

    # A watch of one object.
    events = await history.watched(2, resourceVersion=history.begin, fieldSelector="metadata.name=b")
    assert shown(events) == ["ADDED b/2", "DELETED b/2"]


@each("asked", [{}, {"resourceVersion": "0"}], ids=["no-version", "version-0"])
async def test_a_watch_without_a_version_begins_with_the_existing_objects(
    history: History, asked: dict[str, Parameter]
) -> None:
    events = await history.watched(1, **asked)
    assert shown(events) == ["ADDED a/1"]


async def test_a_watch_sends_changes_as_they_happen(history: History) -> None:
    events = []
    async for event in history.api.watch(history.path, timeoutSeconds=30):
        events.append(event)
        if len(events) == 2:
            break
        await history.api.patch(f"{history.path}/a", {"metadata": {"labels": {"s": "3"}}})
    assert shown(events) == ["ADDED a/1", "MODIFIED a/3"]


async def test_a_watch_with_a_selector_sends_selected_objects_only(history: History) -> None:
    # What leaves a selection is deleted and what comes back added.
    events = await history.watched(3, resourceVersion=history.begin, labelSelector="s=1")
    assert shown(events) == ["MODIFIED a/1", "DELETED a/1", "ADDED a/1"]

    # What enters a selection is added.
    events = await history.watched(4, resourceVersion=history.begin, labelSelector="s=2")
    assert shown(events) == ["ADDED a/2", "ADDED b/2", "DELETED a/2", "DELETED b/2"]

    # What leaves a selection has the version of the change.
    everything = await history.watched(2, resourceVersion=history.begin)
    selected = await history.watched(2, resourceVersion=history.begin, labelSelector="s=1")
    assert selected[1].type == "DELETED"
    assert selected[1].object["metadata"]["resourceVersion"] == everything[1].object["metadata"]["resourceVersion"]


async def test_a_watch_ends_at_its_timeout(history: History) -> None:
    parameters: dict[str, Parameter] = {"resourceVersion": history.begin, "fieldSelector": "metadata.name=b"}

    async def ended() -> bool:
        # Both have to come before; it takes all of it.
        events = [event async for event in history.api.watch(history.path, timeoutSeconds=3, **parameters)]
        if shown(events) != ["ADDED b/2", "DELETED b/2"]:
            raise NotYet(str(shown(events)))
        return True

    await wait_for(ended, what="a watch of three seconds to tell of both")


async def test_initial_events_end_with_a_bookmark(history: History) -> None:
    # Initial events end with a bookmark.
    events = await history.watched(
        2, sendInitialEvents=True, resourceVersionMatch="NotOlderThan", allowWatchBookmarks=True
    )
    assert shown(events[:1]) == ["ADDED a/1"]
    bookmark = events[1]
    assert bookmark.type == "BOOKMARK"
    metadata = bookmark.object["metadata"]
    assert metadata["annotations"] == {END: "true"}
    assert int(metadata["resourceVersion"]) > int(history.begin)
    assert (bookmark.object["kind"], bookmark.object["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert not metadata.keys() & {"name", "uid"}

    # A watch goes on from a bookmark.
    (*_, bookmark) = await history.watched(
        2, sendInitialEvents=True, resourceVersionMatch="NotOlderThan", allowWatchBookmarks=True
    )
    await history.api.create(history.path, lease("c", labels={"s": "3"}))
    (event,) = await history.watched(1, resourceVersion=bookmark.object["metadata"]["resourceVersion"])
    assert shown([event]) == ["ADDED c/3"]


async def test_options_of_a_watch_are_checked(history: History) -> None:
    # The version of a watch is a number.
    await Refusal(500, "")(history.watched(1, resourceVersion="abc"), saying='Invalid value: "abc"')

    # A watch parses its selectors.
    await bad_request(history.watched(1, labelSelector="a in x"))
    await bad_request(history.watched(1, fieldSelector="spec.x=1"))


async def test_a_watch_from_a_compacted_version_is_expired(server: Server, namespace: str) -> None:
    """JobSets came after the server's first versions, so nothing is remembered of those."""
    events = server.api.watch(jobsets(namespace), resourceVersion="1", timeoutSeconds=5)
    await Refusal(410, "Expired")(first(1, events), saying="too old resource version: 1 (")


async def test_a_watch_from_a_future_version_waits_for_it(history: History) -> None:
    events = [event async for event in history.api.watch(history.path, resourceVersion="999999999", timeoutSeconds=1)]
    assert events == []

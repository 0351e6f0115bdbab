"""The lifetime of the groups of a suspended JobSet, with Kueue, without it and before that is known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from gangctl.controllers.polling import PERIOD_SECONDS
from gangctl.controllers.queues.sources import ABSENT_CHECKS
from tests.controllers.queues.definitions import KUEUE, definition
from tests.faults.virtual_time import run
from tests.faults.world import ADMIN, World, world
from tests.jobsets import jobset, rj

QUEUED = jobset("js", rj("w", 1, 2, 2, mode="Gang"))
QUEUED["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
PLAIN = jobset("plain", rj("w", 1, 2, 2, mode="Gang"))

BELIEVED_SECONDS = PERIOD_SECONDS * ABSENT_CHECKS
"""After so long an absence is believed."""
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


async def install(here: World) -> None:
    """The definitions of Kueue's kinds."""
    for each in KUEUE:
        await here.api.create(here.api.kind(DEFINITIONS), "", definition(each), ADMIN)


async def remove(here: World) -> None:
    """Take them away, with all that there is of those kinds."""
    for each in KUEUE:
        await here.api.delete(here.api.kind(DEFINITIONS), "", each.qualified_name, ADMIN)


async def uids(here: World, name: str = "js") -> set[str]:
    """UIDs of the objects of a JobSet's gang."""
    return {
        obj["metadata"]["uid"]
        for obj in (await here.gangs()).values()
        if obj["metadata"]["ownerReferences"][0]["name"] == name
    }


async def suspend(here: World, name: str = "js", *, suspended: bool = True) -> None:
    await here.patch(name, {"spec": {"suspend": suspended}})


def lived(directory: Path, story: Callable[[World], Awaitable[None]]) -> None:
    """Run a story in a separate world."""

    async def reported() -> None:
        async with world("1.37", directory) as here:
            await story(here)

    run(reported())


async def _running(here: World) -> set[str]:
    """Start gangctl and both JobSets; the UIDs of the gang of the one in a queue."""
    await here.start_gangctl()
    await here.create(QUEUED)
    await here.create(PLAIN)
    await here.rest(5)
    found = await uids(here)
    assert len(found) == 2
    return found


def test_with_kueue_groups_survive_a_suspension_and_a_restart_of_gangctl(tmp_path: Path) -> None:
    async def story(here: World) -> None:
        await install(here)
        before = await _running(here)
        await suspend(here)
        await suspend(here, "plain")
        await here.rest(1000)
        assert await uids(here) == before
        assert await uids(here, "plain") == set(), "nobody but a person suspends what is in no queue"
        await here.restart_gangctl()
        await here.rest(1000)
        assert await uids(here) == before
        await suspend(here, suspended=False)
        await here.rest(30)
        assert await uids(here) == before
        await here.finish("js")
        await here.rest(30)
        assert await uids(here) == set()

    lived(tmp_path, story)


def test_groups_are_created_at_the_first_start_and_deleted_with_the_jobset(tmp_path: Path) -> None:
    async def story(here: World) -> None:
        await install(here)
        await here.start_gangctl()
        await here.create({**QUEUED, "spec": {**QUEUED["spec"], "suspend": True}})
        await here.rest(200)
        assert await uids(here) == set()
        await suspend(here, suspended=False)
        await here.rest(10)
        assert len(await uids(here)) == 2
        await suspend(here)
        await here.rest(10)
        await here.delete("js")
        await here.rest(10)
        assert await here.gangs() == {}

    lived(tmp_path, story)


def test_without_kueue_groups_are_deleted_at_a_suspension(tmp_path: Path) -> None:
    async def story(here: World) -> None:
        before = await _running(here)
        await suspend(here)
        await suspend(here, "plain")
        await here.rest(10)
        assert await uids(here) == before, "it is not known yet"
        assert await uids(here, "plain") == set()
        await here.rest(BELIEVED_SECONDS)
        assert await uids(here) == set()
        await suspend(here, suspended=False)
        await here.rest(10)
        after = await uids(here)
        assert len(after) == 2
        assert not after & before
        await suspend(here)
        await here.rest(10)
        assert await uids(here) == set(), "it has been known for long"

    lived(tmp_path, story)


def test_groups_survive_a_short_absence_of_kueue_but_not_its_removal(tmp_path: Path) -> None:
    async def story(here: World) -> None:
        await install(here)
        before = await _running(here)
        await suspend(here)
        await here.rest(10)
        await remove(here)
        await here.rest(PERIOD_SECONDS * (ABSENT_CHECKS - 1.5))
        await install(here)
        await here.rest(1000)
        assert await uids(here) == before
        await remove(here)
        await here.rest(BELIEVED_SECONDS + PERIOD_SECONDS)
        assert await uids(here) == set()

    lived(tmp_path, story)

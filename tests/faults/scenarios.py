"""What can happen to a JobSet in its life, as steps that take no account of how long anything takes.

After every step the world comes to rest (:meth:`World.rest`), in virtual time. A scenario ends when its last step has;
what must be true then is what was true without a fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.faults import pathways, policies
from tests.faults.world import REST_SECONDS, World
from tests.jobsets import jobset, rj
from tests.live.observe import foreign_workload

Steps = Callable[[World], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """A name, its steps, and the minors on which it differs."""

    name: str
    steps: Steps
    minors: tuple[str, ...] = ("1.37",)
    from_the_start: bool = False
    """Whether faults befall the start of gangctl too."""
    racing: bool = False
    """Whether how it goes depends on who is faster, without any fault: only the end must be the same."""
    about: frozenset[str] = frozenset()
    """Resources, alone or behind a verb, whose requests are met by faults, in a world that has them; empty for all."""

    def is_about(self, verb: str, resource: str) -> bool:
        """Whether such a request is to be met by a fault."""
        return not self.about or not self.about.isdisjoint({resource, f"{verb} {resource}"})


async def start(world: World) -> None:
    """gangctl starts on an empty cluster, and again on one where JobSets, ganged and not, are running."""
    await world.create(jobset("js", rj("w", 2, 2, 2, mode="Gang")))
    await world.create(jobset("plain", rj("w", 1, 1, 1)))
    await world.rest()
    await world.restart_gangctl()
    await world.rest()


async def create_and_finish(world: World) -> None:
    """Two gangs beside a ReplicatedJob without one, created, run, finished."""
    await world.create(jobset("js", rj("w", 2, 2, 2, mode="Gang"), rj("r", 2, 1, 1, mode="ReplicatedGang"), rj("o")))
    await world.rest()
    await world.finish("js")
    await world.rest()


async def whole_jobset(world: World) -> None:
    """One gang of two ReplicatedJobs that stays."""
    await world.create(jobset("js", rj("driver", 1, 1, 1), rj("workers", 2, 2, 2), mode="Gang"))
    await world.rest()


async def created_suspended(world: World) -> None:
    """Suspended from the beginning, resumed later."""
    await world.create(jobset("js", rj("w", 1, 2, 2, mode="Gang"), suspend=True))
    await world.rest()
    await world.patch("js", {"spec": {"suspend": False}})
    await world.rest()


async def suspend_and_resume(world: World) -> None:
    """Suspended while it runs, and resumed."""
    await world.create(jobset("js", rj("w", 1, 3, 3, mode="Gang")))
    await world.rest()
    await world.patch("js", {"spec": {"suspend": True}})
    await world.rest()
    await world.patch("js", {"spec": {"suspend": False}})
    await world.rest()


async def suspend_and_resume_at_once(world: World) -> None:
    """Resumed before the old gang can be gone."""
    await world.create(jobset("js", rj("w", 1, 3, 3, mode="Gang")))
    await world.rest()
    await world.patch("js", {"spec": {"suspend": True}})
    await world.patch("js", {"spec": {"suspend": False}})
    await world.rest()


async def restart(world: World) -> None:
    """A pod fails and JobSet starts all over."""
    await world.create(jobset("js", rj("w", 2, 2, 2, mode="Gang"), failurePolicy={"maxRestarts": 1}))
    await world.rest()
    await world.fail("js")
    await world.rest()


async def resize(world: World) -> None:
    """Elastic: larger, then smaller."""
    await world.create(jobset("js", rj("w", 1, 4, 4, mode="Gang")))
    await world.rest()
    for pods in (6, 2):
        await world.resize("js", pods)
        await world.rest()


async def tail(world: World) -> None:
    """One pod has finished when another fails: the count of the gang follows."""
    job = {"backoffLimit": 6}
    await world.create(jobset("js", rj("w", 1, 3, 3, mode="Gang", job=job), failurePolicy={"maxRestarts": 0}))
    await world.rest()
    await world.finish("js", pods=1)
    await world.rest()
    await world.fail("js")
    await world.rest()


async def delete(world: World) -> None:
    """Deleted while it runs; the name is used again."""
    raw = jobset("js", rj("w", 1, 2, 2, mode="ReplicatedGang"))
    await world.create(raw)
    await world.rest()
    await world.delete("js")
    await world.rest()
    await world.create(raw)
    await world.rest()


async def delete_at_once(world: World) -> None:
    """Deleted while gangctl may still be creating its objects."""
    await world.create(jobset("js", rj("w", 2, 2, 2, mode="ReplicatedGang")))
    await world.delete("js")
    await world.rest()


async def drift(world: World) -> None:
    """Another client deletes the Workload and edits a PodGroup."""
    await world.create(jobset("js", rj("w", 1, 2, 2, mode="Gang")))
    await world.rest()
    await world.damage()
    await world.rest()


async def foreign(world: World) -> None:
    """A foreign Workload claims the JobSet."""
    await world.create_scheduling("workloads", foreign_workload(world, "user-wl", "js"))
    await world.rest()
    await world.create(jobset("js", rj("w", 1, 2, 2, mode="Gang")))
    await world.rest()


async def policies_start(world: World) -> None:
    """gangctl starts where there are policies, one broken, an exception and JobSets: one breaks a rule, one may."""
    await world.create(jobset("js", rj("w", 1, 2, 2, mode="Gang")))
    await world.create(jobset("large", rj("w", 1, 3, 3, mode="Gang")))
    await world.put(policies.limits(1), policies.size("Deny"), policies.named(), policies.exception("large"))
    await world.rest()
    await world.stop_gangctl()
    # Its webhook would refuse that.
    await world.put(policies.broken())
    await world.start_gangctl()
    await world.rest()
    await world.attempt(jobset("other", rj("w", 1, 2, 2, mode="Gang")))


async def policies_life(world: World) -> None:
    """Policies are created, used, changed and deleted; answers and reports follow."""
    large, long = jobset("large", rj("w", 1, 3, 3, mode="Gang")), jobset("long-name", rj("w", 1, 1, 1))
    await world.put(policies.size("Deny"), policies.named())
    await world.rest(2 * REST_SECONDS)
    await world.attempt(large)  # its parameters are missing
    await world.put(policies.limits(2))
    await world.rest(2 * REST_SECONDS)
    await world.attempt(large)
    await world.attempt(long)
    await world.put(policies.exception("large"))
    await world.rest(2 * REST_SECONDS)
    await world.attempt(large)
    await world.put(policies.size("Warn"), policies.limits(1))
    await world.drop(policies.named(), policies.exception("large"))
    await world.rest(2 * REST_SECONDS)
    await world.attempt(jobset("small", rj("w", 1, 2, 2, mode="Gang")))
    await world.attempt(jobset("long-name", rj("w", 1, 1, 1)))
    await world.rest(2 * REST_SECONDS)


async def policies_end(world: World) -> None:
    """The last policy goes, and with it what was registered and reported."""
    await world.put(policies.limits(1), policies.size("Deny", "Audit"))
    await world.create(jobset("js", rj("w", 1, 1, 1, mode="Gang")))
    await world.rest()
    await world.drop(policies.size())
    await world.rest(2 * REST_SECONDS)
    await world.attempt(jobset("large", rj("w", 1, 3, 3, mode="Gang")))


async def pathways_life(world: World) -> None:
    """A PathwaysJob runs, is suspended and resumed, fails once, and ends."""
    await world.submit()
    # A silent watch is opened again after more than a minute.
    await world.rest(2 * REST_SECONDS)
    await world.patch("pw", {"spec": {"suspend": True}})
    await world.rest()
    await world.patch("pw", {"spec": {"suspend": False}})
    await world.rest()
    await world.fail("pw")
    await world.rest()
    await world.finish("pw", pods=1)
    await world.rest()


ALL_MINORS = ("1.37", "1.36", "1.35")
SCENARIOS = (
    Scenario("start", start, ALL_MINORS, from_the_start=True),
    Scenario("create-and-finish", create_and_finish, ALL_MINORS),
    Scenario("whole-jobset", whole_jobset),
    Scenario("created-suspended", created_suspended),
    Scenario("suspend-and-resume", suspend_and_resume, ALL_MINORS),
    Scenario("suspend-and-resume-at-once", suspend_and_resume_at_once, racing=True),
    Scenario("restart", restart),
    Scenario("resize", resize),
    Scenario("tail", tail),
    Scenario("delete", delete),
    Scenario("delete-at-once", delete_at_once, racing=True),
    Scenario("drift", drift),
    Scenario("foreign-workload", foreign),
    Scenario("policies-start", policies_start, from_the_start=True, about=policies.ABOUT),
    Scenario("policies-life", policies_life, about=policies.ABOUT),
    Scenario("policies-end", policies_end, about=policies.ABOUT),
    Scenario("pathways", pathways_life, from_the_start=True, about=pathways.ABOUT),
)

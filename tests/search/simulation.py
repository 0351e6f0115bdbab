"""The simulation: all of gangctl over the sandbox in virtual time, with users, pods and faults of a seed.

``play(draw(7))`` is one run, the same each time; what is wrong in the end, or on the way, is a :class:`Failure` with
the shortest list of actions that still shows it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gangctl.sandbox.faults import Record
from tests.faults.matrix import Point
from tests.faults.world import world
from tests.jobsets import jobset, rj
from tests.search.cluster import Cluster
from tests.search.memory import run
from tests.search.worlds import MINORS

Object = dict[str, Any]

NAMES: Final = ("a", "b")
NODES: Final = 4
_REQUESTS: Final = (
    *(("create", kind) for kind in ("workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io")),
    *(("delete", kind) for kind in ("workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io")),
    *(("watch", kind) for kind in ("jobsets.jobset.x-k8s.io", "jobs.batch", "podgroups.scheduling.k8s.io")),
    ("patch", "podgroups.scheduling.k8s.io"),
    ("list", "jobs.batch"),
    ("list", "jobsets.jobset.x-k8s.io"),
    ("create", "events.events.k8s.io"),
)
_OFTEN: Final = {
    "succeed": 8,
    "fail": 8,
    "evict": 2,
    "suspend": 4,
    "resume": 12,
    "create": 12,
    "delete": 2,
    "orphan": 1,
    "label": 1,
    "delete-object": 3,
    "edit-group": 1,
    "quota": 1,
    "unbind": 1,
    "fault": 6,
    "restart": 1,
    "stop": 1,
    "start": 4,
}
_ALWAYS: Final = frozenset({"create", "resume", "label"})
_CHOSEN: Final = 0.5
_PODS: Final = frozenset({"succeed", "fail", "evict"})
_OF_A_JOBSET: Final = frozenset({*_PODS, "suspend", "resume", "create", "delete", "orphan", "label"})
_WAITS: Final = ("0.01", "0.05", "0.3", "1", "1", "5", "5", "70")


@dataclass(frozen=True)
class Plan:
    """What one run is made of; all of it follows from ``seed``."""

    seed: int
    minor: str
    manifests: dict[str, Object]
    room: int
    """Pods that find room, 0 if that is every pod."""
    actions: tuple[str, ...]


@dataclass(frozen=True)
class Failure:
    """What is wrong, and the actions that lead to it."""

    plan: Plan
    what: str

    def __str__(self) -> str:
        actions = "".join(f"\n        {action!r}," for action in self.plan.actions)
        plan = self.plan
        jobs = "".join(f"\n    {name}: {_summary(raw)}" for name, raw in plan.manifests.items())
        where = f"seed {plan.seed}, Kubernetes {plan.minor}, room for {plan.room or 'all'}"
        return f"{where}: {self.what}{jobs}\n    replay({plan.seed}, [{actions}\n    ])"


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)
    minor = rng.choice(MINORS)
    room = rng.choice((0, 0, NODES))
    manifests = {name: _jobset(rng, name, full=bool(room)) for name in NAMES[: rng.choice((1, 1, 2))]}
    actions: list[str] = []
    user = _User(rng, list(manifests))
    for _ in range(rng.randint(8, 20)):
        actions += [user.act(), f"wait {rng.choice(_WAITS)}"]
    return Plan(seed, minor, manifests, room, tuple(actions))


def _jobset(rng: random.Random, name: str, *, full: bool) -> Object:
    """One JobSet; ``full`` pods take a node each."""
    shape = rng.choice(("whole", "whole", "each", "replicas", "partly"))
    entries = []
    for number in range(rng.choice((1, 1, 2))):
        pods = rng.choice((1, 2, 3, 3))
        queue = rng.random() < 0.2
        job: Object = {"backoffLimit": rng.choice((0, 6, 6))}
        if not queue and rng.random() < 0.2:
            job = {"backoffLimit": 6, "backoffLimitPerIndex": rng.choice((0, 1))}
        ganged = shape in {"each", "replicas"} or (shape == "partly" and not number)
        mode = {"replicas": "ReplicatedGang"}.get(shape, "Gang") if ganged else None
        entries.append(
            rj(
                f"r{number}",
                rng.choice((1, 1, 2)),
                pods,
                None if queue else pods + rng.choice((0, 0, 1)),
                non_indexed=queue,
                mode=mode,
                cpu="8" if full else "10m",
                job=job,
            )
        )
    spec: Object = {}
    if restarts := rng.choice((0, 1, 2)):
        spec["failurePolicy"] = {"maxRestarts": restarts}
    return jobset(name, *entries, mode="Gang" if shape == "whole" else None, **spec)


class _User:
    """Draws what is possible as far as the actions before it show."""

    def __init__(self, rng: random.Random, names: Sequence[str]) -> None:
        self._rng = rng
        self._names = names
        self._present: set[str] = set()
        self._suspended: set[str] = set()
        self._runs = True
        self._limited = False
        # Half of the verbs a run: what happens often enough to matter differs from run to run.
        self._weights = {verb: n for verb, n in _OFTEN.items() if verb in _ALWAYS or rng.random() < _CHOSEN}

    def act(self) -> str:
        """The next action."""
        drawn = self._draw()
        while drawn is None:
            drawn = self._draw()
        return drawn

    def _draw(self) -> str | None:
        [verb] = self._rng.choices(list(self._weights), list(self._weights.values()))
        if verb in _OF_A_JOBSET:
            return self._of(verb, self._rng.choice(self._names))
        if verb in {"delete-object", "edit-group"}:
            return f"{verb} {self._rng.randrange(6)}"
        if verb == "fault":
            asked, resource = self._rng.choice(_REQUESTS)
            kind = self._rng.choice(list(Point(asked, resource, dry_run=False, nth=1).kinds))
            return f"fault {asked} {resource} {kind}"
        if verb == "quota":
            limited, self._limited = self._limited, True
            return None if limited else f"quota {self._rng.randrange(4)}"
        if verb in {"start", "stop", "restart"}:
            if (verb == "start") == self._runs:
                return None
            self._runs = verb != "stop"
        return verb

    def _of(self, verb: str, name: str) -> str | None:
        if (verb == "create") == (name in self._present):
            return None
        if verb in {"suspend", "resume"}:
            if (verb == "resume") != (name in self._suspended):
                return None
            self._suspended ^= {name}
        elif verb in {"create", "delete", "orphan"}:
            self._present ^= {name}
            self._suspended -= {name}
        return f"{verb} {name} {self._rng.randrange(12)}" if verb in _PODS else f"{verb} {name}"


def play(plan: Plan, requests: list[Record] | None = None) -> str:
    """What goes wrong when all of the plan is done; empty if nothing does.

    ``requests`` receives the requests to the API server, in order.
    """
    with tempfile.TemporaryDirectory() as directory:
        return run(plan.seed, lambda: _play(plan, Path(directory), [] if requests is None else requests))


async def _play(plan: Plan, directory: Path, requests: list[Record]) -> str:
    async with world(plan.minor, directory) as here:
        wrong = await _wrong(plan, Cluster(here, plan.manifests, plan.room))
        requests += here.sandbox.audit
        return wrong


async def _wrong(plan: Plan, cluster: Cluster) -> str:
    await cluster.open()
    for action in plan.actions:
        if wrong := await cluster.perform(action):
            return wrong
    await cluster.settle()
    return await cluster.at_rest() or await cluster.resync() or await cluster.left()


def replay(seed: int, actions: Sequence[str]) -> str:
    """The same world with these actions; what is wrong, empty if nothing is."""
    return play(replace(draw(seed), actions=tuple(actions)))


def shrink(plan: Plan, what: str) -> Failure:
    """Leave out actions one at a time while something is still wrong."""
    position = len(plan.actions) - 1
    while position >= 0:
        shorter = replace(plan, actions=(*plan.actions[:position], *plan.actions[position + 1 :]))
        if wrong := play(shorter):
            plan, what = shorter, wrong
        position = min(position - 1, len(plan.actions) - 1)
    return Failure(plan, what)


def failures(seeds: Iterable[int]) -> Iterator[Failure]:
    """The seeds that fail, each with its shortest actions."""
    for seed in seeds:
        plan = draw(seed)
        if what := play(plan):
            yield shrink(plan, what)


def _summary(raw: Object) -> str:
    parts = []
    for entry in raw["spec"]["replicatedJobs"]:
        spec = entry["template"]["spec"]
        size = f"{spec['parallelism']}/{spec.get('completions')} backoff {spec['backoffLimit']}"
        notes = entry["template"].get("metadata", {}).get("annotations", "")
        parts.append(f"{entry['name']}: {entry.get('replicas', 1)} x {size} {notes}".strip())
    rest = {key: value for key, value in raw["spec"].items() if key != "replicatedJobs"}
    return f"{'; '.join(parts)} {raw['metadata'].get('annotations', '')} {rest}"

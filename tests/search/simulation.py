"""The simulation: all of gangctl over the sandbox in virtual time, with users, pods and faults of a seed.

``play(draw(7))`` is one run, the same each time; what is wrong in the end, or on the way, is a :class:`Failure` with
the shortest list of actions that still shows it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

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
    "succeed": 5,
    "fail": 4,
    "evict": 1,
    "suspend": 3,
    "resume": 4,
    "create": 4,
    "delete": 2,
    "orphan": 1,
    "label": 1,
    "delete-object": 2,
    "edit-group": 1,
    "quota": 1,
    "unbind": 1,
    "fault": 6,
    "restart": 1,
    "stop": 1,
    "start": 2,
}
_WAITS: Final = ("0.01", "0.05", "0.3", "2", "20", "70")


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
    actions = ["create a", "wait 2"]
    for _ in range(rng.randint(4, 14)):
        actions.append(_action(rng, list(manifests)))
        actions.append(f"wait {rng.choice(_WAITS)}")
    return Plan(seed, minor, manifests, room, tuple(actions))


def _jobset(rng: random.Random, name: str, *, full: bool) -> Object:
    """One JobSet; ``full`` pods take a node each."""
    shape = rng.choice(("whole", "whole", "each", "replicas", "partly"))
    entries = []
    for number in range(rng.choice((1, 1, 2))):
        pods = rng.randint(1, 3)
        queue = rng.random() < 0.2
        job: Object = {"backoffLimit": rng.choice((0, 6))}
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
    if rng.random() < 0.15:
        spec["suspend"] = True
    return jobset(name, *entries, mode="Gang" if shape == "whole" else None, **spec)


def _action(rng: random.Random, names: Sequence[str]) -> str:
    [verb] = rng.choices(list(_OFTEN), list(_OFTEN.values()))
    if verb in {"succeed", "fail", "evict"}:
        return f"{verb} {rng.choice(names)} {rng.randrange(12)}"
    if verb in {"create", "suspend", "resume", "delete", "orphan", "label"}:
        return f"{verb} {rng.choice(names)}"
    if verb in {"delete-object", "edit-group"}:
        return f"{verb} {rng.randrange(6)}"
    if verb == "quota":
        return f"quota {rng.randrange(4)}"
    if verb == "fault":
        asked, resource = rng.choice(_REQUESTS)
        kind = rng.choice(list(Point(asked, resource, dry_run=False, nth=1).kinds))
        return f"fault {asked} {resource} {kind}"
    return verb


def play(plan: Plan) -> str:
    """What goes wrong when all of the plan is done; empty if nothing does."""
    with tempfile.TemporaryDirectory() as directory:
        return run(plan.seed, lambda: _play(plan, Path(directory)))


async def _play(plan: Plan, directory: Path) -> str:
    async with world(plan.minor, directory) as here:
        cluster = Cluster(here, plan.manifests, plan.room)
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


def failures(seeds: Sequence[int]) -> Iterator[Failure]:
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

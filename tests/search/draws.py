"""What a seed of the simulation draws: JobSets, how gangctl is run, and what happens."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.faults.matrix import Point
from tests.jobsets import jobset, rj
from tests.search.operation import Operation
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
    "foreground": 1,
    "orphan": 1,
    "hold": 1,
    "release": 2,
    "label": 1,
    "resize": 2,
    "delete-object": 3,
    "edit-group": 1,
    "take": 1,
    "quota": 1,
    "tamper": 1,
    "fault": 6,
    "restart": 1,
    "crash": 1,
    "stop": 1,
    "start": 4,
    "hours": 1,
}
_ALWAYS: Final = frozenset({"create", "resume", "label"})
_CHOSEN: Final = 0.5
_HANDOVER: Final = {"stop": 12, "start": 12, "crash": 6, "create": 12, "delete": 12, "fail": 12}
_THEMES: Final[tuple[Mapping[str, int], ...]] = (
    {},
    {},
    {"succeed": 16, "fail": 12, "delete-object": 12},
    {"succeed": 12, "suspend": 10, "take": 8},
    {"stop": 6, "start": 6, "suspend": 8, "label": 6, "foreground": 4, "hold": 4, "release": 6, "fail": 16},
    {"tamper": 30, "stop": 3, "start": 4, "fail": 12, "create": 8, "delete": 8},
    {"quota": 12, "fail": 20, "label": 2},
    {"restart": 6, "crash": 8, "start": 10, "delete": 6, "succeed": 10},
    {"hours": 6},
    _HANDOVER,
)
"""What happens more often in a run than otherwise, so that what has to come together does."""
_PODS: Final = frozenset({"succeed", "fail", "evict"})
_NUMBERED: Final = frozenset({*_PODS, "resize", "take"})
_NEEDS: Final = frozenset({*_NUMBERED, "suspend", "resume", "label", "delete", "foreground", "orphan", "hold"})
_OF_A_JOBSET: Final = frozenset({*_NEEDS, "create", "release"})
_ENDS: Final = frozenset({"delete", "foreground", "orphan"})
_OF_GANGCTL: Final = frozenset({"start", "stop", "restart", "crash"})
_WAITS: Final = ("0.01", "0.05", "0.3", "1", "1", "5", "5", "70")

GANGS: Final = '[{"name": "front", "replicatedJobs": ["r0"]}, {"name": "rest", "replicatedJobs": ["r1"]}]'
_ALONE: Final = [{"name": "alone", "action": "RestartJob"}]


@dataclass(frozen=True)
class Plan:
    """What one run is made of; all of it follows from ``seed``."""

    seed: int
    minor: str
    manifests: dict[str, Object]
    room: int
    """Pods that find room, 0 if that is every pod."""
    operation: Operation
    actions: tuple[str, ...]


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)
    minor = rng.choice(MINORS)
    room = rng.choice((0, 0, NODES))
    theme = rng.choice(_THEMES)
    operation = _operation(rng, minor, handover=theme is _HANDOVER)
    names = NAMES[: rng.choice((1, 1, 2))]
    manifests = {name: _jobset(rng, name, full=bool(room), has_groups=minor != "1.35") for name in names}
    plan = Plan(seed, minor, manifests, room, operation, ())
    user = _User(rng, plan, theme)
    actions: list[str] = []
    for _ in range(rng.randint(8, 20)):
        actions += [user.act(), f"wait {rng.choice(_WAITS)}"]
    return replace(plan, actions=tuple(actions))


def _operation(rng: random.Random, minor: str, *, handover: bool) -> Operation:
    return Operation(
        replicas=2 if handover else rng.choice((1, 1, 1, 1, 2)),
        registration=rng.choice(("manage", "ca-only")),
        unregisters=rng.random() < 0.3,
        stray=minor != "1.35" and rng.random() < 0.2,
    )


def _jobset(rng: random.Random, name: str, *, full: bool, has_groups: bool) -> Object:
    """One JobSet; ``full`` pods take a node each."""
    shape = rng.choice(("whole", "whole", "each", "replicas", "partly", *(("several",) if has_groups else ())))
    entries = []
    for number in range(2 if shape == "several" else rng.choice((1, 1, 2))):
        pods = rng.choice((1, 2, 3, 3))
        queue = rng.random() < 0.2
        job: Object = {"backoffLimit": rng.choice((0, 6, 6))}
        if not queue and rng.random() < 0.2:
            job = {"backoffLimit": 6, "backoffLimitPerIndex": rng.choice((0, 1))}
        ganged = shape in {"each", "replicas"} or (shape == "partly" and not number)
        mode = {"replicas": "ReplicatedGang"}.get(shape, "Gang") if ganged else None
        # JobSet makes it Indexed, and the API server refuses an Indexed Job without completions.
        refused = not queue and shape == "partly" and number > 0 and rng.random() < 0.3
        entries.append(
            rj(
                f"r{number}",
                rng.choice((1, 1, 2)),
                pods,
                None if queue or refused else pods + rng.choice((0, 0, 1)),
                non_indexed=queue,
                mode=mode,
                cpu="8" if full else "10m",
                job=job,
            )
        )
    spec: Object = {}
    if restarts := rng.choice((0, 1, 2)):
        spec["failurePolicy"] = {"maxRestarts": restarts}
        if shape in {"replicas", "partly"} and rng.random() < 0.5:
            spec["failurePolicy"]["rules"] = _ALONE
    notes = {"gangctl.dev/gangs": GANGS} if shape == "several" else None
    return jobset(name, *entries, mode="Gang" if shape == "whole" else None, annotations=notes, **spec)


class _User:
    """Draws what is possible as far as the actions before it show."""

    def __init__(self, rng: random.Random, plan: Plan, theme: Mapping[str, int]) -> None:
        self._rng = rng
        self._names = list(plan.manifests)
        self._replicas = plan.operation.replicas
        self._present: set[str] = set()
        self._suspended: set[str] = set()
        self._held: set[str] = set()
        self._going: set[str] = set()
        self._running = set(range(self._replicas))
        # A gang waits for hours if there is no room for it; an hour in which nothing happens shows nothing.
        self._done = set() if plan.room else {"hours"}
        # One of these at most: with the policy and the webhook behind it gone, nothing names the group of a Job.
        targets = ["policy", "policy", "binding", "jobs"] if plan.minor != "1.35" else []
        if plan.operation.registration == "manage":
            targets += ["mutating", "validating"]
        self._target = rng.choice(targets) if targets else ""
        # Half of the verbs a run: what happens often enough to matter differs from run to run.
        often = {verb: n for verb, n in _OFTEN.items() if verb in _ALWAYS or rng.random() < _CHOSEN}
        self._weights = {**often, **theme}

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
        if verb in _OF_GANGCTL:
            return self._gangctl(verb, self._rng.randrange(self._replicas))
        if verb in {"delete-object", "edit-group"}:
            return f"{verb} {self._rng.randrange(6)}"
        if verb == "fault":
            asked, resource = self._rng.choice(_REQUESTS)
            kind = self._rng.choice(list(Point(asked, resource, dry_run=False, nth=1).kinds))
            return f"fault {asked} {resource} {kind}"
        if verb in {"quota", "hours"}:
            if verb in self._done:
                return None
            self._done.add(verb)
            return f"quota {self._rng.randrange(4)}" if verb == "quota" else verb
        if verb == "tamper":
            return f"tamper {self._target} {self._rng.choice(('delete', 'edit'))}" if self._target else None
        return verb

    def _gangctl(self, verb: str, number: int) -> str | None:
        if (verb == "start") == (number in self._running):
            return None
        if verb != "restart":
            self._running ^= {number}
        return f"{verb} {number}"

    def _of(self, verb: str, name: str) -> str | None:
        if (verb == "create") == (name in self._present) and verb != "release":
            return None
        if verb in {"suspend", "resume"}:
            if (verb == "resume") != (name in self._suspended):
                return None
            self._suspended ^= {name}
        elif verb in {"hold", "release"}:
            if (verb == "release") != (name in self._held):
                return None
            self._held ^= {name}
            if name in self._going:
                self._going.remove(name)
                self._present ^= {name}
                self._suspended -= {name}
        elif verb in _ENDS or verb == "create":
            if name in self._held and verb != "create":
                # It stays until it is released.
                self._going.add(name)
                return f"{verb} {name}"
            self._present ^= {name}
            self._suspended -= {name}
        return f"{verb} {name} {self._rng.randrange(12)}" if verb in _NUMBERED else f"{verb} {name}"


def summary(raw: Object) -> str:
    """A JobSet in a line."""
    parts = []
    for entry in raw["spec"]["replicatedJobs"]:
        spec = entry["template"]["spec"]
        size = f"{spec['parallelism']}/{spec.get('completions')} backoff {spec['backoffLimit']}"
        notes = entry["template"].get("metadata", {}).get("annotations", "")
        parts.append(f"{entry['name']}: {entry.get('replicas', 1)} x {size} {notes}".strip())
    rest = {key: value for key, value in raw["spec"].items() if key != "replicatedJobs"}
    return f"{'; '.join(parts)} {raw['metadata'].get('annotations', '')} {rest}"

"""Small replays, and what happens in them."""

from __future__ import annotations

from benchmarks.day.figures import Event, Kind
from benchmarks.day.windows import Demand, Outage, Replay

HOUR = 3600.0


def replay(*demands: Demand, nodes: int = 1, held: int = 0, outages: tuple[Outage, ...] = ()) -> Replay:
    return Replay(demands, tuple(f"node-{number}" for number in range(nodes)), held, outages, 720.0)


def demand(name: str, pods: int, *, at: float = 0.0, gpus: int = 1, hours: float = 1.0) -> Demand:
    return Demand(name, at, hours * HOUR, pods, gpus)


def pod(at: float, kind: Kind, job: str, number: int, node: str = "node-0") -> Event:
    return Event(at, kind, job, f"{job}-{number}", node)


def pods(at: float, kind: Kind, job: str, count: int, node: str = "node-0") -> list[Event]:
    return [pod(at, kind, job, number, node) for number in range(count)]

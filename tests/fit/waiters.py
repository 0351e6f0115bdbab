"""Workloads that run and wait in the queue of a gang that is asked about, which waits as the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gangctl.fit.clusterstate import Outlook
from gangctl.fit.report import FitReport, StartReport
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import ClusterQueue, Condition, QueuedWorkload, RunTime
from gangctl.kueue.queues import Head, find_head
from tests.fit.asking import NAMESPACE, QUEUE, known, pods
from tests.fit.queues import cpu, holder
from tests.jobsets import jobset

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PAIR = ("f1", "cpu")
HOUR = 3600


def since(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def running(
    uid: str, amount: int, *, age: float | None = 600, queue: str = "a", run_time: RunTime | None = None, **more: Any
) -> QueuedWorkload:
    """One that uses cpu, admitted so many seconds ago; pods without grace."""
    conditions = {"QuotaReserved": Condition(status=True)}
    if age is not None:
        conditions["Admitted"] = Condition(status=True, since=since(age))
    run_time = run_time or RunTime(grace=0)
    return holder(uid, queue, {PAIR: amount * 1000}, conditions=conditions, run_time=run_time, **more)


def limited(seconds: int, **more: Any) -> RunTime:
    return RunTime(seconds, **{"grace": 0, **more})


def waiting(uid: str, amount: int, *, order: int = 0, short: bool = True, **more: Any) -> QueuedWorkload:
    """One that waits in the LocalQueue, created before the gang; a lower order is earlier."""
    message = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f1, 1 more needed"
    conditions = {"QuotaReserved": Condition(status=False, reason="Pending", message=message)} if short else {}
    fields = {
        "namespace": NAMESPACE,
        "name": f"w-{uid}",
        "queue": QUEUE,
        "created": since(5000 - order),
        "pods": {"main": 1},
        "requests": {"main": {"cpu": amount * 1000}},
        "run_time": RunTime(grace=0),
        "conditions": conditions,
    }
    return QueuedWorkload(**{**fields, "uid": uid, **more})


def cluster_queue(amount: int = 10, cohort: str = "", name: str = "a", **more: Any) -> ClusterQueue:
    return ClusterQueue(name, cohort, cpu(amount * 1000), selector=(), **more)


def head_of(*pending: QueuedWorkload) -> Callable[[ClusterQueue], Head | None]:
    """The head of queue ``a``, in which those of LocalQueue ``QUEUE`` wait."""
    inside = [workload for workload in pending if workload.queue == QUEUE]
    return lambda queue: find_head(queue, inside, NOW)


def ask(
    held: Sequence[Any],
    amount: int = 10,
    *,
    pending: Sequence[QueuedWorkload] = (),
    expected: Mapping[tuple[str, str], float] | None = None,
    **more: Any,
) -> FitReport:
    """The report on a gang of so many pods with one CPU each, which waits as the last of its queue."""
    raw = jobset("js", pods("w", amount, cpu="1"))
    own = waiting("~js", amount, order=4000)
    outlook = Outlook(NOW, [*pending, own], expected or {})
    head = head_of(*pending, own)
    request = FitRequest(raw, NAMESPACE, {}, QUEUE, workload=own, outlook=outlook, head=head)
    return fit(request, known(*held, **more))


def start(*args: Any, **more: Any) -> tuple[int, int | None] | None:
    found = ask(*args, **more)["starts"]
    return None if found is None else (found["earliest"], found["latest"])


def said(*args: Any, **more: Any) -> str:
    report: StartReport | None = ask(*args, **more)["starts"]
    assert report is not None
    return "; ".join(report["why"])

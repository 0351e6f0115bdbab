"""Situations of gangs in the queues of a real Kueue, beside those of tests/live/gang_situations.py."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Command
from tests.controlplane.api import Object
from tests.controlplane.wait import wait_for
from tests.jobsets import jobset, rj
from tests.live.broken_situations import IMPATIENT, SLOW
from tests.live.causes import NAME, Place, running
from tests.live.denied_situations import SITUATIONS
from tests.live.gang_situations import RUNS
from tests.live.queued import KUEUE, QUEUE

__all__ = ["SITUATIONS"]

PRIORITY = "kueue.x-k8s.io/priority-class"


async def door(place: Place, cpu: str = "4", **spec: Any) -> None:
    """A queue of the situation's own."""
    await place.queued.apply("ResourceFlavor", place.namespace, {})
    await place.queued.queue(cpu, **spec)


async def submit(place: Place, raw: Object, **labels: str) -> None:
    """A gang in that queue."""
    raw["metadata"]["namespace"] = place.namespace
    await place.queued.submit(raw["metadata"]["name"], body=raw, labels=labels)


async def patch_workload(place: Place, name: str, patch: Object) -> None:
    """Change a Workload of Kueue once it is there."""
    workload = await wait_for(lambda: place.queued.workload(name), "the Workload")
    await place.plane.api.patch(place.queued.path("Workload", workload.name, place.namespace), patch)


@SITUATIONS(Reason.NEVER_FITS, "five CPUs for a queue of four", Command.FIT, when=RUNS, code=1)
async def never_fits(place: Place) -> None:
    await door(place)
    await submit(place, place.gang(5))


@SITUATIONS(Reason.WAITING_FOR_QUOTA, "queue of four CPUs, three of them taken", Command.FIT, when=RUNS, blocking=False)
async def quota_taken(place: Place) -> None:
    await door(place)
    await submit(place, place.gang(3, name="first"))
    await place.queued.until("first", "Admitted")
    await submit(place, place.gang(3))
    await place.queued.until(NAME, "Pending")


@SITUATIONS(Reason.QUEUE_BLOCKED, "stopPolicy Hold of the LocalQueue", Command.QUEUE, when=RUNS)
async def queue_held(place: Place) -> None:
    await door(place)
    await place.queued.door(stopPolicy="Hold")
    await submit(place, place.gang(2))


@SITUATIONS(
    Reason.ADMISSION_GATED,
    "annotation admission-gated-by of a controller that does not exist",
    Command.JOBSET_ANNOTATIONS,
    when=RUNS,
    shows="test.example/a",
)
async def admission_gate(place: Place) -> None:
    await door(place)
    await submit(place, place.gang(2, annotations={"kueue.x-k8s.io/admission-gated-by": "test.example/a"}))


@SITUATIONS(
    Reason.WAITING_FOR_CHECK,
    "AdmissionCheck whose controller does not answer",
    Command.ADMISSION_CHECK,
    when=RUNS,
    blocking=False,
)
async def check_pending(place: Place) -> None:
    await checked(place)
    await submit(place, place.gang(2))
    await place.queued.until(NAME, "QuotaReserved")


async def checked(place: Place) -> None:
    """A queue with a check that the test answers for."""
    await place.queued.apply("AdmissionCheck", place.namespace, {"controllerName": "test.example/check"})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now}
    path = f"{place.queued.path('AdmissionCheck', place.namespace)}/status"
    await place.plane.api.patch(path, {"status": {"conditions": [condition]}})
    await door(place, admissionChecksStrategy={"admissionChecks": [{"name": place.namespace}]})


@SITUATIONS(
    Reason.QUEUE_BLOCKED, "label of a LocalQueue that does not exist", Command.LOCAL_QUEUES, when=RUNS, shows="main"
)
async def no_such_queue(place: Place) -> None:
    await door(place)
    raw = place.gang(2)
    raw["metadata"]["namespace"] = place.namespace
    await place.queued.submit(NAME, body=raw, queue="absent")


@SITUATIONS(Reason.DEACTIVATED, "AdmissionCheck set to Rejected", Command.QUEUED_WORKLOAD, when=RUNS)
async def check_rejected(place: Place) -> None:
    await checked(place)
    await submit(place, place.gang(2))
    await place.queued.until(NAME, "QuotaReserved")
    workload = await place.queued.workload(NAME)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = {"name": place.namespace, "state": "Rejected", "lastTransitionTime": now, "message": "no"}
    body: Object = {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": workload.name, "uid": workload.uid},
        "status": {"admissionChecks": [entry]},
    }
    path = f"{place.queued.path('Workload', workload.name, place.namespace)}/status"
    await place.plane.api.patch(path, body, kind="apply", fieldManager="check", force=True)


@SITUATIONS(Reason.SUSPENDED, "`spec.active: false` of the Workload, by a user", Command.QUEUED_WORKLOAD, when=RUNS)
async def deactivated(place: Place) -> None:
    await door(place)
    await submit(place, place.gang(2))
    await patch_workload(place, NAME, {"spec": {"active": False}})


@SITUATIONS(Reason.QUEUE_BLOCKED, "ClusterQueue drained (HoldAndDrain) under a running gang", Command.QUEUE, when=RUNS)
async def drained(place: Place) -> None:
    await place.nodes(1, "4")
    await door(place)
    await submit(place, place.gang(2))
    await place.pods(2, running)
    await place.queued.queue("4", stopPolicy="HoldAndDrain")


@SITUATIONS(
    Reason.WAITING_FOR_QUOTA,
    "preempted in Kueue by a JobSet of higher priority",
    Command.FIT,
    when=RUNS,
    blocking=False,
)
async def preempted_in_queue(place: Place) -> None:
    await place.nodes(1, "4")
    for name, value in (("low", 1), ("high", 9)):
        await place.queued.apply("WorkloadPriorityClass", f"{place.namespace}-{name}", {}, value=value)
    await door(place, preemption={"withinClusterQueue": "LowerPriority"})
    await submit(place, place.gang(3), **{PRIORITY: f"{place.namespace}-low"})
    await place.pods(3, running)
    await submit(place, place.gang(3, name="high"), **{PRIORITY: f"{place.namespace}-high"})


@SITUATIONS(
    Reason.FAILED_TO_START,
    "label of the pods that Kueue also writes, created without the webhook, which rejects it",
    Command.QUEUED_WORKLOAD,
    when=RUNS,
)
async def cannot_start(place: Place) -> None:
    await place.skip()
    await door(place)
    raw = place.gang(1)
    template = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"kueue.x-k8s.io/podset": "another"}}
    await submit(place, raw)


@SITUATIONS(
    Reason.QUEUE_CONFLICT,
    "label of the pods that Kueue also writes, on a suspended JobSet whose queue, which is full, an update names",
    Command.DESCRIBE_JOBSET,
    when=RUNS,
)
async def conflict_by_update(place: Place) -> None:
    await door(place)
    await submit(place, place.gang(3, name="first"))
    await place.queued.until("first", "Admitted")
    raw = place.gang(3, suspend=True)
    template = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"kueue.x-k8s.io/podset": "another"}}
    await place.create(raw)
    await place.cluster.patch_jobset(NAME, {"metadata": {"labels": {QUEUE: "main"}}})


@SITUATIONS(
    Reason.HEAD_BLOCKS_QUEUE,
    "StrictFIFO behind a JobSet that does not fit",
    Command.QUEUED_WORKLOAD,
    when=RUNS,
    blocking=False,
)
async def behind_the_head(place: Place) -> None:
    await place.queued.apply("WorkloadPriorityClass", place.namespace, {}, value=10)
    await door(place, queueingStrategy="StrictFIFO")
    big = jobset("big", rj("w", 1, 1, 1, cpu="5"), namespace=place.namespace)
    await place.queued.submit("big", body=big, labels={PRIORITY: place.namespace})
    await place.queued.until("big", "Pending")
    await submit(place, place.gang(1))


@SITUATIONS(
    Reason.PRIORITY_CLASS_MISSING, "label of a WorkloadPriorityClass that does not exist", Command.QUEUE, when=SLOW
)
async def no_priority_class(place: Place) -> None:
    await door(place)
    await submit(place, place.gang(1), **{PRIORITY: "no-such-class"})


@SITUATIONS(
    Reason.PRIORITY_CLASS_MISSING,
    "label of a JobSet that waits for quota, changed to a WorkloadPriorityClass that does not exist",
    Command.QUEUED_WORKLOAD,
    when=RUNS,
)
async def priority_class_changed(place: Place) -> None:
    await door(place)
    await submit(place, place.gang(3, name="first"))
    await place.queued.until("first", "Admitted")
    await submit(place, place.gang(3))
    await place.queued.until(NAME, "Pending")
    await place.cluster.patch_jobset(NAME, {"metadata": {"labels": {PRIORITY: "no-such-class"}}})


@SITUATIONS(
    Reason.TOO_MANY_PODSETS,
    "19 replicatedJobs, created without the webhook, which rejects them",
    Command.QUEUE,
    when=SLOW,
)
async def many_podsets(place: Place) -> None:
    await place.skip()
    await door(place)
    many = [rj(f"w{index}", 1, 1, 1) for index in range(19)]
    await submit(place, jobset(NAME, *many, mode="Gang"))


@SITUATIONS(
    Reason.NAMESPACE_NOT_MANAGED, "namespace kube-system, which Kueue excludes by default", Command.QUEUE, when=SLOW
)
async def kube_system(place: Place) -> None:
    await door(place)
    await submit(place, place.gang(1))


@SITUATIONS(
    Reason.EVICTED_AS_NOT_READY,
    "waitForPodsReady, and pods that no node can take",
    Command.QUEUED_WORKLOAD,
    when=IMPATIENT,
    blocking=False,
)
async def not_ready_in_time(place: Place) -> None:
    await door(place)
    await submit(place, place.gang(2))

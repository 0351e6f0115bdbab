"""Situations that take something of the control plane away: gangctl, the scheduler, controllers, the API."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Command
from tests.controlplane.api import Object, path_of
from tests.controlplane.nodes import add_nodes
from tests.controlplane.wait import NotYet, wait_for
from tests.live.causes import POOL, Place, Situations, placed, refused, running
from tests.live.gang_situations import RUNS, SITUATIONS, no_gpus

HANGS: Final = "kube-scheduler hangs"
STOPPED: Final = "kube-controller-manager hangs"
AWAY: Final = "gangctl is away"
BLIND: Final = "kube-scheduler knows no groups"
OFF: Final = "the API group is off"

SLOW: Final = "everything runs, and Kueue is given its time"
"""Causes that are reported only after half a minute, and stay whatever is broken meanwhile."""
IMPATIENT: Final = "Kueue waits for ready pods"
NOBODY: Final = "nobody"
"""A scheduler that does not run, and that gangctl's settings list as one that honours groups."""
BRITTLE: Final = "brittle"
"""A scheduler with an extender that does not answer."""

OLDER: Final = Situations("1.36")


@SITUATIONS(
    Reason.SCHEDULER_SILENT, "kube-scheduler does not answer (SIGSTOP)", Command.SCHEDULER, when=HANGS, shows="lease"
)
async def silent(place: Place) -> None:
    await place.nodes(1, "4")
    await place.create(place.gang(2))
    await place.pods(2)


@SITUATIONS(
    Reason.SCHEDULER_SILENT,
    "schedulerName of a scheduler that does not run (--gang-scheduler)",
    Command.DESCRIBE_POD,
    when=RUNS,
)
async def no_such_scheduler(place: Place) -> None:
    await place.create(place.gang(2, pod={"schedulerName": NOBODY}))
    await place.pods(2)


@SITUATIONS(
    Reason.SCHEDULER_ERROR,
    "scheduler with an extender that does not answer (--gang-scheduler)",
    Command.DESCRIBE_POD,
    when=RUNS,
)
async def dead_extender(place: Place) -> None:
    await place.nodes(1, "4")
    await place.create(place.gang(2, pod={"schedulerName": BRITTLE}))
    await place.pods(2, refused)


@SITUATIONS(
    Reason.SCHEDULER_BACKOFF,
    "room for a gang that was refused, before kube-scheduler has tried again (SIGSTOP)",
    Command.DESCRIBE_POD,
    when=HANGS,
    blocking=False,
    later=Reason.UNSCHEDULABLE,
)
async def room_since(place: Place) -> AsyncGenerator[None]:
    await place.nodes(1, "1")
    await place.create(place.gang(3))
    await place.pods(3, refused)
    yield
    await add_nodes(place.plane.api, 1, cpu="4", labels={POOL: place.namespace}, prefix=f"{place.namespace}-late")


@SITUATIONS(
    Reason.POD_GROUP_TERMINATING,
    "PodGroup deleted while kube-controller-manager hangs (SIGSTOP)",
    Command.SHOW_GROUP,
    when=STOPPED,
)
async def group_terminating(place: Place) -> None:
    await place.create(place.gang(2))
    name = await place.group()
    await place.plane.api.delete(place.cluster.scheduling("podgroups", name))


@SITUATIONS(
    Reason.PODS_MISSING,
    "kube-controller-manager hangs (SIGSTOP) and creates no pods",
    Command.DESCRIBE_JOB,
    when=STOPPED,
    blocking=None,
)
async def no_pods(place: Place) -> None:
    await place.create(place.gang(2))
    await place.group()


async def delete_group(place: Place) -> None:
    """Delete the PodGroup and take its finalizer off, as impatient people do."""
    path = place.cluster.scheduling("podgroups", await place.group())
    await place.plane.api.delete(path)
    await place.plane.api.patch(path, {"metadata": {"finalizers": None}})


@SITUATIONS(
    Reason.POD_GROUP_MISSING,
    "PodGroup deleted with its finalizer while gangctl is down",
    Command.DESCRIBE_JOBSET,
    when=AWAY,
)
async def group_missing(place: Place) -> AsyncGenerator[None]:
    await place.create(place.gang(2))
    await place.pods(2, refused)
    yield
    await delete_group(place)


@SITUATIONS(
    Reason.MIN_COUNT_UNREACHABLE, "minCount raised by hand while gangctl is down", Command.SHOW_WRITERS, when=AWAY
)
async def raised_minimum(place: Place) -> AsyncGenerator[None]:
    await place.create(place.gang(2))
    await place.pods(2, refused)
    yield
    path = place.cluster.scheduling("podgroups", await place.group())
    await place.plane.api.patch(path, {"spec": {"schedulingPolicy": {"gang": {"minCount": 9}}}})


async def tail(place: Place) -> AsyncGenerator[None]:
    """A pod succeeds, another fails: its replacement waits for a quorum."""
    await place.nodes(1, "4")
    await place.create(place.gang(3, job={"backoffLimit": 6}, failurePolicy={"maxRestarts": 0}))
    pods = sorted(await place.pods(3, running), key=lambda pod: str(pod["metadata"]["name"]))
    yield
    await place.kubelet.finish(pods[0])
    await place.kubelet.fail(pods[1])
    await replaced(place, {pod["metadata"]["uid"] for pod in pods})


async def replaced(place: Place, before: set[str]) -> None:
    """Wait for a pod that was not there before."""

    async def there() -> Object:
        found = [pod for pod in await place.cluster.pods() if pod["metadata"]["uid"] not in before]
        if not found:
            raise NotYet("none")
        return found[0]

    await wait_for(there, "the replacement")


@SITUATIONS(
    Reason.GANG_TAIL_BLOCKED,
    "one pod succeeded and one is replaced while gangctl is down",
    Command.LOWER_MIN_COUNT,
    when=AWAY,
)
async def tail_without_gangctl(place: Place) -> AsyncGenerator[None]:
    async for _ in tail(place):
        yield


@OLDER(
    Reason.GANG_TAIL_BLOCKED,
    "one pod succeeded and one is replaced: minCount is immutable",
    Command.JOBSET_STATUS,
    when=RUNS,
    shows="replicatedJobsStatus",
)
async def tail_immutable(place: Place) -> None:
    async for _ in tail(place):
        pass


@OLDER(
    Reason.UNSCHEDULABLE,
    "pods request GPUs that no node has, in a cluster without Kueue",
    Command.FIT_NODES,
    when=RUNS,
    code=1,
    shows="can never hold it",
)
async def no_gpus_without_kueue(place: Place) -> None:
    await no_gpus(place)


async def placed_one_by_one(place: Place) -> None:
    """More pods than there is room for, in a cluster that shows its scheduler as a pod, as those of kubeadm do."""
    (node,) = await place.nodes(1, "2")
    container = {"name": "kube-scheduler", "image": "none", "command": place.plane.process("kube-scheduler").command}
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"kube-scheduler-{node}", "labels": {"component": "kube-scheduler"}},
        "spec": {"nodeName": node, "containers": [container]},
    }
    await place.plane.api.create(path_of("v1", "pods", namespace="kube-system"), pod)
    await place.create(place.gang(4))
    await place.pods(2, placed)


@SITUATIONS(
    Reason.SCHEDULING_GATE_OFF,
    "kube-scheduler without GenericWorkload: two of four placed",
    Command.SCHEDULER_FLAGS,
    when=BLIND,
    shows="--feature-gates",
)
async def part_of_it(place: Place) -> None:
    await placed_one_by_one(place)


@OLDER(
    Reason.SCHEDULING_GATE_OFF,
    "kube-scheduler without GenericWorkload and GangScheduling: two of four placed",
    Command.SCHEDULER_FLAGS,
    when=BLIND,
    shows="--feature-gates",
)
async def part_of_it_before(place: Place) -> None:
    await placed_one_by_one(place)


@OLDER(
    Reason.SCHEDULING_GATE_OFF,
    "kube-scheduler without these gates: all placed and starting, the PodGroup without a condition",
    Command.SHOW_GROUP,
    when=BLIND,
    blocking=False,
)
async def all_of_it_before(place: Place) -> None:
    await place.nodes(1, "4")
    await place.create(place.gang(2))
    await place.pods(2, placed)


@SITUATIONS(
    Reason.API_UNAVAILABLE,
    "kube-apiserver restarted without scheduling.k8s.io/v1beta1",
    Command.API_VERSIONS,
    when=OFF,
    shows="scheduling.k8s.io",
)
async def api_off(place: Place) -> AsyncGenerator[None]:
    await place.create(place.gang(2))
    await place.pods(2, refused)
    yield

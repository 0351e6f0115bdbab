"""Situations of gangs on Kubernetes 1.37 while everything runs: what gangctl should name first."""

from __future__ import annotations

from typing import Any, Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Command
from tests.cases import object_name
from tests.controlplane import pod_status
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.container_logs import STEADY, serve_logs
from tests.controlplane.nodes import NODES
from tests.controlplane.wait import wait_for
from tests.jobsets import rj
from tests.live.causes import AILS, LINGERS, NAME, POOL, Place, Situations, node_is, placed, refused, running
from tests.live.cluster import JOBSETS
from tests.live.observe import foreign_workload, jobs_with_references, pods_refused

SITUATIONS: Final = Situations("1.37")
RUNS: Final = "everything runs"


@SITUATIONS(
    Reason.NOT_GANGED,
    "JobSet created in a namespace labelled `gangctl.dev/skip=true`",
    Command.NAMESPACE_LABELS,
    when=RUNS,
    shows="gangctl.dev/skip=true",
)
async def skipped(place: Place) -> None:
    await place.skip()
    await place.nodes(1, "2")
    await place.create(place.gang(4))
    await place.pods(2, placed)


@SITUATIONS(
    Reason.FIELD_DROPPED,
    "Job recreated without the webhook: namespace labelled `skip` after the JobSet was created",
    Command.JOBS,
    when=RUNS,
    shows="js-w-0",
)
async def past_the_webhook(place: Place) -> None:
    await place.nodes(1, "2")
    await place.create(place.gang(4))
    await place.group()
    await jobs_with_references(place.cluster, 1)
    await place.skip()
    await place.plane.api.delete(place.cluster.path("batch/v1", "jobs", "js-w-0"), propagation="Background")
    await place.pods(2, placed)


@SITUATIONS(
    Reason.NAME_CONFLICT,
    "Workload of the planned name that another client created first",
    Command.SHOW_GROUP,
    when=RUNS,
)
async def name_taken(place: Place) -> None:
    created = await place.create(place.gang(2, suspend=True))
    name = object_name(NAME, created["metadata"]["uid"], "workload")
    await place.plane.api.create(
        place.cluster.scheduling("workloads"), foreign_workload(place.cluster, name, "somebody-else")
    )
    await place.cluster.patch_jobset(NAME, {"spec": {"suspend": False}})


@SITUATIONS(
    Reason.FOREIGN_WORKLOAD,
    "Workload that names the JobSet, created earlier by another client",
    Command.SHOW_GROUP,
    when=RUNS,
)
async def foreign(place: Place) -> None:
    await place.nodes(1, "2")
    await place.plane.api.create(place.cluster.scheduling("workloads"), foreign_workload(place.cluster, "theirs", NAME))

    async def seen() -> bool:
        return "gang-ref" not in str(await place.cluster.create_jobset(place.gang(4), dry_run=True))

    await wait_for(seen, what="the webhook to know the foreign Workload")
    await place.create(place.gang(4))
    await place.pods(2, placed)


@SITUATIONS(Reason.UNSCHEDULABLE, "six pods of one CPU on four CPUs", Command.FIT_NODES, when=RUNS, code=1)
async def no_room(place: Place) -> None:
    await place.nodes(1, "4")
    await place.create(place.gang(6))
    await place.pods(6, refused)


@SITUATIONS(Reason.UNSCHEDULABLE, "four CPUs of which another gang uses two", Command.FIT_NODES, when=RUNS)
async def room_taken(place: Place) -> None:
    await place.nodes(1, "4")
    await place.create(place.gang(2, name="first"))
    await place.pods(2, running)
    await place.create(place.gang(4))
    await place.pods(4, refused)


@SITUATIONS(
    Reason.UNSCHEDULABLE,
    "pods request GPUs that no node has, without a queue",
    Command.FIT_NODES,
    when=RUNS,
    code=1,
    shows="can never hold it",
)
async def no_gpus(place: Place) -> None:
    await place.nodes(1, "4")
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    await place.create(place.gang(2, pod={"containers": [container]}))
    await place.pods(2, refused)


@SITUATIONS(
    Reason.UNSCHEDULABLE,
    "option topologyKey: two racks of four CPUs each, of which other gangs use two",
    Command.NODE_LABELS,
    when=RUNS,
    shows="RACK",
)
async def busy_racks(place: Place) -> None:
    await place.nodes(1, "4", rack="a")
    await place.nodes(1, "4", rack="b")
    for rack in ("a", "b"):
        selector = {POOL: place.namespace, "rack": rack}
        await place.create(place.gang(2, name=f"first-{rack}", pod={"nodeSelector": selector}))
    await place.pods(4, running)
    await place.create(place.gang(4, options='{"topologyKey": "rack"}'))
    await place.pods(4, refused)


@SITUATIONS(
    Reason.SCALE_UP_RUNNING,
    "no room, and events TriggeredScaleUp on all pods, as cluster-autoscaler writes them",
    Command.DESCRIBE_POD,
    when=RUNS,
    blocking=False,
)
async def scale_up(place: Place) -> None:
    await place.create(place.gang(2))
    for pod in await place.pods(2, refused):
        await place.event(pod, "TriggeredScaleUp", "pod triggered scale-up: [{pool 0->2 (max: 4)}]")


@SITUATIONS(
    Reason.SCALE_UP_REFUSED,
    "no room, and an event NotTriggerScaleUp on one of the pods, as cluster-autoscaler writes it",
    Command.DESCRIBE_POD,
    when=RUNS,
    shows="max node group size reached",
)
async def no_scale_up(place: Place) -> None:
    await place.create(place.gang(2))
    came, left = sorted(await place.pods(2, refused), key=lambda pod: str(pod["metadata"]["name"]), reverse=True)
    await place.event(came, "TriggeredScaleUp", "pod triggered scale-up: [{pool 0->1 (max: 1)}]")
    await place.event(left, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")


@SITUATIONS(
    Reason.PODS_MISSING,
    "pods of a refused gang are lost, and the Job controller waits before it makes them again",
    Command.DESCRIBE_JOB,
    when=RUNS,
    blocking=None,
    later=Reason.UNSCHEDULABLE,
)
async def job_waits(place: Place) -> None:
    await place.create(place.gang(8, job={"backoffLimit": 100}))
    # Six that fail are 320 s.
    for pod in (await place.pods(8, refused))[:6]:
        await place.plane.api.delete(place.cluster.path("v1", "pods", pod["metadata"]["name"]))
    await place.pods(2)


@SITUATIONS(Reason.UNSCHEDULABLE, "nodeSelector that no node matches", Command.DESCRIBE_POD, when=RUNS)
async def no_such_nodes(place: Place) -> None:
    await place.create(place.gang(2))
    await place.pods(2, refused)


@SITUATIONS(
    Reason.VOLUME_NOT_BOUND,
    "PersistentVolumeClaim without a volume",
    Command.CLAIMS,
    when=RUNS,
    shows="Pending",
)
async def no_volume(place: Place) -> None:
    await place.nodes(1, "4")
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    await place.make("PersistentVolumeClaim", "data", spec=spec)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await place.create(place.gang(2, pod={"volumes": [volume]}))
    await place.pods(2, refused)


@SITUATIONS(
    Reason.UNSCHEDULABLE,
    "resourceClaimTemplateName of a template that does not exist",
    Command.DESCRIBE_POD,
    when=RUNS,
    shows="FailedResourceClaimCreation",
)
async def no_claim_template(place: Place) -> None:
    await place.create(place.gang(2, pod={"resourceClaims": [{"name": "net", "resourceClaimTemplateName": "none"}]}))
    await place.pods(2)


@SITUATIONS(
    Reason.TOPOLOGY_TOO_SMALL,
    "option topologyKey: two racks of four CPUs each for six pods",
    Command.FIT_NODES,
    when=RUNS,
    code=1,
)
async def small_racks(place: Place) -> None:
    await place.nodes(1, "4", rack="a")
    await place.nodes(1, "4", rack="b")
    await place.create(place.gang(6, options='{"topologyKey": "rack"}'))
    await place.pods(6, refused)


@SITUATIONS(
    Reason.PRIORITY_MISMATCH,
    "PriorityClass recreated with another value between PodGroup and pods",
    Command.PRIORITIES,
    when=RUNS,
    shows="js-w-0-",
)
async def changed_priority(place: Place) -> None:
    classes = path_of("scheduling.k8s.io/v1", "priorityclasses")
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": place.namespace}}
    await place.plane.api.create(classes, {**body, "value": 1})
    await place.nodes(1, "4")
    await place.make("ResourceQuota", "none", spec={"hard": {"pods": "0"}})
    await pods_refused(place.cluster, "exceeded quota")
    await place.create(place.gang(2, pod={"priorityClassName": place.namespace}))
    await place.group()
    await place.plane.api.delete(f"{classes}/{place.namespace}")
    await place.plane.api.create(classes, {**body, "value": 1000})
    # Admission would give the pods the value in its cache.
    await pods_refused(place.cluster, "exceeded quota", priorityClassName=place.namespace, priority=1000)
    await place.plane.api.delete(place.cluster.path("v1", "resourcequotas", "none"))
    await place.pods(2, refused)


@SITUATIONS(
    Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK,
    "annotation exclusive-topology added past the webhook, which refuses it, to a gang with followers",
    Command.JOBSET_ANNOTATIONS,
    when=RUNS,
    shows="exclusive-topology",
)
async def exclusive(place: Place) -> None:
    await place.nodes(2, "8", rack="a")
    await place.create(place.gang(3, suspend=True))
    await jobs_with_references(place.cluster, 1)
    await place.skip()
    await place.cluster.patch_jobset(
        NAME, {"metadata": {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}}}
    )
    await place.skip_no_more()
    before = (await place.cluster.jobs())["js-w-0"]["metadata"]["uid"]
    await place.plane.api.delete(place.cluster.path("batch/v1", "jobs", "js-w-0"), propagation="Background")

    async def anew() -> bool:
        return bool((await place.cluster.jobs())["js-w-0"]["metadata"]["uid"] != before)

    await wait_for(anew, what="the Job to be made anew", tolerate=(KeyError,))
    await place.cluster.patch_jobset(NAME, {"spec": {"suspend": False}})
    await place.pods(1)


@SITUATIONS(
    Reason.WAITING_FOR_STAGE,
    "dependsOn: the first replicatedJob runs, and has not finished",
    Command.PODS,
    when=RUNS,
    blocking=False,
    shows="js-w-0-",
)
async def later_stage(place: Place) -> None:
    await place.nodes(1, "4")
    raw = place.gang(2)
    second = rj(
        "later",
        1,
        1,
        1,
        pod={"nodeSelector": raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"]},
    )
    second["dependsOn"] = [{"name": "w", "status": "Complete"}]
    raw["spec"]["replicatedJobs"].append(second)
    await place.create(raw)
    await place.pods(2, running)


@SITUATIONS(
    Reason.PODS_GATED,
    "schedulingGates in the pod template that no controller removes",
    Command.POD_GATES,
    when=RUNS,
    shows="example.com/hold",
)
async def gated(place: Place) -> None:
    await place.create(place.gang(2, pod={"schedulingGates": [{"name": "example.com/hold"}]}))
    await place.pods(2)


@SITUATIONS(
    Reason.NODE_LOST,
    "node NotReady under a running gang (its status written, as no kubelet renews leases)",
    Command.DESCRIBE_NODE,
    when=RUNS,
)
async def node_not_ready(place: Place) -> None:
    nodes = await place.nodes(2, "1")
    await place.create(place.gang(2))
    pods = await place.pods(2, running)
    await node_is(place.plane, nodes[0], ready=False)
    for pod in pods:
        if pod["spec"]["nodeName"] == nodes[0]:
            await place.condition(pod, "Ready", "False")


@SITUATIONS(
    Reason.NODE_UNHEALTHY,
    "condition of node-problem-detector on a node where pods are not ready",
    Command.DESCRIBE_NODE,
    when=RUNS,
    blocking=None,
    shows="XidError",
)
async def node_unhealthy(place: Place) -> None:
    (node,) = await place.nodes(1, "4")
    entry = {"type": "GPUProblem", "status": "True", "reason": "XidError", "lastTransitionTime": pod_status.now()}
    await place.plane.api.patch(f"{NODES}/{node}/status", {"status": {"conditions": [entry]}}, kind="strategic")
    await place.create(place.gang(2, notes={AILS: "unready"}))
    await place.pods(2, placed)


@SITUATIONS(Reason.NODE_LOST, "node deleted under a running gang", Command.PODS, when=RUNS, shows="js-w-0-")
async def node_deleted(place: Place) -> None:
    nodes = await place.nodes(2, "1")
    await place.create(place.gang(2))
    pods = await place.pods(2, running)
    await place.plane.api.delete(f"{NODES}/{nodes[0]}")
    for pod in pods:
        if pod["spec"]["nodeName"] == nodes[0]:
            await place.condition(pod, "Ready", "False")


@SITUATIONS(
    Reason.PREEMPTED, "pod of higher priority preempts one that terminates slowly", Command.DESCRIBE_POD, when=RUNS
)
async def preempted(place: Place) -> None:
    await place.nodes(1, "2")
    slow = {"terminationGracePeriodSeconds": 600}
    job = {"podReplacementPolicy": "Failed", "backoffLimit": 6}
    await place.create(place.gang(2, pod=slow, job=job, notes={LINGERS: ""}))
    await place.pods(2, running)
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": place.namespace}}
    await place.plane.api.create(path_of("scheduling.k8s.io/v1", "priorityclasses"), {**body, "value": 5000})
    pod = place.gang(1)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]

    async def urgent() -> Object:
        return await place.make("Pod", "urgent", spec={**pod, "priorityClassName": place.namespace})

    await wait_for(urgent, what="the PriorityClass to be known", tolerate=(ApiFailure,))


@SITUATIONS(Reason.IMAGE_PULL, "status ImagePullBackOff, as a kubelet writes it", Command.DESCRIBE_POD, when=RUNS)
async def image_pull(place: Place) -> None:
    await ailing(place, "ImagePullBackOff")


@SITUATIONS(
    Reason.CONTAINER_CONFIG,
    "status CreateContainerConfigError, as a kubelet writes it",
    Command.DESCRIBE_POD,
    when=RUNS,
)
async def container_config(place: Place) -> None:
    await ailing(place, "CreateContainerConfigError")


@SITUATIONS(
    Reason.CRASH_LOOP,
    "status CrashLoopBackOff with restarts, as a kubelet writes it",
    Command.POD_LOGS,
    when=RUNS,
    shows="/main: out of memory",
)
async def crash_loop(place: Place) -> None:
    containers = [{"name": name, "image": "none"} for name in (STEADY, "main")]
    await ailing(place, "CrashLoopBackOff", containers=containers)


@SITUATIONS(
    Reason.NOT_READY,
    "containers that run and are not ready, as a kubelet writes it",
    Command.DESCRIBE_POD,
    when=RUNS,
    blocking=None,
)
async def not_ready(place: Place) -> None:
    await ailing(place, "unready")


@SITUATIONS(
    Reason.STARTING, "status ContainerCreating, as a kubelet writes it", Command.DESCRIBE_POD, when=RUNS, blocking=None
)
async def starting(place: Place) -> None:
    await ailing(place, "ContainerCreating")


async def ailing(place: Place, how: str, **pod: Any) -> None:
    """A gang with nodes whose containers are reported so."""
    for node in await place.nodes(1, "4"):
        await serve_logs(place.plane.api, node, place.logs)
    await place.create(place.gang(2, notes={AILS: how}, pod=pod))
    await place.pods(2, lambda pod: bool(pod["status"].get("containerStatuses")))


@SITUATIONS(Reason.SUSPENDED, "`spec.suspend: true` without a queue", Command.RESUME, when=RUNS)
async def suspended(place: Place) -> None:
    await place.create(place.gang(2, suspend=True))


@SITUATIONS(
    Reason.UNKNOWN,
    "`spec.managedBy` of another controller, which runs it elsewhere",
    Command.DESCRIBE_JOBSET,
    when=RUNS,
    blocking=False,
)
async def managed_elsewhere(place: Place) -> None:
    await place.create(place.gang(2, managedBy="example.com/elsewhere"))


@SITUATIONS(
    Reason.PODS_TERMINATING,
    "JobSet deleted whose pods terminate slowly",
    Command.PODS,
    when=RUNS,
    blocking=False,
    shows="js-w-0-",
)
async def deleted(place: Place) -> None:
    await place.nodes(1, "4")
    await place.create(place.gang(2, pod={"terminationGracePeriodSeconds": 600}, notes={LINGERS: ""}))
    await place.pods(2, running)
    await place.plane.api.delete(place.cluster.path(JOBSETS, "jobsets", NAME), propagation="Foreground")


@SITUATIONS(
    Reason.RESTARTING,
    "restart of a JobSet whose pods terminate slowly",
    Command.DESCRIBE_JOBSET,
    when=RUNS,
    blocking=None,
)
async def restarting(place: Place) -> None:
    await place.nodes(1, "4")
    slow = {"terminationGracePeriodSeconds": 600}
    raw = place.gang(1, pod=slow, notes={LINGERS: ""}, failurePolicy={"maxRestarts": 3})
    raw["spec"]["replicatedJobs"][0]["replicas"] = 2
    await place.create(raw)
    pods = await place.pods(2, running)
    await place.kubelet.fail(pods[0])

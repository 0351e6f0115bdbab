"""Causes from pods: gated, terminating, disrupted, on nodes that are not ready, or with containers that fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gangctl.errors import plural
from gangctl.gang.desired import listed
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import LONG, SOON, THEY_END, Command, Context, gated, oldest
from gangctl.readiness.causes.starting import begun
from gangctl.readiness.containers import RAN, STARTS
from gangctl.readiness.facts import EndedPod, NodeFacts, PodFacts, unix
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause, GangPhase

_KUEUE_GATES: Final = {
    "kueue.x-k8s.io/topology": "Kueue takes it off once it has chosen a node for the pod (topology-aware scheduling)",
    "kueue.x-k8s.io/admission": "Kueue takes it off once it admits the pod",
    "kueue.x-k8s.io/elastic-job": "Kueue takes it off once it admits what the job has grown by",
}
"""Scheduling gates of known owners, and when these remove them."""


def unread(context: Context) -> Iterator[Cause]:
    """Pods that may not be read, or are not in a dump: most of what holds up a gang shows in them."""
    counts = context.readiness.counts
    yield context.cause(
        Reason.UNKNOWN,
        "its pods are not known: they may not be read, or are not among what was read",
        evidence=[
            f"the status of the JobSet counts {counts.ready} of {plural(counts.wanted, 'pod')} in Jobs that are ready"
        ],
        remedy="get the right to list pods, or add them to the files",
        command=context.suggest(Command.JOBSET_STATUS),
        blocking=False,
    )


def pods_gated(context: Context) -> Iterator[Cause]:
    """Pods with scheduling gates: the scheduler ignores them, and their gang waits for them."""
    pods = [(group, pod) for group in context.groups for pod in group.pods if gated(pod)]
    if not pods:
        return
    gates = sorted({gate for _, pod in pods for gate in pod.gates})
    since = max(pod.created for _, pod in pods)
    known = [gate for gate in gates if gate in _KUEUE_GATES]
    # How long another owner keeps its gates is not known: these block at once.
    late = len(known) < len(gates) or context.late(since, SOON)
    owners = [f"{gate}: {_KUEUE_GATES[gate]}" for gate in known]
    names = listed(gates)
    yield context.cause(
        Reason.PODS_GATED,
        f"{plural(len(pods), 'pod has', 'pods have')} scheduling gates" + (f": {names}" if names else ""),
        evidence=[f"gated: {listed(pod.name for _, pod in pods)}", f"the newest {context.old(since)}", *owners],
        remedy="see what Kueue logs about these pods, and whether the Topology of their flavor has room"
        if known and len(known) == len(gates)
        else "the controller that set the gates removes them; if that is gone, remove them from spec.schedulingGates",
        command=context.suggest(Command.POD_GATES, pod=min(pod.name for _, pod in pods)),
        groups=[group for group, _ in pods],
        pods=len(pods),
        since=oldest(pod.created for _, pod in pods),
        blocking=late,
    )


def restarting(context: Context) -> Iterator[Cause]:
    """The JobSet restarts."""
    jobset = context.snapshot.jobset
    earlier = [pod for group in context.groups for pod in group.earlier]
    leaving = [job for group in context.groups for job in group.leaving_jobs]
    if not jobset.restarts or not (earlier or leaving or context.readiness.phase is GangPhase.RESTARTING):
        return
    since = unix(jobset.restarting_at)
    # Without the condition of newer JobSets the start is unknown, and pods terminate in time.
    stuck = bool(since) and context.late(since, LONG) and bool(earlier or leaving)
    late = stuck or any(pod_stays(context, pod) for pod in earlier)
    evidence = [f"restart {jobset.restarts} of the JobSet"]
    if earlier:
        evidence.append(
            f"{plural(len(earlier), 'pod')} of the attempt before still there: {listed(pod.name for pod in earlier)}"
        )
    if leaving:
        names = listed(job.name for job in leaving)
        evidence.append(f"{plural(len(leaving), 'Job')} of the attempt before still there: {names}")
    yield context.cause(
        Reason.RESTARTING,
        "the JobSet starts anew" + (", and pods of the attempt before are still there" if earlier else ""),
        evidence=evidence,
        remedy="see why the pods of the attempt before do not end: a lost node, a finalizer, a long grace period"
        if late
        else "wait; the events of the JobSet say why it restarts",
        command=context.suggest(Command.DESCRIBE_JOBSET),
        pods=len(earlier),
        since=since,
        blocking=late,
    )


MOST_STUCK: Final = 4
WHY_THEY_STAY: Final = (
    "see why they do not end: a lost node, a process that cannot be killed (as of a device that hangs), a volume that "
    "stays mounted, a finalizer"
)
"""The remedy for pods that should have ended."""


def pod_stays(context: Context, pod: PodFacts) -> bool:
    """Whether a pod should have ended for long."""
    return pod.deleted_at > 0 and context.late(pod.deleted_at, LONG)


def stays(context: Context, pod: PodFacts) -> str:
    """The evidence of that."""
    return f"{pod.name} on {pod.node} had to end {context.ago(pod.deleted_at)}, after its grace period"


def pods_terminating(context: Context) -> Iterator[Cause]:
    """Terminating pods of a JobSet that stays: their replacements have to wait."""
    by_late: dict[bool, list[tuple[Group, PodFacts]]] = {}
    for group in context.groups if context.runs else ():
        if not group.leaving:
            continue
        there = Counter((pod.replicated_job, pod.job_index) for pod in group.pods)
        wanted = {(planned.replicated_job, planned.index): count for planned, _, count in context.expected[group.name]}
        for pod in group.leaving:
            key = pod.replicated_job, pod.job_index
            # One that has been replaced holds nothing up.
            missed = there[key] < wanted.get(key, 0)
            by_late.setdefault(missed and pod_stays(context, pod), []).append((group, pod))
    for late, pairs in by_late.items():
        pods = sorted((pod for _, pod in pairs), key=lambda pod: (pod.deleted_at, pod.name))
        if late:
            message = f"{plural(len(pods), 'pod does', 'pods do')} not end, and others are not made before"
            evidence = [stays(context, pod) for pod in pods[:MOST_STUCK]]
            remedy = WHY_THEY_STAY
            command = context.suggest(Command.DESCRIBE_POD, pod=pods[0].name)
        else:
            message = f"{plural(len(pods), 'pod is', 'pods are')} on the way out"
            evidence = [f"terminating: {listed(pod.name for pod in pods)}"]
            remedy, command = THEY_END, context.suggest(Command.PODS)
        yield context.cause(
            Reason.PODS_TERMINATING,
            message,
            evidence=evidence,
            remedy=remedy,
            command=command,
            groups=[group for group, _ in pairs],
            pods=len(pods),
            since=pods[0].deleted_at if late else 0,
            blocking=late,
        )


_WORDS: Final = {
    "PreemptionByScheduler": "the scheduler needs their place for pods of higher priority",
    "PreemptionByKubeScheduler": "the scheduler needs their place for pods of higher priority",
    "DeletionByTaintManager": "a taint on their node that they do not tolerate",
    "DeletionByDeviceTaintManager": "a taint on a device of theirs",
    "EvictionByEvictionAPI": "they were evicted, as by a drain of a node",
    "DeletionByPodGC": "their node is gone",
    "TerminationByKubelet": "their node ran short of something, or was shut down",
}
_HELP: Final = {
    "PreemptionByScheduler": "a higher priorityClassName, or the gang option disruption: all, keeps a gang together",
    "DeletionByTaintManager": "see which taint the node got, and tolerate it if the pods can stay",
    "EvictionByEvictionAPI": "a PodDisruptionBudget makes drains wait",
    "TerminationByKubelet": "see the events of the node; requests and limits that match what pods use prevent it",
}


def preempted(context: Context) -> Iterator[Cause]:
    """Pods with the condition DisruptionTarget: they terminate, or have ended because of it."""
    by_reason: dict[str, list[tuple[Group, PodFacts]]] = {}
    for group in context.groups:
        for pod in (*group.pods, *group.leaving, *group.over):
            if pod.disrupted:
                by_reason.setdefault(pod.disrupted, []).append((group, pod))
    for group, one in context.failed:
        if one.pod.disrupted:
            by_reason.setdefault(one.pod.disrupted, []).append((group, one.pod))
    for reason, pods in by_reason.items():
        yield context.cause(
            Reason.PREEMPTED,
            f"{plural(len(pods), 'pod was', 'pods were')} taken away: {_WORDS.get(reason, reason)}",
            evidence=[
                f"condition DisruptionTarget, reason {reason}: {listed(pod.name for _, pod in pods)}",
                *([f"on {listed(nodes)}"] if (nodes := {pod.node for _, pod in pods if pod.node}) else []),
            ],
            remedy=_HELP.get(reason, "their Job replaces them, or the JobSet restarts")
            + "; replacements need room again",
            command=context.suggest(Command.DESCRIBE_POD, pod=min(pod.name for _, pod in pods)),
            groups=[group for group, _ in pods],
            pods=len(pods),
        )


def node_lost(context: Context) -> Iterator[Cause]:
    """Pods on nodes that are not ready, or gone; there they do not terminate by themselves."""
    nodes = context.snapshot.nodes
    if nodes is None:
        return
    pods: list[tuple[Group, PodFacts]] = []
    for group in context.groups:
        for pod in (*group.pods, *group.leaving, *group.earlier):
            node = nodes.get(pod.node)
            if pod.node and (node is None or not node.ready):
                pods.append((group, pod))
    if not pods:
        return
    names = sorted({pod.node for _, pod in pods})
    lost = [nodes[name] for name in names if name in nodes]
    since = oldest(node.since for node in lost)
    leaving = [pod.name for _, pod in pods if pod.deleting]
    yield context.cause(
        Reason.NODE_LOST,
        f"{plural(len(pods), 'pod is', 'pods are')} on "
        f"{'a node that is' if len(names) == 1 else 'nodes that are'} not ready or gone: {listed(names)}",
        evidence=[
            *(
                f"node {node.name} is not ready{f' ({node.reason})' if node.reason else ''}"
                + (f", {context.lasting(node.since)}" if node.since else "")
                for node in lost[:4]
            ),
            *(f"node {name} does not exist" for name in names if name not in nodes),
        ][:6]
        + [_health(node) for node in lost if node.troubles][:2]
        + ([f"terminating there, which only the node can confirm: {listed(leaving)}"] if leaving else []),
        remedy="bring the node back, or delete it (or taint it out-of-service) once it is surely off:"
        " its pods are replaced then",
        # A node that is gone cannot be described: the pods are shown with its name.
        command=context.suggest(Command.DESCRIBE_NODE, node=lost[0].name) if lost else context.suggest(Command.PODS),
        groups=[group for group, _ in pods],
        pods=len(pods),
        since=since,
    )


_PULL: Final = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CONFIG: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "PreCreateHookError",
        "PreStartHookError",
        "PostStartHookError",
        "CreatePodSandboxError",
        "ConfigPodSandboxError",
    }
)
"""Reasons as ``pkg/kubelet`` writes them; all others but :data:`~gangctl.readiness.containers.STARTS` are crashes."""
_TROUBLES: Final = {
    Reason.IMAGE_PULL: (
        "an image of {} cannot be pulled",
        (
            "see that the image exists under this name and for this architecture, and that the pods' "
            "imagePullSecrets may read it"
        ),
    ),
    Reason.CONTAINER_CONFIG: (
        "a container of {} cannot be created",
        "create what the message names (ConfigMap, Secret, volume, device), or repair the command in a new JobSet",
    ),
    Reason.CRASH_LOOP: ("a container of {} does not stay up", "see what it logged before it ended"),
}
"""Message and remedy."""


def _health(node: NodeFacts) -> str:
    """What is wrong with a node by conditions other than Ready."""
    return f"node {node.name} has {listed(node.troubles)}"


def node_unhealthy(context: Context) -> Iterator[Cause]:
    """Pods that are not ready on nodes that are, and have a condition of the kubelet or of node-problem-detector.

    It blocks where containers fail or are late: a condition may also be older than the gang, and harm nothing.
    """
    by_node: dict[str, list[tuple[Group, PodFacts]]] = {}
    for group in context.groups:
        for pod in group.pods:
            node = (context.snapshot.nodes or {}).get(pod.node)
            # A node that is not ready is a cause of `node_lost`.
            if node is not None and node.ready and node.troubles and not pod.ready:
                by_node.setdefault(node.name, []).append((group, pod))
    if not by_node:
        return
    held = [pair for pairs in by_node.values() for pair in pairs]
    since = oldest(begun(pod) for _, pod in held)
    names = sorted(by_node)
    yield context.cause(
        Reason.NODE_UNHEALTHY,
        f"{plural(len(held), 'pod is', 'pods are')} not ready, on "
        f"{'a node that has' if len(names) == 1 else 'nodes that have'} a problem: {listed(names)}",
        evidence=[_health((context.snapshot.nodes or {})[name]) for name in names[:4]],
        remedy="see what the condition says; if the node is the reason, cordon it and delete the pods that are on it: "
        "they are made again, and placed elsewhere",
        command=context.suggest(Command.DESCRIBE_NODE, node=names[0]),
        groups=[group for group, _ in held],
        pods=len(held),
        since=since,
        blocking=any(pod.waiting not in STARTS for _, pod in held) or context.late(since, LONG),
    )


_MANY: Final = 3
"""Restarts of a pod's containers from which they are a loop."""
_STEADY: Final = 600
"""Seconds after which the kubelet forgets that a container has crashed: it waits at most half of it before it starts it
again, so a loop is seen while the container runs."""


def crash_loops(context: Context) -> Iterator[Cause]:
    """Containers that run now, and have crashed again and again."""
    pairs: list[tuple[Group, PodFacts]] = []
    for group in context.groups:
        for pod in group.pods:
            # `troubles` has the containers that wait after a crash.
            runs = pod.ready or pod.waiting in STARTS
            # The restarts are those of its whole life: one after a long run is no loop.
            loops = pod.restarts >= _MANY and pod.ran < _STEADY
            if runs and loops and not context.late(pod.ended_at, _STEADY):
                pairs.append((group, pod))
    if not pairs:
        return
    pods = [pod for _, pod in pairs]
    restarts, ended = sum(pod.restarts for pod in pods), max(pod.ended_at for pod in pods)
    most = max(pods, key=lambda pod: (pod.restarts, pod.name))
    yield context.cause(
        Reason.CRASH_LOOP,
        f"containers of {plural(len(pods), 'pod')} run now, and crash again and again",
        evidence=[
            f"restarted {plural(restarts, 'time')}, the last time after an end {context.ago(ended)}",
            f"pods {listed(pod.name for pod in pods)} on {listed(pod.node for pod in pods)}",
        ],
        remedy=_TROUBLES[Reason.CRASH_LOOP][1],
        command=context.suggest(Command.POD_LOGS, pod=most.name),
        groups=[group for group, _ in pairs],
        pods=len(pods),
        since=oldest(pod.ended_at for pod in pods),
    )


def troubles(context: Context) -> Iterator[Cause]:
    """Containers that cannot start or that crash."""
    by_reason: dict[str, list[tuple[Group, PodFacts]]] = {}
    for group in context.groups:
        for pod in group.pods:
            if pod.node and not pod.ready and pod.waiting not in STARTS:
                by_reason.setdefault(pod.waiting, []).append((group, pod))
    for waiting, pairs in by_reason.items():
        reason = Reason.CRASH_LOOP
        if waiting in _PULL or waiting in _CONFIG:
            reason = Reason.IMAGE_PULL if waiting in _PULL else Reason.CONTAINER_CONFIG
        message, remedy = _TROUBLES[reason]
        pods = [pod for _, pod in pairs]
        first = min(pods, key=lambda pod: pod.name)
        restarts = sum(pod.restarts for pod in pods)
        messages = sorted({pod.waiting_message for pod in pods if pod.waiting_message})
        command = Command.DESCRIBE_POD
        if reason is Reason.CRASH_LOOP and (first.restarts or waiting in RAN):
            command = Command.POD_LOGS if first.restarts else Command.ENDED_LOGS
        yield context.cause(
            reason,
            f"{message.format(plural(len(pods), 'pod'))} ({waiting})",
            evidence=[
                *(f"{waiting}: {text}" for text in messages[:3]),
                f"pods {listed(pod.name for pod in pods)} on {listed(pod.node for pod in pods)}",
                *([f"restarted {plural(restarts, 'time')}"] if restarts else []),
            ],
            remedy=remedy,
            command=context.suggest(command, pod=first.name),
            groups=[group for group, _ in pairs],
            pods=len(pods),
            since=oldest(pod.ready_at or pod.placed_at for pod in pods),
        )


_UNKNOWN_END: Final = "for a reason that its status does not have"


def _endings(context: Context, why: str, ended: Sequence[EndedPod]) -> str:
    """Pods that failed in the same way, of which the last is named."""
    last = ended[-1]
    when = f" {context.ago(last.at)}" if last.at else ""
    where = f" on {last.pod.node}" if last.pod.node else ""
    return f"{why}: {plural(len(ended), 'pod')}, the last{when}: {last.pod.name}{where}"


class _Failed(NamedTuple):
    """Pods that failed, with their groups; ``last`` did so for the same reason as the first of them."""

    pairs: Sequence[tuple[Group, EndedPod]]
    why: str
    last: PodFacts
    evidence: Sequence[str]


def _failed(context: Context, *, rejected: bool) -> _Failed | None:
    """Those whose kubelet did not admit them, or the others; None without any."""
    by_why: dict[str, list[tuple[Group, EndedPod]]] = {}
    for group, one in sorted(context.failed, key=lambda pair: (pair[1].at, pair[1].pod.name)):
        # `preempted` has those that were taken away.
        if one.rejected is rejected and not one.pod.disrupted:
            by_why.setdefault(one.why or _UNKNOWN_END, []).append((group, one))
    if not by_why:
        return None
    why, first = next(iter(by_why.items()))
    evidence = [_endings(context, reason, [one for _, one in pairs]) for reason, pairs in by_why.items()]
    return _Failed([pair for pairs in by_why.values() for pair in pairs], why, first[-1][1].pod, evidence)


def pods_rejected(context: Context) -> Iterator[Cause]:
    """Pods that the kubelet of their node did not admit: the scheduler did not know what the node lacks."""
    if (failed := _failed(context, rejected=True)) is None:
        return
    pairs, why, last, evidence = failed
    yield context.cause(
        Reason.NODE_UNHEALTHY,
        f"the kubelet of {listed(one.pod.node for _, one in pairs)} did not admit {plural(len(pairs), 'pod')}: {why}",
        evidence=evidence,
        remedy="see which devices and resources the node has, and who uses them; cordon it if this happens again. No "
        "container was started, so there are no logs; the Job makes the pod again, until backoffLimit",
        command=context.suggest(Command.DESCRIBE_NODE, node=last.node)
        if last.node in (context.snapshot.nodes or {})
        else context.suggest(Command.DESCRIBE_POD, pod=last.name),
        groups=[group for group, _ in pairs],
        pods=len(pairs),
    )


def pods_failed(context: Context) -> Iterator[Cause]:
    """Pods that ended with a failure, as containers do that are never restarted: their Job makes others."""
    if (failed := _failed(context, rejected=False)) is None:
        return
    pairs, why, last, evidence = failed
    yield context.cause(
        Reason.CRASH_LOOP,
        f"{plural(len(pairs), 'pod')} failed: {why}",
        evidence=evidence,
        remedy=f"{_TROUBLES[Reason.CRASH_LOOP][1]}; its Job makes it again, until backoffLimit",
        command=context.suggest(Command.ENDED_LOGS, pod=last.name),
        groups=[group for group, _ in pairs],
        pods=len(pairs),
        since=oldest(one.at for _, one in pairs),
    )

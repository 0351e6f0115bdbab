"""Why a queue admits nothing at present, for any request; ``never`` is not one of these.

The result is the first reason in Kueue's own order: others show only after it is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gangctl.api.labelselector import holds
from gangctl.kueue.objects import AdmissionCheck, ClusterQueue, LocalQueue, ResourceFlavor, SelectorTerm


class Blockage(StrEnum):
    """Stable, CamelCase."""

    LOCAL_QUEUE_MISSING = "LocalQueueMissing"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    CLUSTER_QUEUE_MISSING = "ClusterQueueMissing"
    CLUSTER_QUEUE_TERMINATING = "ClusterQueueTerminating"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    CLUSTER_QUEUE_INACTIVE = "ClusterQueueInactive"
    NAMESPACE_NOT_SELECTED = "NamespaceNotSelected"


@dataclass(frozen=True, slots=True)
class Blocked:
    """``message`` is one sentence with the blocking object and a remedy."""

    reason: Blockage
    message: str


def selects(selector: tuple[SelectorTerm, ...] | None, labels: Mapping[str, str]) -> bool:
    """Whether a namespaceSelector takes a namespace with these labels; None, an absent selector, takes none."""
    return selector is not None and all(holds(term.key, term.operator, term.values, labels) for term in selector)


def blocked(
    queue_name: str,
    local_queue: LocalQueue | None,
    cluster_queue: ClusterQueue | None,
    namespace_labels: Mapping[str, str] | None,
) -> Blocked | None:
    """Why a LocalQueue admits nothing, or None if it is open.

    ``local_queue`` and ``cluster_queue`` are None if they do not exist. Unknown labels are None, and block
    nothing; the same holds for a ClusterQueue that has no Active condition yet.
    """
    if local_queue is None:
        return Blocked(
            Blockage.LOCAL_QUEUE_MISSING,
            f'LocalQueue "{queue_name}" does not exist in the namespace; create it, or name another queue',
        )
    if local_queue.stop_policy != "None":
        return Blocked(
            Blockage.LOCAL_QUEUE_STOPPED,
            f'LocalQueue "{queue_name}" is stopped (stopPolicy {local_queue.stop_policy}); it admits again with None',
        )
    if cluster_queue is None:
        return Blocked(
            Blockage.CLUSTER_QUEUE_MISSING,
            f'ClusterQueue "{local_queue.cluster_queue}" of LocalQueue "{queue_name}" does not exist; create it',
        )
    return _queue_blocked(cluster_queue) or _namespace_blocked(cluster_queue, namespace_labels)


def _queue_blocked(queue: ClusterQueue) -> Blocked | None:
    """Why a ClusterQueue admits nothing."""
    if queue.deleting:
        return Blocked(
            Blockage.CLUSTER_QUEUE_TERMINATING,
            f'ClusterQueue "{queue.name}" is being deleted, and goes once nothing in it holds quota; use another queue',
        )
    if queue.stop_policy != "None":
        return Blocked(
            Blockage.CLUSTER_QUEUE_STOPPED,
            f'ClusterQueue "{queue.name}" is stopped (stopPolicy {queue.stop_policy}); it admits again with None',
        )
    # "Stopped" is from before stopPolicy was removed; Kueue updates the condition soon.
    if queue.active is not None and not queue.active.status and queue.active.reason != "Stopped":
        return Blocked(
            Blockage.CLUSTER_QUEUE_INACTIVE,
            f'ClusterQueue "{queue.name}" is inactive ({queue.active.reason}): {_sentence(queue.active.message)}',
        )
    return None


def unresolved(
    queue: ClusterQueue,
    check: Callable[[str], AdmissionCheck | None],
    flavor: Callable[[str], ResourceFlavor | None],
    topologies: Collection[str] | None = None,
) -> Blocked | None:
    """Why Kueue makes a ClusterQueue inactive: an object that it names is missing, or an AdmissionCheck is inactive.

    ``topologies`` are names of those that exist, None if they are unknown or not needed. A missing object counts only
    if Kueue has not written the Active condition yet, as in files.
    """
    names = [each.name for group in queue.groups for each in group.flavors]
    missing = [f'ResourceFlavor "{name}"' for name in dict.fromkeys(names) if flavor(name) is None]
    if topologies is not None:
        named = [known.topology for name in names if (known := flavor(name)) is not None and known.topology]
        missing += [f'Topology "{name}"' for name in named if name not in topologies]
    missing += [f'AdmissionCheck "{use.name}"' for use in queue.checks if check(use.name) is None]
    found = [each for use in queue.checks if (each := check(use.name)) is not None]
    stopped = next((each for each in found if each.active is not None and not each.active.status), None)
    if missing and queue.active is None:
        problem = f"{missing[0]} does not exist; create it, or take it out of the queue"
    elif stopped is not None and stopped.active is not None:
        problem = f'AdmissionCheck "{stopped.name}" is inactive ({stopped.active.reason}): {stopped.active.message}'
    else:
        return None
    return Blocked(Blockage.CLUSTER_QUEUE_INACTIVE, f'ClusterQueue "{queue.name}" is inactive: {problem.rstrip(".")}')


def _sentence(message: str) -> str:
    """Kueue's message without its common prefix and its full stop."""
    return message.removeprefix("Can't admit new workloads: ").rstrip(".") or "it does not say why"


def _namespace_blocked(queue: ClusterQueue, labels: Mapping[str, str] | None) -> Blocked | None:
    if queue.selector is None:
        return Blocked(
            Blockage.NAMESPACE_NOT_SELECTED,
            f'ClusterQueue "{queue.name}" selects no namespace: it has no namespaceSelector; {{}} selects all',
        )
    if labels is None or selects(queue.selector, labels):
        return None
    unmet = ", ".join(_shown(term) for term in queue.selector if not selects((term,), labels))
    return Blocked(
        Blockage.NAMESPACE_NOT_SELECTED,
        f'the namespaceSelector of ClusterQueue "{queue.name}" does not match the labels of the namespace: {unmet}',
    )


def _shown(term: SelectorTerm) -> str:
    match term.operator:
        case "In" | "NotIn":
            return f"{term.key} {'in' if term.operator == 'In' else 'not in'} ({', '.join(term.values)})"
        case "Exists":
            return f"{term.key} exists"
        case "DoesNotExist":
            return f"{term.key} does not exist"

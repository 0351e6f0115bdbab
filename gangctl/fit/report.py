"""The answer of ``gangctl fit`` as plain data, which policies see as ``fit``.

The shape is published (``docs/fit.schema.json``, written from the types below): every key is always there. To policies
amounts are integers: milli-CPU, bytes, counts.

A queue that dispatches reserves its own quota, then one worker cluster runs the JobSet: of several verdicts the result
is ``fits`` if one cluster can run it, and ``never`` only if none ever can and all of them are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Final, Literal, TypedDict

from gangctl.api.jobset import JobSet
from gangctl.api.meta import API_VERSION
from gangctl.api.quantity import figure
from gangctl.api.reportfields import QUANTITY, SIGNED
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import PODS, Amounts
from gangctl.kueue.queues import Never

_NAMED: Final = 4


def show(resource: str, amount: int) -> str:
    """An amount with its resource: ``1.5 cpu``, ``3Gi memory``, ``8 nvidia.com/gpu``."""
    name = resource.removesuffix("s") if resource == PODS and amount == 1 else resource
    return f"{figure(resource, amount)} {name}"


def never_of(report: FitReport) -> Never | None:
    """Why the queue can never admit it; None if the verdict is another one."""
    return Never(report["reason"], report["message"].rstrip(".")) if report["verdict"] == "never" else None


def show_all(amounts: Mapping[str, int]) -> str:
    """Several amounts: ``2 cpu and 8 nvidia.com/gpu``."""
    return joined([show(resource, amount) for resource, amount in amounts.items()])


def bounded(amount: int) -> int:
    """An amount for the report: of int64, and not negative."""
    return max(0, min(amount, UNLIMITED))


def joined(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([part for part in (", ".join(parts[:-1]), *parts[-1:]) if part])


def meant(name: str, known: Iterable[str]) -> str:
    """``(did you mean nvidia.com/gpu?)`` for the name of a resource that is like a known one."""
    near = get_close_matches(name, sorted(set(known) - {name}), n=1, cutoff=0.75)
    return f" (did you mean {near[0]}?)" if near else ""


def quoted(names: Iterable[str]) -> str:
    """Names in quotes, the first few of many."""
    listed = list(dict.fromkeys(names))
    shown = [f'"{name}"' for name in listed[:_NAMED]]
    return joined([*shown, f"{len(listed) - _NAMED} more"] if len(listed) > _NAMED else shown)


KIND: Final = "GangFit"

Verdict = Literal["never", "not-now", "fits", "unknown"]


class FitIdentity(TypedDict):
    """Which JobSet this is about."""

    name: str
    namespace: Annotated[str, "Empty when the manifest names none."]


class PodSetReport(TypedDict):
    """Pods that one replicated job has."""

    name: str
    pods: int
    requests: Annotated[dict[str, int], "Of one pod, as Kueue counts them.", QUANTITY]
    flavors: Annotated[dict[str, str], "Flavor by resource of an assignment that fits; empty without one."]
    refused: Annotated[dict[str, str], "Why a flavor is none for these pods, by name of the flavor."]


class LimitReport(TypedDict):
    """One resource in one flavor (or on the nodes): what is asked for beside what there is."""

    flavor: Annotated[str, "Name of the ResourceFlavor; empty for a resource that no flavor covers, and for nodes."]
    resource: str
    requested: Annotated[int, "Of all pods that could take it from this flavor.", QUANTITY]
    maximum: Annotated[
        int, "The most that could ever be available here, borrowing included, with nothing in use.", QUANTITY
    ]
    nominal: Annotated[int, "The queue's own quota.", QUANTITY]
    used: Annotated[int, "In use in the queue now.", QUANTITY]
    free: Annotated[int, "What is available now, borrowing included; on the nodes that take its pods now.", QUANTITY]
    closed: Annotated[
        int, "Of the maximum, on nodes that take none of its pods now: cordoned, not ready, or tainted.", QUANTITY
    ]
    missing: Annotated[int, "By how much requested exceeds the maximum; 0 where it does not.", QUANTITY]
    limit: Annotated[str, "What sets the maximum, such as 'borrowingLimit of ClusterQueue a'."]


def podset_report(
    name: str,
    pods: int,
    requests: Amounts,
    flavors: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
) -> PodSetReport:
    """The row of one podset."""
    return {
        "name": name,
        "pods": bounded(pods),
        "requests": {resource: bounded(amount) for resource, amount in requests.items()},
        "flavors": dict(flavors or {}),
        "refused": dict(refused or {}),
    }


def limit_report(
    flavor: str,
    resource: str,
    asked: int,
    most: int,
    limit: str,
    *,
    nominal: int = 0,
    used: int = 0,
    free: int = 0,
    closed: int = 0,
) -> LimitReport:
    """The row of one resource in one flavor."""
    return {
        "flavor": flavor,
        "resource": resource,
        "requested": bounded(asked),
        "maximum": bounded(most),
        "nominal": bounded(nominal),
        "used": bounded(used),
        "free": bounded(free),
        "closed": bounded(closed),
        "missing": bounded(asked - most),
        "limit": limit,
    }


class HolderReport(TypedDict):
    """Who has what this JobSet waits for."""

    name: str
    namespace: str
    kind: str
    clusterQueue: str
    priority: Annotated[int, "Of its Workload; more is more important.", SIGNED]
    resources: Annotated[dict[str, int], "What it holds of the resources that are short, over all flavors.", QUANTITY]


class PreemptedReport(HolderReport):
    """A workload that Kueue would preempt for this JobSet; ``resources`` are all that it frees."""

    why: Annotated[str, "Reason of Kueue's condition Preempted, such as InClusterQueue or InCohortReclamation."]


class DomainReport(TypedDict):
    """One domain of nodes, and the pods of one podset that it has room for."""

    podSet: str
    flavor: Annotated[str, "Name of the ResourceFlavor; empty for the topologyKey of a gang, which has none."]
    level: Annotated[str, "The node label."]
    domain: Annotated[str, "Its value, after those of the levels above: 'block-1/rack-2'."]
    requested: Annotated[int, "Pods of the podset that Kueue places together."]
    assigned: Annotated[int, "Pods that would be here now; 0 in all domains if it does not fit now."]
    free: Annotated[int, "Pods that this domain has room for now."]
    maximum: Annotated[int, "Pods that it has room for with nothing else on its nodes."]


class StartReport(TypedDict):
    """When a JobSet starts that waits for quota, as far as can be estimated."""

    earliest: Annotated[int, "Seconds from now before which it does not start."]
    latest: Annotated[int | None, "Seconds from now by which it has started; null if that is not known."]
    why: Annotated[list[str], "What the estimate is made from, each in a sentence."]


class FitReport(TypedDict):
    """Whether a JobSet can be admitted: ever, and now."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["GangFit"]
    metadata: FitIdentity
    verdict: Verdict
    reason: Annotated[str, "Stable and CamelCase; see docs/fit.md."]
    message: Annotated[str, "The obstacle in one sentence, with the smallest change that removes it."]
    queue: Annotated[str, "LocalQueue, or empty."]
    clusterQueue: str
    blocked: Annotated[str, "Why the queue admits nothing at all now; empty when it admits."]
    blocking: Annotated[bool, "Whether it would block the others of its queue (StrictFIFO)."]
    reorder: Annotated[bool, "Whether it fits, but not in the order in which Kueue tries flavors."]
    podSets: list[PodSetReport]
    limits: list[LimitReport]
    domains: Annotated[list[DomainReport], "Where it would be now, or what has the most room, for a topology."]
    holders: list[HolderReport]
    preempts: Annotated[list[PreemptedReport], "Which workloads Kueue would preempt for it, with NeedsPreemption."]
    starts: Annotated[
        StartReport | None, "With WaitsForQuota and HeadBlocksQueue: when it will start; null if that is not known."
    ]
    unknown: Annotated[list[str], "What is not known, and could turn the verdict into something else."]
    notLookedAt: Annotated[
        list[str], "Constraints on its pods that were not checked, each with its field and the command that checks it."
    ]


def report_of(jobset: JobSet, namespace: str, verdict: Verdict, reason: str, message: str) -> FitReport:
    """A report with a verdict and nothing else; ``namespace`` is for a JobSet that names none."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": jobset.name or jobset.generate_name, "namespace": jobset.namespace or namespace},
        "verdict": verdict,
        "reason": reason,
        "message": message,
        "queue": "",
        "clusterQueue": "",
        "blocked": "",
        "blocking": False,
        "reorder": False,
        "podSets": [],
        "limits": [],
        "domains": [],
        "holders": [],
        "preempts": [],
        "starts": None,
        "unknown": [],
        "notLookedAt": [],
    }


_ORDER: Final[tuple[Verdict, ...]] = ("fits", "not-now", "unknown", "never")
"""The verdict of the best cluster is that of all."""


class WorkerFit(TypedDict):
    """Whether one worker cluster of MultiKueue can run the JobSet."""

    name: Annotated[str, "The name that MultiKueue has for it."]
    verdict: Verdict
    reason: Annotated[str, "As that of the whole."]
    message: Annotated[str, "One sentence, as that of the whole."]


class DispatchedFit(FitReport):
    """Whether a JobSet can be admitted: ever, and now; and on which worker clusters of MultiKueue."""

    workers: Annotated[list[WorkerFit], "Empty without --worker, and where its queue dispatches to none."]


def unknown_worker(name: str, why: str) -> WorkerFit:
    """A worker cluster of which nothing is known."""
    return {"name": name, "verdict": "unknown", "reason": "Unknown", "message": f"Not known: {why}."}


def dispatched(own: FitReport, workers: Sequence[WorkerFit]) -> FitReport:
    """The verdict by the queue's own quota and by the worker clusters that it can dispatch to, of which there is one.

    ``own`` is without what depends on the worker clusters.
    """
    if own["verdict"] == "never":
        return own
    best = min(workers, key=lambda each: _ORDER.index(each["verdict"]))
    named = {
        verdict: ", ".join(worker["name"] for worker in workers if worker["verdict"] == verdict) for verdict in _ORDER
    }
    if best["verdict"] == "never":
        message = f"No worker cluster can ever run it: {named['never']}."
        return {**own, "verdict": "never", "reason": best["reason"], "message": message, "blocking": False}
    if own["verdict"] == "fits" and best["verdict"] == "fits":
        several = "s" if "," in named["fits"] else ""
        return {**own, "reason": best["reason"], "message": f"It fits on worker cluster{several} {named['fits']} now."}
    missing = [f"what worker cluster {worker['name']} has" for worker in workers if worker["verdict"] == "unknown"]
    report: FitReport = {**own, "unknown": [*own["unknown"], *missing]}
    if own["verdict"] != "fits":
        return report
    unsure = f", as far as is known; not known: {named['unknown']}" if missing else ""
    message = f"It fits on no worker cluster now{unsure}."
    return {**report, "verdict": best["verdict"], "reason": best["reason"], "message": message}

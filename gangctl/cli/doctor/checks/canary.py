"""Checks of the canary: two JobSets that the doctor has created and watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.api.reportfields import rfc3339
from gangctl.api.scheduling import GATES
from gangctl.cli.doctor.canary import PODS_OF_ONE, Canary, CanaryJobSet
from gangctl.cli.doctor.check import SWITCH_ON, Area, CheckOutcome, check, failed, ok, unknown
from gangctl.cli.doctor.checks import installed, webhooks
from gangctl.cli.doctor.cluster import Cluster, UnseenError, fact
from gangctl.readiness.causes.context import Command
from gangctl.readiness.facts import PodFacts

_ELSEWHERE: Final = "choose a namespace by -n in which that rule does not apply"


@fact
async def canary(_: Cluster) -> Canary:
    """None is made unless it was asked for."""
    raise UnseenError("it was not asked for")


@check(
    "canary-admission",
    Area.CANARY,
    "Is a JobSet that asks for a gang stamped?",
    "a JobSet of two pods, created and deleted",
)
async def admission(cluster: Cluster) -> CheckOutcome:
    """The stored JobSet has the stamp."""
    whole = (await canary(cluster)).whole
    if installed.refused_by_rule(whole.refusal):
        return unknown(
            "a rule of this cluster refuses it",
            [f"refused: {whole.refusal}"],
            remedy=_ELSEWHERE,
        )
    if whole.refusal:
        return failed(
            "it could not be created",
            [f"refused: {whole.refusal}"],
            remedy="the message says who refuses it; another namespace is chosen by -n",
            command=f"gangctl doctor --only admission -n {cluster.namespace}",
        )
    if not whole.stamped:
        bare = f"JobSet {whole.name} without gangctl.dev/gang-ref"
        return await _outside(cluster, bare) or failed(
            "it was admitted without a stamp: its pods are scheduled one by one",
            [bare],
            remedy="see checks gangctl-webhooks and admission",
            command="gangctl doctor --only gangctl-webhooks",
        )
    return ok("it was stamped", f"JobSet {whole.name} in namespace {cluster.namespace}")


async def _outside(cluster: Cluster, *evidence: str) -> CheckOutcome | None:
    return await webhooks.not_served(cluster, *evidence, command="gangctl doctor --canary -n NAMESPACE")


@check(
    "canary-groups",
    Area.CANARY,
    "Do its group and the pods' reference to it exist?",
    "Workload, PodGroup and pods of that JobSet",
)
async def groups(cluster: Cluster) -> CheckOutcome:
    """Objects of the gang, and pods that name them."""
    whole = (await canary(cluster)).whole
    if not whole.stamped:
        return unknown("it was not stamped")
    evidence = [f"{whole.name}: {', '.join(whole.groups) or 'no Workload'}", *map(_reference, whole.pods)]
    if whole.suspended:
        return unknown(
            f"it is suspended after {whole.seconds:.0f} s, so that there are no pods: a queue of Kueue holds it",
            evidence,
            remedy="take a namespace without a default LocalQueue",
            command="gangctl doctor --canary -n NAMESPACE",
        )
    if not whole.groups:
        return failed(
            f"its Workload and PodGroup were not made within {whole.seconds:.0f} s",
            evidence,
            remedy="see whether gangctl leads (gangctl-leader), and what it logs",
            command="gangctl doctor --only gangctl-leader",
        )
    evidence += [f"refused: {whole.denied}"] if whole.denied else []
    if len(whole.pods) < PODS_OF_ONE and installed.refused_by_rule(whole.denied):
        return unknown("a rule of this cluster refuses its Jobs or pods", evidence, remedy=_ELSEWHERE)
    if len(whole.pods) < PODS_OF_ONE:
        return failed(
            f"there are {len(whole.pods)} of {PODS_OF_ONE} pods after {whole.seconds:.0f} s",
            evidence,
            remedy="see whether the JobSet controller and kube-controller-manager run, and whether pods are refused",
            command=f"kubectl -n {cluster.namespace} get events",
        )
    if not all(pod.group for pod in whole.pods):
        return failed(
            "pods do not name their group", evidence, remedy="see checks pod-field and gangctl-webhooks", command=""
        )
    return ok("the group exists, and both pods name it", *evidence)


def _reference(pod: PodFacts) -> str:
    return f"pod {pod.name} names {pod.group or 'no group'}"


@check("canary-scheduled", Area.CANARY, "Are both pods placed?", "the pods of that JobSet")
async def scheduled(cluster: Cluster) -> CheckOutcome:
    """Both have nodes."""
    whole = (await canary(cluster)).whole
    if len(whole.pods) < PODS_OF_ONE:
        return unknown("there are no two pods")
    evidence = _places(whole.pods)
    if all(pod.node for pod in whole.pods):
        return ok("both pods were placed", *evidence)
    one = "one pod was placed, and the other not" if any(pod.node for pod in whole.pods) else "no pod was placed"
    return failed(
        f"{one} within {whole.seconds:.0f} s",
        evidence,
        remedy="the scheduler's own words say why; without any, see whether kube-scheduler runs and knows "
        f"the feature gate {GATES}",
        command="kubectl describe nodes",
    )


def _places(pods: Sequence[PodFacts]) -> list[str]:
    return [
        f"pod {pod.name} is on {pod.node} since {rfc3339(pod.placed_at)}"
        if pod.node
        else f"pod {pod.name} has no node: "
        + (f"{pod.refused}: {pod.refusal}" if pod.refused else "the scheduler has said nothing")
        for pod in pods
    ]


@check(
    "canary-all-or-nothing",
    Area.CANARY,
    "Is no pod placed while another one of the gang cannot be?",
    "a JobSet of two pods, one with a nodeSelector that no node has",
)
async def all_or_nothing(cluster: Cluster) -> CheckOutcome:
    """The pod that fits waits for the one that does not; that both are placed where they fit makes this a proof."""
    made = await canary(cluster)
    torn = made.torn
    evidence = [*map(_reference, torn.pods), *_places(torn.pods)]
    if placed := [pod for pod in torn.pods if pod.node]:
        if not all(pod.group for pod in torn.pods):
            return await _outside(cluster, *evidence) or failed(
                f"pod {placed[0].name} was placed alone: its pods name no group",
                evidence,
                remedy="see checks admission and pod-field",
            )
        return failed(
            f"pod {placed[0].name} was placed alone, although it names its group: the scheduler ignores groups",
            evidence,
            remedy=SWITCH_ON,
            command=Command.SCHEDULER_FLAGS.value,
        )
    return _waits(torn, made.whole, made.held_seconds, evidence)


def _waits(torn: CanaryJobSet, whole: CanaryJobSet, held_seconds: float, evidence: list[str]) -> CheckOutcome:
    if torn.refusal:
        return unknown("it could not be created", [f"refused: {torn.refusal}"])
    if not whole.pods or not all(pod.node for pod in whole.pods):
        return unknown("no result while pods that fit are not placed either", evidence)
    if len(torn.pods) < PODS_OF_ONE or not all(pod.group for pod in torn.pods):
        return unknown("there are no two pods that name a group", evidence)
    if not any(pod.refused for pod in torn.pods):
        return unknown(
            f"the scheduler has written no condition of it within {torn.seconds:.0f} s",
            evidence,
            remedy="give it more time: --timeout",
            command="gangctl doctor --canary --timeout 120",
        )
    return ok(f"no pod was placed within {held_seconds:.0f} s after the scheduler had refused one", *evidence)


@check("canary-cleanup", Area.CANARY, "Are both JobSets and their objects deleted?", "deleting both, and looking")
async def cleanup(cluster: Cluster) -> CheckOutcome:
    """Nothing is left behind."""
    left = (await canary(cluster)).left_behind
    if not left:
        return ok("both JobSets and their objects are deleted")
    return failed(
        "not everything is deleted",
        [f"left behind: {name}" for name in left],
        remedy="delete it; what hangs, hangs in a finalizer or in the kubelet of a node",
        command=f"kubectl -n {cluster.namespace} delete jobset -l gangctl.dev/canary=true",
    )

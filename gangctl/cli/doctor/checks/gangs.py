"""Checks of scheduler and controllers by gangs: those of a cluster, with their causes, and the canary's. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY
from gangctl.cli.doctor.checks.kubernetes import GATES
from gangctl.cli.doctor.facts import PODS_OF_ONE, CanaryJobSet, CanaryPod, Facts, Gangs, Unseen, seen
from gangctl.cli.doctor.outcome import Outcome, failed, ok, unknown, warning
from gangctl.errors import plural
from gangctl.gang.generation import pick_generation
from gangctl.gang.reasons import Reason
from gangctl.readiness.result import Cause


def admission(facts: Facts) -> Outcome:
    """The stored JobSet has the stamp."""
    whole = seen(facts.canary).whole
    if whole.refusal:
        return failed(
            "it could not be created",
            [f"refused: {whole.refusal}"],
            remedy="the message says who refuses it; another namespace is chosen by -n",
            command=f"gangctl doctor --only admission -n {facts.namespace}",
        )
    if not whole.stamped:
        return failed(
            "it was admitted without a stamp: its pods are scheduled one by one",
            [f"JobSet {whole.name} without gangctl.dev/gang-ref"],
            remedy="see checks gangctl-webhooks and admission",
            command="gangctl doctor --only gangctl-webhooks",
        )
    return ok("it was stamped", f"JobSet {whole.name} in namespace {facts.namespace}")


def groups(facts: Facts) -> Outcome:
    """Objects of the gang, and pods that name them."""
    whole = seen(facts.canary).whole
    if not whole.stamped:
        return unknown("it was not stamped")
    evidence = [f"{whole.name}: {', '.join(whole.groups) or 'no Workload'}", *map(_reference, whole.pods)]
    if whole.suspended:
        return unknown(
            "it is suspended, so that there are no pods: a queue of Kueue holds it",
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
    if len(whole.pods) < PODS_OF_ONE:
        return failed(
            f"there are {len(whole.pods)} of {PODS_OF_ONE} pods after {whole.seconds:.0f} s",
            evidence,
            remedy="see whether the JobSet controller and kube-controller-manager run, and whether pods are refused",
            command=f"kubectl -n {facts.namespace} get events",
        )
    if not all(pod.reference for pod in whole.pods):
        return failed(
            "pods do not name their group", evidence, remedy="see checks pod-field and gangctl-webhooks", command=""
        )
    return ok("the group is there, and both pods name it", *evidence)


def _reference(pod: CanaryPod) -> str:
    return f"pod {pod.name} names {pod.reference or 'no group'}"


def scheduled(facts: Facts) -> Outcome:
    """Both have nodes."""
    whole = seen(facts.canary).whole
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


def _places(pods: Sequence[CanaryPod]) -> list[str]:
    return [
        f"pod {pod.name} is on {pod.node} since {pod.placed_at}"
        if pod.node
        else f"pod {pod.name} has no node: {pod.refused or 'the scheduler has said nothing'}"
        for pod in pods
    ]


def all_or_nothing(facts: Facts) -> Outcome:
    """The pod that fits waits for the one that does not; that both are placed where they fit makes this a proof."""
    canary = seen(facts.canary)
    torn = canary.torn
    evidence = [*map(_reference, torn.pods), *_places(torn.pods)]
    if placed := [pod for pod in torn.pods if pod.node]:
        if not all(pod.reference for pod in torn.pods):
            return failed(
                f"pod {placed[0].name} was placed alone: its pods name no group",
                evidence,
                remedy="see checks admission and pod-field",
            )
        return failed(
            f"pod {placed[0].name} was placed alone, although it names its group: the scheduler looks at no groups",
            evidence,
            remedy=f"start kube-scheduler with the feature gate {GATES}, the same as kube-apiserver",
            command="kubectl -n kube-system get pods -l component=kube-scheduler -o yaml",
        )
    return _waits(torn, canary.whole, canary.held_seconds, evidence)


def _waits(torn: CanaryJobSet, whole: CanaryJobSet, held_seconds: float, evidence: list[str]) -> Outcome:
    if torn.refusal:
        return unknown("it could not be created", [f"refused: {torn.refusal}"])
    if not whole.pods or not all(pod.node for pod in whole.pods):
        return unknown("nothing follows from it while pods that fit are not placed either", evidence)
    if len(torn.pods) < PODS_OF_ONE or not all(pod.reference for pod in torn.pods):
        return unknown("there are no two pods that name a group", evidence)
    if not any(pod.refused for pod in torn.pods):
        return unknown(
            f"the scheduler has not said anything of it within {torn.seconds:.0f} s",
            evidence,
            remedy="give it more time: --timeout",
            command="gangctl doctor --canary --timeout 2m",
        )
    return ok(f"no pod was placed within {held_seconds:.0f} s after the scheduler had refused one", *evidence)


def cleanup(facts: Facts) -> Outcome:
    """Nothing is left behind."""
    left = seen(facts.canary).left_behind
    if not left:
        return ok("everything is gone again")
    return failed(
        "not everything is gone",
        [f"left behind: {each}" for each in left],
        remedy="delete it; what hangs, hangs in a finalizer or in the kubelet of a node",
        command=f"kubectl -n {facts.namespace} delete jobset -l gangctl.dev/canary=true",
    )


_LONG_SECONDS: Final = 300
"""Time after which terminating pods, or a remaining finalizer, are no longer normal."""
CANARY: Final = "gangctl doctor --canary"


def _with(gangs: Gangs, *reasons: Reason) -> list[Cause]:
    return [each for each in gangs.troubles if each.reason in reasons]


def _lines(troubles: Sequence[Cause]) -> list[str]:
    return [line for each in troubles for line in (each.message, *each.evidence[:1])]


def _seen_in_part(gangs: Gangs, *left_out: str) -> Outcome | None:
    """Partially readable gangs prove nothing."""
    missing = [each for each in gangs.left_out if not left_out or any(word in each for word in left_out)]
    if missing:
        return unknown("not everything needed was read", missing, remedy="get these rights, or ask your administrator")
    return None


def scheduler_gate(facts: Facts) -> Outcome:
    """A group with a condition of the scheduler is proof; pods placed without one prove the opposite."""
    gangs = seen(facts.gangs)
    if blind := _with(gangs, Reason.SCHEDULING_GATE_OFF):
        return failed(
            "the scheduler does not look at groups: it places pods one by one",
            _lines(blind),
            remedy=f"start kube-scheduler with the feature gate {GATES}, the same as kube-apiserver",
            command="kubectl -n kube-system get pods -l component=kube-scheduler -o yaml",
        )
    if silent := _with(gangs, Reason.SCHEDULER_SILENT):
        return failed(
            "the scheduler says nothing of pods that wait",
            _lines(silent),
            remedy="see whether kube-scheduler runs and is ready: without the API that its gates need it never is",
            command="kubectl -n kube-system logs -l component=kube-scheduler",
        )
    if errors := _with(gangs, Reason.SCHEDULER_ERROR):
        return warning(
            "the scheduler fails over gangs", _lines(errors), remedy=errors[0].remedy, command=errors[0].command
        )
    if gangs.groups_heard:
        return ok("the scheduler looks at groups", f"it has said of {gangs.groups_heard} PodGroups how they stand")
    if (nothing := _seen_in_part(gangs, "podgroups", "pods")) is not None:
        return nothing
    if not isinstance(facts.canary, Unseen):
        return all_or_nothing(facts)
    generation = pick_generation(seen(facts.served)).generation
    if gangs.count and generation is not None and not generation.capabilities.pod_groups:
        why = "Kubernetes 1.35 has no PodGroups that the scheduler could say something of"
    else:
        why = f"the scheduler has said nothing of any PodGroup {gangs.where} yet"
    return unknown(why, [f"{plural(gangs.count, 'gang')} {gangs.where}"], remedy="--canary shows it", command=CANARY)


def exclusive_topology(facts: Facts) -> Outcome:
    """JobSet admits followers after their leader is placed, and a gang is placed only as a whole."""
    gangs = seen(facts.gangs)
    found = _with(gangs, Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK)
    if found:
        return failed(
            f"gangs wait for themselves: {EXCLUSIVE_TOPOLOGY} by webhook and a gang exclude each other",
            _lines(found),
            remedy=f"create these JobSets again with {NODE_SELECTOR_STRATEGY}, or with the pod affinity that "
            "gangctl convert --replace-exclusive-topology writes in its place; gangctl refuses new ones",
            command=found[0].command,
        )
    return _seen_in_part(gangs, "pods", "jobs") or ok("no gang does", f"{plural(gangs.count, 'gang')} {gangs.where}")


def job_controller_gangs(facts: Facts) -> Outcome:
    """On 1.36 the gate WorkloadWithJob makes a gang of each Job that names none, a JobSet's or not."""
    found = seen(facts.job_workloads)
    if not found:
        return ok("no Workload is controlled by a JobSet's Job")
    return warning(
        "the Job controller makes gangs of its own of JobSets' Jobs: each Job starts as a whole, the JobSet does not",
        [f"Workload {name}" for name in found],
        remedy="switch WorkloadWithJob off on kube-controller-manager, or ask for a gang on these JobSets: a Job whose "
        "pods name a group is left alone",
        command="kubectl get workloads.scheduling.k8s.io -A",
    )


def priorities(facts: Facts) -> Outcome:
    """The scheduler of 1.37 rejects a group whose pods have another priority."""
    gangs = seen(facts.gangs)
    if found := _with(gangs, Reason.PRIORITY_MISMATCH):
        return failed(
            "pods have another priority than their group: the scheduler never places them",
            _lines(found),
            remedy=found[0].remedy,
            command=found[0].command,
        )
    fine = "no gang of another priority than its pods"
    return _seen_in_part(gangs, "podgroups", "pods") or ok(fine, f"{plural(gangs.count, 'gang')} {gangs.where}")


def terminating_groups(facts: Facts) -> Outcome:
    """A finalizer protects a group while pods name it; if the controller's gate is off, it is never removed."""
    found = seen(facts.leaving)
    long = [each for each in found if facts.now - each.since > _LONG_SECONDS]
    if long:
        return failed(
            f"PodGroups hang in deletion for more than {_LONG_SECONDS // 60} minutes: their names cannot be used again",
            [f"PodGroup {each.name}: {', '.join(each.finalizers) or 'no finalizer'}" for each in long],
            remedy="end the pods that name them; where there are none, kube-controller-manager lacks the feature gate "
            "GenericWorkload or does not run",
            command=f"kubectl -n {long[0].name.partition('/')[0]} get pods",
        )
    if found:
        return ok("none for long", *(f"PodGroup {each.name} is being deleted" for each in found))
    return ok("none")


def object_quotas(facts: Facts) -> Outcome:
    """An object that a quota refuses is missing until another one is deleted."""
    quotas = seen(facts.quotas)
    small = [quota for quota in quotas if quota.lacking + quota.lacking_next > quota.hard - quota.used]
    if small:
        return warning(
            "ResourceQuotas have no room for all objects of gangs",
            [quota.title for quota in small],
            remedy="raise them: a gang needs a Workload and its groups, and while it has restarts left the groups of "
            "its next attempt, without which it cannot restart while gangctl is down",
            command=f"kubectl -n {small[0].namespace} describe resourcequota {small[0].name}",
        )
    return ok("they have", *(quota.title for quota in quotas)) if quotas else ok("no ResourceQuota limits them")


def in_name_only(facts: Facts) -> Outcome:
    """JobSets that bypassed gangctl, or lost their reference in an upgrade."""
    reasons = {Reason.NOT_GANGED, Reason.FIELD_DROPPED, Reason.POD_GROUP_MISSING, Reason.MIN_COUNT_UNREACHABLE}
    gangs = seen(facts.gangs)
    found = _with(gangs, *reasons)
    if found:
        return warning(
            "JobSets ask for a gang, and are none",
            _lines(found),
            remedy=found[0].remedy,
            command=found[0].command,
        )
    return _seen_in_part(gangs) or ok("all gangs are whole", f"{plural(gangs.count, 'gang')} {gangs.where}")

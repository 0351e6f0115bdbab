"""What is wrong with the Workload and the PodGroups of a gang: foreign, missing, on their way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gangctl.api.scheduling import Observed
from gangctl.gang.assess import Lifecycle
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import QUICK, Context, Finding, Until, listed, oldest, some, unplaced
from gangctl.readiness.membership import Group

PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
PODGROUPS: Final = "podgroups.scheduling.k8s.io"
WORKLOADS: Final = "workloads.scheduling.k8s.io"
"""Written in full: Kueue has Workloads, too."""


def gangs(context: Context) -> Sequence[Group]:
    """Groups for which an object has to be there."""
    if context.capabilities is None:
        return ()
    return [group for group in context.groups if group.scope is not None and len(group.unlinked) < len(group.planned)]


def name_conflict(context: Context) -> Iterator[Finding]:
    """Somebody else's object has a name that was planned: gangctl neither takes it over nor deletes it."""
    snapshot, plan = context.snapshot, context.snapshot.assessment.plan
    if plan is None or context.capabilities is None or not context.runs:
        return
    taken = snapshot.workload
    if taken is not None and taken.owner_uid != plan.uid:
        yield _conflict(context, "Workload", WORKLOADS, [taken], gangs(context))
    if not context.capabilities.pod_groups:
        return
    foreign = {name: found for name, found in snapshot.groups.items() if found.owner_uid != plan.uid}
    held = [group for group in gangs(context) if group.name in foreign]
    if held:
        yield _conflict(context, "PodGroup", PODGROUPS, [foreign[group.name] for group in held], held)


def _conflict(context: Context, kind: str, resource: str, found: Sequence[Observed], held: Sequence[Group]) -> Finding:
    names = listed(each.name for each in found)
    first = min(found, key=lambda each: each.name)
    kept = kind == "PodGroup" and any(each.deleting for each in found) and any(group.pods for group in held)
    return context.cause(
        Reason.NAME_CONFLICT,
        f"{kind} {names} has another owner, and a name that this gang needs",
        evidence=[f"{kind} {each.name} {_owner(each)}" for each in sorted(found, key=lambda each: each.name)],
        remedy="it is being deleted, and stays as long as these pods name it: suspend the JobSet, and resume it once "
        "they have ended"
        if kept
        else f"delete the {kind} if it is not needed, and gangctl makes its own; or create this JobSet again: its "
        "next UID gives it other names",
        command=context.kubectl(
            f'patch jobset {context.snapshot.jobset.name} --type=merge -p \'{{"spec":{{"suspend":true}}}}\''
            if kept
            else f"get {resource} {first.name} -o yaml"
        ),
        groups=held,
        pods=sum(group.wanted for group in held),
    )


def _owner(found: Observed) -> str:
    if found.owner_jobset:
        return f'is controlled by JobSet "{found.owner_jobset}" with UID {found.owner_uid}'
    return f"is controlled by an object with UID {found.owner_uid}" if found.owner_uid else "has no controller"


def pod_group_missing(context: Context) -> Iterator[Finding]:
    """The object that pods name is not there: the scheduler leaves them alone until it is."""
    snapshot, capabilities = context.snapshot, context.capabilities
    present = snapshot.groups_known and snapshot.assessment.lifecycle is Lifecycle.PRESENT
    if capabilities is None or not context.runs or not present:
        return
    plan = snapshot.assessment.plan
    kind, resource, missing = "PodGroup", PODGROUPS, [g for g in gangs(context) if g.name not in snapshot.groups]
    if not capabilities.pod_groups:
        kind, resource, missing = "Workload", WORKLOADS, list(gangs(context)) if snapshot.workload is None else []
    if plan is None or not missing:
        return
    waiting = [pod for group in missing for pod in unplaced(group)]
    since = max(context.free_since, oldest(pod.created for pod in waiting))
    late = context.now - since >= QUICK
    if not late:
        yield Until(since + QUICK)
    names = [plan.workload.name] if kind == "Workload" else [group.name for group in missing]
    evidence = [f"there is no {kind} {listed(names)}"]
    if waiting:
        evidence.append(f"{some(len(waiting), 'pod')} without a node wait for it, {context.lasting(since)}")
    if kind == "PodGroup" and snapshot.workload is None:
        evidence.append(f"there is no Workload {plan.workload.name} either")
    yield context.cause(
        Reason.POD_GROUP_MISSING,
        f"the {kind} that its pods name does not exist" if late else f"its {kind} is about to be made",
        evidence=evidence,
        remedy="gangctl's controller makes it within a second: see whether it runs and has a leader, and the JobSet's "
        "events for why it could not"
        if late
        else "wait: gangctl's controller makes it within a second",
        command=context.events(snapshot.jobset.name) if late else context.kubectl(f"get {resource} {min(names)}"),
        groups=missing,
        pods=sum(group.wanted for group in missing),
        since=since,
        blocking=late,
    )


def pod_group_terminating(context: Context) -> Iterator[Finding]:
    """Its PodGroup is being deleted, and the next of the name cannot be made before it is gone."""
    capabilities, uid = context.capabilities, context.snapshot.jobset.uid
    if capabilities is None or not capabilities.pod_groups or not context.runs:
        return
    going = {n for n, found in context.snapshot.groups.items() if found.deleting and found.owner_uid == uid}
    held = [group for group in gangs(context) if group.name in going]
    if not held:
        return
    waiting = [pod for group in held for pod in unplaced(group)]
    keepers = [pod for group in held for pod in (*group.pods, *group.leaving, *group.earlier)]
    evidence = [f"PodGroup {listed(group.name for group in held)} has a deletionTimestamp"]
    if keepers:
        names = listed(pod.name for pod in keepers)
        evidence.append(f"{some(len(keepers), 'pod')} that have not ended name it and keep it: {names}")
    else:
        evidence.append(f"no pod is seen that names it: only the finalizer {PROTECTION} can keep it")
    yield context.cause(
        Reason.POD_GROUP_TERMINATING,
        "its PodGroup is being deleted, and cannot be made anew before it is gone",
        evidence=evidence,
        remedy="it goes with the last pod that names it, and gangctl makes the next one at once; if none is left, see "
        f"that kube-controller-manager has the feature gate GenericWorkload: it takes the finalizer {PROTECTION} off",
        command=context.kubectl(f"get {PODGROUPS} {min(going)} -o yaml"),
        groups=held,
        pods=len(waiting),
        # Pods that name a group on its way out are scheduled all the same: what the scheduler says counts then.
        blocking=not keepers or (bool(waiting) and not any(pod.refused for pod in waiting)),
    )


def foreign_workload(context: Context) -> Iterator[Finding]:
    """Somebody else has made a Workload for this JobSet, which gangctl respects; pods that it has not are alone."""
    name = context.snapshot.foreign_workload
    if not name:
        return
    alone = context.snapshot.assessment.plan is None
    waiting = [pod for group in context.groups for pod in unplaced(group)] if alone and context.runs else []
    outside = [pod for pod in waiting if not pod.group]
    evidence = [f"spec.controllerRef of Workload {name} names JobSet {context.snapshot.jobset.name}"]
    if outside:
        evidence.append(f"{some(len(outside), 'pod')} of it name no group, and have no node")
    yield context.cause(
        Reason.FOREIGN_WORKLOAD,
        f'Workload "{name}" of another owner is for this JobSet'
        + (", so gangctl makes no gang of it" if alone else ", beside that of gangctl"),
        evidence=evidence,
        remedy="see that its owner also puts the pods into its groups; or delete it and create the JobSet again",
        command=context.kubectl(f"get {WORKLOADS} {name} -o yaml"),
        pods=len(waiting),
        blocking=bool(outside),
    )


def where(context: Context, group: Group) -> str:
    """The object that holds a group's minCount, as kubectl names it."""
    if context.capabilities is not None and not context.capabilities.pod_groups:
        plan = context.snapshot.assessment.plan
        return f"{WORKLOADS} {plan.workload.name if plan is not None else ''}".strip()
    return f"{PODGROUPS} {group.name}"

"""From a gang configuration to one stamp per ReplicatedJob, or errors.

This runs once, at JobSet CREATE; afterwards the stamps are authoritative. The rules are
KEP-1068's with the reviewers' corrections: a JobSet-wide gang with sequenced
startup is split per ReplicatedJob, because its pods would wait for each other, and
a gang that can never be scheduled is rejected instead of left pending.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.api.meta import DEFAULT_SCHEDULER, GANG_MODE, GANG_OPTIONS, GANGS
from gangctl.api.scheduling import NEWEST, Feature, Generation
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang import validate
from gangctl.gang.config import Gang, GangConfig, GangMode, read_config
from gangctl.gang.naming import Scope, Stamp, base_name, template_names
from gangctl.gang.plan import is_sequenced, is_split, make_plan, replicated_job_pods
from gangctl.gang.reasons import Notice, Reason

JOBSET_TEMPLATE: Final = "jobset"


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """Inputs of decisions besides the JobSet itself."""

    generation: Generation = NEWEST
    gang_schedulers: frozenset[str] = frozenset({DEFAULT_SCHEDULER})
    """Scheduler names that honour groups: kube-scheduler's profiles."""
    lacks: frozenset[Feature] = frozenset()
    """What the generation can express and the cluster does not keep."""
    known: bool = False
    """A cluster was asked; without one nothing is known to be missing, or to be there."""

    @property
    def composite(self) -> bool:
        """Whether gangs can have a CompositePodGroup, as far as is known."""
        return self.generation.capabilities.composite and Feature.COMPOSITE not in self.lacks


@dataclass(frozen=True, slots=True)
class Resolution:
    """``stamps`` has one entry per ReplicatedJob in list order; with ``errors`` there are no stamps."""

    stamps: tuple[Stamp | None, ...]
    config: GangConfig
    notices: tuple[Notice, ...] = ()
    errors: tuple[FieldError, ...] = ()


@dataclass(slots=True)
class _Draft:
    """State of a resolution."""

    jobset: JobSet
    config: GangConfig
    rules: ClusterRules
    resizable: bool = False
    scopes: dict[int, Scope] = field(default_factory=dict)
    """Scope by index of the ReplicatedJob; absent means not in any gang."""
    notices: list[Notice] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)
    gangs: dict[str, Gang] = field(init=False)
    """The entry of the annotation that names a ReplicatedJob, by its name."""

    def __post_init__(self) -> None:
        """Read the annotation once: admission waits for it."""
        self.gangs = {name: gang for gang in self.config.gangs for name in gang.replicated_jobs}

    def members(self) -> list[ReplicatedJob]:
        """ReplicatedJobs that are in some gang."""
        return [rj for rj in self.jobset.replicated_jobs if rj.index in self.scopes]

    def gang_of(self, rj: ReplicatedJob) -> Gang | None:
        """The entry of the annotation that names a ReplicatedJob."""
        return self.gangs.get(rj.name)

    def groups(self) -> list[list[ReplicatedJob]]:
        """Members that share a template."""
        groups: dict[str, list[ReplicatedJob]] = {}
        for rj in self.members():
            gang = self.gang_of(rj)
            shared = "" if self.scopes[rj.index] is Scope.JOBSET else f"/{gang.name if gang else rj.index}"
            groups.setdefault(shared, []).append(rj)
        return list(groups.values())

    def drop(self, dropped: Iterable[ReplicatedJob]) -> None:
        """Take ReplicatedJobs out of their gangs."""
        for rj in dropped:
            self.scopes.pop(rj.index, None)


def _names(replicated_jobs: Iterable[ReplicatedJob]) -> str:
    return ", ".join(f'"{rj.name}"' for rj in replicated_jobs)


def _assign_scopes(draft: _Draft) -> None:
    if draft.config.gangs:
        for rj in draft.jobset.replicated_jobs:
            gang = draft.gang_of(rj)
            if gang is not None:
                draft.scopes[rj.index] = Scope.JOB if gang.per_replica else Scope.REPLICATED_JOB
        return
    for rj, mode in zip(draft.jobset.replicated_jobs, draft.config.replicated_jobs, strict=True):
        if draft.config.jobset is GangMode.GANG and mode is None:
            draft.scopes[rj.index] = Scope.JOBSET
        elif mode is GangMode.GANG:
            draft.scopes[rj.index] = Scope.REPLICATED_JOB
        elif mode is GangMode.REPLICATED_GANG:
            draft.scopes[rj.index] = Scope.JOB


def _leave_user_managed(draft: _Draft) -> None:
    managed = [rj for rj in draft.members() if rj.scheduling_reference]
    if not managed:
        return
    together = [rj for group in draft.groups() if len(group) > 1 for rj in group if rj.scheduling_reference]
    if draft.config.gangs and together:
        for rj in together:
            path = validate.pod_field(rj, rj.scheduling_reference)
            detail = (
                f'the pods of replicated job "{rj.name}" already name a group, and {GANGS} puts them into a gang with '
                "others: remove this field, or take the replicated job out of the gang"
            )
            draft.errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
        return
    # Without some of its pods, a gang of the whole JobSet would not be what was asked for.
    if draft.config.jobset is GangMode.GANG and not draft.config.gangs:
        for rj in managed:
            path = validate.pod_field(rj, rj.scheduling_reference)
            detail = (
                f'a JobSet-wide gang cannot contain replicated job "{rj.name}", whose pods already name a group: '
                f'remove this field, or set {GANG_MODE}: "Off" on that replicated job'
            )
            draft.errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
        return
    message = f"Left alone: the pods of replicated jobs {_names(managed)} already name a group of their own."
    draft.notices.append(Notice(Reason.USER_MANAGED, message))
    draft.drop(managed)


def _leave_other_schedulers(draft: _Draft) -> None:
    members = draft.members()
    if draft.config.gangs:
        for group in draft.groups():
            draft.errors += validate.check_schedulers([rj for rj in group if rj.replicas > 0])
    # A sequenced gang is split by a later step: its replicated jobs may have different schedulers.
    elif draft.config.jobset is GangMode.GANG and not is_sequenced(draft.jobset, members):
        draft.errors += validate.check_schedulers([rj for rj in members if rj.replicas > 0])
    aware = draft.rules.gang_schedulers
    others = [rj for rj in members if (rj.scheduler or DEFAULT_SCHEDULER) not in aware]
    if not others or draft.errors:
        return
    schedulers = ", ".join(sorted({f'"{rj.scheduler}"' for rj in others}))
    message = (
        f"Not ganged: replicated jobs {_names(others)} use scheduler {schedulers}, which is not known to honour groups "
        f"(known: {', '.join(sorted(aware))}; see --gang-scheduler)."
    )
    draft.notices.append(Notice(Reason.UNSUPPORTED_SCHEDULER, message))
    draft.drop(others)


def _split_sequenced(draft: _Draft) -> None:
    members = draft.members()
    if draft.config.gangs:
        draft.errors += validate.check_sequences(draft.jobset, draft.config.gangs)
        return
    if draft.config.jobset is not GangMode.GANG or not is_split(draft.jobset, members):
        return
    several = len(members) > 1
    if several and draft.config.options.sequenced == "reject":
        detail = (
            'is "reject", and startup is sequenced (dependsOn or startupPolicy InOrder): the first pods of a '
            "JobSet-wide gang would wait for pods that wait for them. Set the mode per replicated job, or this "
            'option to "split"'
        )
        draft.errors.append(FieldError(f"metadata.annotations[{GANG_OPTIONS}].sequenced", ErrorKind.INVALID, detail))
        return
    for rj in members:
        draft.scopes[rj.index] = Scope.REPLICATED_JOB
    if several:
        message = f"Startup is sequenced: one gang per replicated job instead of a JobSet-wide one: {_names(members)}."
        draft.notices.append(Notice(Reason.GANG_SPLIT, message))


def _leave_empty(draft: _Draft) -> None:
    # Most JobSets have pods everywhere, and need no groups here.
    if all(map(replicated_job_pods, draft.members())):
        return
    empty = [rj for group in draft.groups() if not any(map(replicated_job_pods, group)) for rj in group]
    if empty:
        draft.notices.append(
            Notice(Reason.GANG_EMPTY, f"No gang without pods: replicated jobs {_names(empty)} have none.")
        )
        draft.drop(empty)


def _warn_of_shrinking(draft: _Draft) -> None:
    """Notices if some pods may end permanently while others run: only the start is all or nothing."""
    shrinking = [rj for rj in draft.members() if rj.shrinks_by and replicated_job_pods(rj) > 1]
    if not shrinking:
        return
    fields = ", ".join(sorted({field for rj in shrinking for field in rj.shrinks_by}))
    if draft.rules.generation.capabilities.min_count_mutable:
        then = "minCount follows the pods that can still exist"
    else:
        then = (
            "minCount cannot follow before Kubernetes 1.37, so that a pod that is replaced after that waits until the "
            "JobSet restarts"
        )
    message = (
        f"The gang starts whole, but may go on with fewer pods: replicated jobs {_names(shrinking)} set {fields}, with "
        f"which pods end for good while others run. {then[0].upper()}{then[1:]}."
    )
    draft.notices.append(Notice(Reason.GANG_MAY_SHRINK, message))


def _check(draft: _Draft) -> None:
    """Check the resulting groups."""
    members = draft.members()
    draft.errors += validate.check_job_scheduling(members)
    groups = draft.groups()
    capabilities = draft.rules.generation.capabilities
    for errors, notices in (
        validate.check_groups(draft.jobset, groups, capabilities),
        validate.check_support(draft.config, draft.rules.generation, draft.rules.lacks),
    ):
        draft.errors += errors
        draft.notices += notices
    draft.errors += validate.check_gangs(draft.jobset, draft.config.gangs, resizable=draft.resizable)
    draft.errors += validate.check_composite(draft.jobset, draft.config, members)
    draft.errors += validate.check_jobs(draft.jobset)
    draft.errors += validate.check_templates(draft.jobset, groups)


def _stamps(draft: _Draft) -> tuple[Stamp | None, ...]:
    names = template_names(tuple(rj.name for rj in draft.jobset.replicated_jobs))
    # The API server generates the name after the stamp is written.
    jobset = draft.jobset.generate_name.rstrip("-.") or draft.jobset.name
    whole: Stamp | None = None
    stamps: list[Stamp | None] = []
    for rj, name in zip(draft.jobset.replicated_jobs, names, strict=True):
        scope = draft.scopes.get(rj.index)
        if scope is None:
            stamps.append(None)
        elif (gang := draft.gang_of(rj)) is not None:
            stamps.append(Stamp(scope, gang.name, base_name(jobset, gang.name)))
        elif scope is Scope.JOBSET:
            whole = whole or Stamp(scope, JOBSET_TEMPLATE, base_name(jobset))
            stamps.append(whole)
        else:
            stamps.append(Stamp(scope, name, base_name(jobset, rj.name)))
    return tuple(stamps)


def _warn_of_lone_gang(draft: _Draft) -> None:
    """A notice if ``composite`` has no other gang to start with."""
    if not draft.config.options.composite:
        return
    plan = make_plan(draft.jobset, _stamps(draft), draft.config)
    if plan is not None and plan.composite is None:
        why = "this JobSet has a single gang, which starts as a whole without it"
        message = f"{validate.COMPOSITE_PATH} has no effect: {why}."
        draft.notices.append(Notice(Reason.NO_EFFECT, message))


# What leaves its gang must not be checked as a member of it, and a split changes which groups are checked.
_STEPS: Final = (
    _assign_scopes,
    _leave_user_managed,
    _leave_other_schedulers,
    _split_sequenced,
    _leave_empty,
    _check,
    _warn_of_shrinking,
    _warn_of_lone_gang,
)


def resolve(jobset: JobSet, rules: ClusterRules, *, resizable: bool = False) -> Resolution:
    """Decide which ReplicatedJobs share which gang.

    Total: problems are in ``errors``, with field paths. A JobSet that requests no gang,
    that another controller manages, or that JobSet schedules natively gets no stamp,
    and each of these but the first has a notice. A ``resizable`` one exists, and may have fewer pods than at CREATE.
    """
    config, errors = read_config(jobset)
    nothing: tuple[None, ...] = (None,) * len(jobset.replicated_jobs)
    notices = validate.check_keys(jobset)
    # Before the errors: the controller that runs it decides what is valid.
    if jobset.managed_elsewhere:
        if config.asks_for_gangs:
            message = (
                f"Nothing is made for this JobSet here: another controller runs it (spec.managedBy: "
                f"{jobset.managed_by}). Its copy in another cluster becomes a gang where gangctl runs on that cluster."
            )
            notices = (*notices, Notice(Reason.NOT_GANGED, message))
        return Resolution(nothing, config, notices)
    if errors:
        return Resolution(nothing, config, notices, errors)
    if not config.asks_for_gangs:
        return Resolution(nothing, config, notices)
    if jobset.native_scheduling:
        message = "gangctl defers to it: JobSet itself creates the Workload of a JobSet with spec.scheduling."
        return Resolution(nothing, config, (*notices, Notice(Reason.UPSTREAM_SCHEDULING, message)))
    draft = _Draft(jobset, config, rules, resizable, notices=list(notices))
    for step in _STEPS:
        step(draft)
        if draft.errors:
            return Resolution(nothing, config, tuple(draft.notices), tuple(draft.errors))
    return Resolution(_stamps(draft), config, tuple(draft.notices))

"""Defaults that policies add to JobSets at CREATE, with the policy that each comes from.

The JobSet is matched as it was written: defaults of the same request do not change the match.

The JobSet's own value always wins. Policies that agree count as one, policies that disagree are an error that names
them both: users could not guess any precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gangctl.api.jobset import MAX_ITEMS, JobSet, read_jobset
from gangctl.api.jsonpatch import Operation, additions
from gangctl.api.meta import EVICT_STRANDED_AFTER, GANG_MODE, GANG_OPTIONS, GANGS, QUEUE_NAME, QUEUE_PRIORITY
from gangctl.api.objects import Object, Reader
from gangctl.api.requests import pod_requests
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.config import Gang, GangMode, read_config
from gangctl.policy.evaluate import MATCH_CONDITIONS, PARAMS
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.model import Accelerator, Defaults, QueueMatch
from gangctl.policy.review import Review, labels_of, matches, selects_namespace, selects_object
from gangctl.policy.variables import takes_params
from gangctl.policy.verdict import WHOLE_POLICY, Finding, Outcome, Result, merge

_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class DefaultSource:
    """Where a value comes from.

    ``places`` has for each of the policies the entry of its queue map, or nothing where the field itself sets it.
    """

    value: Any
    policies: tuple[str, ...]
    places: tuple[str, ...]

    def __str__(self) -> str:
        """The value, and the policies that set it."""
        authors = (
            f"{policy} ({place})" if place else policy for policy, place in zip(self.policies, self.places, strict=True)
        )
        return f"{_shown(self.value)}, default of {', '.join(authors)}"


@dataclass(frozen=True, slots=True)
class Applied:
    """The additions to a JobSet.

    ``patch`` are JSON patch operations. ``conflicts`` are defaults on which policies disagree; with any of them there
    is no patch. ``sources`` has the added values and their policies by field path.
    """

    patch: tuple[Operation, ...] = ()
    conflicts: tuple[FieldError, ...] = ()
    sources: Mapping[str, DefaultSource] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Proposal:
    """The value of a policy for a field; ``place`` is its path in the policy, if not the field of that name."""

    policy: str
    value: Any
    place: str = ""

    @property
    def author(self) -> str:
        """The policy's name in conflicts."""
        return f"GangPolicy '{self.policy}'" + (f" ({self.place})" if self.place else "")


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()


def without_answer(outcome: Outcome) -> tuple[Finding, ...]:
    """Why it is not known whether a policy applies; empty when it is, and where an exception covers that."""
    return tuple(finding for finding in outcome.findings if finding.result is Result.ERROR and _is_unknown(finding))


def _is_unknown(finding: Finding) -> bool:
    """Whether an error leaves open whether a policy applies, also one that an exception covers."""
    about = finding.rule in {WHOLE_POLICY, MATCH_CONDITIONS, PARAMS}
    return about and finding.result in {Result.ERROR, Result.EXEMPT}


def refusals(policies: Iterable[LoadedPolicy], outcomes: Iterable[Outcome]) -> Iterator[Finding]:
    """Why a JobSet is refused before it gets defaults: it is not known whether a policy that fails closed gives any."""
    closed = {policy.name for policy in policies if policy.fail_closed}
    for outcome in outcomes:
        for finding in without_answer(outcome):
            # A policy that fails open still denies what no failurePolicy excuses, such as an exhausted budget.
            if outcome.policy in closed or finding in merge([outcome]).denials:
                yield finding


def is_conditional(policy: LoadedPolicy) -> bool:
    """Whether only an evaluation shows that the policy applies to what it matches: it may have no parameters."""
    return bool(policy.spec.match_conditions) or takes_params(policy.spec)


def applying(policies: Iterable[LoadedPolicy], review: Review, outcomes: Iterable[Outcome] = ()) -> list[LoadedPolicy]:
    """The policies with defaults for this request, by name.

    A conditional one gives defaults only where an outcome shows that it applies.
    """
    matched = {
        outcome.policy for outcome in outcomes if outcome.matched and not any(map(_is_unknown, outcome.findings))
    }
    chosen = [
        policy
        for policy in policies
        if policy.spec.defaults is not None
        and not matches(policy, review)
        and (not is_conditional(policy) or policy.name in matched)
    ]
    return sorted(chosen, key=lambda policy: policy.name)


def defaults_of(policies: Iterable[LoadedPolicy], review: Review, outcomes: Iterable[Outcome] = ()) -> Applied:
    """The defaults of the JobSet of a CREATE; nothing for other operations and other objects.

    ``outcomes`` are those of the conditional policies, which are left out without one.
    """
    if review.operation != "CREATE" or review.object is None:
        return Applied()
    chosen = applying(policies, review, outcomes)
    if not chosen:
        return Applied()
    jobset, malformed = read_jobset(review.object)
    if malformed or not isinstance(_metadata(review.object, "labels"), dict):
        return Applied()  # the JobSet will be refused for that
    written = [(policy.name, policy.spec.defaults) for policy in chosen if policy.spec.defaults]
    return _DefaultsDraft(jobset, review.object, review, written).apply()


@dataclass(slots=True)
class _DefaultsDraft:
    """The defaults under construction, of policies by name, for a JobSet that is being created."""

    jobset: JobSet
    raw: Object
    review: Review
    policies: Sequence[tuple[str, Defaults]]
    conflicts: list[FieldError] = field(default_factory=list)
    sources: dict[str, DefaultSource] = field(default_factory=dict)
    _requested: dict[str, frozenset[int]] = field(default_factory=dict)
    """Indexes of the pod templates that request a resource, by its name."""

    def apply(self) -> Applied:
        """Decide field by field, then write them all."""
        own = _metadata(self.raw, "labels")
        proposals = self._queue_proposals(own.get(QUEUE_NAME))
        labels = {
            key: value
            for key in (QUEUE_NAME, QUEUE_PRIORITY)
            # An empty label is a value of the user's, too.
            if key not in own and (value := self._settled(f"metadata.labels[{key}]", proposals[key]))
        }
        annotations: dict[str, str] = {}
        mode, each_mode = self._modes()
        if mode is not None:
            annotations[GANG_MODE] = mode
        # A JobSet that gets a mode here has none, and asks for no gang by itself.
        gangs = read_config(self.jobset)[0].asks_for_gangs or not {mode, each_mode} <= {None, GangMode.OFF}
        if options := self._options(gangs=gangs):
            annotations[GANG_OPTIONS] = options
        if gangs and EVICT_STRANDED_AFTER not in self.jobset.annotations:
            path = f"metadata.annotations[{EVICT_STRANDED_AFTER}]"
            if after := self._settled(path, self._proposals("evict_stranded_after")):
                annotations[EVICT_STRANDED_AFTER] = after
        # Only after all fields, so that one answer names every conflict.
        if self.conflicts:
            return Applied(conflicts=tuple(self.conflicts))
        changed = _with_replicated_job_mode(self.raw, each_mode)
        changed = _with_metadata(_with_metadata(changed, "labels", labels), "annotations", annotations)
        return Applied(tuple(additions(self.raw, changed)), sources=self.sources)

    def _queue_proposals(self, own: str | None) -> dict[str, list[_Proposal]]:
        """Values for the labels that Kueue reads, by key; ``own`` is the queue that the JobSet has.

        A priority class of the queue map applies only with the queue beside it: a JobSet in another queue does not get
        it.
        """
        proposals: dict[str, list[_Proposal]] = {QUEUE_NAME: [], QUEUE_PRIORITY: []}
        for name, defaults in self.policies:
            queue, priority = _Proposal(name, defaults.queue), _Proposal(name, defaults.priority_class)
            index = next((index for index, choice in enumerate(defaults.queues) if self._fits(choice.match)), None)
            if index is not None:
                choice, place = defaults.queues[index], f"spec.defaults.queues[{index}]"
                queue = _Proposal(name, choice.queue, place)
                if choice.priority_class is not None and own in {None, queue.value}:
                    priority = _Proposal(name, choice.priority_class, place)
            proposals[QUEUE_NAME].append(queue)
            proposals[QUEUE_PRIORITY].append(priority)
        return {key: [proposal for proposal in known if proposal.value is not None] for key, known in proposals.items()}

    def _fits(self, match: QueueMatch) -> bool:
        return (
            (match.namespace_selector is None or selects_namespace(match.namespace_selector, self.review))
            and (match.object_selector is None or selects_object(match.object_selector, self.review))
            and (not match.priority_classes or self._priority_class() in match.priority_classes)
            and (match.accelerator is None or self._is_after(match.accelerator))
        )

    def _priority_class(self) -> str:
        """The class that Kueue orders it by: its label, else the first of its pods' classes, empty without any."""
        own = labels_of(self.raw).get(QUEUE_PRIORITY)
        if own is not None:
            return own
        return next((rj.priority_class for rj in self.jobset.replicated_jobs if rj.priority_class), "")

    def _is_after(self, accelerator: Accelerator) -> bool:
        """Whether the pods of one ReplicatedJob request all of it; whether it has any pods now does not matter."""
        wanted = accelerator.node_labels.items()
        requesting = None
        if resource := accelerator.resource:
            # Once for each resource, because many entries of a queue map ask for the same.
            if resource not in self._requested:
                self._requested[resource] = frozenset(
                    index for index, pod in enumerate(self._pods()) if pod_requests(pod.value)[0].get(resource, 0) > 0
                )
            requesting = self._requested[resource]
        return any(
            (requesting is None or index in requesting) and wanted <= pod.strings("nodeSelector").items()
            for index, pod in enumerate(self._pods())
        )

    def _pods(self) -> Iterator[Reader]:
        """Pod specs, in the order of ReplicatedJobs."""
        for entry in Reader(self.raw, "", []).child("spec").children("replicatedJobs", MAX_ITEMS):
            yield entry.child("template").child("spec").child("template").child("spec")

    def _settled(self, path: str, proposals: Sequence[_Proposal]) -> Any:
        """The common value of these policies for a field, None when none has one or they disagree."""
        votes: dict[Any, list[str]] = {}
        for proposal in proposals:
            votes.setdefault(proposal.value, []).append(proposal.author)
        if len(votes) > 1:
            words = ", ".join(f"{author} sets {_shown(value)}" for value, names in votes.items() for author in names)
            self._disagree(path, f"{words}; write a value of your own")
            return None
        if not proposals:
            return None
        policies = tuple(proposal.policy for proposal in proposals)
        source = DefaultSource(proposals[0].value, policies, tuple(proposal.place for proposal in proposals))
        self.sources[path] = source
        return source.value

    def _disagree(self, path: str, words: str) -> None:
        detail = f"policies disagree on the default: {words}, or repair one of the policies"
        self.conflicts.append(FieldError(path, ErrorKind.INVALID, detail))

    def _modes(self) -> tuple[str | None, str | None]:
        """The mode of the JobSet and that of each ReplicatedJob, None where it stays as it is."""
        if not _may_get_mode(self.jobset):
            return None, None
        path = f"metadata.annotations[{GANG_MODE}]"
        each_path = f"spec.replicatedJobs[*].template.{path}"
        proposals = self._proposals("gang_mode")
        each_proposals = self._proposals("replicated_job_gang_mode")
        mode, each_mode = self._settled(path, proposals), self._settled(each_path, each_proposals)
        if mode == GangMode.GANG and each_mode is not None:
            wanted = f"{each_proposals[0].author} sets {each_mode} on each replicated job"
            own = f"{proposals[0].author} sets Gang on the JobSet"
            self._disagree(path, f"{own}, {wanted}; write a mode of your own")
        return mode, each_mode

    def _proposals(self, field_name: str) -> list[_Proposal]:
        values = ((name, getattr(defaults, field_name)) for name, defaults in self.policies)
        return [_Proposal(name, value) for name, value in values if value is not None]

    def _options(self, *, gangs: bool) -> str:
        """The JSON of the options, own ones first; empty when nothing is to be written."""
        own = _own_options(self.raw)
        if not gangs or own is None:
            return ""
        # An option that entries of the list have must agree with each of them: a default would refuse the JobSet.
        listed = set(Gang.model_fields) if GANGS in self.jobset.annotations else set[str]()
        proposals: dict[str, list[_Proposal]] = {}
        for name, defaults in self.policies:
            if defaults.options is None:
                continue
            # Without the defaults of GangOptions, which the author of the policy has not chosen.
            options = defaults.options.model_dump(by_alias=True, exclude_unset=True, exclude=listed)
            for key, value in options.items():
                if key not in own and value is not None:
                    proposals.setdefault(key, []).append(_Proposal(name, value))
        path = f"metadata.annotations[{GANG_OPTIONS}]"
        added = {key: self._settled(f"{path}.{key}", proposals[key]) for key in sorted(proposals)}
        return orjson.dumps({**own, **added}).decode() if added else ""


def _metadata(raw: Object, key: str) -> Any:
    """Labels or annotations of a JobSet that was read without errors."""
    return (raw.get("metadata") or _NOTHING).get(key) or {}


def _may_get_mode(jobset: JobSet) -> bool:
    """Whether no scheduler is chosen for these pods yet: no mode, no Workload of JobSet, no group of its own."""
    return not (
        jobset.native_scheduling
        or GANG_MODE in jobset.annotations
        or GANGS in jobset.annotations
        or jobset.gang_config is not None
        or any(
            GANG_MODE in rj.annotations or rj.gang_config is not None or rj.scheduling_reference
            for rj in jobset.replicated_jobs
        )
    )


def _own_options(raw: Object) -> dict[str, Any] | None:
    """The options that the JobSet has; None when they cannot be read, which the gangs' webhook reports."""
    text = _metadata(raw, "annotations").get(GANG_OPTIONS)
    if text is None:
        return {}
    try:
        options = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return options if isinstance(options, dict) else None


def _with_metadata(obj: Object, key: str, values: Mapping[str, str]) -> Object:
    if not values:
        return obj
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {**metadata, key: {**(metadata.get(key) or {}), **values}}}


def _with_replicated_job_mode(raw: Object, mode: str | None) -> Object:
    """The mode on the Job template of every ReplicatedJob: none of them has one."""
    spec = raw.get("spec") or {}
    entries = spec.get("replicatedJobs")
    if mode is None or not entries:
        return raw
    changed = [
        {**entry, "template": _with_metadata(entry.get("template") or {}, "annotations", {GANG_MODE: mode})}
        for entry in entries
    ]
    return {**raw, "spec": {**spec, "replicatedJobs": changed}}

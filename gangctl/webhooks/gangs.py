"""Answers to the requests of the ``gangctl-gangs`` webhooks.

Each handler reads the objects, calls :mod:`gangctl.gang.admission`, and answers. It looks up only whether another
controller already planned a JobSet, whether another owner has a group's name, and the JobSet's queue; all come from the
informers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Object, controller_owner
from gangctl.api.scheduling import ApiState, Generation, Observed, Reference
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.apiserver.create import errors_of_jobs
from gangctl.errors import ErrorKind, FieldError, one_line
from gangctl.gang.admission import (
    check_stamped,
    check_update,
    inject_patch,
    read_opted_in,
    reference_of_job,
    repair_patch,
    restored,
    stamp_patch,
    unstamped,
)
from gangctl.gang.diff import Kind
from gangctl.gang.reasons import Notice
from gangctl.gang.resolve import ClusterRules, Resolution, resolve
from gangctl.gang.validate import check_keys
from gangctl.kueue.consistency import Consistency, KueueFacts, check_consistency
from gangctl.webhooks.configurations import MUTATE_JOBS, MUTATE_JOBSETS, VALIDATE_JOBSETS, VALIDATE_KEYS
from gangctl.webhooks.review import AdmissionRequest, AdmissionResponse

UNPROCESSABLE: Final = 422
_MOST_CAUSES: Final = 16
_MESSAGE_CHARACTERS: Final = 4096


class GangView(Protocol):
    """The cluster state that the webhooks need; answered from memory."""

    @property
    def state(self) -> ApiState:
        """The last result of discovery."""
        ...

    def rules(self, generation: Generation) -> ClusterRules:
        """Rules for decisions on this cluster."""
        ...

    def claimed(self, namespace: str, jobset: str) -> str | None:
        """Name of another controller's Workload for this JobSet."""
        ...

    def scheduling(self, kind: Kind, namespace: str, name: str) -> Observed | None:
        """The Workload or PodGroup of this name, with any owner."""
        ...


class KnownQueues(Protocol):
    """The state of Kueue in this process; answered from memory."""

    @property
    def present(self) -> bool:
        """Whether the cluster has Kueue, as far as is known."""
        ...

    @property
    def facts(self) -> KueueFacts:
        """What is known of its version and configuration."""
        ...

    def check(
        self, raw: Mapping[str, Any], jobset: JobSet, namespace: str
    ) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
        """Errors that refuse a new JobSet, and warnings; a missing queue gives one of the two.

        ``raw`` is the final object, which has a queue, and ``jobset`` the same; the namespace is that of the request.
        """
        ...


class GangAdmission:
    """The four endpoints.

    ``fail_open`` admits an opted-in JobSet, without a gang, where no gang can be made.
    """

    def __init__(self, view: GangView, *, queues: KnownQueues | None = None, fail_open: bool = False) -> None:
        """Answer from ``view`` and, if given, from ``queues``."""
        self._view = view
        self._queues = queues
        self._fail_open = fail_open

    def routes(self) -> Mapping[str, Callable[[AdmissionRequest], AdmissionResponse]]:
        """Handlers by path."""
        return {
            MUTATE_JOBSETS: self.mutate_jobset,
            VALIDATE_JOBSETS: self.validate_jobset,
            VALIDATE_KEYS: self.validate_keys,
            MUTATE_JOBS: self.mutate_job,
        }

    def mutate_jobset(self, request: AdmissionRequest) -> AdmissionResponse:
        """CREATE: decide and stamp. UPDATE: restore stamps and configuration that it lost."""
        raw = request.object or {}
        if request.operation == "UPDATE":
            # Errors of an update are left to the validating webhook, which is called for it, too.
            patch, notices = restored(raw, request.old_object or {})
            return AdmissionResponse.allow(patch, _warnings(notices))
        jobset, errors = read_opted_in(raw)
        return _answer(jobset, errors) if errors else self._create(raw, jobset, request.namespace)

    def validate_jobset(self, request: AdmissionRequest) -> AdmissionResponse:
        """CREATE: the final object has its stamps, and its queue can admit it, as far as is known.

        UPDATE: nothing changed that the gang cannot follow, except changes that Kueue makes.
        """
        jobset, errors = read_opted_in(request.object or {})
        if errors:
            return _answer(jobset, errors)
        generation = self._view.state.generation
        if request.operation == "UPDATE":
            old, _ = read_opted_in(request.old_object or {})
            return _answer(jobset, check_update(old, jobset, generation, reason=self._view.state.reason))
        # Again, because later webhooks may have changed what the stamps were made from.
        resolution = self._resolve(jobset)
        if resolution.errors:
            return _answer(jobset, resolution.errors)
        if jobset.managed_elsewhere:
            # Reported only here: Kueue sets the field after the mutating webhook has run.
            return AdmissionResponse.allow(warnings=_warnings(resolution.notices))
        if self._defers_to(jobset, request.namespace):
            return AdmissionResponse.allow()
        refused, warnings = self._queued(request.object or {}, jobset, resolution, request.namespace)
        if resolution.config.asks_for_gangs:
            # Not refused: a webhook for Jobs may repair them.
            never = errors_of_jobs(request.object or {})[:_MOST_CAUSES]
            warnings = (*warnings, *(f"JobCreationRefused: {error}" for error in never))
        if generation is None and self._fail_open:
            return _answer(jobset, refused, warnings)
        stamping = check_stamped(jobset, resolution)
        if stamping and generation is None:
            detail = f"asks for a gang, but no gang can be made on this cluster: {self._view.state.reason}"
            stamping = (FieldError("metadata.annotations", ErrorKind.FORBIDDEN, detail),)
        return _answer(jobset, (*stamping, *refused), warnings)

    def validate_keys(self, request: AdmissionRequest) -> AdmissionResponse:
        """UPDATE: warn of keys and values that the update has set, and that have no effect."""
        jobset, errors = read_opted_in(request.object or {})
        old, _ = read_opted_in(request.old_object or {})
        if errors:
            return AdmissionResponse.allow()
        known = set(check_keys(old))
        return AdmissionResponse.allow(warnings=_warnings(one for one in check_keys(jobset) if one not in known))

    def mutate_job(self, request: AdmissionRequest) -> AdmissionResponse:
        """CREATE: make the Job's pods name their group. UPDATE: restore a lost reference."""
        raw = request.object or {}
        if request.operation == "UPDATE":
            return AdmissionResponse.allow(repair_patch(request.old_object or {}, raw))
        reference = reference_of_job(raw)
        if isinstance(reference, FieldError):
            return _refuse("Job", request.name, (reference,))
        if reference is None:
            return AdmissionResponse.allow()
        state = self._view.state
        if state.generation is None:
            detail = f"the Job belongs to a gang, but no gang can be made now: {state.reason}"
            return _refuse("Job", request.name, (FieldError("spec.template.spec", ErrorKind.FORBIDDEN, detail),))
        if (taken := self._taken(reference, request.namespace, raw, state.generation)) is not None:
            return _refuse("Job", request.name, (taken,))
        return AdmissionResponse.allow(inject_patch(reference, ADAPTERS[state.generation]))

    def _resolve(self, jobset: JobSet) -> Resolution:
        generation = self._view.state.generation
        return resolve(jobset, self._view.rules(generation or ClusterRules().generation))

    def _defers_to(self, jobset: JobSet, namespace: str) -> str | None:
        # With generateName it has no name yet, so that no Workload can be for it.
        return self._view.claimed(namespace, jobset.name) if jobset.name else None

    def _consistency(self, raw: Object, jobset: JobSet, resolution: Resolution) -> Consistency:
        facts = self._queues.facts if self._queues is not None and jobset.queue else KueueFacts()
        return check_consistency(raw, jobset, resolution, facts)

    def _queued(
        self, raw: Object, jobset: JobSet, resolution: Resolution, namespace: str
    ) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
        """Errors and warnings about the queue of a new JobSet, or about the two together."""
        consistency = self._consistency(raw, jobset, resolution)
        errors, warnings = consistency.errors, _warnings(consistency.notices)
        if jobset.queue and resolution.config.asks_for_gangs and self._queues is not None and self._queues.present:
            refused, listed = self._queues.check(raw, jobset, namespace)
            errors, warnings = (*errors, *refused), (*warnings, *listed)
        return errors, warnings

    def _create(self, raw: Object, jobset: JobSet, namespace: str) -> AdmissionResponse:
        resolution = self._resolve(jobset)
        warnings = _warnings(resolution.notices)
        if resolution.errors:
            # All errors at once: otherwise Kueue's would be the next refusal.
            errors = self._consistency(raw, jobset, resolution).errors
            return _answer(jobset, (*resolution.errors, *errors))
        if jobset.managed_elsewhere:
            return AdmissionResponse.allow()
        if not any(resolution.stamps):
            return AdmissionResponse.allow(unstamped(raw, jobset), warnings)
        if foreign := self._defers_to(jobset, namespace):
            text = f"ForeignWorkload: Workload {foreign} is for this JobSet already, gangctl leaves it alone"
            return AdmissionResponse.allow(unstamped(raw, jobset), (*warnings, text))
        state = self._view.state
        if state.available:
            return AdmissionResponse.allow(stamp_patch(raw, resolution.stamps), warnings)
        if self._fail_open:
            text = f"GangAPIUnavailable: runs without a gang: {state.reason}"
            return AdmissionResponse.allow(unstamped(raw, jobset), (*warnings, text))
        # Refused in validation, unless Kueue's webhook, which runs in between, hands it to another cluster.
        return AdmissionResponse.allow(unstamped(raw, jobset), warnings)

    def _taken(self, reference: Reference, namespace: str, raw: Object, generation: Generation) -> FieldError | None:
        """An error when the group that the pods would join belongs to another owner."""
        groups = generation.capabilities.pod_groups
        kind: Kind = "PodGroup" if groups else "Workload"
        name = reference.group if groups else reference.workload
        holder = self._view.scheduling(kind, namespace, name)
        owner = controller_owner(raw["metadata"]) or {}
        if holder is None or holder.owner_uid == owner.get("uid"):
            return None
        detail = f"the gang's {kind} {name} exists and has another owner: delete it, and the Job is created"
        return FieldError("spec.template.spec", ErrorKind.FORBIDDEN, detail)


def _warnings(notices: Iterable[Notice]) -> tuple[str, ...]:
    return tuple(f"{notice.reason}: {notice.message}" for notice in notices)


def _answer(jobset: JobSet, errors: tuple[FieldError, ...], warnings: tuple[str, ...] = ()) -> AdmissionResponse:
    """A refusal of a JobSet with errors, else the warnings."""
    if errors:
        return _refuse("JobSet", jobset.name or jobset.generate_name, errors)
    return AdmissionResponse.allow(warnings=warnings)


def _refuse(kind: str, name: str, errors: tuple[FieldError, ...]) -> AdmissionResponse:
    listed = errors[:_MOST_CAUSES]
    message = f'{kind} "{one_line(name, 253)}" is invalid: ' + "; ".join(str(error) for error in listed)
    if len(errors) > len(listed):
        message += f"; and {len(errors) - len(listed)} more"
    return AdmissionResponse.deny(UNPROCESSABLE, "Invalid", one_line(message, _MESSAGE_CHARACTERS), listed)

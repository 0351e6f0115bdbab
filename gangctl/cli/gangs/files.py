"""Gangs from files: what ``kubectl get jobsets,jobs,pods,... -A -o yaml`` prints, instead of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import filterfalse
from typing import Any, Final

from gangctl.api.documents import Document
from gangctl.api.meta import JOBSET_API_VERSION, JOBSET_GROUP
from gangctl.api.objects import kind_of, misshapen, object_at, objects_at, text_at, within
from gangctl.api.pods import is_finished
from gangctl.api.scheduling import GROUP as SCHEDULING
from gangctl.api.scheduling import NEWEST, ApiState, Generation, named_group
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.cli.gangs.cluster import JobSetUnreadError, note_left_out, project_stored, take
from gangctl.cli.gangs.state import GangState, StoredJobSet, modern, read_event
from gangctl.cli.inputs import Seen, in_namespace, is_again, note_skipped, read_documents, repeated
from gangctl.cli.messages import errors_in, note
from gangctl.cluster import kinds
from gangctl.cluster.members import project_job, project_scheduling
from gangctl.cluster.stock import Stock
from gangctl.controllers.readiness.gangobjects import GANGS
from gangctl.errors import InputError
from gangctl.readiness.facts import is_followed, read_ended, read_node, read_pod, read_refusal, read_scale_up

_KINDS: Final = "jobsets,jobs,pods,podgroups.scheduling.k8s.io,workloads.scheduling.k8s.io,events,nodes"
DUMP: Final = f"kubectl get {_KINDS} -A -o yaml"
_EVENT_GROUPS: Final = frozenset({"", "events.k8s.io"})
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Valid names of these kinds. They are part of commands that users copy from the output."""


def read_files(filenames: Sequence[str], at: datetime | None = None) -> GangState:
    """The state from files that were written ``at`` this time, None for now.

    Other kinds are skipped with a note; InvalidInputError with all errors.
    """
    documents = read_documents(filenames)
    taking = _Taking(_generation_of(documents), Stock() if at is None else Stock(lambda: at))
    lines: list[str] = []
    others = list(filter(_is_skipped, documents))
    seen: Seen = {}
    for document in filterfalse(_is_skipped, documents):
        raw = in_namespace(document.value)
        if path := misshapen(raw):
            lines.append(f"{document.where(path)}: {path}: has the wrong type")
            continue
        if is_again(raw, seen):
            continue
        try:
            kept = taking.take(raw)
            # An event may have any name, and is never named in what is printed.
            if kept and kind_of(raw)[1] != "Event":
                _check_names(raw)
        except JobSetUnreadError as error:
            note_left_out(error)
        except InputError as error:
            lines.append(f"{document.where()}: {error}")
        else:
            if not kept:
                others.append(document)
            # The room on a node, and what pods take of it, would count twice.
            lines += repeated(document, raw, seen) if kept else []
    if lines:
        raise errors_in("the files", lines, hint=DUMP)
    note_skipped(others)
    return taking.finish()


def _is_skipped(document: Document) -> bool:
    return kinds.is_skipped(document.value)


def _generation_of(documents: Sequence[Document]) -> Generation | None:
    """The generation of the Workloads and PodGroups, or of what pods say of them; None if there is neither."""
    # Other kinds of this API group, such as PriorityClass, have versions of their own.
    of_gangs = {(SCHEDULING, "Workload"), (SCHEDULING, "PodGroup")}
    versions = {str(document.value["apiVersion"]) for document in documents if kind_of(document.value) in of_gangs}
    of_objects = next((generation for generation in Generation if generation.api_version in versions), None)
    return of_objects or (Generation.V1ALPHA1 if any(map(_names_a_workload, documents)) else None)


def _names_a_workload(document: Document) -> bool:
    """Whether a pod, or those of a Job, name their group as on Kubernetes 1.35: no later one has that field."""
    if kind_of(document.value) not in {("", "Pod"), ("batch", "Job")}:
        return False
    spec = object_at(document.value, "spec")
    return any("/" in named_group(pod) for pod in (spec, within(spec, "template", "spec")))


class _Taking:
    """The objects of one run, whose scheduling objects are of ``generation``."""

    def __init__(self, generation: Generation | None, stock: Stock) -> None:
        generation = generation or NEWEST
        state = GangState(ApiState(generation), queues=stock)
        self._state = state
        self._stock = stock
        self._kinds = set[str]()
        """Of members of gangs, finished ones too."""
        self._group_kind = "PodGroup" if generation.capabilities.pod_groups else "Workload"
        """What a group of pods is, in this generation."""
        adapter = ADAPTERS[generation]
        self._projections: Mapping[tuple[str, str], Callable[[dict[str, Any]], bool]] = {
            ("batch", "Job"): lambda raw: take(state.jobs, project_job, raw),
            ("", "Pod"): self._take_pod,
            ("", "Node"): lambda raw: take(state.nodes, read_node, raw),
            (SCHEDULING, "Workload"): lambda raw: take(state.workloads, project_scheduling(adapter, "Workload"), raw),
            (SCHEDULING, "PodGroup"): lambda raw: take(state.groups, project_scheduling(adapter, "PodGroup"), raw),
        }

    def take(self, raw: dict[str, Any]) -> bool:
        """Store an object, and return whether it is relevant; InputError if it cannot be read."""
        group, kind = kind_of(raw)
        if not (raw.get("metadata") or {}).get("name"):
            # Kueue's configuration has none; of anything else it is an error.
            return self._stock.take_raw(raw)
        if kind == "Event" and group in _EVENT_GROUPS:
            return self._take_event(modern(raw))
        if group == JOBSET_GROUP and kind == "JobSet":
            return self._take_jobset(raw)
        if (group, kind) == (GANGS.group, GANGS.kind):
            self._state.remember(raw)
            return True
        project = self._projections.get((group, kind))
        if project is not None:
            self._kinds.add(kind)
            project(raw)
        # Nodes and pods determine readiness and free capacity.
        of_queues = self._stock.take_raw(raw) if (group, kind) != ("batch", "Job") else False
        return project is not None or of_queues

    def finish(self) -> GangState:
        """All of it."""
        state, stock = self._state, self._stock
        if not len(state.jobsets):
            raise InputError("no JobSet in the files", hint=f"expected what this prints: {DUMP}")
        running = [stored for stored in state.jobsets.values() if _runs(stored)]
        if running and "Job" not in self._kinds:
            note(f"the files have no Jobs, which count as missing: {DUMP}")
        # A gang may have no pods: then neither its Jobs nor its status count any.
        active = any(job.active for job in state.jobs.values()) or any(map(_has_active_jobs, running))
        if running and active and "Pod" not in self._kinds:
            state.pods_known = False
            note(f"the files have no pods, and phases follow from the status of JobSets: {DUMP}")
        state.groups_known = self._group_kind in self._kinds
        state.nodes_known = len(state.nodes) > 0
        # Files without Kueue's objects do not show that the cluster has no Kueue.
        state.kueue = any(len(store) for store in (stock.cluster_queues, stock.local_queues, stock.workloads)) or None
        stock.note_presence(state.kueue)
        stock.note_files_end()
        if not len(stock.cluster_queues):
            stock.note_unread(kinds.CLUSTER_QUEUES, "ClusterQueues (the files have none)")
        return state

    def _take_pod(self, raw: dict[str, Any]) -> bool:
        """Finished pods are counted by their Jobs, as with a cluster."""
        if not is_finished(raw):
            return take(self._state.pods, read_pod, raw)
        ended = read_ended(raw)
        if ended is None or ended.pod.phase == "Failed":
            return ended is not None and take(self._state.failed, read_ended, raw)
        self._state.succeeded.append(ended)
        return True

    def _take_jobset(self, raw: dict[str, Any]) -> bool:
        if raw.get("apiVersion") != JOBSET_API_VERSION:
            raise InputError(f"apiVersion is {raw.get('apiVersion')}, known: {JOBSET_API_VERSION}")
        if not (raw.get("metadata") or {}).get("uid"):
            raise InputError("a JobSet without metadata.uid was never in a cluster: gangctl plan shows what it becomes")
        return take(self._state.jobsets, project_stored, raw)

    def _take_event(self, raw: dict[str, Any]) -> bool:
        self._state.events.append(read_event(raw))
        refusal = read_refusal(raw)
        if refusal is not None:
            take(self._state.refusals[raw["reason"]], read_refusal, raw)
        elif (said := read_scale_up(raw)) is not None:
            self._state.scale_ups.append((text_at(object_at(raw, "metadata"), "namespace"), said))
        return True


def _runs(stored: StoredJobSet) -> bool:
    """Whether a JobSet has a gang with Jobs and pods in this cluster now, unless it is new."""
    jobset = stored.jobset
    return is_followed(jobset) and not (jobset.suspend or jobset.finished or jobset.managed_elsewhere)


def _has_active_jobs(stored: StoredJobSet) -> bool:
    """Whether the status of a JobSet counts Jobs with pods that run or are pending."""
    entries = objects_at(object_at(stored.raw, "status"), "replicatedJobsStatus")
    return any(entry.get(count) for entry in entries for count in ("active", "ready"))


def _check_names(raw: Mapping[str, Any]) -> None:
    """Reject objects with names that no cluster allows."""
    metadata = raw.get("metadata") or {}
    for field in ("name", "namespace"):
        value = metadata.get(field)
        if value and not _NAME.fullmatch(str(value)):
            raise InputError(f'metadata.{field}: "{value}" is no name: lower-case letters, digits, "-" and "."')

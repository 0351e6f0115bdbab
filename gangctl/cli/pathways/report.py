"""What ``gangctl pathways validate``, ``why`` and ``status`` answer, as plain data: every key is always there.

The shapes are published (``docs/pathways-validate.schema.json`` and the like, written from the types below).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypedDict

from gangctl.api.objects import Object, object_at, objects_at
from gangctl.api.reportschema import QUANTITY
from gangctl.cli.output import Section, Table
from gangctl.fit.report import API_VERSION, FitReport
from gangctl.gang.report import WarningReport
from gangctl.pathways.status.conclusion import next_status
from gangctl.pathways.status.facts import (
    Condition,
    JobSetFacts,
    PathwaysFacts,
    Phase,
    Status,
    read_jobset_facts,
    read_pathways_facts,
)
from gangctl.pathways.words import HEAD, PROXY_PORT, RESOURCE_MANAGER_CONTAINER

VALIDATION: Final = "PathwaysValidation"
ORIGINS: Final = "PathwaysOrigins"
STATUS: Final = "PathwaysStatus"
UNSEEN: Final = "Unseen"
"""In place of a phase: no controller has said anything, and there is no JobSet that would."""


class PathwaysIdentity(TypedDict):
    """Which PathwaysJob this is about."""

    name: Annotated[str, "Empty where it has none that can be read."]
    namespace: Annotated[str, "Empty when neither the manifest nor a flag names one."]


class ProblemReport(TypedDict):
    """Something that is wrong, and where it was written."""

    file: Annotated[str, "As it was named; empty for what flags describe."]
    line: Annotated[int, "From 1; 0 for what flags describe."]
    column: Annotated[int, "From 1; 0 for what flags describe."]
    path: Annotated[str, "The field, or the flag."]
    reason: Annotated[str, "Stable and CamelCase."]
    message: Annotated[str, "What is wrong, and what is allowed."]


class PathwaysValidation(TypedDict):
    """What is wrong with one PathwaysJob, and whether its queue can ever have it."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["PathwaysValidation"]
    metadata: PathwaysIdentity
    valid: Annotated[bool, "Whether there are no problems."]
    problems: list[ProblemReport]
    notices: Annotated[list[WarningReport], "What is good to know."]
    headRequests: Annotated[
        dict[str, int], "What the head's pod requests of its node; empty where it is not valid.", QUANTITY
    ]
    fit: Annotated[FitReport | None, "Null where no queues are known, and where it is not valid."]


class OriginReport(TypedDict):
    """Where a value comes from."""

    kind: Annotated[
        Literal["field", "flag", "option", "default", "table", "rule"],
        "A field of the PathwaysJob, a flag, an option, a default of the API, the table of accelerators, or a rule.",
    ]
    place: Annotated[str, "A field path, a flag, or what names the option, accelerator or rule."]
    why: Annotated[str, "A sentence, empty where it is plain."]
    at: Annotated[str, "FILE:LINE:COLUMN where a person wrote it; empty where it was not written."]


class FieldReport(TypedDict):
    """One field of the JobSet."""

    path: str
    value: Annotated[Any, "As in the JobSet: text, number, boolean, null, or an empty list or object."]
    origin: OriginReport


class PathwaysOrigins(TypedDict):
    """Where each field of the JobSet of a PathwaysJob comes from."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["PathwaysOrigins"]
    metadata: PathwaysIdentity
    fields: Annotated[list[FieldReport], "Those that were asked for, in the order of the JobSet."]


class SlicesReport(TypedDict):
    """Slices of the workers."""

    ready: Annotated[int, "Ready, or succeeded."]
    wanted: int
    mayBeMissing: Annotated[int, "Elastic slices: it runs without so many."]


class HeadReport(TypedDict):
    """The pod of the head that is there now."""

    pod: Annotated[str, "Its name."]
    phase: Annotated[str, "Of the pod, or Terminating."]
    node: Annotated[str, "Empty without one."]


class PathwaysCondition(TypedDict):
    """As metav1.Condition."""

    type: str
    status: Annotated[str, "True, False or Unknown."]
    reason: str
    message: str
    lastTransitionTime: Annotated[str, "RFC 3339, empty where it is not known."]
    observedGeneration: Annotated[int, "0 where it is not known."]


class PathwaysStatus(TypedDict):
    """How a PathwaysJob stands in a cluster, and how to reach its proxy."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["PathwaysStatus"]
    metadata: PathwaysIdentity
    phase: Annotated[str, f"One of {', '.join(Phase)}; {UNSEEN} where nothing is known."]
    reason: Annotated[str, "Why it is in that phase, stable and CamelCase; empty where it is not known."]
    message: Annotated[str, "The same in a sentence."]
    derived: Annotated[bool, "Whether it follows from the JobSet, because no controller has written a status."]
    terminalState: Annotated[str, "How it has ended, empty where it has not."]
    restarts: int
    maxRestarts: int
    slices: SlicesReport
    headless: Annotated[bool, "Whether a client connects from outside, because there is no user pod."]
    head: Annotated[HeadReport | None, "Null where there is no pod, or pods may not be read."]
    proxyAddress: Annotated[str, "grpc://HOST:PORT, as every pod of the cluster reaches it."]
    portForward: Annotated[str, "The command that brings the proxy to this machine, empty while no head's pod runs."]
    conditions: list[PathwaysCondition]


@dataclass(frozen=True, slots=True)
class HeadPod:
    """The present pod of the head."""

    name: str
    phase: str
    node: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The objects of one name in a cluster. One of both may be missing."""

    namespace: str
    name: str
    pathways_job: Object | None
    jobset: Object | None
    head: HeadPod | None = None
    foreign: bool = False
    """Whether the JobSet has another owner."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Notes for the user."""

    seen: Seen
    status: Status
    derived: bool
    """Whether the status is computed from the JobSet, because no controller has written one."""
    facts: JobSetFacts | None

    @property
    def phase(self) -> str:
        """The phase, or :data:`UNSEEN`."""
        return self.status.phase.value if self.status.phase is not None else UNSEEN

    @property
    def condition(self) -> Condition | None:
        """Why the phase is what it is."""
        return self.status.condition(self.status.phase) if self.status.phase is not None else None

    @property
    def failed(self) -> bool:
        """Whether it has failed."""
        return self.status.phase is Phase.FAILED

    @property
    def headless(self) -> bool:
        """Whether a client connects from outside, because there is no user pod."""
        if self.seen.jobset is not None:
            containers = objects_at(_head_spec(self.seen.jobset), "containers")
            return any(each.get("name") == RESOURCE_MANAGER_CONTAINER for each in containers)
        return "template" not in object_at(object_at(self.seen.pathways_job or {}, "spec"), "controller")

    @property
    def proxy_address(self) -> str:
        """``grpc://HOST:PORT``, as every pod of the cluster reaches it."""
        network = object_at(object_at(self.seen.jobset or {}, "spec"), "network")
        subdomain = network.get("subdomain") or self.seen.name
        return f"grpc://{self.seen.name}-{HEAD}-0-0.{subdomain}.{self.seen.namespace}.svc:{PROXY_PORT}"

    def port_forward(self, flags: Sequence[str] = ()) -> str:
        """The command that forwards the proxy's port; empty without a running head pod.

        ``flags`` are those with which kubectl finds the same cluster.
        """
        head = self.seen.head
        if head is None or head.phase != "Running":
            return ""
        ports = f"{PROXY_PORT}:{PROXY_PORT}"
        return shlex.join(["kubectl", *flags, "port-forward", "-n", self.seen.namespace, f"pod/{head.name}", ports])


def job_status(seen: Seen) -> JobStatus:
    """The status. A computed one has only times of the JobSet."""
    facts = read_jobset_facts(seen.jobset) if seen.jobset is not None else None
    stored = read_pathways_facts(seen.pathways_job or {})
    if stored.status.phase is not None or facts is None:
        return JobStatus(seen, stored.status, derived=False, facts=facts)
    blank = PathwaysFacts(seen.namespace, seen.name, stored.uid, stored.generation, stored.status)
    return JobStatus(seen, next_status(blank, facts, ""), derived=True, facts=facts)


def report_of(job: JobStatus, flags: Sequence[str] = ()) -> PathwaysStatus:
    """What ``-o json`` prints."""
    seen, condition, facts = job.seen, job.condition, job.facts
    head = seen.head
    return {
        "apiVersion": API_VERSION,
        "kind": STATUS,
        "metadata": {"name": seen.name, "namespace": seen.namespace},
        "phase": job.phase,
        "reason": condition.reason if condition else "",
        "message": condition.message if condition else "",
        "derived": job.derived,
        "terminalState": job.status.terminal_state,
        "restarts": job.status.restarts or 0,
        "maxRestarts": facts.max_restarts if facts else 0,
        "slices": {
            "ready": facts.workers.up if facts else 0,
            "wanted": facts.workers.wanted if facts else 0,
            "mayBeMissing": facts.elastic if facts else 0,
        },
        "headless": job.headless,
        "head": {"pod": head.name, "phase": head.phase, "node": head.node} if head else None,
        "proxyAddress": job.proxy_address,
        "portForward": job.port_forward(flags),
        "conditions": [_condition(each) for each in job.status.conditions],
    }


def _condition(condition: Condition) -> PathwaysCondition:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.since,
        "observedGeneration": condition.generation,
    }


def section_of(job: JobStatus, flags: Sequence[str] = ()) -> Section:
    """What a person reads."""
    seen, condition, facts = job.seen, job.condition, job.facts
    what = "PathwaysJob" if seen.pathways_job is not None else "JobSet of Pathways"
    lines = []
    if condition is not None:
        lines.append(f"{condition.reason}: {condition.message}" if condition.message else condition.reason)
    if facts is not None:
        missing = f" ({facts.elastic} may be missing)" if facts.elastic else ""
        lines += [
            f"Slices    {facts.workers.up} of {facts.workers.wanted} ready{missing}",
            f"Restarts  {job.status.restarts or 0} of {facts.max_restarts}",
        ]
    lines.append(f"Head      {_head_in_words(seen.head)}")
    lines.append(f"Proxy     {job.proxy_address}")
    if job.headless:
        lines += _connecting(job, flags)
    rows = tuple((each.type, each.status, each.reason, each.since) for each in job.status.conditions)
    return Section(
        f"{what} {seen.namespace}/{seen.name}: {job.phase}",
        tuple(lines),
        Table(("CONDITION", "STATUS", "REASON", "SINCE"), rows) if rows else None,
        tuple(_warnings(job)),
    )


def _head_in_words(head: HeadPod | None) -> str:
    if head is None:
        return "has no pod"
    return f"pod {head.name}, {head.phase}{f' on {head.node}' if head.node else ''}"


def _connecting(job: JobStatus, flags: Sequence[str]) -> list[str]:
    command = job.port_forward(flags)
    if not command:
        return ["Connect   once the head's pod runs: this command then says how"]
    return [
        f"Connect   {command}",
        f"          JAX_PLATFORMS=proxy JAX_BACKEND_TARGET=grpc://localhost:{PROXY_PORT} python ...",
        "          import pathwaysutils; pathwaysutils.initialize()  # before jax is used",
    ]


def _warnings(job: JobStatus) -> list[str]:
    seen = job.seen
    lines = []
    if seen.foreign:
        lines.append(f"JobSet {seen.namespace}/{seen.name} has another owner, and is left alone.")
    if seen.pathways_job is not None and job.derived:
        lines.append("No controller has written a status: this is what its JobSet says.")
    if job.phase == UNSEEN:
        lines.append("No controller has looked at it: is gangctl running with --pathways?")
    return lines


def _head_spec(jobset: Object) -> Object:
    for entry in objects_at(object_at(jobset, "spec"), "replicatedJobs"):
        if entry.get("name") == HEAD:
            job = object_at(object_at(entry, "template"), "spec")
            return object_at(object_at(job, "template"), "spec")
    return {}

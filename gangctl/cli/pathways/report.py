"""What ``gangctl pathways validate``, ``why`` and ``status`` answer, as plain data: every key is always there.

The shapes are published (``docs/pathways-validate.schema.json`` and the like, written from the types below).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypedDict

from gangctl.api.meta import API_VERSION
from gangctl.api.objects import Object, objects_at, within
from gangctl.api.reportfields import QUANTITY
from gangctl.cli.output import Section, Table
from gangctl.fit.report import FitReport
from gangctl.gang.report import WarningReport
from gangctl.pathways.status import PathwaysFacts, PathwaysPhase, next_status, read_jobset_facts, read_pathways_facts
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
    notices: Annotated[list[WarningReport], "Notes for the user."]
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
    """The state of a PathwaysJob in a cluster, and how to reach its proxy."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["PathwaysStatus"]
    metadata: PathwaysIdentity
    phase: Annotated[str, f"One of {', '.join(PathwaysPhase)}; {UNSEEN} where nothing is known."]
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
class SeenObjects:
    """The objects of one name in a cluster. One of both may be missing."""

    namespace: str
    name: str
    pathways_job: Object | None
    jobset: Object | None
    head: HeadReport | None = None
    foreign: bool = False
    """Whether the JobSet has another owner."""
    head_known: bool = True
    """Whether pods may be read."""


def status_report(seen: SeenObjects, flags: Sequence[str] = ()) -> PathwaysStatus:
    """What ``-o json`` prints; ``flags`` are those with which kubectl finds the same cluster.

    A status that is computed from the JobSet has only times of the JobSet.
    """
    facts = read_jobset_facts(seen.jobset) if seen.jobset is not None else None
    stored = read_pathways_facts(seen.pathways_job or {})
    status, derived = stored.status, False
    if status.phase is None and facts is not None:
        blank = PathwaysFacts(seen.namespace, seen.name, stored.uid, stored.generation, status)
        status, derived = next_status(blank, facts, ""), True
    condition = status.condition(status.phase) if status.phase is not None else None
    # JobSet's default is its own name.
    subdomain = within(seen.jobset or {}, "spec", "network").get("subdomain") or seen.name
    return {
        "apiVersion": API_VERSION,
        "kind": STATUS,
        "metadata": {"name": seen.name, "namespace": seen.namespace},
        "phase": status.phase.value if status.phase is not None else UNSEEN,
        "reason": condition.reason if condition else "",
        "message": condition.message if condition else "",
        "derived": derived,
        "terminalState": status.terminal_state,
        "restarts": status.restarts or 0,
        "maxRestarts": facts.max_restarts if facts else 0,
        "slices": {
            "ready": facts.workers.up if facts else 0,
            "wanted": facts.workers.wanted if facts else 0,
            "mayBeMissing": facts.elastic if facts else 0,
        },
        "headless": _is_headless(seen),
        "head": seen.head,
        "proxyAddress": f"grpc://{seen.name}-{HEAD}-0-0.{subdomain}.{seen.namespace}.svc:{PROXY_PORT}",
        "portForward": _port_forward(seen, flags),
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "lastTransitionTime": condition.since,
                "observedGeneration": condition.generation,
            }
            for condition in status.conditions
        ],
    }


def _is_headless(seen: SeenObjects) -> bool:
    if seen.jobset is not None:
        jobs = objects_at(within(seen.jobset, "spec"), "replicatedJobs")
        head: Object = next((job for job in jobs if job.get("name") == HEAD), {})
        containers = objects_at(within(head, "template", "spec", "template", "spec"), "containers")
        # Beside a user's container it is a sidecar, which is among the initContainers.
        return any(container.get("name") == RESOURCE_MANAGER_CONTAINER for container in containers)
    return "template" not in within(seen.pathways_job or {}, "spec", "controller")


def _port_forward(seen: SeenObjects, flags: Sequence[str]) -> str:
    if seen.head is None or seen.head["phase"] != "Running":
        return ""
    pod, ports = f"pod/{seen.head['pod']}", f"{PROXY_PORT}:{PROXY_PORT}"
    return shlex.join(["kubectl", *flags, "port-forward", "-n", seen.namespace, pod, ports])


def status_section(seen: SeenObjects, report: PathwaysStatus) -> Section:
    """What a person reads."""
    what = "PathwaysJob" if seen.pathways_job is not None else "JobSet of Pathways"
    lines = []
    if report["reason"] or report["message"]:
        lines.append(f"{report['reason']}: {report['message']}" if report["message"] else report["reason"])
    if seen.jobset is not None:
        slices = report["slices"]
        missing = f" ({slices['mayBeMissing']} may be missing)" if slices["mayBeMissing"] else ""
        lines += [
            f"Slices    {slices['ready']} of {slices['wanted']} ready{missing}",
            f"Restarts  {report['restarts']} of {report['maxRestarts']}",
        ]
    lines.append(f"Head      {_head_in_words(report['head'], known=seen.head_known)}")
    lines.append(f"Proxy     {report['proxyAddress']}")
    if report["headless"]:
        lines += _connecting(report["portForward"])
    rows = tuple(
        (condition["type"], condition["status"], condition["reason"], condition["lastTransitionTime"])
        for condition in report["conditions"]
    )
    return Section(
        f"{what} {seen.namespace}/{seen.name}: {report['phase']}",
        tuple(lines),
        Table(("CONDITION", "STATUS", "REASON", "SINCE"), rows) if rows else None,
        tuple(_warnings(seen, report)),
    )


def _head_in_words(head: HeadReport | None, *, known: bool) -> str:
    if head is None:
        return "has no pod" if known else "not known, because pods may not be read"
    node = f" on {head['node']}" if head["node"] else ""
    return f"pod {head['pod']}, {head['phase']}{node}"


def _connecting(command: str) -> list[str]:
    if not command:
        return ["Connect   once the head's pod runs: this command then says how"]
    return [
        f"Connect   {command}",
        f"          JAX_PLATFORMS=proxy JAX_BACKEND_TARGET=grpc://localhost:{PROXY_PORT} python ...",
        "          import pathwaysutils; pathwaysutils.initialize()  # before jax is used",
    ]


def _warnings(seen: SeenObjects, report: PathwaysStatus) -> list[str]:
    lines = []
    if seen.foreign:
        lines.append(f"JobSet {seen.namespace}/{seen.name} has another owner, and is left alone.")
    if seen.pathways_job is not None and report["derived"]:
        lines.append("No controller has written a status: this is what its JobSet says.")
    if report["phase"] == UNSEEN:
        lines.append("No controller has processed it: is gangctl running with --pathways?")
    return lines

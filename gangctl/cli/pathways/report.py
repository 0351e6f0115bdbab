"""What ``gangctl pathways validate``, ``why`` and ``status`` answer, as plain data: every key is always there.

The shapes are published (``docs/pathways-validate.schema.json`` and the like, written from the types below).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from gangctl.api.reportschema import QUANTITY
from gangctl.fit.report import FitReport
from gangctl.gang.report import WarningReport
from gangctl.pathways.status.facts import Phase

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

"""The stamp: what was decided at JobSet CREATE, written where it cannot change any more.

Annotation ``gangctl.dev/gang-ref`` on ``replicatedJobs[].template.metadata`` survives
every JobSet CRD, is copied by JobSet onto each Job, and is immutable after CREATE by
JobSet's own webhook. It makes the Job webhook stateless: a Job's metadata alone says
which group its pods belong to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gangctl.api.meta import GANG_REF
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.naming import is_dns_label

VERSION: Final = 1


class Scope(StrEnum):
    """Which pods share a group."""

    JOBSET = "jobset"
    REPLICATED_JOB = "rj"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Stamp:
    """Scope of the gang and name of its template in the Workload."""

    scope: Scope
    template: str

    def encode(self) -> str:
        """The annotation's value: always the same bytes for the same stamp."""
        return f'{{"v":{VERSION},"scope":"{self.scope}","template":"{self.template}"}}'


def decode_stamp(text: str) -> Stamp | None:
    """The stamp in an annotation's value, or None when gangctl cannot have written it."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("v") != VERSION or isinstance(value.get("v"), bool):
        return None
    scope, template = value.get("scope"), value.get("template")
    if scope not in list(Scope) or not isinstance(template, str) or not is_dns_label(template):
        return None
    return Stamp(Scope(scope), template)


def read_stamp(annotations: Mapping[str, str], path: str) -> Stamp | FieldError | None:
    """The stamp among ``annotations``: None when there is none, a FieldError at ``path`` when it is malformed."""
    text = annotations.get(GANG_REF)
    if text is None:
        return None
    stamp = decode_stamp(text)
    if stamp is not None:
        return stamp
    wanted = '{"v":1,"scope":"jobset|rj|job","template":"NAME"}'
    detail = f"is not a stamp of gangctl: wanted {wanted}; leave it out, gangctl writes it"
    return FieldError(path, ErrorKind.INVALID, detail)

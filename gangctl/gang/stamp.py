"""The stamp: the decision at JobSet CREATE, in an immutable annotation.

Annotation ``gangctl.dev/gang-ref`` on ``replicatedJobs[].template.metadata`` survives
every JobSet CRD, is copied by JobSet onto each Job, and is immutable after CREATE by
JobSet's own webhook: a Job's metadata alone determines the group of its pods. It has
three parts, ``SCOPE/TEMPLATE/BASE``, because CEL cannot parse JSON; it is never
incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gangctl.api.meta import GANG_REF
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.naming import BASE_LENGTH, is_dns_label

_WORDS: Final = 3


class Scope(StrEnum):
    """Which pods share a group."""

    JOBSET = "jobset"
    REPLICATED_JOB = "rj"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Stamp:
    """Scope of the gang, name of its template in the Workload, and prefix of the names of its groups."""

    scope: Scope
    template: str
    base: str

    def encode(self) -> str:
        """The annotation's value: always the same bytes for the same stamp."""
        return f"{self.scope}/{self.template}/{self.base}"


def decode_stamp(text: object) -> Stamp | None:
    """The stamp in an annotation's value, or None when gangctl cannot have written it."""
    words = text.split("/") if isinstance(text, str) else ()
    if len(words) != _WORDS:
        return None
    scope, template, base = words
    if scope not in list(Scope) or not is_dns_label(template) or not is_dns_label(base) or len(base) > BASE_LENGTH:
        return None
    return Stamp(Scope(scope), template, base)


def read_stamp(annotations: Mapping[str, str], path: str) -> Stamp | FieldError | None:
    """The stamp among ``annotations``: None when there is none, a FieldError at ``path`` when it is malformed."""
    text = annotations.get(GANG_REF)
    if text is None:
        return None
    stamp = decode_stamp(text)
    if stamp is not None:
        return stamp
    detail = "is not a stamp of gangctl: wanted jobset|rj|job/TEMPLATE/BASE; leave it out, gangctl writes it"
    return FieldError(path, ErrorKind.INVALID, detail)

"""Names of the objects gangctl creates, and the stamp that carries them: readable, unique and stable.

    Workload   BASE-UID                      train-0f5a6f3e-7c21
    group      BASE-UID-ATTEMPT              train-workers-0f5a6f3e-7c21-0
    replica    BASE-UID-INDEX-ATTEMPT        train-workers-0f5a6f3e-7c21-3-0

With the digits of the UID, a JobSet that is deleted and created again under its old name gets new groups while the old
ones still terminate. The attempt counts the restarts of the JobSet (label ``jobset.sigs.k8s.io/restart-attempt``): a
restart names new groups, so that none of its pods can start before gangctl has created them. If a replica is a gang, a
suffix after a dot counts the restarts of its Job alone.

The stamp is the decision at JobSet CREATE: annotation ``gangctl.dev/gang-ref`` on
``replicatedJobs[].template.metadata``. It survives every JobSet CRD, is copied by JobSet onto each Job, and is
immutable after CREATE by JobSet's own webhook: a Job's metadata alone determines the group of its pods. It has three
parts, ``SCOPE/TEMPLATE/BASE``, because CEL cannot parse JSON; it is never incomplete.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Final

from gangctl.api.meta import GANG_REF
from gangctl.api.names import is_dns_label
from gangctl.errors import ErrorKind, FieldError

MAX_LENGTH: Final = 63
"""Short enough for a label value; object names allow 253."""

UID_PLACEHOLDER: Final = "00000000-0000-0000-0000-000000000000"
"""Replaces the UID in previews of a JobSet that does not exist yet."""

UID_LENGTH: Final = 13
"""Of a UID: twelve hexadecimal digits and the dash between them."""

BASE_LENGTH: Final = 32
"""Leaves space for the UID, an index and an attempt of ten digits."""

_HASH: Final = 8
_NOT_ALLOWED: Final = re.compile(r"[^-a-z0-9]")


def _readable(text: str) -> str:
    lower = text.lower()
    return _NOT_ALLOWED.sub("-", lower) if _NOT_ALLOWED.search(lower) else lower


def _hash(text: str) -> str:
    # JSON may have single surrogates, which UTF-8 does not encode.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def _with_uid(base: str, uid: str) -> str:
    return f"{base}-{_readable(uid)[:UID_LENGTH].strip('-')}"


def base_name(jobset: str, replicated_job: str | None = None) -> str:
    """Prefix of the names of a ReplicatedJob's groups, or of the JobSet's one group: a DNS label.

    A base that was cut, or had invalid characters replaced, ends in a hash, so that it differs from those of the
    JobSet's other ReplicatedJobs.
    """
    whole = jobset if replicated_job is None else f"{jobset}-{replicated_job}"
    if len(whole) <= BASE_LENGTH and is_dns_label(whole):
        return whole
    scope = "" if replicated_job is None else f"/{replicated_job}"
    # A DNS label neither begins nor ends with a dash.
    readable = _readable(whole).lstrip("-")[: BASE_LENGTH - _HASH - 1].rstrip("-") or "gang"
    # With a slash, which no name has: "a-b" with "c" and "a" with "b-c" need different hashes.
    return f"{readable}-{_hash(f'{jobset}{scope}')}"


def workload_name(jobset: str, uid: str) -> str:
    """Name of the JobSet's Workload; the UID distinguishes JobSets with a common prefix."""
    readable = _readable(jobset).lstrip("-")[: MAX_LENGTH - UID_LENGTH - 1].rstrip("-")
    return _with_uid(readable or "gang", uid)


def without_uid(workload: str) -> str:
    """What the names of the Workloads of all JobSets of one name have in common."""
    return workload[: -UID_LENGTH - 1]


def group_name(base: str, uid: str, attempt: int, index: int | None = None, job_attempt: int = 0) -> str:
    """Name of a group in one attempt; ``index`` is of the Job whose pods it is, None where several Jobs share it."""
    if index is None:
        return f"{_with_uid(base, uid)}-{attempt}"
    return replica_names(base, uid, attempt, (job_attempt,), index)[0]


def replica_names(base: str, uid: str, attempt: int, job_attempts: Iterable[int], first: int = 0) -> tuple[str, ...]:
    """Names of the groups of consecutive Jobs, from the number of restarts of each one alone."""
    # Once for all of them: a JobSet may have 50,000 Jobs.
    name = _with_uid(base, uid)
    return tuple(
        f"{name}-{index}-{attempt}.{own}" if own else f"{name}-{index}-{attempt}"
        for index, own in enumerate(job_attempts, first)
    )


def family(named: str) -> str:
    """Common prefix of the names of one group in all attempts; see :func:`~gangctl.api.scheduling.named_group`."""
    head, slash, key = named.rpartition("/")
    # Restarts of one Job are counted after a dot, so that the last dash is in front of the attempt.
    if not slash:
        return named.rpartition("-")[0]
    index, dash, _ = key.partition("-")
    return f"{head}/{index if dash else ''}"


def numbered(name: str) -> Iterator[str]:
    """``name``, then ``name-2`` and so on."""
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def template_names(replicated_jobs: tuple[str, ...]) -> tuple[str, ...]:
    """Template names for ReplicatedJobs, in their order: the name itself where it is a DNS label.

    JobSet validates only the composed Job name, so that ``x-`` or an empty name can occur; these
    become ``rj<ordinal>``, with a hash if that is another ReplicatedJob's name.
    """
    taken = set(replicated_jobs)
    names = []
    for ordinal, name in enumerate(replicated_jobs):
        chosen = name
        if not is_dns_label(name):
            chosen = f"rj{ordinal}"
            while chosen in taken:
                chosen = f"rj{ordinal}-{_hash(f'{name}/{chosen}')}"
        names.append(chosen)
    return tuple(names)


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
    # A list, because Python 3.11 raises TypeError for a text in the enumeration itself.
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

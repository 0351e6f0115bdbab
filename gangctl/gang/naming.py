"""Names of the objects gangctl creates: readable, unique, stable and never anybody else's.

A name is a readable prefix and ten hex digits of SHA-256 over ``UID/scope``. The
UID makes a JobSet that is deleted and created again under its old name get new
groups while the old ones still terminate; the scope keeps ReplicatedJob ``b``,
replica 0, apart from a ReplicatedJob called ``b-0``. Job templates are immutable,
so a name must not change over the life of a JobSet: it depends on nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final

MAX_LENGTH: Final = 63
"""Short enough for a label value, although the objects would allow 253."""

UID_PLACEHOLDER: Final = "00000000-0000-0000-0000-000000000000"
"""Stands in for the UID when a JobSet that does not exist yet is previewed."""

_SUFFIX: Final = 10
_READABLE: Final = MAX_LENGTH - _SUFFIX - 1
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NOT_ALLOWED: Final = re.compile(r"[^-a-z0-9]")


def is_dns_label(name: str) -> bool:
    """Whether ``name`` is an RFC 1123 label, as template names and replica keys must be."""
    return _DNS_LABEL.fullmatch(name) is not None


def _digest(uid: str, scope: str) -> hashlib._Hash:
    return hashlib.sha256(f"{uid}/{scope}".encode("utf-8", "surrogatepass"))


def _readable(prefix: str) -> str:
    lower = prefix.lower()
    return _NOT_ALLOWED.sub("-", lower) if _NOT_ALLOWED.search(lower) else lower


def _joined(readable: str, digest: hashlib._Hash) -> str:
    return f"{readable[:_READABLE]}-{digest.hexdigest()[:_SUFFIX]}".lstrip("-")


def _hashed(prefix: str, uid: str, scope: str) -> str:
    return _joined(_readable(prefix), _digest(uid, scope))


def workload_name(jobset: str, uid: str) -> str:
    """Name of the JobSet's Workload."""
    return _hashed(jobset, uid, "workload")


def jobset_group_name(jobset: str, uid: str) -> str:
    """Name of the one group of a JobSet-wide gang."""
    return _hashed(jobset, uid, "jobset")


def replicated_job_group_name(jobset: str, uid: str, replicated_job: str) -> str:
    """Name of the one group of a ReplicatedJob."""
    return _hashed(f"{jobset}-{replicated_job}", uid, f"rj/{replicated_job}")


def job_group_name(jobset: str, uid: str, replicated_job: str, index: int) -> str:
    """Name of the group of one replica (one Job) of a ReplicatedJob."""
    return _hashed(f"{jobset}-{replicated_job}-{index}", uid, f"job/{replicated_job}/{index}")


def job_group_names(jobset: str, uid: str, replicated_job: str, replicas: int) -> Iterator[str]:
    """:func:`job_group_name` of every replica, in order: most of a name is the same in all."""
    readable = _readable(f"{jobset}-{replicated_job}-")
    common = _digest(uid, f"job/{replicated_job}/")
    for index in range(replicas):
        digest = common.copy()
        digest.update(b"%d" % index)
        yield _joined(f"{readable}{index}", digest)


def composite_group_name(jobset: str, uid: str) -> str:
    """Name of the root CompositePodGroup."""
    return _hashed(jobset, uid, "cpg/root")


def template_names(replicated_jobs: tuple[str, ...]) -> tuple[str, ...]:
    """Template names for ReplicatedJobs, in their order: the name itself where it is a DNS label.

    JobSet validates only the composed Job name, so that ``x-`` or an empty name can occur; these
    become ``rj<ordinal>``, or with a hash where that is another ReplicatedJob's name.
    """
    taken = set(replicated_jobs)
    names = []
    for ordinal, name in enumerate(replicated_jobs):
        chosen = name
        if not is_dns_label(name):
            chosen = f"rj{ordinal}"
            while chosen in taken:
                chosen = _hashed(f"rj{ordinal}", name, f"template/{chosen}")
        names.append(chosen)
    return tuple(names)

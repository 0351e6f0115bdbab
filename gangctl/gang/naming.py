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
from typing import Final

MAX_LENGTH: Final = 63
"""Short enough for a label value, although the objects would allow 253."""

UID_PLACEHOLDER: Final = "00000000-0000-0000-0000-000000000000"
"""Stands in for the UID when a JobSet that does not exist yet is previewed."""

_SUFFIX: Final = 10
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NOT_ALLOWED: Final = re.compile(r"[^-a-z0-9]")


def is_dns_label(name: str) -> bool:
    """Whether ``name`` is an RFC 1123 label, as template names and replica keys must be."""
    return _DNS_LABEL.fullmatch(name) is not None


def _hashed(prefix: str, uid: str, scope: str) -> str:
    suffix = hashlib.sha256(f"{uid}/{scope}".encode("utf-8", "surrogatepass")).hexdigest()[:_SUFFIX]
    readable = _NOT_ALLOWED.sub("-", prefix.lower()[: MAX_LENGTH - _SUFFIX - 1])
    return f"{readable}-{suffix}".lstrip("-")


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

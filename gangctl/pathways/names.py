"""The subdomain and the longest names that follow from a PathwaysJob's own.

The head's address, ``NAME-pathways-head-0-0.SUBDOMAIN``, is the value of a label, which holds 63 characters. JobSet
calls the subdomain like itself, so that 22 are left for the name; a subdomain of its own makes room for more.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.words import HEAD, NAME_CHARACTERS, WORKER

AUTO: Final = "auto"
"""Option ``subdomain``: a short one where the name needs it."""
LABEL_CHARACTERS: Final = 63
ADDRESS_CHARACTERS: Final = LABEL_CHARACTERS - len(f"-{HEAD}-0-0.")
"""Of the name and the subdomain together."""

_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DIGITS: Final = 7
_POD_SUFFIX: Final = "-abcde"


def is_dns_1035(text: str) -> bool:
    """Whether a text can be the name of a Service or a Job's pod, its length apart."""
    return _DNS_1035.fullmatch(text) is not None


def subdomain(job: PathwaysJob) -> str:
    """The subdomain to write into the JobSet; empty where JobSet's own choice, its name, does.

    A short one depends on the name alone, so that it stays over restarts and differs between JobSets of a namespace.
    """
    asked = job.options.subdomain or ""
    if asked != AUTO:
        return asked
    if len(job.name) <= NAME_CHARACTERS:
        return ""
    return f"p{hashlib.sha256(job.name.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def address(job: PathwaysJob) -> str:
    """The host name of the head, as every pod learns it from its label."""
    return f"{job.name}-{HEAD}-0-0.{subdomain(job) or job.name}"


def longest_pod(job: PathwaysJob) -> str:
    """The longest name of a pod, with what the Job controller appends."""
    worker = f"{job.name}-{WORKER}-{job.slices - 1}-{job.slice.vms - 1}{_POD_SUFFIX}"
    head = f"{job.name}-{HEAD}-0-0{_POD_SUFFIX}"
    return max(worker, head, key=len)

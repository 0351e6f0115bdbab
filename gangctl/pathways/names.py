"""The subdomain and the longest names that are derived from a PathwaysJob's own.

The head's address, ``NAME-pathways-head-0-0.SUBDOMAIN``, is the value of a label, which holds 63 characters. JobSet
uses its own name as subdomain, so that 22 are left for the name; another subdomain allows longer names.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.words import HEAD, NAME_CHARACTERS, WORKER

AUTO: Final = "auto"
"""Option ``subdomain``: a short one if the name needs it."""
LABEL_CHARACTERS: Final = 63
ADDRESS_CHARACTERS: Final = LABEL_CHARACTERS - len(f"-{HEAD}-0-0.")
"""Maximum length of name and subdomain together."""

_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DIGITS: Final = 7
_POD_SUFFIX: Final = "-abcde"


def is_dns_1035(text: str) -> bool:
    """Whether a text is a valid name of a Service or a Job's pod, except for its length."""
    return _DNS_1035.fullmatch(text) is not None


def subdomain(job: PathwaysJob) -> str:
    """The subdomain to write into the JobSet; empty if JobSet's default, its name, is sufficient.

    A short one depends on the name alone: it is stable over restarts, and unique in a namespace.
    """
    asked = job.options.subdomain or ""
    if asked != AUTO:
        return asked
    if len(job.name) <= NAME_CHARACTERS:
        return ""
    return f"p{hashlib.sha256(job.name.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def longest_pod(job: PathwaysJob) -> str:
    """The longest name of a pod, with what the Job controller appends."""
    worker = f"{job.name}-{WORKER}-{job.slices - 1}-{job.slice.vms - 1}{_POD_SUFFIX}"
    head = f"{job.name}-{HEAD}-0-0{_POD_SUFFIX}"
    return max(worker, head, key=len)

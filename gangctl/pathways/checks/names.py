"""Names that Kubernetes derives from a PathwaysJob's own."""

from __future__ import annotations

from typing import Final

from gangctl.errors import ErrorKind, shown
from gangctl.gang.naming import is_dns_label
from gangctl.pathways.checks.findings import Findings
from gangctl.pathways.names import ADDRESS_CHARACTERS, AUTO, LABEL_CHARACTERS, is_dns_1035, longest_pod, subdomain
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.words import NAME_CHARACTERS, option_path

NAME: Final = "metadata.name"


def check_names(found: Findings) -> None:
    """The name and the subdomain form an address that fits into a label."""
    job = found.job
    if job.namespace and not is_dns_label(job.namespace):
        detail = f"{shown(job.namespace)} is not the name of a namespace: lower case letters, digits and -"
        found.refuse(InvalidReason.INVALID_NAME, "metadata.namespace", detail)
    asked = job.options.subdomain
    valid = asked is None or (is_dns_1035(asked) and len(asked) <= LABEL_CHARACTERS)
    if not valid:
        detail = (
            f'must be "{AUTO}" or lower case letters, digits and -, first a letter, at most {LABEL_CHARACTERS} '
            f"characters; got {shown(asked)}"
        )
        found.refuse(InvalidReason.INVALID_OPTIONS, option_path("subdomain"), detail)
    if not job.name:
        return
    if not is_dns_1035(job.name):
        detail = (
            f"{shown(job.name)} cannot name a JobSet: lower case letters, digits and -, first a letter, last none of -"
        )
        found.refuse(InvalidReason.INVALID_NAME, NAME, detail)
    elif valid:
        _check_address(found)


def _check_address(found: Findings) -> None:
    name = found.job.name
    chosen = subdomain(found.job)
    room = ADDRESS_CHARACTERS - len(chosen) if chosen else NAME_CHARACTERS
    if len(name) > room:
        option = found.place(option_path("subdomain"))
        beside = f" with subdomain {shown(chosen)}" if chosen else ""
        advice = "" if found.job.options.subdomain == AUTO else f', or set {option} to "{AUTO}"'
        detail = (
            f"{len(name)} characters, at most {room} are possible{beside}, because the head's address has to fit into "
            f"a label: choose a shorter one{advice}"
        )
        found.refuse(InvalidReason.NAME_TOO_LONG, NAME, detail, ErrorKind.TOO_LONG)


def check_pod_names(found: Findings) -> None:
    """The longest pod name is a valid host name."""
    longest = longest_pod(found.job)
    over = len(longest) - LABEL_CHARACTERS
    if over > 0:
        most = len(found.job.name) - over
        detail = (
            f"{len(found.job.name)} characters, at most {most} are possible: the longest pod would be {longest}, and "
            f"{LABEL_CHARACTERS} characters are a host name's most"
        )
        found.refuse(InvalidReason.NAME_TOO_LONG, NAME, detail, ErrorKind.TOO_LONG)

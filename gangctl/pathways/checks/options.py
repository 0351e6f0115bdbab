"""Values of the options, beyond their types."""

from __future__ import annotations

import re
from typing import Final

from gangctl.gang.config import LABEL_KEY
from gangctl.gang.counting import INT32_MAX
from gangctl.pathways.checks.findings import Findings
from gangctl.pathways.checks.template import check_amounts
from gangctl.pathways.paths import option_path
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.wording import quoted

_KEY: Final = re.compile(LABEL_KEY)
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def check_options(found: Findings) -> None:
    """What pydantic does not know of Kubernetes; the subdomain is looked at with the name."""
    options = found.job.options
    for key, value in (options.head_node_selector or {}).items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            detail = f"{quoted(key)}: {quoted(value)} is not a label of a node"
            found.refuse(InvalidReason.INVALID_OPTIONS, option_path("headNodeSelector"), detail)
    for index, prefix in enumerate(options.drop_metadata or ()):
        if not prefix.strip():
            detail = "must not be empty: every label and annotation begins so"
            found.refuse(InvalidReason.INVALID_OPTIONS, option_path(f"dropMetadata[{index}]"), detail)
    for name, seconds in (
        ("ttlSecondsAfterFinished", options.ttl_seconds_after_finished),
        ("unreachableTimeoutSeconds", options.unreachable_timeout_seconds),
    ):
        if seconds is not None and seconds > INT32_MAX:
            found.refuse(InvalidReason.INVALID_OPTIONS, option_path(name), f"must be at most {INT32_MAX} seconds")
    _check_head_resources(found)


def _check_head_resources(found: Findings) -> None:
    resources = found.job.options.head_resources
    if resources is None:
        return
    for name, each in (("resourceManager", resources.resource_manager), ("proxy", resources.proxy)):
        if each is not None:
            check_amounts(found, option_path(f"headResources.{name}"), each.requests or {}, each.limits or {})

"""JobSets, as JobSet 0.12 with its CRD and its two webhooks makes and takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.sandbox.errors import StatusError, invalid
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import jobset_webhook, names, structural
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.jobset_schema import jobset_schema
from gangctl.sandbox.rules.metadata import validate_metadata, validate_metadata_update

_VALIDATING: Final = "vjobset.kb.io"


def drop(new: Object, old: Object | None) -> list[str]:
    """Prune what the CRD does not know: gangConfig, workloadRef; schedulingGroup is kept."""
    del old
    return structural.prune(new, jobset_schema())


def default(jobset: Object) -> None:
    """The CRD's defaults."""
    structural.default(jobset, jobset_schema())


def prepare_create(jobset: Object) -> None:
    """A new JobSet has no status: its CRD has the subresource."""
    jobset.pop("status", None)


def admit(new: Object, old: Object | None, subresource: str) -> None:
    """The mutating webhook, which is called for new JobSets only."""
    if old is None and not subresource:
        jobset_webhook.default(new)


def validate(
    kind: ResourceKind, new: Object, old: Object | None, subresource: str, gates: Mapping[str, bool]
) -> Causes:
    """What the CRD finds wrong; when that is nothing the validating webhook is asked, which answers for itself."""
    causes = validate_metadata_update(new, old) if old else validate_metadata(new, names.dns_subdomain, namespaced=True)
    causes += structural.validate(new, jobset_schema(), old)
    if causes or subresource:
        return causes
    found = jobset_webhook.validate(new, gates) if old is None else jobset_webhook.validate_update(new, old, gates)
    if found:
        raise _denied(invalid(kind, new["metadata"].get("name", ""), found))
    return causes


def _denied(error: StatusError) -> StatusError:
    message = f'admission webhook "{_VALIDATING}" denied the request: {error.message}'
    return StatusError(error.code, error.reason, message, error.details)

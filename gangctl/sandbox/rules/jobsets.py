"""JobSets, as JobSet 0.12 with its CRD and its two webhooks makes and takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.apiserver.jobsets import default, jobset_schema
from gangctl.apiserver.jobsetwebhook import validate_create, validate_update
from gangctl.apiserver.metadata import FieldCause
from gangctl.sandbox.errors import StatusError, invalid
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import KindRules
from gangctl.sandbox.rules.custom import custom_rules
from gangctl.sandbox.store import ObjectStore

_VALIDATING: Final = "vjobset.kb.io"


def rules(kind: ResourceKind, gates: Mapping[str, bool]) -> KindRules:
    """The rules of JobSets; ``gates`` are read for those of the JobSet manager, ElasticJobSet and RestartJob.

    What the CRD does not know is pruned (gangConfig, workloadRef); schedulingGroup is kept on every minor.
    """
    crd = custom_rules(kind, jobset_schema())

    def admit(new: Object, old: Object | None, subresource: str, store: ObjectStore) -> None:
        """The mutating webhook, which is called for new JobSets only."""
        del store
        # After gangctl's webhook: API servers call webhooks in the order of the names of their configurations.
        if old is None and not subresource:
            default(new)

    def validate(new: Object, old: Object | None, subresource: str) -> Sequence[FieldCause]:
        """If the CRD finds no errors in a change, the validating webhook is called, with its own messages."""
        causes = crd.validate(new, old, subresource)
        if causes or subresource:
            return causes
        problems = validate_create(new, gates) if old is None else validate_update(new, old, gates)
        if problems:
            raise _denied(invalid(kind, new["metadata"].get("name", ""), problems))
        return causes

    return KindRules(
        drop=crd.drop, default=crd.default, prepare_create=crd.prepare_create, admit=admit, validate=validate
    )


def _denied(error: StatusError) -> StatusError:
    message = f'admission webhook "{_VALIDATING}" denied the request: {error.message}'
    return StatusError(error.code, error.reason, message, error.details)

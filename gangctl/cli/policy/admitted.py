"""A JobSet of a file as policies meet it: with what its CRD and JobSet's own webhook fill in, and our defaults."""

from __future__ import annotations

from typing import Final

from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.api.objects import Object
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import copy
from gangctl.sandbox.rules import jobset_webhook, structural
from gangctl.sandbox.rules.jobset_schema import jobset_schema

KIND: Final = "JobSet"


def is_jobset(obj: Object) -> bool:
    """Whether an object is a JobSet of the version that the rules are known of."""
    return obj.get("apiVersion") == JOBSET_API_VERSION and obj.get("kind") == KIND


def as_admitted(obj: Object) -> tuple[Object, str]:
    """The object with the fields that an API server with JobSet fills in before policies are asked.

    The second value says why that could not be done, in which case the object is as it was:
    JobSet itself would refuse it.
    """
    if not is_jobset(obj):
        return obj, ""
    filled = copy(dict(obj))
    try:
        structural.default(filled, jobset_schema())
        causes = structural.validate(filled, jobset_schema())
        if causes:
            first = causes[0]
            return obj, f"{first.field}: {first.message}" if first.field else first.message
        jobset_webhook.default(filled)
    except StatusError as refused:
        return obj, refused.message
    return filled, ""

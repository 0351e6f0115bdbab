"""What an API server's refusal to create a JobSet means for the PathwaysJob that it is for."""

from __future__ import annotations

from typing import Final

from gangctl.errors import ApiError, ForbiddenError, InvalidError
from gangctl.gang.reasons import Reason
from gangctl.pathways.status.facts import Obstacle, Phase

_DENIED: Final = ("denied the request", "denied request")
"""How a webhook's denial is worded, and that of a ValidatingAdmissionPolicy."""
_OF_RIGHTS: Final = ("cannot create resource", "cannot set blockOwnerDeletion")
"""How the API server says what gangctl may not do."""


def obstacle(error: ApiError) -> Obstacle | None:
    """Why there is no JobSet; None where the same request may pass in a moment.

    All of it may end by itself: policies and quotas change, rights are granted, JobSet's definition is replaced.
    """
    if any(words in error.message for words in _DENIED):
        return Obstacle(Reason.ADMISSION_DENIED.value, error.message)
    if isinstance(error, ForbiddenError):
        if any(words in error.message for words in _OF_RIGHTS):
            return Obstacle(Reason.JOBSET_CREATE_FAILED.value, error.message, Phase.PENDING)
        # A plugin of the API server: a quota, for one.
        return Obstacle(Reason.ADMISSION_DENIED.value, error.message)
    if isinstance(error, InvalidError):
        return Obstacle(Reason.JOBSET_CREATE_FAILED.value, error.message)
    return None

"""One request as policies see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from gangctl.api.objects import Object

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class Review:
    """The input of an evaluation: picklable, and complete, so that any process can evaluate it.

    ``request`` is the CEL variable of that name: the AdmissionRequest without its objects. ``namespace`` is the
    Namespace object of a namespaced request, None where it is unknown. ``gang`` is the plan of the JobSet as ``gangctl
    plan -o json`` prints it, None at DELETE and where the JobSet cannot be planned; ``fit`` what ``gangctl fit -o
    json`` prints, None at DELETE and where no policy reads it. ``now`` decides whether exceptions have expired.
    """

    operation: Operation
    now: datetime
    request: Object
    object: Object | None = None
    old_object: Object | None = None
    namespace: Object | None = None
    gang: Object | None = None
    fit: Object | None = None
    params: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    """Parameter objects by policy name, resolved by :mod:`gangctl.policy.params`; no entry: the policy takes none."""
    param_errors: Mapping[str, str] = field(default_factory=dict)
    """Why the parameters of some policies are not available, by policy name: their failurePolicy decides."""

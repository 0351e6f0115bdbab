"""Admission of writes by webhooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gangctl.sandbox.caller import Caller
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    """Attributes of a request for webhooks; ``warnings`` collects their warnings for the client."""

    operation: Operation
    kind: ResourceKind
    subresource: str
    namespace: str
    name: str
    old: Object | None
    options: Object
    dry_run: bool
    caller: Caller
    warnings: list[str] = field(default_factory=list)

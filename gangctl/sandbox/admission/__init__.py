"""Admission of writes by webhooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from gangctl.sandbox.caller import Caller
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    """What a webhook is told beside the object; ``warnings`` collects what it says to the client."""

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


class Admission(Protocol):
    """Asked before every write that is not the server's own.

    ``obj`` is None for a DELETE, whose object is ``attributes.old``.
    """

    async def mutate(self, attributes: Attributes, obj: Object) -> Object:
        """The object as it is to be; StatusError when it is refused."""
        ...

    async def validate(self, attributes: Attributes, obj: Object | None) -> None:
        """StatusError when it is refused."""
        ...


class NoAdmission:
    """Admits everything."""

    async def mutate(self, attributes: Attributes, obj: Object) -> Object:
        """The object as it came."""
        del attributes
        return obj

    async def validate(self, attributes: Attributes, obj: Object | None) -> None:
        """Say yes."""

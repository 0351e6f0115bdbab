"""One request: who asks for what, and what befalls it on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from gangctl.sandbox.audit import Record
from gangctl.sandbox.caller import Caller, DeleteOptions, WriteOptions
from gangctl.sandbox.deletion import Deletion
from gangctl.sandbox.faults import Action
from gangctl.sandbox.registry import Backend
from gangctl.sandbox.targets import Target
from gangctl.sandbox.writes import Write


@dataclass(slots=True)
class Exchange:
    """One request for a resource; ``body`` is read already, ``warnings`` are sent with the answer."""

    request: web.BaseRequest
    backend: Backend
    target: Target
    caller: Caller
    record: Record
    body: bytes
    fault: Action | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def query(self) -> Mapping[str, str]:
        """Its query parameters."""
        return self.request.query

    @property
    def namespace(self) -> str:
        """Where the object is; "" for what has no namespace."""
        return self.target.namespace or ""

    def write(self, options: WriteOptions) -> Write:
        """The write that it asks for."""
        target = self.target
        return Write(
            self.backend,
            target.kind,
            self.namespace,
            self.caller,
            options,
            self.warnings,
            target.name,
            target.subresource,
        )

    def deletion(self, options: DeleteOptions) -> Deletion:
        """The deletion that it asks for."""
        target = self.target
        return Deletion(self.backend, target.kind, self.namespace, target.name, self.caller, options, self.warnings)

"""Events of the simulated controllers, for ``kubectl describe``: each is recorded once per object, not counted."""

from __future__ import annotations

from typing import Final

from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object, generated_name, now_micro

_NOTE_LENGTH: Final = 1024
_REMEMBERED: Final = 4096
_LOST: Final = frozenset({403, 404})


class Recorder:
    """Records events of one controller."""

    def __init__(self, api: Api, caller: Caller, controller: str) -> None:
        """``controller`` is the real one's name."""
        self._api = api
        self._kind = api.kind("events.events.k8s.io")
        self._caller = caller
        self._controller = controller
        self._recorded: dict[tuple[str, str, str], None] = {}

    async def record(self, about: Object, api_version: str, reason: str, note: str, *, warning: bool = False) -> None:
        """Record an event, unless this object has the same one. A terminating namespace accepts none."""
        metadata = about["metadata"]
        key = metadata["uid"], reason, note
        if key in self._recorded:
            return
        self._recorded[key] = None
        if len(self._recorded) > _REMEMBERED:
            del self._recorded[next(iter(self._recorded))]
        namespace = metadata.get("namespace") or "default"
        event: Object = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": generated_name(f"{metadata['name']}."), "namespace": namespace},
            "eventTime": now_micro(),
            "reportingController": self._controller,
            "reportingInstance": "sandbox",
            "action": "Reconciling",
            "reason": reason,
            "type": "Warning" if warning else "Normal",
            "note": note[:_NOTE_LENGTH],
            "regarding": {
                "apiVersion": api_version,
                "kind": about["kind"],
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        }
        try:
            await self._api.create(self._kind, namespace, event, self._caller)
        except StatusError as error:
            if error.code not in _LOST:
                raise

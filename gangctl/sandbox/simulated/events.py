"""Events of the played controllers, for ``kubectl describe``: each is said once for an object, not counted."""

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
    """Says what one controller did to an object."""

    def __init__(self, api: Api, caller: Caller, controller: str) -> None:
        """``controller`` is the real one's name."""
        self._api = api
        self._kind = api.kind("events.events.k8s.io")
        self._caller = caller
        self._controller = controller
        self._said: dict[tuple[str, str, str], None] = {}

    async def say(self, about: Object, api_version: str, reason: str, note: str, *, warning: bool = False) -> None:
        """Record an event, unless the same was said of this object. A namespace that is going away takes none."""
        metadata = about["metadata"]
        said = metadata["uid"], reason, note
        if said in self._said:
            return
        self._said[said] = None
        if len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]
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

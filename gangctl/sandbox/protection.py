"""PodGroups exist while pods name them: the controller of ``scheduling.k8s.io/podgroup-protection``.

The server puts the finalizer on every PodGroup; here it is taken away from one that is being deleted when no pod
refers to it any more that has not finished.
"""

from __future__ import annotations

from typing import ClassVar, Final

from gangctl.api.objects import Key
from gangctl.sandbox.controller import StoreController
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.gangs import PROTECTION
from gangctl.sandbox.store import Change

_PODGROUPS: Final = "podgroups.scheduling.k8s.io"
_PODS: Final = "pods"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class PodGroupProtection(StoreController[Key]):
    """Works on PodGroups that are being deleted."""

    name: ClassVar[str] = "podgroup-protection-controller"

    def changed(self, storage: str, change: Change) -> None:
        """A PodGroup is being deleted, or a pod that named one has finished or is gone."""
        if storage == _PODGROUPS and not change.gone:
            self.queue.add(change.key)
        elif storage == _PODS and (change.gone or not _needs_group(change.new.obj)):
            group = _group_of(change.new.obj)
            if group:
                self.queue.add((change.key[0], group))

    async def reconcile(self, key: Key) -> None:
        """Remove the finalizer when no pod needs the group."""
        stored = self.store.get(_PODGROUPS, key)
        if stored is None or "deletionTimestamp" not in stored.obj["metadata"]:
            return
        finalizers = stored.obj["metadata"].get("finalizers") or []
        pods = (pod.obj for pod in self.store.items(_PODS, key[0]))
        if PROTECTION not in finalizers or any(_group_of(pod) == key[1] and _needs_group(pod) for pod in pods):
            return
        metadata = stored.obj["metadata"]
        left = [each for each in finalizers if each != PROTECTION]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": left or None}}
        await self.api.patch(self.api.kind(_PODGROUPS), *key, patch, "merge", self.caller)


def _group_of(pod: Object) -> str:
    return str(((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName") or "")


def _needs_group(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in _FINISHED

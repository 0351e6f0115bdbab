"""Admission of Jobs by the API server's own plugins."""

from __future__ import annotations

from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.store import ObjectStore


def admit(  # noqa: PLR0917 -- what admission gets
    kind: ResourceKind, new: Object, old: Object | None, subresource: str, store: ObjectStore, minor: str
) -> None:
    """The JobValidation plugin of 1.36: the parallelism of a Job in a gang is immutable."""
    if old is None or subresource or minor != "1.36":
        return
    if new["spec"].get("parallelism") == old["spec"].get("parallelism"):
        return
    name = (old["spec"]["template"]["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
    group = store.find("podgroups.scheduling.k8s.io", old["metadata"]["namespace"], name)
    if group is not None and "gang" in group["spec"].get("schedulingPolicy", {}):
        message = f'cannot change parallelism for a Job referencing gang-scheduled PodGroup "{name}"'
        raise errors.forbidden(kind, new["metadata"]["name"], message)

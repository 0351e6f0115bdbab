"""ResourceQuotas on numbers of objects: ``count/RESOURCE.GROUP``, ``pods`` and other names of the core group.

A create is checked against what is stored, so that a deletion makes room at once; on a real server it does once the
quota controller has counted again. Compute resources and quotas with scopes are not enforced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gangctl.api.pods import is_finished
from gangctl.api.quantity import parse_quantity
from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, name_of
from gangctl.sandbox.store import ObjectStore

QUOTAS: Final = "resourcequotas"
_COUNT: Final = "count/"
_PLAIN: Final = frozenset({"pods", "services", "secrets", "configmaps", "resourcequotas"})


def default(quota: Object) -> None:
    """What Go writes of a quota although it is empty."""
    quota.setdefault("spec", {})
    quota.setdefault("status", {})


def prepare_create(quota: Object) -> None:
    """A new quota has counted nothing."""
    quota["status"] = {}


def status_of(quota: Object, store: ObjectStore) -> Object:
    """``status``, counted now."""
    hard = quota["spec"].get("hard", {})
    namespace = quota["metadata"]["namespace"]
    used = {name: str(_used(name, namespace, store)) for name in hard if _resource(name)}
    return {"hard": hard, "used": used} if hard else {}


def check(kind: ResourceKind, obj: Object, store: ObjectStore) -> None:
    """StatusError 403 if one more object of ``kind`` exceeds a quota of its namespace."""
    namespace = obj["metadata"].get("namespace", "")
    for quota in _quotas(namespace, store):
        used = {
            name: count
            for name, hard in sorted(quota["spec"].get("hard", {}).items())
            if _resource(name) == kind.qualified_name
            and (count := _used(name, namespace, store)) + 1 > parse_quantity(hard)
        }
        if used:
            parts = {
                "requested": dict.fromkeys(used, 1),
                "used": used,
                "limited": {name: quota["spec"]["hard"][name] for name in used},
            }
            texts = [f"{part}: {','.join(f'{name}={n}' for name, n in usage.items())}" for part, usage in parts.items()]
            why = f"exceeded quota: {name_of(quota)}, {', '.join(texts)}"
            raise errors.forbidden(kind, name_of(obj), why)


def _quotas(namespace: str, store: ObjectStore) -> Iterator[Object]:
    for quota in sorted((stored.obj for stored in store.items(QUOTAS, namespace)), key=name_of) if namespace else ():
        if not {"scopes", "scopeSelector"} & quota["spec"].keys():
            yield quota


def _resource(name: str) -> str:
    """The resource whose objects an entry counts; "" for one that is no number of objects."""
    return name.removeprefix(_COUNT) if name.startswith(_COUNT) else name if name in _PLAIN else ""


def _used(name: str, namespace: str, store: ObjectStore) -> int:
    objects = [stored.obj for stored in store.items(_resource(name), namespace)]
    # Only ``count/pods`` counts pods that have finished.
    if name == "pods":
        return sum(not is_finished(pod) for pod in objects)
    return len(objects)

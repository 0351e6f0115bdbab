"""ResourceQuotas: numbers of objects, ``count/RESOURCE.GROUP`` or ``pods``, and what pods request or have as limits.

A create is checked against what is stored, so that a deletion makes room at once; on a real server it does once the
quota controller has counted again. Quotas with scopes are not enforced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from gangctl.api.pods import is_finished
from gangctl.api.quantity import exact_bytes, parse_quantity
from gangctl.apiserver.fields import canonical
from gangctl.apiserver.pods import containers
from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, name_of
from gangctl.sandbox.rules.podamounts import limits_of, requests_of
from gangctl.sandbox.store import ObjectStore

QUOTAS: Final = "resourcequotas"
_COUNT: Final = "count/"
_PLAIN: Final = frozenset({"pods", "services", "secrets", "configmaps", "resourcequotas"})
_LIMITS: Final = "limits."
_REQUESTS: Final = "requests."
# MatchingResources of the evaluator of pods.
_COMPUTE: Final = re.compile(
    r"(requests\.|limits\.)?(cpu|memory|ephemeral-storage)|(requests\.)?hugepages-.*|requests\.(?!.*kubernetes\.io/).+/.+"
)
# Its validationSet: where a quota has one of these, each container must say it.
_MUST_SAY: Final = re.compile(r"(requests\.|limits\.)?(cpu|memory)")
_BYTES: Final = re.compile(r".*(memory|ephemeral-storage|hugepages-.*)")
_KIBI: Final = 1024


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
    used = {name: _shown(name, _used(name, namespace, store)) for name in hard if _resource(name)}
    return {"hard": hard, "used": used} if hard else {}


def check(kind: ResourceKind, obj: Object, store: ObjectStore) -> None:
    """StatusError 403 if one more object of ``kind`` exceeds a quota of its namespace."""
    namespace = obj["metadata"].get("namespace", "")
    limited = [
        (quota, [name for name in sorted(quota["spec"].get("hard", {})) if _resource(name) == kind.qualified_name])
        for quota in _quotas(namespace, store)
    ]
    for quota, names in limited:
        if missing := "; ".join(f"{name} for: {','.join(who)}" for name in names if (who := _silent(name, obj))):
            raise errors.forbidden(kind, name_of(obj), f"failed quota: {name_of(quota)}: must specify {missing}")
    for quota, names in limited:
        hard = quota["spec"]["hard"]
        used = {name: _used(name, namespace, store) for name in names}
        exceeded = [name for name in names if used[name] + _charge(name, obj) > parse_quantity(hard[name])]
        if exceeded:
            parts = {
                "requested": {name: _shown(name, _charge(name, obj)) for name in exceeded},
                "used": {name: _shown(name, used[name]) for name in exceeded},
                "limited": {name: hard[name] for name in exceeded},
            }
            texts = [f"{part}: {','.join(f'{name}={n}' for name, n in usage.items())}" for part, usage in parts.items()]
            why = f"exceeded quota: {name_of(quota)}, {', '.join(texts)}"
            raise errors.forbidden(kind, name_of(obj), why)


def _quotas(namespace: str, store: ObjectStore) -> Iterator[Object]:
    for quota in sorted((stored.obj for stored in store.items(QUOTAS, namespace)), key=name_of) if namespace else ():
        if not {"scopes", "scopeSelector"} & quota["spec"].keys():
            yield quota


def _resource(name: str) -> str:
    """The resource whose objects an entry limits; "" for one that limits nothing here."""
    if name.startswith(_COUNT):
        return name.removeprefix(_COUNT)
    if _COMPUTE.fullmatch(name):
        return "pods"
    return name if name in _PLAIN else ""


def _charge(name: str, obj: Object) -> Fraction:
    """What one object takes of an entry."""
    if not _COMPUTE.fullmatch(name):
        return Fraction(1)
    amounts = limits_of(obj) if name.startswith(_LIMITS) else requests_of(obj)
    return amounts.get(name.removeprefix(_LIMITS).removeprefix(_REQUESTS), Fraction(0))


def _used(name: str, namespace: str, store: ObjectStore) -> Fraction:
    objects = [stored.obj for stored in store.items(_resource(name), namespace)]
    # Only ``count/pods`` counts pods that have finished.
    if _resource(name) == "pods" and not name.startswith(_COUNT):
        objects = [pod for pod in objects if not is_finished(pod)]
    if not _COMPUTE.fullmatch(name):
        return Fraction(len(objects))
    # Of the few different amounts, each is multiplied: adding fractions takes most of the time of a large gang.
    amounts = Counter(_charge(name, obj).as_integer_ratio() for obj in objects)
    return sum((Fraction(*amount) * count for amount, count in amounts.items()), Fraction(0))


def _silent(name: str, pod: Object) -> list[str]:
    """The containers that do not say what an entry about cpu or memory requires of them."""
    if not _MUST_SAY.fullmatch(name):
        return []
    kinds = ("limits",) if name.startswith(_LIMITS) else ("requests", "limits")
    resource = name.removeprefix(_LIMITS).removeprefix(_REQUESTS)

    def says(holder: Object) -> bool:
        resources = holder.get("resources") or {}
        return any(resource in (resources.get(kind) or {}) for kind in kinds)

    spec = pod["spec"]
    return [] if says(spec) else sorted({container["name"] for container in containers(spec) if not says(container)})


def _shown(name: str, value: Fraction) -> str:
    if _BYTES.fullmatch(name) and value and value % _KIBI == 0:
        return exact_bytes(int(value))
    return canonical(f"{int(value * 10**9)}n")

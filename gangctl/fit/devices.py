"""The devices that the pods of a JobSet claim, as resources of nodes (dynamic resource allocation).

Requests of one device class with the same selectors can take the same devices of a node, and any of them: then a count
is enough. What a count cannot say (shared claims, constraints, partitions, taints, devices of several nodes, requests
that select some of the same devices) is unknown, with the field. Source: KEP-4381, and
``k8s.io/dynamic-resource-allocation/structured`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from gangctl.api.jobset import pod_path
from gangctl.api.objects import Object, integer_at, object_at, objects_at, text_at, within
from gangctl.api.requests import is_extended
from gangctl.cel.faults import CompileError, EvalError
from gangctl.errors import one_line
from gangctl.fit.floor import NodeShape
from gangctl.fit.requests import PodSet
from gangctl.kueue.objects import Amounts

Device = tuple[str, str, str]
"""Driver, pool and name."""

# AllocationResultsMaxSize of resource.k8s.io.
_MOST_OF_A_CLAIM: Final = 32
_STEPS: Final = 100_000
_CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
PER_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
"""After the name of a DeviceClass, in ResourceQuotas."""
_OF_CLASSES: Final = "deviceclass.resource.kubernetes.io/"
_UNREAD: Final = "devices that are free on the nodes (kubectl get resourceslices,resourceclaims)"


@dataclass(frozen=True, slots=True)
class Devices:
    """Objects of ``resource.k8s.io``, raw: ``templates`` are those of the JobSet's namespace.

    ``slices`` and ``taken``, the devices of claims, are None if unknown. ``rules`` is whether there are
    DeviceTaintRules, ``unread`` whether there may be other ``classes``.
    """

    slices: Sequence[Object] | None = None
    classes: Mapping[str, Object] = field(default_factory=dict)
    templates: Mapping[str, Object] = field(default_factory=dict)
    taken: Collection[Device] | None = None
    rules: bool = False
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Claimed:
    """Devices as resources: what one pod of each podset asks for, and nodes that have them.

    ``unknown`` are facts without which it is not certain that the scheduler places the pods.
    """

    requests: Sequence[Amounts]
    nodes: Sequence[NodeShape]
    unknown: Sequence[str] = ()


def allocated(claim: Object) -> Iterator[Device]:
    """The devices that a ResourceClaim has."""
    results = objects_at(within(claim, "status", "allocation", "devices"), "results")
    for result in results:
        # A request with adminAccess takes no device from other claims (KEP-5018).
        if not result.get("adminAccess"):
            yield text_at(result, "driver"), text_at(result, "pool"), text_at(result, "device")


def counted_by_quotas(pod_spec: Mapping[str, Any], templates: Mapping[str, Object]) -> Amounts:
    """What ResourceQuotas count of the claims that are made for a pod, by their names (``claimEvaluator.Usage``).

    Of a template that is not known, the claim alone.
    """
    counts: Counter[str] = Counter()
    for name in (text_at(claim, "resourceClaimTemplateName") for claim in objects_at(pod_spec, "resourceClaims")):
        counts[_CLAIMS] += bool(name)
        for request in objects_at(within(templates.get(name, {}), "spec", "spec", "devices"), "requests"):
            worst: dict[str, int] = {}
            for option in objects_at(request, "firstAvailable") or [object_at(request, "exactly")]:
                every = option.get("allocationMode") == "All"
                count = _MOST_OF_A_CLAIM if every else option.get("count") or 1
                resource = f"{text_at(option, 'deviceClassName')}{PER_CLASS}"
                worst[resource] = max(worst.get(resource, 0), count if isinstance(count, int) else 0)
            # Counter.update adds, in contrast to that of a dict.
            counts.update(worst)
    return counts


def is_of_claims(resource: str) -> bool:
    """Whether a ResourceQuota counts claims by this name."""
    return resource == _CLAIMS or resource.endswith(PER_CLASS)


def reserved_for(claim: Object) -> list[str]:
    """Names of the pods that use a ResourceClaim; that of a user that is no pod is empty."""
    users = objects_at(object_at(claim, "status"), "reservedFor")
    return [text_at(user, "name") if user.get("resource") == "pods" else "" for user in users]


class _NotKnownError(Exception):
    """What is not known, after the field."""


@dataclass(frozen=True, slots=True)
class _Ask:
    """One request of a claim: ``selectors`` are those of its class, then its own; ``count`` is 0 for all devices."""

    device_class: str
    selectors: tuple[str, ...]
    count: int


def claimed(podsets: Sequence[PodSet], nodes: Sequence[NodeShape], devices: Devices, *, shared: bool) -> Claimed:
    """What the pods claim; ``shared`` is whether a gang has claims of its own."""
    plain: list[Amounts] = [{} for _ in podsets]
    asked: list[tuple[int, str, _Ask]] = []
    unknown = []
    for number, podset in enumerate(podsets):
        path = f"{pod_path(podset.index)}.resourceClaims"
        claims = objects_at(podset.pod_spec, "resourceClaims") if podset.pods else []
        if claims and devices.slices is None:
            unknown.append(f"{path}: {_UNREAD}")
            continue
        if claims and shared:
            unknown.append(f"{path}: which of them a gang shares")
            continue
        for index, claim in enumerate(claims):
            try:
                asked += [(number, f"{path}[{index}]", ask) for ask in _asks(claim, devices)]
            except _NotKnownError as error:
                unknown.append(f"{path}[{index}]: {error}")
    if not asked:
        return Claimed(plain, nodes, unknown)
    try:
        requests, there, free = _counted(len(podsets), asked, nodes, devices)
    except _NotKnownError as error:
        # All claims are unknown then: requests for the same devices are counted together, whichever podset has them.
        return Claimed(plain, nodes, [*unknown, f"{asked[0][1]}: {error}"])
    return Claimed(requests, [_with(node, there, free) for node in nodes], unknown)


def as_extended(requests: Iterable[Amounts], devices: Devices, nodes: Iterable[NodeShape]) -> Iterator[str]:
    """Extended resources that nodes may have as devices of a class."""
    names = {name for amounts in requests for name, amount in amounts.items() if amount > 0}
    mapped = {text_at(object_at(raw, "spec"), "extendedResourceName") for raw in devices.classes.values()}
    if devices.unread:
        # What nodes have of a device plugin the scheduler takes from them, whatever the classes say.
        there = {name for node in nodes for name, amount in node.capacity.items() if amount}
        mapped |= {name for name in names - there if is_extended(name)}
    for name in sorted(name for name in names if name in mapped or name.startswith(_OF_CLASSES)):
        yield f"which nodes have {one_line(name, 80)} as devices of a DeviceClass (extendedResourceName)"


def _with(node: NodeShape, there: Mapping[str, Amounts], free: Mapping[str, Amounts]) -> NodeShape:
    # Without a capacity a node counts as unlimited; one that has only devices would be a node without CPU.
    if not node.capacity:
        return node
    present = {**node.present, **free.get(node.name, {})}
    return replace(node, capacity={**node.capacity, **there.get(node.name, {})}, allocatable=present)


def _asks(claim: Object, devices: Devices) -> Iterator[_Ask]:
    name = text_at(claim, "resourceClaimTemplateName")
    if not name:
        raise _NotKnownError("which devices the ResourceClaim has or gets, which pods share")
    template = devices.templates.get(name)
    if template is None:
        raise _NotKnownError(f"what ResourceClaimTemplate {one_line(name, 80)} asks for (give it with --queues)")
    written = within(template, "spec", "spec", "devices")
    if written.get("constraints"):
        raise _NotKnownError("devices.constraints: which devices of a node fulfil them together")
    asks = [_ask(raw, devices) for raw in objects_at(written, "requests")]
    # A request for all devices takes one at least.
    if sum(ask.count or 1 for ask in asks) > _MOST_OF_A_CLAIM:
        raise _NotKnownError(f"devices.requests: more than {_MOST_OF_A_CLAIM} devices in one claim")
    yield from asks


def _ask(raw: Object, devices: Devices) -> _Ask:
    place = f"devices.requests[{one_line(text_at(raw, 'name'), 80)}]"
    exactly = object_at(raw, "exactly")
    # Newer versions of the API add fields, and any of them may decide which devices are taken.
    others = sorted({key for key, value in {**raw, **exactly}.items() if value and key not in _READ})
    if not exactly or others:
        raise _NotKnownError(f"{place}.{one_line(others[0] if others else 'exactly', 80)}")
    name = text_at(exactly, "deviceClassName")
    if name not in devices.classes:
        raise _NotKnownError(f"which devices DeviceClass {one_line(name, 80)} selects (give it with --queues)")
    mode = exactly.get("allocationMode") or "ExactCount"
    count = exactly.get("count") or 1
    if mode not in {"ExactCount", "All"} or not isinstance(count, int):
        raise _NotKnownError(f"{place}.allocationMode")
    selectors = (*_selectors(object_at(devices.classes[name], "spec")), *_selectors(exactly))
    return _Ask(name, selectors, count if mode == "ExactCount" else 0)


_READ: Final = frozenset(
    {"name", "exactly", "deviceClassName", "selectors", "allocationMode", "count", "tolerations"},
)
"""Fields of a request that are read; its tolerations are of taints, and devices with one are unknown."""


def _selectors(raw: Object) -> list[str]:
    return [text_at(object_at(selector, "cel"), "expression") for selector in objects_at(raw, "selectors")]


_Sets = dict[str, frozenset[Device]]
"""Devices by node."""


def _counted(
    podsets: int, asked: Sequence[tuple[int, str, _Ask]], nodes: Sequence[NodeShape], devices: Devices
) -> tuple[list[Amounts], dict[str, Amounts], dict[str, Amounts]]:
    """Amounts by podset, those of each node, and those that are free on it."""
    if devices.taken is None:
        raise _NotKnownError("which devices other claims have (kubectl get resourceclaims)")
    if devices.rules:
        raise _NotKnownError("which devices DeviceTaintRules taint")
    pools = _pools(devices.slices or ())
    known = {node.name for node in nodes}
    requests: list[dict[str, int]] = [{} for _ in range(podsets)]
    there: dict[str, dict[str, int]] = {}
    free: dict[str, dict[str, int]] = {}
    for name, sets, members in _groups(asked, pools, known):
        every = {ask.count == 0 for _, ask in members}
        if len(every) > 1:
            raise _NotKnownError("allocationMode: All beside another request for the same devices")
        for number, ask in members:
            requests[number][name] = requests[number].get(name, 0) + (ask.count or 1)
        for node, own in sets.items():
            left = own - frozenset(devices.taken)
            if True in every and len(own) > _MOST_OF_A_CLAIM:
                raise _NotKnownError(f"allocationMode: All of more than {_MOST_OF_A_CLAIM} devices")
            # allocationMode All is one unit of a node: it is free only while no other claim has any of the devices.
            there.setdefault(node, {})[name] = 1 if True in every else len(own)
            free.setdefault(node, {})[name] = int(left == own) if True in every else len(left)
    return list(requests), dict(there), dict(free)


def _groups(
    asked: Sequence[tuple[int, str, _Ask]], pools: Sequence[Sequence[Object]], nodes: Collection[str]
) -> Iterator[tuple[str, _Sets, list[tuple[int, _Ask]]]]:
    """Requests that can take the same devices, with these, and the name of the resource that they are."""
    groups: list[tuple[str, _Sets, list[tuple[int, _Ask]]]] = []
    matching: dict[tuple[str, ...], _Sets] = {}
    for number, _, ask in asked:
        # Replicated jobs mostly have the same selectors, and a cluster may have tens of thousands of devices.
        if ask.selectors not in matching:
            matching[ask.selectors] = _matching(ask, pools, nodes)
        sets = matching[ask.selectors]
        for _, other, members in groups:
            if other == sets:
                members.append((number, ask))
                break
            if any(other.get(node, frozenset()) & own for node, own in sets.items()):
                raise _NotKnownError("which request gets the devices that two of them select")
        else:
            title = f"devices of {one_line(ask.device_class, 80)}"
            again = sum(name.partition(" #")[0] == title for name, _, _ in groups)
            groups.append((f"{title} #{again + 1}" if again else title, sets, [(number, ask)]))
    yield from groups


def _pools(slices: Sequence[Object]) -> list[list[Object]]:
    """The newest slices of each pool, as their ``spec``."""
    pools: dict[tuple[str, str], list[Object]] = {}
    for raw in slices:
        spec = object_at(raw, "spec")
        pools.setdefault((text_at(spec, "driver"), text_at(object_at(spec, "pool"), "name")), []).append(spec)
    generations = []
    for (_, name), specs in pools.items():
        # A driver replaces the slices of a pool one by one, so that two generations may exist at once.
        newest = max(_number(spec, "generation") for spec in specs)
        kept = [spec for spec in specs if _number(spec, "generation") == newest]
        # The driver may be about to publish the others.
        if len(kept) != _number(kept[0], "resourceSliceCount"):
            raise _NotKnownError(f"all ResourceSlices of pool {one_line(name, 80)}, of which some are missing")
        generations.append(kept)
    return generations


def _number(spec: Object, key: str) -> int:
    return integer_at(object_at(spec, "pool"), key)


def _matching(ask: _Ask, pools: Sequence[Sequence[Object]], nodes: Collection[str]) -> _Sets:
    """The devices of each node that a request may take."""
    devices: dict[str, set[Device]] = {}
    for spec in (spec for specs in pools for spec in specs):
        node = text_at(spec, "nodeName")
        if node and node not in nodes:
            continue
        driver, pool = text_at(spec, "driver"), text_at(object_at(spec, "pool"), "name")
        for device in objects_at(spec, "devices"):
            if not _selects(ask, driver, device):
                continue
            # Only after the selectors: a field of a device that no request can get makes nothing unknown.
            others = sorted(key for key, value in device.items() if value and key not in _PLAIN)
            others += sorted(key for key, value in spec.items() if value and key not in _OF_A_NODE)
            if others or not node:
                raise _NotKnownError(f"ResourceSlices whose devices have {one_line([*others, 'no nodeName'][0], 80)}")
            devices.setdefault(node, set()).add((driver, pool, text_at(device, "name")))
    return {node: frozenset(own) for node, own in devices.items()}


_PLAIN: Final = frozenset({"name", "attributes", "capacity"})
_OF_A_NODE: Final = frozenset({"driver", "pool", "nodeName", "devices"})


def _selects(ask: _Ask, driver: str, device: Object) -> bool:
    view: dict[str, Any] | None = None
    for expression in ask.selectors:
        try:
            view = _view(driver, device) if view is None else view
        except ValueError as error:
            raise _NotKnownError(f"what devices have: {one_line(str(error), 160)}") from error
        try:
            if _compiled(expression)({"device": view}) is not True:
                return False
        except (CompileError, EvalError) as error:
            detail = one_line(f"{expression}: {error.message}", 160)
            raise _NotKnownError(f"which devices a selector of DeviceClass or request selects: {detail}") from error
    return True


# A few selectors are evaluated for each device of the cluster.
@lru_cache(maxsize=256)
def _compiled(expression: str) -> Callable[[Mapping[str, Any]], Any]:
    # It takes half a second to load, and only claims need it.
    from gangctl.cel.check import check  # noqa: PLC0415
    from gangctl.cel.environments import Environment  # noqa: PLC0415
    from gangctl.cel.meter import StepMeter  # noqa: PLC0415
    from gangctl.cel.program import compile_expression  # noqa: PLC0415
    from gangctl.cel.types import BOOL, DYN  # noqa: PLC0415

    program = compile_expression(check(expression, Environment({"device": DYN}), returns=(BOOL,)))
    # The clock never advances: steps alone are the limit, so that the answer does not depend on the machine.
    return lambda names: program.evaluate(names, {}, StepMeter(_STEPS, 1.0, lambda: 0.0))


class _Domains(dict[str, Any]):
    """Attributes or capacity by domain: an unknown one is empty, and no key (newStringInterfaceMapWithDefault)."""

    def get(self, key: Any, default: object = None) -> Any:  # noqa: ARG002 -- that of dict
        """The entries of a domain."""
        return super().get(key, {})


def _view(driver: str, device: Object) -> dict[str, Any]:
    """``device`` in a selector: attributes and capacity by domain, then by name."""
    attributes, capacity = _Domains(), _Domains()
    for name, written in object_at(device, "attributes").items():
        for value in _attribute(written):
            domain, _, own = name.rpartition("/")
            # A name without a domain is one of the driver's (parseQualifiedName).
            attributes.setdefault(domain or driver, {})[own] = value
    for name, written in object_at(device, "capacity").items():
        domain, _, own = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[own] = _quantity(written)
    shared = bool(device.get("allowMultipleAllocations"))
    return {"driver": driver, "attributes": attributes, "capacity": capacity, "allowMultipleAllocations": shared}


_KINDS: Final = frozenset({"int", "bool", "string", "ints", "bools", "strings"})
"""Of attributes that are in a selector as they are written; lists need the gate DRAListTypeAttributes."""


def _attribute(written: object) -> Iterator[Any]:
    from gangctl.cel.library.semver import parse  # noqa: PLC0415

    for kind, value in written.items() if isinstance(written, dict) else ():
        if kind in _KINDS:
            yield value
        elif kind in {"version", "versions"}:
            yield [parse(str(text)) for text in value] if isinstance(value, list) else parse(str(value))


def _quantity(written: object) -> Any:
    from gangctl.cel.library.quantity import parse  # noqa: PLC0415

    return parse(str(written.get("value", "0") if isinstance(written, dict) else "0"))

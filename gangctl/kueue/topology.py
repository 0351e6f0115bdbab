"""Topology requests in pod templates, and topology assignments in Workloads (``status.admission``).

The assignments are read apart from :mod:`gangctl.kueue.reading`: one may name thousands of nodes, and few readers want
them. Source: Kueue ``pkg/controller/jobframework/tas.go``, ``tas_validation.go``, ``apis/kueue/v1beta2`` and
``pkg/util/tas/tas_assignment.go`` of v0.19.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from gangctl.api.objects import object_at, objects_at, text_at
from gangctl.api.requests import as_integers, pod_requests
from gangctl.errors import one_line
from gangctl.kueue.consistency import TRUE
from gangctl.kueue.names import (
    PODSET_GROUP,
    SLICE_CONSTRAINTS,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
)
from gangctl.kueue.objects import Placement, QueuedWorkload
from gangctl.kueue.reading import read_workload

Mode = Literal["required", "preferred", "unconstrained", "slices"]

REQUESTS: Final = frozenset(
    {TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED, TOPOLOGY_UNCONSTRAINED, SLICE_TOPOLOGY, SLICE_CONSTRAINTS}
)
"""By these annotations Kueue takes a pod for one that it placed (``pkg/util/tas``)."""
MOST_LAYERS: Final = 3
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
_INT32: Final = 2**31 - 1
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Layer:
    """Pods in groups of ``size``, each group in one domain of ``level``, a node label."""

    level: str
    size: int


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """``level`` is that of a required or preferred domain, otherwise empty; ``layers`` are slices, the largest first.

    ``slices`` is a request with nothing but slices. Podsets of one ``group`` are placed together.
    """

    mode: Mode
    level: str = ""
    layers: tuple[Layer, ...] = ()
    group: str = ""

    @property
    def levels(self) -> tuple[str, ...]:
        """Node labels in the request."""
        return (*((self.level,) if self.level else ()), *(layer.level for layer in self.layers))

    def __str__(self) -> str:
        where = [f"{self.mode} {_short(self.level)}" if self.level else self.mode] if self.mode != "slices" else []
        return ", ".join([*where, *(f"slices of {layer.size} in {_short(layer.level)}" for layer in self.layers)])


def read_request(notes: Mapping[str, str], pods: int) -> tuple[TopologyRequest | None, tuple[str, ...]]:
    """The request in annotations of a pod template, and why Kueue's webhook rejects it.

    ``pods`` are those of the podset. None without a request. With errors the request is as far as it can be read.
    """
    problems: list[str] = []
    modes = [key for key in (TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED, TOPOLOGY_UNCONSTRAINED) if key in notes]
    if len(modes) > 1:
        problems.append(f"{modes[0]} and {modes[1]} exclude each other; keep one")
    layers = tuple(_layers(notes, pods, problems))
    request = None
    match modes[:1]:
        case [key] if key == TOPOLOGY_UNCONSTRAINED:
            if notes[key] in TRUE:
                request = TopologyRequest("unconstrained", layers=layers)
            elif notes[key] in _FALSE:
                problems.append(f'{key} is "{notes[key]}", which asks for a level that no topology has; remove it')
            else:
                problems.append(f'{key} is "{_short(notes[key])}", not true or false')
        case [key]:
            mode: Mode = "required" if key == TOPOLOGY_REQUIRED else "preferred"
            request = TopologyRequest(mode, notes[key], layers, notes.get(PODSET_GROUP, ""))
            if not notes[key]:
                problems.append(f"{key} is empty; name a node label")
        case _ if layers:
            request = TopologyRequest("slices", layers=layers)
    if PODSET_GROUP in notes:
        problems += _group_problems(notes)
    return request, tuple(problems)


def _layers(notes: Mapping[str, str], pods: int, problems: list[str]) -> Iterator[Layer]:
    """Slices, the outermost first, as far as they can be read."""
    if SLICE_CONSTRAINTS in notes:
        for other in (SLICE_TOPOLOGY, SLICE_SIZE, PODSET_GROUP):
            if other in notes:
                problems.append(f"{SLICE_CONSTRAINTS} and {other} exclude each other; keep one")
        layers = list(_written_layers(notes[SLICE_CONSTRAINTS], problems))
    elif SLICE_TOPOLOGY in notes and SLICE_SIZE in notes:
        size = _integer(notes[SLICE_SIZE])
        if size is None:
            problems.append(f'{SLICE_SIZE} is "{_short(notes[SLICE_SIZE])}", not a whole number from 1')
            return
        layers = [Layer(notes[SLICE_TOPOLOGY], size)]
    else:
        for key, other in ((SLICE_TOPOLOGY, SLICE_SIZE), (SLICE_SIZE, SLICE_TOPOLOGY)):
            if key in notes:
                problems.append(f"{key} needs {other} beside it")
        return
    if layers and layers[0].size > pods:
        problems.append(f"a slice has {layers[0].size} pods, and the podset {pods}; ask for slices of {pods} at most")
    yield from layers


def _written_layers(text: str, problems: list[str]) -> Iterator[Layer]:
    try:
        entries = json.loads(text)
    # The json module raises RecursionError for nesting that fits into one annotation.
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list) or not 1 <= len(entries) <= MOST_LAYERS:
        problems.append(f"{SLICE_CONSTRAINTS} is not a JSON list of 1 to {MOST_LAYERS} objects with topology and size")
        return
    above, seen = 0, set[str]()
    for number, entry in enumerate(entries):
        level, size = (entry.get("topology"), _size(entry.get("size"))) if isinstance(entry, dict) else (None, None)
        if not isinstance(level, str) or not level or size is None:
            problems.append(f"{SLICE_CONSTRAINTS}[{number}] needs topology, a node label, and size, a number from 1")
            return
        if level in seen:
            problems.append(f"{SLICE_CONSTRAINTS}[{number}] names {_short(level)} a second time")
        # The first layer has none above it, and any size divides 0.
        if above % size:
            problems.append(f"{SLICE_CONSTRAINTS}[{number}] has size {size}, which does not divide {above} above it")
        seen.add(level)
        above = size
        yield Layer(level, size)


def _size(value: object) -> int | None:
    valid = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _INT32
    return value if valid and isinstance(value, int) else None


def _integer(text: str) -> int | None:
    # strconv.ParseInt accepts a sign.
    digits = text.removeprefix("+")
    # int() raises ValueError for thousands of digits, which fit into an annotation.
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _SHOWN:
        return None
    return value if 1 <= (value := int(digits)) <= _INT32 else None


def _group_problems(notes: Mapping[str, str]) -> Iterator[str]:
    if notes[PODSET_GROUP].isascii() and notes[PODSET_GROUP].isdecimal():
        yield f'{PODSET_GROUP} is "{_short(notes[PODSET_GROUP])}"; it must not be a number'
    if SLICE_TOPOLOGY in notes or SLICE_SIZE in notes:
        yield f"{PODSET_GROUP} and slices exclude each other; keep one"
    if TOPOLOGY_REQUIRED not in notes and TOPOLOGY_PREFERRED not in notes:
        yield f"{PODSET_GROUP} needs {TOPOLOGY_REQUIRED} or {TOPOLOGY_PREFERRED} beside it"


def group_problems(members: Sequence[tuple[str, int, TopologyRequest]]) -> Iterator[str]:
    """Why Kueue's webhook rejects a group of podsets: names, pods and requests of all of them."""
    listed = " and ".join(f'"{name}"' for name, _, _ in members)
    if len(members) != 2:  # noqa: PLR2004 -- a leader and its workers
        yield f"{PODSET_GROUP} of {listed} is not of two podsets, which Kueue requires"
        return
    (_, one, first), (_, other, second) = members
    if 1 not in (one, other):
        yield f"{PODSET_GROUP} of {listed} has no podset with one pod, which Kueue requires"
    if (first.mode, first.level) != (second.mode, second.level):
        yield f"{listed} of one {PODSET_GROUP} ask for different topologies; ask for the same"


def _short(value: str) -> str:
    return one_line(value, _SHOWN)


def with_placements(raw: Mapping[str, Any]) -> QueuedWorkload:
    """A Workload with its topology assignments; InputError when it has no name. Total otherwise."""
    templates = {_name(pod_set): pod_set for pod_set in objects_at(object_at(raw, "spec"), "podSets")}
    admission = object_at(object_at(raw, "status"), "admission")
    placements = []
    for assignment in objects_at(admission, "podSetAssignments"):
        written = object_at(assignment, "topologyAssignment")
        levels = written.get("levels")
        if not isinstance(levels, list):
            continue
        template = object_at(templates.get(_name(assignment), {}), "template")
        placements.append(
            Placement(
                frozenset(flavor for flavor in object_at(assignment, "flavors").values() if isinstance(flavor, str)),
                tuple(sys.intern(str(level)) for level in levels),
                _domains(written),
                # NewRequestsFromPodSpec: Kueue excludes and transforms nothing of what it places.
                as_integers(pod_requests(object_at(template, "spec"))[0]),
                template,
            )
        )
    return replace(read_workload(raw), placements=tuple(placements))


def _name(raw: Mapping[str, Any]) -> str:
    """That of a podset; its default is in the type of both fields."""
    return text_at(raw, "name") or "main"


def _domains(written: Mapping[str, Any]) -> dict[tuple[str, ...], int]:
    """Pods by the values of a domain, over all slices."""
    domains: dict[tuple[str, ...], int] = {}
    for part in objects_at(written, "slices"):
        columns = [list(_values(level)) for level in objects_at(part, "valuesPerLevel")]
        for number in range(max(map(len, columns), default=0)):
            values = tuple(_at(column, number) for column in columns)
            domains[values] = domains.get(values, 0) + _count(part.get("podCounts"), number)
    return domains


def _values(written: Mapping[str, Any]) -> Iterator[str]:
    """Values of one level: one for all domains, or one for each."""
    universal, individual = written.get("universal"), object_at(written, "individual")
    if isinstance(universal, str):
        yield sys.intern(universal)
        return
    prefix, suffix = individual.get("prefix") or "", individual.get("suffix") or ""
    roots = individual.get("roots")
    for root in roots if isinstance(roots, list) else ():
        yield sys.intern(f"{prefix}{root}{suffix}")


def _at(column: list[str], number: int) -> str:
    if len(column) == 1:
        return column[0]
    return column[number] if number < len(column) else ""


def _count(written: object, number: int) -> int:
    counts = written if isinstance(written, dict) else {}
    universal, individual = counts.get("universal"), counts.get("individual")
    if isinstance(individual, list) and number < len(individual):
        universal = individual[number]
    return universal if isinstance(universal, int) and not isinstance(universal, bool) else 0

"""Topology assignments of Kueue's Workloads (``status.admission.podSetAssignments[].topologyAssignment``).

They are read apart from :mod:`gangctl.kueue.reading`: one may name thousands of nodes, and few readers want them.
Source: Kueue ``apis/kueue/v1beta2/workload_types.go`` and ``pkg/util/tas/tas_assignment.go`` of v0.19.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gangctl.api.objects import object_at, objects_at
from gangctl.gang.requests import as_integers, pod_requests
from gangctl.kueue.objects import Placement, QueuedWorkload
from gangctl.kueue.reading import read_workload


def with_placements(raw: Mapping[str, Any]) -> QueuedWorkload:
    """A Workload with its topology assignments; InputError when it has no name. Total otherwise."""
    templates = {each.get("name", "main"): each for each in objects_at(object_at(raw, "spec"), "podSets")}
    admission = object_at(object_at(raw, "status"), "admission")
    found = []
    for assignment in objects_at(admission, "podSetAssignments"):
        written = object_at(assignment, "topologyAssignment")
        levels = written.get("levels")
        if not isinstance(levels, list):
            continue
        template = object_at(templates.get(assignment.get("name"), {}), "template")
        found.append(
            Placement(
                frozenset(each for each in object_at(assignment, "flavors").values() if isinstance(each, str)),
                tuple(sys.intern(str(level)) for level in levels),
                _domains(written),
                as_integers(pod_requests(object_at(template, "spec"))[0]),
            )
        )
    return replace(read_workload(raw), placements=tuple(found))


def _domains(written: Mapping[str, Any]) -> dict[tuple[str, ...], int]:
    """Pods by the values of a domain, over all slices."""
    domains: dict[tuple[str, ...], int] = {}
    for part in objects_at(written, "slices"):
        columns = [list(_values(each)) for each in objects_at(part, "valuesPerLevel")]
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

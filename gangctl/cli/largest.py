"""``gangctl fit --largest``: how many pods of a JobSet's shapes fit now, from the objects that ``fit`` reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Final

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import API_VERSION
from gangctl.api.objects import objects_at, within
from gangctl.api.pods import HOSTNAME
from gangctl.cli.fitting import FitSubject, amounts, neighbours_of, started_anew
from gangctl.cli.messages import full_name
from gangctl.cli.output import Section, Table
from gangctl.cluster.stock import Stock
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.largest import (
    KIND,
    MOST,
    CountRange,
    LargestReport,
    RoomReport,
    ShapeOnNodes,
    ShapeReport,
    alone,
    room_report,
)
from gangctl.fit.nodes import topologies_of
from gangctl.fit.report import FitReport, Verdict
from gangctl.fit.requests import podsets_of
from gangctl.fit.room import highest

ZONE: Final = "topology.kubernetes.io/zone"


def largest_of(subject: FitSubject, stock: Stock) -> LargestReport:
    """How many pods of each replicated job fit now, each without the others; the JobSet's own pods do not count."""
    jobset = read_jobset(subject.raw)[0]
    # read_jobset leaves out a list that is too long.
    topologies = itertools.chain(topologies_of(jobset), itertools.repeat(""))
    entries = range(len(_entries(subject)))
    shapes = [_Asked(subject, stock, index, topology) for index, topology in zip(entries, topologies, strict=False)]
    first = shapes[0].least if shapes else None
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": subject.name or jobset.generate_name, "namespace": subject.namespace},
        "queue": first["queue"] if first else subject.queue,
        "clusterQueue": first["clusterQueue"] if first else "",
        "podSets": [shape.shape() for shape in shapes],
    }


def _entries(subject: FitSubject) -> list[dict[str, object]]:
    return objects_at(within(subject.raw, "spec"), "replicatedJobs")


class _Asked:
    """The pods of one replicated job."""

    def __init__(self, subject: FitSubject, stock: Stock, index: int, topology: str) -> None:
        self._subject, self._stock, self._index, self._topology = subject, stock, index, topology
        # Each report is a whole fit, and both searches of `_gang` ask for the same counts.
        self.report = cache(self._report)
        (podset,) = podsets_of(self._subject_of(MOST).raw)
        layers = podset.topology.layers if podset.topology is not None else ()
        # Kueue rejects fewer pods than one slice, and gives those beyond whole slices no node.
        self._slice = layers[0].size if layers else 1

    @property
    def least(self) -> FitReport:
        """The report on as few pods as there can be."""
        return self.report(self._slice)

    def _subject_of(self, pods: int) -> FitSubject:
        return replace(self._subject, raw=alone(self._subject.raw, self._index, self._topology, pods))

    def _report(self, pods: int) -> FitReport:
        """What ``gangctl fit`` says of so many of them."""
        # Without nodes the quota alone is asked, and the nodes are listed as unknown.
        return started_anew(self._subject_of(pods), self._stock, fixed_nodes=self._stock.nodes_known).report

    def shape(self) -> ShapeReport:
        """All that is known of them."""
        one = self.least
        unknown = list(one["unknown"])
        rooms: list[RoomReport] = []
        shape = self._on_nodes() if self._stock.nodes_known else None
        if shape is not None:
            rooms += shape.rooms(self._levels())
            unknown += shape.unknown
        else:
            unknown.append("what the nodes have room for")
        gang = self._gang()
        flavors = list(self._flavors(one, shape))
        podset = one["podSets"][0] if one["podSets"] else None
        return {
            "name": self._name(),
            "requests": shape.requests_report if shape is not None else dict(podset["requests"]) if podset else {},
            # The last of the rooms is all nodes, which flavors are parts of.
            "rooms": [*rooms[:-1], *flavors, *rooms[-1:], gang],
            "unknown": list(dict.fromkeys(unknown)),
        }

    def _name(self) -> str:
        return str(_entries(self._subject)[self._index].get("name") or "")

    def _on_nodes(self) -> ShapeOnNodes:
        subject = self._subject_of(1)
        key = subject.namespace, subject.name
        request = FitRequest(subject.raw, subject.namespace, None, "")
        surroundings = self._stock.snapshot.surroundings(subject.namespace)
        neighbours = neighbours_of(self._stock, key, subject.uid, subject.has)
        return ShapeOnNodes(request, self._stock.nodes, surroundings, neighbours)

    def _levels(self) -> list[str]:
        """Node labels whose values are domains: the gang's own, those of Topologies, and zones where there are any."""
        snapshot = self._stock.snapshot
        levels = [self._topology] if self._topology else []
        levels += [level for flavor in snapshot.flavors() for level in snapshot.levels(flavor.name) or ()]
        levels += [ZONE] if any(ZONE in node.labels for node in self._stock.nodes) else []
        # A domain of the host name is one node, which has a row of its own.
        return [level for level in dict.fromkeys(levels) if level != HOSTNAME]

    def _flavors(self, one: FitReport, shape: ShapeOnNodes | None) -> Iterator[RoomReport]:
        """Each flavor that the queue has for these pods, or without a queue each flavor."""
        quotas: dict[str, int] = {}
        podset = one["podSets"][0] if one["podSets"] else None
        requests = podset["requests"] if podset is not None else {}
        for limit in one["limits"] if one["clusterQueue"] else ():
            if limit["flavor"] and (asked := requests.get(limit["resource"], 0)) > 0:
                pods = min(MOST, limit["free"] // asked)
                quotas[limit["flavor"]] = min(quotas.get(limit["flavor"], pods), pods)
        refused = podset["refused"] if podset is not None and one["clusterQueue"] else {}
        for flavor in self._stock.snapshot.flavors():
            if flavor.name in refused:
                yield room_report("flavor", CountRange(), refused[flavor.name], name=flavor.name)
                continue
            quota = quotas.get(flavor.name)
            if one["clusterQueue"] and quota is None:
                continue
            span = shape.on_flavor(flavor) if shape is not None else None
            if span is None or (quota is not None and quota < span.pods):
                most = MOST if quota is None else quota
                yield room_report("flavor", CountRange(most, most), "quota", name=flavor.name)
            else:
                possible = span.possible if quota is None else min(span.possible, quota)
                yield room_report("flavor", CountRange(span.pods, possible), "nodes", name=flavor.name)

    def _gang(self) -> RoomReport:
        """The largest gang of these pods alone that ``gangctl fit`` lets start."""

        def verdict(slices: int) -> Verdict:
            return self.report(slices * self._slice)["verdict"]

        most = MOST // self._slice
        possible = highest(lambda slices: verdict(slices) in {"fits", "unknown"}, most)
        # What fits for certain is at most what may fit.
        certain = highest(lambda slices: verdict(slices) == "fits", possible)
        why = ""
        if certain < most:
            pods = (certain + 1) * self._slice
            words = "may not" if verdict(certain + 1) == "unknown" else "would not"
            why = f"{pods} {words}: {self.report(pods)['message']}"
        return room_report("gang", CountRange(certain * self._slice, possible * self._slice), why)


_WHERE: Final = {
    "node": "one node",
    "domain": "one domain of {level}",
    "flavor": "flavor {name}",
    "cluster": "all nodes",
    "gang": "gang",
}
_LEGEND: Final = (
    "MOST: the node or domain with the most room. PODS: those that fit there at once now. UP-TO: those that may, "
    "if the scheduler chooses the right nodes. LIMIT: what one pod more does not find."
)


def largest_sections(report: LargestReport) -> list[Section]:
    """The sections to print."""
    identity = report["metadata"]
    lines = (f"LocalQueue {report['queue']}, ClusterQueue {report['clusterQueue']}",) if report["clusterQueue"] else ()
    title = f"JobSet {full_name(identity['namespace'], identity['name'])}: largest gangs that fit now"
    return [Section(title, lines), *map(_section, report["podSets"])]


def _section(shape: ShapeReport) -> Section:
    rows = tuple(
        (
            _WHERE[room["scope"]].format(**room),
            room["name"] if room["scope"] in {"node", "domain"} else "",
            str(room["pods"]),
            str(room["possible"]) if room["possible"] != room["pods"] else "",
            room["limit"],
        )
        for room in shape["rooms"]
    )
    return Section(
        f"Pods of {shape['name']}: each {amounts(shape['requests'].items()) or 'requests nothing'}",
        table=Table(("WHERE", "MOST", "PODS", "UP-TO", "LIMIT"), rows),
        warnings=tuple(f"not known: {fact}" for fact in shape["unknown"]),
        legend=_LEGEND,
    )

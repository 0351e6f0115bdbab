"""A handful of objects that take gangctl's writes as an API server would, and refuse what one would refuse."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from gangctl.api.scheduling import ApiState, CompositePodGroup, Generation, Observed, PodGroup, Workload, observe
from gangctl.api.scheduling_versions import ADAPTERS, composite_pod_group
from gangctl.gang.diff import Change, Create, Existing, Kind, SetMinCounts
from gangctl.gang.plan import GangPlan

Raw = dict[str, Any]


class Refused(Exception):  # noqa: N818 - it says what happened to the write
    """A write that a real API server would answer with an error, or that touches somebody else's object."""


class Store:
    """Workloads and groups of one namespace, by kind and name; ``parents`` is the version of CompositePodGroups."""

    def __init__(self, generation: Generation, objects: Iterable[Raw] = (), parents: str = "v1alpha3") -> None:
        self.generation = generation
        self.capabilities = ApiState(generation, parents=parents).capabilities
        self.adapter = ADAPTERS[generation]
        self.objects: dict[tuple[str, str], Raw] = {}
        self.writes: list[Change] = []
        self._uids = 0
        for raw in objects:
            self.add(raw)

    def add(self, raw: Raw) -> None:
        """Put an object there, whoever made it."""
        self._uids += 1
        added = copy.deepcopy(raw)
        added["metadata"] |= {"uid": f"uid-{self._uids}", "resourceVersion": str(self._uids)}
        self.objects[raw["kind"], raw["metadata"]["name"]] = added

    def entries(self, kind: Kind, name: str) -> list[Raw]:
        """The parts of an object that hold a gang policy."""
        spec = self.objects[kind, name]["spec"]
        if kind != "Workload":
            return [spec["schedulingPolicy"]]
        if self.generation is Generation.V1ALPHA1:
            return [entry["policy"] for entry in spec["podGroups"]]
        above = spec["compositePodGroupTemplates"][0] if "compositePodGroupTemplates" in spec else spec
        return [entry["schedulingPolicy"] for entry in above["podGroupTemplates"]]

    def set_min_counts(self, kind: Kind, name: str, counts: Iterable[tuple[int, int]]) -> None:
        """Change minCounts by (list index, value)."""
        entries = self.entries(kind, name)
        field = "minGroupCount" if kind == "CompositePodGroup" else "minCount"
        for index, value in counts:
            entries[index]["gang"][field] = value

    def observed(self, kind: Kind, name: str) -> Observed | None:
        """What gangctl keeps of an object."""
        raw = self.objects.get((kind, name))
        return None if raw is None else observe(self.adapter, kind, raw)

    def existing(self, plan: GangPlan) -> Existing:
        """What a controller hands to ``diff``: what holds the plan's names, and PodGroups that the JobSet controls."""
        planned = {group.name for group in plan.groups}
        groups: dict[str, Observed] = {}
        for kind, name in self.objects:
            found = self.observed("PodGroup", name) if kind == "PodGroup" else None
            if found is not None and (name in planned or found.owner_uid == plan.uid):
                groups[name] = found
        composites = {
            name: found
            for kind, name in self.objects
            if kind == "CompositePodGroup" and (found := self.observed("CompositePodGroup", name)) is not None
        }
        return Existing(self.observed("Workload", plan.workload.name), groups, composites)

    def apply(self, change: Change, uid: str) -> None:
        """One write on behalf of the JobSet with this UID."""
        self.writes.append(change)
        if isinstance(change, Create):
            self._create(change)
            return
        found = self.observed(change.kind, change.name)
        if found is None or found.uid != change.observed.uid:
            raise Refused(f"{change.kind} {change.name} is not the one observed")
        if found.owner_uid != uid:
            raise Refused(f"{change.kind} {change.name} belongs to {found.owner_uid or 'nobody'}")
        if isinstance(change, SetMinCounts):
            self._resize(change, found)
        else:
            del self.objects[change.kind, change.name]

    def _create(self, change: Create) -> None:
        if (change.kind, change.name) in self.objects:
            raise Refused(f"{change.kind} {change.name} already exists")
        wanted = change.wanted
        if isinstance(wanted, Workload):
            self.add(self.adapter.workload(wanted))
        elif isinstance(wanted, CompositePodGroup):
            self.add(composite_pod_group(wanted))
        else:
            self._require_template(wanted)
            self.add(self.adapter.pod_group(wanted))

    def _require_template(self, group: PodGroup) -> None:
        """Admission plugin PodGroupWorkloadExists."""
        workload = self.observed("Workload", group.workload)
        if workload is None or workload.deleting or group.template.name not in dict(workload.min_counts):
            raise Refused(f"PodGroup {group.name}: no Workload {group.workload} with template {group.template.name}")

    def _resize(self, change: SetMinCounts, found: Observed) -> None:
        allowed = self.capabilities
        if not (allowed.group_count_mutable if change.kind == "CompositePodGroup" else allowed.min_count_mutable):
            raise Refused(f"{change.kind} {change.name}: {change.field} is immutable")
        for index, template, old, new in change.counts:
            if found.min_counts[index] != (template, old) or new < 1:
                raise Refused(f"{change.kind} {change.name}: {change.counts} against {found.min_counts}")
        self.set_min_counts(change.kind, change.name, [(index, new) for index, _, _, new in change.counts])

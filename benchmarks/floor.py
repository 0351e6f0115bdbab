"""What gangs cost Kubernetes by themselves: JobSets with their Workloads and PodGroups, without gangctl.

The objects are those that gangctl would write, prepared before the time is measured and sent by a plain client. The
pods of the JobSets name their groups in their templates, which JobSet 0.12 keeps from Kubernetes 1.36 on: so nothing
has to write that at the admission of a Job.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from uuid import NAMESPACE_URL, uuid5

from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import generation_of_minor
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.gang.plan import build_objects, make_plan
from gangctl.gang.resolve import ClusterRules, resolve
from tests.controlplane.api import Object
from tests.live.cluster import Cluster

PLURALS = {"Workload": "workloads", "PodGroup": "podgroups"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A JobSet, and the objects of its gangs, which get its UID as their owner's."""

    jobset: Object
    objects: Sequence[Object]

    async def create(self, cluster: Cluster) -> None:
        """Create all of them, one after the other."""
        uid = (await cluster.create_jobset(self.jobset))["metadata"]["uid"]
        for each in self.objects:
            for owner in each["metadata"]["ownerReferences"]:
                owner["uid"] = uid
            await cluster.api.create(cluster.scheduling(PLURALS[each["kind"]]), each)


def prepare(raw: Object, namespace: str, minor: str) -> Prepared:
    """The objects of a JobSet that asks for gangs; its annotations are left out, so that gangctl would ignore it."""
    generation = generation_of_minor(minor)
    assert generation is not None
    placed = {**raw, "metadata": {**raw["metadata"], "namespace": namespace}}
    jobset, _ = read_jobset(placed)
    found = resolve(jobset, ClusterRules(generation))
    plan = make_plan(jobset, found.stamps, found.config, str(uuid5(NAMESPACE_URL, jobset.name)))
    assert plan is not None
    plain, adapter = deepcopy(raw), ADAPTERS[generation]
    references = {job.replicated_job: job.reference for job in plan.jobs()}
    for entry in plain["spec"]["replicatedJobs"]:
        entry["template"].pop("metadata", None)
        reference = references[entry["name"]]
        assert reference is not None
        entry["template"]["spec"]["template"]["spec"][adapter.reference_field] = adapter.reference(reference)
    return Prepared(plain, build_objects(plan, generation))

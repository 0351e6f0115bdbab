"""What the live tests read from a cluster, whatever its API generation: gangs by scope, references by Job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cases import object_name
from tests.controlplane.api import UNREACHABLE, ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import REF, jobset, rj

JOBSETS = "jobset.x-k8s.io/v1alpha2"
VERSIONS = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1"}


def on(*minors: str) -> pytest.MarkDecorator:
    """Run a test on the planes of these minors, and on no others."""
    params = [pytest.param(minor, marks=pytest.mark.minor(minor), id=minor) for minor in minors]
    return pytest.mark.parametrize("plane", params, indirect=True, scope="session")


@dataclass
class Gangs:
    """Workloads and PodGroups of one namespace, and the references of its Jobs."""

    workloads: dict[str, Object] = field(default_factory=dict)
    groups: dict[str, Object] = field(default_factory=dict)
    references: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Names of all objects."""
        return {*self.workloads, *self.groups}

    def uids(self) -> dict[str, str]:
        """UID by name."""
        return {name: o["metadata"]["uid"] for name, o in {**self.workloads, **self.groups}.items()}

    def min_counts(self, workload: str) -> dict[str, int]:
        """minCount by template of a Workload."""
        spec = self.workloads[workload]["spec"]
        entries = spec.get("podGroups") or spec.get("podGroupTemplates")
        return {e["name"]: (e.get("policy") or e.get("schedulingPolicy"))["gang"]["minCount"] for e in entries}

    def group_min_count(self, group: str) -> int:
        """minCount of a PodGroup."""
        count: int = self.groups[group]["spec"]["schedulingPolicy"]["gang"]["minCount"]
        return count

    def template_of(self, group: str) -> str:
        """Template that a PodGroup refers to."""
        spec = self.groups[group]["spec"]
        if "workloadRef" in spec:
            return str(spec["workloadRef"]["templateName"])
        return str(spec["podGroupTemplateRef"]["workload"]["podGroupTemplateName"])


class Cluster:
    """Reads and writes of one namespace, as the administrator."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        """Look at ``namespace`` of ``plane``."""
        self.plane = plane
        self.api = plane.api
        self.namespace = namespace
        self.minor = plane.minor.name
        self.version = VERSIONS[self.minor]
        self.has_groups = self.minor != "1.35"

    @property
    def keeps_topology(self) -> bool:
        """Whether groups can have topology constraints here."""
        return self.plane.options.gates.get("TopologyAwareWorkloadScheduling", False)

    @property
    def room(self) -> dict[str, dict[str, str]]:
        """The fields of a pod's spec that place it on the nodes of this namespace only."""
        return {"nodeSelector": {"room": self.namespace}}

    def path(self, api_version: str, plural: str, name: str | None = None) -> str:
        """Path of a collection or object in the namespace."""
        return path_of(api_version, plural, namespace=self.namespace, name=name)

    def scheduling(self, plural: str, name: str | None = None) -> str:
        """Path in the served version of ``scheduling.k8s.io``."""
        return self.path(f"scheduling.k8s.io/{self.version}", plural, name)

    async def create_jobset(self, raw: Object, *, dry_run: bool = False) -> Object:
        """Create a JobSet here, whatever namespace it was built for."""
        body = {**raw, "metadata": {**raw["metadata"], "namespace": self.namespace}}
        parameters = {"dryRun": "All"} if dry_run else {}
        return await self.api.create(self.path(JOBSETS, "jobsets"), body, **parameters)

    async def asked(self) -> None:
        """Wait until gangctl is asked about gangs here: that it is registered API servers notice a moment later."""
        gang = jobset("asked", rj("w", 1, 1, 1, mode="Gang"))

        async def stamped() -> bool:
            if REF not in str(await self.create_jobset(gang, dry_run=True)):
                raise NotYet("a gang passes without its stamp")
            return True

        # Its two webhooks are noticed one after the other, and the second misses what the first had not done.
        await wait_for(stamped, what="gangctl to be asked", tolerate=(ApiFailure, *UNREACHABLE))

    async def patch_jobset(self, name: str, patch: Object) -> Object:
        """Merge-patch a JobSet."""
        return await self.api.patch(self.path(JOBSETS, "jobsets", name), patch)

    async def jobset(self, name: str) -> Object:
        """Read a JobSet."""
        return await self.api.get(self.path(JOBSETS, "jobsets", name))

    async def jobs(self) -> dict[str, Object]:
        """Jobs by name."""
        return {job["metadata"]["name"]: job for job in await self.api.list(self.path("batch/v1", "jobs"))}

    async def pods(self) -> list[Object]:
        """All pods."""
        return await self.api.list(self.path("v1", "pods"))

    async def gangs(self) -> Gangs:
        """Everything about gangs in the namespace now."""
        gangs = Gangs({o["metadata"]["name"]: o for o in await self.api.list(self.scheduling("workloads"))})
        if self.has_groups:
            gangs.groups = {o["metadata"]["name"]: o for o in await self.api.list(self.scheduling("podgroups"))}
        gangs.references = {name: reference_of(job) for name, job in (await self.jobs()).items()}
        return gangs

    async def events(self, jobset: str | None = None) -> list[Object]:
        """gangctl's events, of one JobSet or all."""
        events = await self.api.list(self.path("events.k8s.io/v1", "events"))
        return [
            e
            for e in events
            if e.get("reportingController") == "gangctl.dev/gangctl"
            and (jobset is None or e["regarding"]["name"] == jobset)
        ]

    async def reasons(self, jobset: str | None = None) -> list[str]:
        """Reasons of gangctl's events, one for each."""
        return sorted(e["reason"] for e in await self.events(jobset))

    def writes(self, user: str, since: int) -> list[str]:
        """What a user wrote in this namespace: ``create workloads``, without events, in the order of the requests."""
        # An entry may come into the log after that of a request which began when the first had been answered.
        entries = sorted(self.plane.writes_by(user, since).objects, key=lambda e: str(e["requestReceivedTimestamp"]))
        return [
            f"{entry['verb']} {entry['objectRef']['resource']}"
            for entry in entries
            if entry["objectRef"].get("namespace") == self.namespace
        ]

    def expected_reference(self, jobset: str, uid: str, scope: str, template: str, attempt: int = 0) -> dict[str, str]:
        """The reference that a Job in a group of this scope carries on this minor."""
        if self.has_groups:
            return {"podGroupName": object_name(jobset, uid, scope, attempt)}
        index = f"{scope.rpartition('/')[2]}-" if scope.startswith("job/") else ""
        workload = object_name(jobset, uid, "workload")
        return {"name": workload, "podGroup": template, "podGroupReplicaKey": f"{index}{attempt}"}


def reference_of(job: Object) -> Any:
    """The scheduling reference in a Job's pod template, of either generation, or None."""
    spec = job["spec"]["template"]["spec"]
    return spec.get("schedulingGroup") or spec.get("workloadRef")


async def refused(request: Any) -> ApiFailure:
    """The failure that a request must end with."""
    try:
        await request
    except ApiFailure as failure:
        return failure
    raise AssertionError("the request was accepted")

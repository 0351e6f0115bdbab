"""A namespace on the shared plane with PathwaysJobs in it, and the gangctl that follows them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from gangctl.pathways.words import API_VERSION, KIND, PLURAL, UPSTREAM_LEASE
from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.live.cluster import JOBSETS, Cluster
from tests.live.gangctl import Gangctl
from tests.live.rights import Right, refusals
from tests.pathways.samples import pathways_job

ALL: Final = path_of(API_VERSION, PLURAL)
_REFUSED: Final = 400
LEASES: Final = "coordination.k8s.io/v1"


class PathwaysPlace(Cluster):
    """What a test does there, and what it sees."""

    def __init__(self, plane: ControlPlane, namespace: str, gangctl: Gangctl) -> None:
        super().__init__(plane, namespace)
        self.gangctl = gangctl
        self.began = plane.audit_position

    def job_path(self, name: str = "pw") -> str:
        return self.path(API_VERSION, PLURAL, name)

    async def submit(self, name: str = "pw", **changes: Any) -> Object:
        """Create a PathwaysJob of one slice with two VMs."""
        workers = {"numSlices": 1, **changes.pop("workers", {})}
        raw = pathways_job(name, workers=workers, **changes)
        raw["metadata"]["namespace"] = self.namespace
        return await self.api.create(self.path(API_VERSION, PLURAL), raw)

    async def job(self, name: str = "pw") -> Object:
        return await self.api.get(self.job_path(name))

    async def delete_job(self, name: str = "pw") -> None:
        await self.api.delete(self.job_path(name), propagation="Background")

    async def found_jobset(self, name: str = "pw") -> Object | None:
        return await self.api.found(self.path(JOBSETS, "jobsets", name))

    async def stands(self, wanted: str, name: str = "pw") -> Object:
        """Wait until a status is ``PHASE REASON``, or just the phase; returns the status."""

        async def said() -> Object:
            status: Object = (await self.job(name)).get("status", {})
            held = [each for each in status.get("conditions", []) if each["status"] == "True"]
            seen = [f"{each['type']} {each['reason']}" for each in held]
            if len(seen) != 1 or wanted not in {seen[0], held[0]["type"]}:
                raise NotYet(f"{seen}")
            return status

        return await wait_for(said, f"{name} to be {wanted}")

    async def no_jobset(self, name: str = "pw") -> None:
        await read_until(lambda: self.found_jobset(name), lambda jobset: jobset is None, f"JobSet {name} to be gone")

    async def counted(self, number: int, **labels: str) -> None:
        """Wait until gangctl counts so many PathwaysJobs here."""
        await read_until(
            lambda: self.gangctl.metric("gangctl_pathways_jobs", {"namespace": self.namespace, **labels}),
            lambda value: value == number,
            f"{number} PathwaysJobs {labels} to be counted",
        )

    def written(self) -> list[str]:
        """What gangctl has written here of JobSets and PathwaysJobs; what was refused does not count."""
        entries = self.plane.writes_by(self.gangctl.user, self.began).objects
        found = [(each["verb"], each["objectRef"]) for each in entries if each["responseStatus"]["code"] < _REFUSED]
        wanted = {"jobsets", PLURAL}
        here = [(verb, to["resource"]) for verb, to in found if to.get("namespace") == self.namespace]
        return [f"{verb} {resource}" for verb, resource in here if resource in wanted]

    async def wrote(self, wanted: Callable[[list[str]], bool]) -> None:
        """Wait until the audit log has it: an answer may be there before its entry is."""

        async def logged() -> bool:
            if not wanted(written := self.written()):
                raise NotYet(str(written))
            return True

        await wait_for(logged, what="gangctl's writes")

    # The upstream controller

    async def stood_down(self, *, down: bool) -> None:
        async def so() -> bool:
            return await self.gangctl.metric("gangctl_pathways_deferring") == down

        await wait_for(so, what=f"gangctl to {'stand down' if down else 'take over'}")

    @asynccontextmanager
    async def upstream(self) -> AsyncIterator[None]:
        """Its leader holds the Lease here, and gives it back."""
        path = self.path(LEASES, "leases", UPSTREAM_LEASE)
        spec = {"holderIdentity": "upstream", "leaseDurationSeconds": 600}
        body = {"apiVersion": LEASES, "kind": "Lease", "metadata": {"name": UPSTREAM_LEASE}, "spec": spec}
        await self.api.create(self.path(LEASES, "leases"), body)
        try:
            await self.stood_down(down=True)
            yield
        finally:
            await self.api.patch(path, {"spec": {"holderIdentity": ""}})
        await self.stood_down(down=False)

    # Rights

    async def misses(self, rights: Iterable[Right], since: int) -> None:
        """Wait until the API server has refused something for want of each of these."""

        async def refused() -> bool:
            audited = self.plane.audit(since)
            own = refusals(entry for entry in audited if entry["user"].get("username") == self.gangctl.user)
            missing = [str(right) for right in rights if not any(right.covers(entry) for entry in own)]
            if missing:
                raise NotYet(f"not missed yet: {missing}")
            return True

        await wait_for(refused, what="gangctl to miss its rights")


def foreign_jobset(name: str = "pw", owner: Object | None = None) -> Object:
    """A JobSet of two ReplicatedJobs, suspended, that gangctl has not made."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    jobs = [{"name": each, "template": {"spec": {"template": {"spec": pod}}}} for each in ("pathways-head", "worker")]
    metadata: Object = {"name": name, "ownerReferences": [owner] if owner else []}
    spec = {"suspend": True, "replicatedJobs": jobs}
    return {"apiVersion": JOBSETS, "kind": "JobSet", "metadata": metadata, "spec": spec}


def owner_of(job: Object) -> Object:
    """The reference to a PathwaysJob that its JobSet has."""
    metadata = job["metadata"]
    named = {"apiVersion": API_VERSION, "kind": KIND, "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": True}

"""Random clusters with queues in which a gang waits, and whether what ``gangctl why`` advises starts it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gangctl.api.emit import to_yaml
from gangctl.cluster import kinds
from gangctl.kueue.configuration import CONFIG_KEY
from tests.cli.run import gangctl
from tests.controlplane.api import Object, path_of
from tests.fit.trees import PRIORITY, QUEUE, kueue
from tests.live.cluster import JOBSETS
from tests.live.nodeworlds import HOST, WORLD, ZONE
from tests.live.queueground import Bound, QueueGround, beside_gangctl
from tests.live.queueworlds import MANAGED, QueueWorld, world
from tests.live.quotatrees import path
from tests.live.whyground import REMEDIES, Advice, Cure, Ward

_OWN: Final = (("pods", "v1", "Pod"), ("podgroups", "scheduling.k8s.io/v1beta1", "PodGroup"))
_ROUNDS: Final = 6
"""More than for nodes alone: what is wrong with them shows only once the queue has started the gang."""
_LARGE: Final = "1000"
_AT: Final = "2100-01-01T00:00:00Z"


async def cures(seeds: Iterable[int], directory: Path) -> list[Cure]:
    """Of the worlds of these seeds whose gang waits."""
    async with beside_gangctl(map(world, seeds)) as ground:
        wards = {made.name: QueueWard(ground, made, directory) for made in ground.worlds}
        rounds: dict[str, list[Advice]] = {name: [] for name in wards}
        cured: dict[str, bool] = {}
        waiting = list(ground.worlds)
        for number in range(_ROUNDS + 1):
            happened = await ground.happen(waiting, {name: ward.raw for name, ward in wards.items()})
            cured |= {made.name: True for made in waiting if happened[made.name].placed}
            waiting = [made for made in waiting if not happened[made.name].placed]
            if number < _ROUNDS:
                for made in waiting:
                    rounds[made.name].append(await wards[made.name].asked(ground.refused.get(made.name, "")))
                # What is there must be gone before it is made anew: a remedy may change the JobSet.
                await ground.remove(waiting)
                await asyncio.gather(*(wards[made.name].carry_out(rounds[made.name][-1]) for made in waiting))
                await ground.current()
        return [
            Cure(made, tuple(rounds[made.name]), cured.get(made.name, False))
            for made in ground.worlds
            if rounds[made.name]
        ]


class QueueWard(Bound, Ward):
    """One world with queues."""

    def __init__(self, ground: QueueGround, made: QueueWorld, directory: Path) -> None:
        super().__init__(ground.plane.api, made, directory)
        self._ground = ground
        self._made = made
        self._wide = False

    async def asked(self, refused: str) -> Advice:
        """The first cause, from what the API server has."""
        if refused:
            return Advice("Refused", refused, "")
        name = self._made.name
        objects = await self._ground.known(self._made)
        live = await self._api.get(path_of(JOBSETS, "jobsets", namespace=name, name="js"))
        objects.append({**live, "apiVersion": JOBSETS, "kind": "JobSet"})
        configuration = {CONFIG_KEY: (self._ground.plane.directory / "kueue.yaml").read_text()}
        metadata = {"name": kinds.CONFIG_NAME, "namespace": "kueue-system"}
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": configuration})
        for plural, version, kind in (("jobs", "batch/v1", "Job"), _OWN[1]):
            for raw in await self._api.list(path_of(version, plural, namespace=name)):
                objects.append({**raw, "apiVersion": version, "kind": kind})
        self._file.write_text(str(to_yaml(objects)), encoding="utf-8")
        answer = gangctl("why", "js", "-n", name, "-f", str(self._file), "--at", _AT, "-o", "json")
        cause = answer.json["status"]["causes"][0]
        return Advice(cause["reason"], "; ".join([cause["message"], *cause["evidence"]]), cause["remedy"])

    @property
    def remedies(self) -> Mapping[str, Sequence[Callable[..., Awaitable[None]]]]:
        """Those of queues first."""
        return {**_REMEDIES, **REMEDIES}

    async def others_finish(self) -> None:
        """Delete what holds quota and what is on the nodes."""
        await super().others_finish()
        for workload in self._made.running:
            await self._api.remove(path("workloads", workload.name, self._made.name))

    async def raise_quota(self) -> None:
        """Raise all quotas of the queue, and take off their limits."""
        for raw in self._made.queues:
            if raw["kind"] != "ClusterQueue":
                continue
            for group in raw["spec"]["resourceGroups"]:
                for flavor in group["flavors"]:
                    flavor["resources"] = [
                        {"name": quota["name"], "nominalQuota": _LARGE} for quota in flavor["resources"]
                    ]
            name = raw["metadata"]["name"]
            if await self._api.found(path("clusterqueues", name)):
                groups = {"resourceGroups": raw["spec"]["resourceGroups"]}
                await self._api.patch(path("clusterqueues", name), {"spec": groups})

    async def open_queue(self) -> None:
        """Let its queue admit: create what is missing, and take off what closes it."""
        name, door = self._made.name, self.raw["metadata"]["labels"][QUEUE]
        for raw in self._made.queues:
            where = path(self._plural(raw), raw["metadata"]["name"], raw["metadata"].get("namespace"))
            if raw["kind"] == "ClusterQueue":
                await self._api.patch(where, {"spec": {"stopPolicy": "None", "namespaceSelector": {}}})
            elif raw["kind"] == "LocalQueue":
                await self._api.patch(where, {"spec": {"stopPolicy": "None"}})
        local = await self._api.found(path("localqueues", door, name))
        live = local and await self._api.found(path("clusterqueues", local["spec"]["clusterQueue"]))
        if not live:
            await self.use_another()
            return
        for group in live["spec"]["resourceGroups"]:
            for flavor in group["flavors"]:
                await self._make(kueue("ResourceFlavor", flavor["name"], {"nodeLabels": {WORLD: name}}))
        if any("topologyName" in raw["spec"] for raw in self._made.queues if raw["kind"] == "ResourceFlavor"):
            await self._make(kueue("Topology", name, {"levels": [{"nodeLabel": ZONE}, {"nodeLabel": HOST}]}))

    async def _make(self, raw: Object) -> None:
        where = self._plural(raw)
        if await self._api.found(path(where, raw["metadata"]["name"])) is None:
            await self._api.create(path(where), raw)

    def _plural(self, raw: Object) -> str:
        return {"Topology": "topologies"}.get(raw["kind"], f"{raw['kind'].lower()}s")

    async def use_another(self) -> None:
        """Use a queue without limits, which is made for it."""
        name = self._made.name
        if not self._wide:
            self._wide = True
            flavor, resources = f"{name}-wide", ("cpu", "example.com/gpu", "pods")
            quota = [{"name": resource, "nominalQuota": _LARGE} for resource in resources]
            groups = [{"coveredResources": [*resources], "flavors": [{"name": flavor, "resources": quota}]}]
            await self._api.create(path("resourceflavors"), kueue("ResourceFlavor", flavor, {}))
            spec = {"namespaceSelector": {}, "resourceGroups": groups}
            await self._api.create(path("clusterqueues"), kueue("ClusterQueue", flavor, spec))
            door = kueue("LocalQueue", "wide", {"clusterQueue": flavor})
            await self._api.create(path("localqueues", namespace=name), door)
        self.raw["metadata"]["labels"][QUEUE] = "wide"
        for entry in self.raw["spec"]["replicatedJobs"]:
            entry["template"]["spec"]["template"]["metadata"].pop("annotations", None)

    async def managed(self) -> None:
        """Label the namespace as Kueue's configuration selects it."""
        await self._api.patch(
            path_of("v1", "namespaces", name=self._made.name), {"metadata": {"labels": {MANAGED: "yes"}}}
        )

    async def another_class(self) -> None:
        """Name a class that exists."""
        self.raw["metadata"]["labels"][PRIORITY] = "high"


_REMEDIES: Final[Mapping[str, Sequence[Callable[[QueueWard], Awaitable[None]]]]] = {
    "make it smaller, use another queue": [QueueWard.raise_quota, QueueWard.use_another],
    "ask only for resources that the queue has": [QueueWard.use_another],
    "tolerate the taints and select the nodes": [QueueWard.use_another],
    "ask for a level of the queue's topology": [QueueWard.use_another],
    "give the nodes the labels of its topology": [QueueWard.use_another],
    "ask for fewer pods": [QueueWard.use_another],
    "ask its owner to open it": [QueueWard.open_queue, QueueWard.use_another],
    "use another queue": [QueueWard.use_another],
    "set label kueue.x-k8s.io/queue-name": [QueueWard.use_another],
    "label the namespace so that it matches": [QueueWard.managed],
    "create it, or change the label": [QueueWard.another_class],
    "wait: quota comes back when others finish": [QueueWard.others_finish],
    "the command shows": [],
    "put right what Kueue says of it": [QueueWard.use_another],
}

"""Random clusters in which a gang waits, and whether it starts once what ``gangctl why`` advises is done."""

from __future__ import annotations

import asyncio
import copy
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gangctl.api.emit import to_yaml
from gangctl.api.volumes import volume_claims
from tests.cli.run import gangctl
from tests.controlplane.api import ApiClient, Object
from tests.controlplane.nodes import NODES
from tests.controlplane.plane import ControlPlane
from tests.live.nodeground import Ground, prepare
from tests.live.nodeworlds import WORLD, ZONE, NodeWorld, world

_AT_ONCE: Final = 6
ROUNDS: Final = 4
"""Often as a person would ask again: a remedy may show what was hidden behind the first cause."""
_CURED: Final = 0.95
_AT: Final = "2100-01-01T00:00:00Z"
"""Long after the refusal, so that it counts as one that lasts."""


@dataclass(frozen=True)
class Advice:
    """What ``why`` said, in one round."""

    reason: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Cure:
    """What was advised in a world, in order, and whether the gang was placed in the end."""

    world: NodeWorld
    rounds: tuple[Advice, ...]
    cured: bool

    def __str__(self) -> str:
        """The world and the advice, to replay it."""
        advice = "\n".join(f"# {each.reason}: {each.message}\n#   -> {each.remedy}" for each in self.rounds)
        return f"# seed {self.world.seed}: {'cured' if self.cured else 'NOT CURED'}\n{advice}\n{self.world}"


async def cures(plane: ControlPlane, seeds: Iterable[int], directory: Path) -> list[Cure]:
    """Of the worlds of these seeds whose gang waits."""
    turn = asyncio.Semaphore(_AT_ONCE)
    await prepare(plane)

    async def one(seed: int) -> Cure:
        async with turn:
            return await Ward(plane.api, world(seed), directory).cure()

    return [cure for cure in await asyncio.gather(*map(one, seeds)) if cure.rounds]


def check(found: Sequence[Cure]) -> None:
    """Show the table and each world that was not cured."""
    table = Counter(f"{cure.rounds[0].reason}, {len(cure.rounds)} rounds, cured: {cure.cured}" for cure in found)
    lines = [f"{kind:44} {count}" for kind, count in sorted(table.items())]
    failed = [cure for cure in found if not cure.cured]
    sys.stdout.write("\n".join(["", *lines, *map(str, failed), ""]))
    assert len(failed) <= (1 - _CURED) * len(found)


class Ward(Ground):
    """One world, whose gang is made anew after each remedy, so that the scheduler decides anew."""

    def __init__(self, api: ApiClient, world: NodeWorld, directory: Path) -> None:
        super().__init__(api, world)
        self._file = directory / f"{world.name}.yaml"
        self.raw: Object = copy.deepcopy(world.jobset)
        self._claims = {raw["metadata"]["name"] for raw in world.claims}
        self._added = 0
        self._done: Counter[str] = Counter()

    async def cure(self) -> Cure:
        """Ask and do as advised, until the gang is placed or there is nothing new to try."""
        rounds: list[Advice] = []
        try:
            await self._install()
            for attempt in range(1, ROUNDS + 2):
                placed, _ = await self._starts(self.raw, attempt)
                if placed:
                    return Cure(self._world, tuple(rounds), cured=True)
                if attempt <= ROUNDS:
                    rounds.append(await self._asked())
                    await self.carry_out(rounds[-1])
        finally:
            await self._remove()
        return Cure(self._world, tuple(rounds), cured=False)

    async def _asked(self) -> Advice:
        """The first cause, from what the API server has."""
        kinds = (("pods", "Pod", "v1"), ("podgroups", "PodGroup", "scheduling.k8s.io/v1beta1"))
        found = [
            {**item, "kind": kind, "apiVersion": version}
            for plural, kind, version in kinds
            for item in await self._api.list(self._path(plural))
        ]
        nodes = await self._api.list(NODES, labelSelector=f"{WORLD}={self._world.name}")
        found += [{**node, "kind": "Node", "apiVersion": "v1"} for node in nodes]
        objects = [self._jobset, *self._world.claims, *found]
        self._file.write_text(str(to_yaml(objects)), encoding="utf-8")
        answer = gangctl("why", "js", "-n", self._world.name, "-f", str(self._file), "--at", _AT, "-o", "json")
        cause = answer.json["status"]["causes"][0]
        return Advice(cause["reason"], cause["message"], cause["remedy"])

    @property
    def remedies(self) -> Mapping[str, Sequence[Callable[..., Awaitable[None]]]]:
        """What a person would do by the words with which a remedy begins."""
        return REMEDIES

    async def carry_out(self, advice: Advice) -> None:
        """Do all that is advised; of what has alternatives another one each time that it is advised."""
        for words in advice.remedy.split("; "):
            found = [start for start in self.remedies if words.startswith(start)]
            assert found, f"no test knows how to do this: {advice}"
            ways = self.remedies[found[0]]
            self._done[found[0]] += 1
            if ways:
                await ways[min(self._done[found[0]], len(ways)) - 1](self)

    async def others_finish(self) -> None:
        """Delete the pods that are on the nodes."""
        await self._api.delete(self._path("pods"), grace=0, labelSelector="app,!jobset.sigs.k8s.io/jobset-name")

    async def add_nodes(self) -> None:
        """A node for each pod, large and free of taints, in each zone."""
        first = self._world.nodes[0]
        labels = first["metadata"]["labels"]
        names = []
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "example.com/gpu": "16"}
        for zone in "ab":
            for _ in range(5):
                self._added += 1
                name = f"{self._world.name}-more{self._added}"
                node = copy.deepcopy(first)
                node["metadata"] |= {"name": name, "labels": {**labels, "kubernetes.io/hostname": name, ZONE: zone}}
                node["spec"] = {}
                node["status"] |= {"capacity": amounts, "allocatable": amounts}
                await self._api.create(NODES, node)
                names.append(name)
        await self._nodes_known(names)

    async def no_taints(self) -> None:
        await self._patch_nodes({"spec": {"taints": None, "unschedulable": None}})

    async def as_selected(self) -> None:
        """Label the nodes as the pods select them."""
        for spec in self._pod_specs():
            await self._patch_nodes({"metadata": {"labels": spec.get("nodeSelector", {})}})

    async def _patch_nodes(self, patch: Object) -> None:
        nodes = await self._api.list(NODES, labelSelector=f"{WORLD}={self._world.name}")
        names = [node["metadata"]["name"] for node in nodes]
        for name in names:
            await self._api.patch(f"{NODES}/{name}", patch)
        await self._nodes_known(names)

    def _hides_a_refusal(self) -> bool:
        return any(name not in self._claims for spec in self._pod_specs() for _, name in volume_claims(spec))

    async def claims_made(self) -> None:
        """Make the claims that its pods name, with volumes that any node can use."""
        for spec in self._pod_specs():
            for _, name in volume_claims(spec):
                if name not in self._claims:
                    await self._new_claim(name)
                    self._claims.add(name)

    async def other_claims(self) -> None:
        """Let the pods of a new JobSet use other claims, which have volumes."""
        for spec in self._pod_specs():
            for index, name in volume_claims(spec):
                spec["volumes"][index]["persistentVolumeClaim"]["claimName"] = f"{name}-other"
        await self.claims_made()

    async def _new_claim(self, name: str) -> None:
        size, volume = {"storage": "1Gi"}, f"{self._world.name}-{name}"
        modes = {"accessModes": ["ReadWriteMany"], "storageClassName": "none"}
        persistent: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **modes,
                "capacity": size,
                "csi": {"driver": "example.com", "volumeHandle": volume},
                "claimRef": {"namespace": self._world.name, "name": name},
            },
            "status": {"phase": "Bound"},
        }
        annotations = {"pv.kubernetes.io/bind-completed": "yes"}
        claim: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self._world.name, "annotations": annotations},
            "spec": {**modes, "resources": {"requests": size}, "volumeName": volume},
            "status": {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": size},
        }
        for raw in (persistent, claim):
            await self._make_claim(raw)

    async def no_affinity(self) -> None:
        """Take affinity off the pods in a new JobSet, and off those on the nodes, which are replaced."""
        for spec in self._pod_specs():
            spec.pop("affinity", None)
        await self.others_finish()

    async def anywhere(self) -> None:
        """Let the pods of a new JobSet be in any zone: no label of a node helps where its volume is in another one."""
        for spec in self._pod_specs():
            spec["nodeSelector"].pop(ZONE, None)
            spec.get("affinity", {}).pop("nodeAffinity", None)

    async def spread_anyway(self) -> None:
        """Let the pods of a new JobSet be where there is room."""
        for spec in self._pod_specs():
            for constraint in spec.get("topologySpreadConstraints", ()):
                constraint["whenUnsatisfiable"] = "ScheduleAnyway"
                constraint.pop("minDomains", None)

    def _pod_specs(self) -> Iterator[Object]:
        for entry in self.raw["spec"]["replicatedJobs"]:
            yield entry["template"]["spec"]["template"]["spec"]


REMEDIES: Final[Mapping[str, Sequence[Callable[[Ward], Awaitable[None]]]]] = {
    "wait for others to finish": [Ward.others_finish, Ward.add_nodes],
    "add nodes, or loosen the affinity": [Ward.add_nodes, Ward.no_affinity],
    "add nodes": [Ward.add_nodes],
    "tolerate the taint, or take it off": [Ward.no_taints],
    "uncordon nodes": [Ward.no_taints],
    "compare nodeSelector and affinity": [Ward.as_selected, Ward.anywhere],
    "compare topologySpreadConstraints": [Ward.spread_anyway],
    "see the PersistentVolumeClaims": [Ward.add_nodes, Ward.anywhere],
    "see the StorageClasses": [Ward.other_claims],
    "see why the claim is not bound": [Ward.claims_made],
    "create the claim": [Ward.claims_made],
}
"""What a person would do by the words with which a remedy begins, the first time and later."""

"""Random namespaces on one control plane, and which pods of the JobSet of each its API server lets in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.cli.fitting import FitSubject, answer_of
from gangctl.cluster.stock import Stock
from gangctl.fit.report import FitReport
from tests.controlplane.api import ApiClient, ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.gang.pipeline import child_job, stored
from tests.live.creationworlds import SHARED, CreationWorld
from tests.live.deviceworlds import API_VERSION

AT_ONCE: Final = 6
_VERSIONS: Final = {"PriorityClass": "scheduling.k8s.io/v1", "RuntimeClass": "node.k8s.io/v1"}
"""Of classes, which belong to no namespace."""
_PLURALS: Final = {
    "PriorityClass": "priorityclasses",
    "RuntimeClass": "runtimeclasses",
    "LimitRange": "limitranges",
    "ResourceQuota": "resourcequotas",
    "Pod": "pods",
}
_UID: Final = "00000001-0000-4000-8000-000000000000"
_DRY: Final = {"dryRun": "All"}
_LAST: Final = "last"
"""Objects of this name are made after all others of their kind: what heeds them has heard of the others."""


@dataclass(frozen=True)
class Outcome:
    """What was said of a world, and what happened: why the API server refused a pod or Job, empty if it let all in."""

    world: CreationWorld
    report: FitReport
    now: str
    alone: str
    """The same in a namespace without others."""

    @property
    def kind(self) -> str:
        """The cell of the table."""
        what = "created" if not self.now else "created alone" if not self.alone else "refused"
        return f"{self.report['verdict']} {self.report['reason']}: {what}"

    @property
    def wrong(self) -> bool:
        """Whether the verdict is false."""
        match self.report["verdict"], self.report["reason"]:
            case "unknown", _:
                return False
            case "fits", _:
                return bool(self.now)
            case "never", _:
                return not self.now or not self.alone
            case "not-now", "WaitsForResourceQuota":
                return not self.now or (bool(self.alone) and not self.report["unknown"])
            case "not-now", "PodsRefused":
                return not self.now or not self.alone
        return True

    def __str__(self) -> str:
        """The world, to replay it."""
        said = f"{self.kind}: {self.report['message']} {self.report['unknown']}"
        return f"# seed {self.world.seed}: {said}\n# now: {self.now}\n# alone: {self.alone}\n{self.world}"


def said(world: CreationWorld, known: Iterable[Object]) -> FitReport:
    """What ``gangctl fit --fixed-nodes`` says of a JobSet, by objects that an API server has."""
    stock = Stock()
    for raw in known:
        stock.take_raw(raw)
    stock.pods = stock.pods or []
    stock.take_runtime_classes(stock.runtime_classes or [])
    return answer_of(FitSubject(world.jobset, "js", world.name, ""), stock, fixed_nodes=True).report


async def outcomes(worlds: Sequence[CreationWorld]) -> list[Outcome]:
    """What happens in these worlds, a few at a time, on a plane of their own without a controller-manager."""
    turn = asyncio.Semaphore(AT_ONCE)
    async with ControlPlane.start("1.37", (), controller_manager=False, audit=False) as plane:
        await _make_classes(plane.api, [raw for world in worlds for raw in world.classes])

        async def one(world: CreationWorld) -> Outcome:
            async with turn:
                return await _played(plane.api, world)

        return list(await asyncio.gather(*map(one, worlds)))


async def _played(api: ApiClient, world: CreationWorld) -> Outcome:
    place, empty = Place(api, world.name, world), Place(api, f"{world.name}-alone", world)
    for each in (place, empty):
        await each.install()
    await place.fill()
    report = said(world, [*SHARED, *world.templates, *await place.known()])
    return Outcome(world, report, await place.create(), await empty.create())


async def _make_classes(api: ApiClient, classes: Iterable[Object]) -> None:
    """Create them, and wait until admission knows all; and the account of the pods that ask it."""
    last: dict[str, Mapping[str, object]] = {"PriorityClass": {"value": 1}, "RuntimeClass": {"handler": "none"}}
    closing = [
        {"apiVersion": _VERSIONS[kind], "kind": kind, "metadata": {"name": _LAST}, **more}
        for kind, more in last.items()
    ]
    for raw in (*classes, *closing):
        await api.create(path_of(raw["apiVersion"], _PLURALS[raw["kind"]]), raw)
    await _make_account(api, "default")
    spec = {"priorityClassName": _LAST, "runtimeClassName": _LAST, "containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec}
    await _until(api, path_of("v1", "pods", namespace="default"), pod, refused=False)


async def _make_account(api: ApiClient, namespace: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await api.create(path_of("v1", "serviceaccounts", namespace=namespace), account)


async def _until(api: ApiClient, path: str, raw: Object, *, refused: bool) -> None:
    """Wait until the API server would refuse to create an object, or would create it."""

    async def decided() -> bool:
        try:
            await api.create(path, raw, **_DRY)
        except ApiFailure as failure:
            if not refused:
                raise NotYet(failure.message) from failure
            return True
        if refused:
            raise NotYet(f"{raw['kind']} {raw['metadata']['name']} would be created")
        return True

    await wait_for(decided, f"admission to know what is in {path}", interval=0.1)


class Place:
    """One namespace with the rules of a world."""

    def __init__(self, api: ApiClient, name: str, world: CreationWorld) -> None:
        self._api = api
        self._name = name
        self._world = world

    def _path(self, plural: str, name: str | None = None, version: str = "v1") -> str:
        return path_of(version, plural, namespace=self._name, name=name)

    def _here(self, raw: Object) -> Object:
        return {**raw, "metadata": {**raw["metadata"], "namespace": self._name}}

    async def install(self) -> None:
        """The rules, as their controller leaves them, and wait until admission knows them."""
        await self._api.create(path_of("v1", "namespaces"), {"metadata": {"name": self._name}})
        await _make_account(self._api, self._name)
        for raw in (*self._world.rules, *self._closing()):
            await self._api.create(self._path(_PLURALS[raw["kind"]]), self._here(raw))
            if raw["kind"] == "ResourceQuota":
                hard = raw["spec"]["hard"]
                status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
                await self._api.patch(f"{self._path('resourcequotas', raw['metadata']['name'])}/status", status)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "probe"}}
        await _until(self._api, self._path("secrets"), secret, refused=True)
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2"}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "probe"}, "spec": asked}
        await _until(self._api, self._path("persistentvolumeclaims"), claim, refused=True)

    def _closing(self) -> Iterator[Object]:
        """Rules against kinds that are in no world."""
        metadata = {"name": _LAST}
        limits = [{"type": "PersistentVolumeClaim", "max": {"storage": "1"}}]
        yield {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}}
        hard = {"hard": {"count/secrets": "0"}}
        yield {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": hard}

    async def fill(self) -> None:
        """Create the pods of others that the rules let in."""
        for pod in self._world.pods:
            await self._refusal("pods", self._here(pod))

    async def known(self) -> list[Object]:
        """What the API server has of the world."""
        found = []
        for kind, plural in _PLURALS.items():
            version = _VERSIONS.get(kind)
            path = path_of(version, plural) if version else self._path(plural)
            for raw in await self._api.list(path):
                if version is None or raw["metadata"]["name"].startswith(f"{self._world.name}-"):
                    found.append({**raw, "apiVersion": version or "v1", "kind": kind})
        return found

    async def _refusal(self, plural: str, raw: Object, version: str = "v1") -> str:
        try:
            await self._api.create(self._path(plural, version=version), raw)
        except ApiFailure as failure:
            return failure.message
        return ""

    async def create(self) -> str:
        """Make Jobs and pods as JobSet and the Job controller do; why one is refused, empty if none is."""
        made = self._world.jobset
        raw = stored({**made, "metadata": {**made["metadata"], "namespace": self._name, "uid": _UID}})
        jobs = [
            child_job(raw, position, index)
            for position, entry in enumerate(raw["spec"]["replicatedJobs"])
            for index in range(entry["replicas"])
        ]
        for job in jobs:
            if refused := await self._refusal("jobs", job, "batch/v1"):
                return refused
        for job in jobs:
            name = job["metadata"]["name"]
            for index in range(job["spec"]["parallelism"]):
                metadata = {"name": f"{name}-{index}", "namespace": self._name, "labels": job["metadata"]["labels"]}
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
                if refused := await self._refusal("pods", {**pod, "spec": job["spec"]["template"]["spec"]}):
                    return refused
                for claim in self._claims(metadata["name"], job["spec"]["template"]["spec"]):
                    if refused := await self._refusal("resourceclaims", claim, API_VERSION):
                        return refused
        return ""

    def _claims(self, pod: str, spec: Object) -> Iterator[Object]:
        """Those that the controller of claims makes for a pod."""
        templates = {raw["metadata"]["name"]: raw["spec"]["spec"] for raw in self._world.templates}
        for claim in spec.get("resourceClaims", ()):
            metadata = {"name": f"{pod}-{claim['name']}", "namespace": self._name}
            made: Object = {"apiVersion": API_VERSION, "kind": "ResourceClaim", "metadata": metadata}
            yield {**made, "spec": templates[claim["resourceClaimTemplateName"]]}

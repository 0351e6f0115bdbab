"""A simulated API server that holds the dump, UIDs and all, and gangctl run against it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from gangctl.cluster import kinds
from gangctl.controllers.readiness.gangobjects import GANGS
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.rules.custom import custom_rules
from gangctl.sandbox.server import SandboxOptions
from tests.cli import run
from tests.cli.gangs.dump import NAMESPACE, Object
from tests.cli.run import BIN, Answer
from tests.controlplane.wait import HUNG_SECONDS
from tests.sandbox import faults
from tests.sandbox.faults import FaultySandbox, Match

USER: Final = "somebody"
KUEUE: Final = tuple(
    ResourceKind(each.group, each.version, each.plural, each.kind, namespaced=each.namespaced, custom=True)
    for each in (
        *(
            kinds.CLUSTER_QUEUES,
            kinds.COHORTS,
            kinds.LOCAL_QUEUES,
            kinds.RESOURCE_FLAVORS,
            kinds.QUEUED_WORKLOADS,
        ),
        *(kinds.ADMISSION_CHECKS, kinds.PRIORITY_CLASSES),
    )
)
CORE: Final = tuple(
    ResourceKind(resource.group, resource.version, resource.plural, resource.kind, namespaced=resource.namespaced)
    for resource in (kinds.CLAIMS, kinds.VOLUMES, kinds.LIMIT_RANGES, kinds.RUNTIME_CLASSES, kinds.DEVICE_CLASSES)
)
"""Kinds that the simulated API server has not."""
GANG_OBJECTS: Final = ResourceKind(GANGS.group, GANGS.version, GANGS.plural, GANGS.kind, custom=True)
_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
ALL: Final = 10_000
_WATCHING: Final = frozenset({"top", "wait"})


@dataclass
class Place:
    """The server, and a kubeconfig whose context has the namespace of the gangs."""

    sandbox: FaultySandbox
    kubeconfig: Path

    def put(self, found: Iterable[Object]) -> None:
        """Store objects as they are, as if their controllers had."""
        for each in found:
            metadata = each["metadata"]
            metadata.setdefault("uid", f"uid-of-{metadata['name']}")
            storage = self._storage(each["kind"], each["apiVersion"])
            self.sandbox.api.store.put(storage, (metadata.get("namespace", ""), metadata["name"]), each)

    def remove(self, kind: str, name: str, namespace: str = NAMESPACE) -> None:
        """Delete one."""
        self.sandbox.api.store.remove(self._storage(kind), (namespace, name))

    def _storage(self, kind: str, version: str = "") -> str:
        served = (each for each in self.sandbox.api.registry if version in {"", each.api_version})
        return next(each.storage for each in served if each.kind == kind)

    def requests(self, *verbs: str) -> list[tuple[str, str]]:
        """Verb and resource of what was asked."""
        return [(each.verb, each.resource) for each in self.sandbox.audit.by(USER) if each.verb in verbs]

    async def ask(self, *arguments: str) -> Answer:
        """Run gangctl to its end; what watches leaves connections to the end of its process."""
        command = (*arguments, "--kubeconfig", str(self.kubeconfig))
        if arguments[0] in _WATCHING:
            return await asyncio.to_thread(run.process, *command)
        return await run.ask(*command)

    def running(self, *arguments: str) -> AbstractAsyncContextManager[Running]:
        """Run gangctl while the block does."""
        return running(*arguments, "--kubeconfig", str(self.kubeconfig))


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[Running]:
    """Run gangctl while the block does, not to its end."""
    child = await asyncio.create_subprocess_exec(
        BIN / "gangctl",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": str(BIN), "LANG": "C.UTF-8", "HOME": "/nonexistent"},
    )
    try:
        yield Running(child)
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


@dataclass
class Running:
    """A gangctl that goes on."""

    child: asyncio.subprocess.Process

    async def line(self, *, err: bool = False) -> str:
        """The next line that it prints."""
        stream = self.child.stderr if err else self.child.stdout
        assert stream is not None
        async with asyncio.timeout(HUNG_SECONDS):
            return (await stream.readline()).decode().rstrip("\n")

    async def until(self, word: str, *, err: bool = False) -> str:
        """The next line with a word in it."""
        while True:
            line = await self.line(err=err)
            assert line or not (self.child.stdout is None or self.child.stdout.at_eof()), f"it ended without {word}"
            if word in line:
                return line

    async def end(self, seconds: float = HUNG_SECONDS) -> Answer:
        """Its exit code, and what else it prints."""
        async with asyncio.timeout(seconds):
            out, err = await self.child.communicate()
        return Answer(self.child.returncode or 0, out.decode(), err.decode())


@asynccontextmanager
async def place(
    directory: Path,
    found: Iterable[Object],
    *,
    forbidden: Collection[str] = (),
    gangs: bool = True,
    kueue: bool = False,
    objects: bool = False,
) -> AsyncIterator[Place]:
    """A server with these objects; ``forbidden`` are resources (``pods``) that no user may read.

    With ``kueue`` it serves Kueue's kinds, and nothing changes them; with ``objects`` Gang objects.
    """
    runtime_config = {} if gangs else {"scheduling.k8s.io/v1beta1": False}
    async with FaultySandbox(SandboxOptions(minor="1.37", runtime_config=runtime_config)) as sandbox:
        config = yaml.safe_load(sandbox.kubeconfig(user=USER))
        config["contexts"][0]["context"]["namespace"] = NAMESPACE
        file = directory / "kubeconfig"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        for kind in (*CORE, *(KUEUE if kueue else ()), *((GANG_OBJECTS,) if objects else ())):
            sandbox.api.registry.add(kind, custom_rules(kind, _ANYTHING))
        here = Place(sandbox, file)
        here.put(found)
        for resource in forbidden:
            sandbox.faults.add(
                Match(USER, resource=resource), faults.error(403, "Forbidden", f"{resource} is forbidden"), times=ALL
            )
        yield here

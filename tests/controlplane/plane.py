"""
The control plane itself: starts the components in the order that works, and stops them again.

The order is the point. Every CRD exists before the controller-manager starts, because its garbage collector would
otherwise look at a new kind only half a minute later and delete nothing until then; and a plane is handed out only
once each webhook has answered a request.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.controlplane import audit_log
from tests.controlplane.api import UNREACHABLE, ApiClient, ApiFailure, Object, Objects
from tests.controlplane.binaries import JOBSETS
from tests.controlplane.build import say
from tests.controlplane.components import addon, apiserver, etcd, jobset, kube, kueue, kwok, lws, network, node, trainer
from tests.controlplane.machine import Machine, require_machine
from tests.controlplane.minors import MINORS, NEWEST
from tests.controlplane.options import ADDONS, Options
from tests.controlplane.pki import Pki
from tests.controlplane.ports import Ports
from tests.controlplane.process import ComponentFailed, Process
from tests.controlplane.site import Site
from tests.controlplane.wait import wait_for

KEEP_VARIABLE = "GANGCTL_KEEP"
ADMIN = "admin"
STARTS: list[tuple[str, float]] = []
"""Every plane that this process has started: its minor and components, and the seconds until it was ready."""
RUNNING: set["ControlPlane"] = set()
"""The planes of this process that are open and not suspended."""
_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


class ControlPlane:
    """A running control plane."""

    def __init__(self, options: Options, directory: Path | None = None) -> None:
        self.options = options
        self.minor = MINORS[self.options.minor]
        self._given_directory = directory
        self._site: Site | None = None
        self._processes: dict[str, Process] = {}
        self._addons: dict[str, addon.Addon] = {}
        self._api: ApiClient | None = None
        self._etcd_port = 0
        self._machine: Machine | None = None
        self._entered = contextlib.ExitStack()
        self.guests: dict[str, Process] = {}
        """What tests run beside it: not the plane's to stop, but the first thing to look at when one fails."""

    @classmethod
    def start(
        cls,
        minor: str = NEWEST,
        components: Sequence[str] = ("jobset",),
        *,
        audit: bool = True,
        audit_bodies: Mapping[str, Sequence[str]] | None = None,
        gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        scheduler: bool = True,
        controller_manager: bool = True,
        jobset: str = JOBSETS[0],
        jobset_gates: Mapping[str, bool] | None = None,
        kueue_gates: Mapping[str, bool] | None = None,
        kueue_metrics: bool = False,
        kueue_fair_sharing: bool = False,
        kueue_configuration: Mapping[str, Any] | None = None,
        scheduler_configuration: Mapping[str, Any] | None = None,
        kwok_stages: Sequence[Object] | None = None,
        crds: Sequence[Object] = (),
        server_flags: Sequence[str] = (),
        nodes: int = 0,
        images: Sequence[Path] = (),
        directory: Path | None = None,
    ) -> "Starting":
        """`plane = await ControlPlane.start(...)`, or `async with ControlPlane.start(...) as plane`; see Options."""
        options = Options(
            minor=minor,
            components=tuple(components),
            audit=audit,
            audit_bodies=audit_bodies or {},
            gates=gates or {},
            runtime_config=runtime_config or {},
            scheduler=scheduler,
            controller_manager=controller_manager,
            jobset=jobset,
            jobset_gates=jobset_gates or {},
            kueue_gates=kueue_gates or {},
            kueue_metrics=kueue_metrics,
            kueue_fair_sharing=kueue_fair_sharing,
            kueue_configuration=kueue_configuration or {},
            scheduler_configuration=scheduler_configuration or {},
            kwok_stages=kwok_stages,
            crds=crds,
            server_flags=server_flags,
            nodes=nodes,
            images=images,
        )
        return Starting(cls(options, directory))

    @property
    def site(self) -> Site:
        if self._site is None:
            raise RuntimeError("the control plane is not started")
        return self._site

    @property
    def directory(self) -> Path:
        return self.site.directory

    @property
    def url(self) -> str:
        return self.site.url

    @property
    def ca(self) -> Path:
        """The authority behind the API server's certificate, and behind `Authority.server` for webhooks of a test."""
        return self.site.ca

    @property
    def api(self) -> ApiClient:
        """The administrator's client."""
        if self._api is None:
            raise RuntimeError("the control plane is not started")
        return self._api

    @property
    def kubeconfig(self) -> Path:
        return self.site.kubeconfig(ADMIN, ["system:masters"])

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig with a client certificate of this user's own; RBAC decides what it may do."""
        return self.site.kubeconfig(user, groups)

    def client(self, user: str, groups: Sequence[str] = ()) -> ApiClient:
        """A client that speaks as this user."""
        return self.site.client(user, groups)

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the components, in the order they were started."""
        return tuple(self._processes)

    def process(self, component: str) -> Process:
        if component not in self._processes:
            raise ValueError(f"no component {component!r} in this plane: have {', '.join(self._processes)}")
        return self._processes[component]

    def log(self, component: str) -> Path:
        return self.process(component).log

    def tails(self, lines: int = 20) -> str:
        """The end of every component's log, and of what was run beside them."""
        return "\n".join(process.tail(lines) for process in (*self._processes.values(), *self.guests.values()))

    def audit(self, since: int = 0) -> Objects:
        """The audit events after a position (`audit_position`), parsed."""
        return audit_log.read(self.directory / apiserver.AUDIT_LOG, since)

    @property
    def audit_position(self) -> int:
        """Where the audit log ends now."""
        return (self.directory / apiserver.AUDIT_LOG).stat().st_size

    def writes_by(self, user: str, since: int = 0) -> audit_log.Writes:
        return audit_log.writes_by(user, self.audit(since))

    async def kill(self, component: str) -> None:
        """SIGKILL: what a machine failure does."""
        await self.process(component).kill()

    def pause(self, component: str) -> None:
        """SIGSTOP: what a hung machine does."""
        self.process(component).pause()

    def suspend(self) -> None:
        """Pause everything, also what tests run beside it, until the plane is closed: nobody needs it any more."""
        for process in (*self.guests.values(), *self._processes.values()):
            process.pause()

    def resume(self, component: str) -> None:
        self.process(component).resume()

    async def stop_component(self, component: str) -> None:
        await self.process(component).stop()

    async def start_component(self, component: str) -> None:
        """Start a component that was stopped or killed, on its old ports, and wait until it serves."""
        await self.process(component).start()
        if component in self._addons:
            await self._addons[component].prove(self.api)

    async def add(self, component: str) -> None:
        """Start one of ADDONS beside what runs already, as it is installed in a cluster that lives: the CRDs first."""
        self._addons[component] = made = await asyncio.to_thread(self._make_addon, component)
        await addon.create_crds(self.api, made.crds)
        for namespace in made.namespaces:
            await addon.create_namespace(self.api, namespace)
        await self._launch(made.process)
        await _started(made.process)
        await addon.create_webhooks(self.api, made.webhooks)
        await made.prove(self.api)

    async def restart(self, component: str) -> None:
        await self.stop_component(component)
        await self.start_component(component)

    async def upgrade(self, minor: str, *, erase: Sequence[str] = ()) -> None:
        """
        Replace the Kubernetes components by another minor's, over the same store, ports and certificates.

        What is beside Kubernetes runs on. `erase` names prefixes of keys to delete from the store while no API server
        runs. Only the API server is launched, `finish_upgrade` waits for it and starts the others: one that cannot read
        what is stored never becomes ready.
        """
        kubernetes = [name for name in _KUBERNETES if name in self._processes]
        for name in reversed(kubernetes):
            await self.stop_component(name)
        self.minor = self.site.minor = MINORS[minor]
        for prefix in erase:
            await self.erase(prefix)
        for name in kubernetes:
            binary = await asyncio.to_thread(self.site.binary, name)
            process = self.process(name)
            process.command = apiserver.retargeted(
                process.command, binary, gates=self._gates, runtime_config=self._runtime_config
            )
        await self.process(_KUBERNETES[0]).launch()

    async def finish_upgrade(self) -> None:
        """Wait until the new API server is ready, then start the new controller-manager and scheduler."""
        for name in _KUBERNETES:
            if name in self._processes and not self.process(name).running:
                await self.process(name).launch()
            if name in self._processes:
                await self.process(name).wait_ready()

    async def erase(self, prefix: str) -> int:
        """Delete the keys under a prefix from the store, behind the API server's back; how many those were."""
        return await etcd.erase(self._etcd_port, prefix)

    async def store(self, objects: Iterable[tuple[str, bytes]]) -> int:
        """Put objects into the store by their keys, behind the API server's back: it reads JSON, too; how many."""
        return await etcd.put(self._etcd_port, objects)

    async def open(self) -> None:
        """Start everything; whatever fails, nothing stays behind."""
        began = time.monotonic()
        try:
            self._site = await asyncio.to_thread(self._prepare)
            if self.options.nodes:
                await self._start_machine()
            await self._start_server()
            await self._start_controllers()
            if self.options.nodes:
                await self._start_nodes()
            RUNNING.add(self)
            STARTS.append((f"{self.minor.name} with {', '.join(self._processes)}", time.monotonic() - began))
        except BaseException as error:
            error.add_note(self.tails())
            await self.close()
            raise

    async def close(self) -> None:
        """Stop everything, the last started first, and remove the directory unless it was given."""
        RUNNING.discard(self)
        for process in reversed(self._processes.values()):
            process.terminate()
        # Nothing is kept, so an API server that waits for a store that is going too need not be waited for.
        await asyncio.gather(*(process.stop(grace=1) for process in self._processes.values()))
        if self._api is not None:
            await self._api.close()
        self._entered.close()
        if self._site is not None:
            self._site.ports.release()
            await self._remove()
            self._site = None

    async def _remove(self) -> None:
        """Cgroups and directory; a node's processes end a moment after its first one."""

        async def removed() -> bool:
            for number in range(1, self.options.nodes + 1):
                node.remove_cgroup(node.cgroup_of(self.site, f"node-{number}"))
            await asyncio.to_thread(self._remove_directory)
            return True

        await wait_for(removed, "the processes of the nodes to end", tolerate=(OSError,))

    def _prepare(self) -> Site:
        if self._given_directory is None:
            directory = Path(tempfile.mkdtemp(prefix=f"gangctl-{self.minor.name}-"))
        else:
            directory = self._given_directory.resolve()
            directory.mkdir(parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise FileExistsError(f"{directory} is not empty: a plane starts with a store and trust of its own")
        ports = Ports()
        return Site(directory, self.minor, Pki(directory / "pki"), ports, api_port=ports.take())

    def _remove_directory(self) -> None:
        if self._given_directory is not None:
            return
        if os.environ.get(KEEP_VARIABLE):
            say(f"kept {self.directory}")
        else:
            shutil.rmtree(self.directory)

    async def _start_machine(self) -> None:
        """A network namespace for everything that follows, and for the thread that opened the plane."""
        require_machine()
        node.remove_left_cgroups()
        self._machine = Machine(self.site.directory, self.options.nodes)
        self._processes["network"] = self._machine.process
        await self._machine.process.start()
        self._entered.enter_context(self._machine.entered())

    async def _start_nodes(self) -> None:
        site, images = self.site, self.options.images
        makers = [partial(node.node, site, number, images) for number in range(1, self.options.nodes + 1)]
        await self._start_together([partial(network.coredns, site), *makers])
        # It asks for its node once, and exits when that has another address later.
        await self._start_together([partial(network.kube_proxy, site)])

    async def _start_together(self, makers: Sequence[Callable[[], Process]]) -> None:
        made = [await asyncio.to_thread(make) for make in makers]
        for process in made:
            await self._launch(process)
        await asyncio.gather(*(process.wait_ready() for process in made))

    async def _start_server(self) -> None:
        site = self.site
        etcd_port = self._etcd_port = site.ports.take()
        await self._start(lambda: etcd.etcd(site, etcd_port))
        await self._start(
            lambda: apiserver.apiserver(
                site,
                etcd_port,
                gates=self._gates,
                runtime_config=self._runtime_config,
                audit=self.options.audit,
                audit_bodies=self.options.audit_bodies,
                nodes=self.options.nodes > 0,
                further=self.options.server_flags,
            )
        )
        self._api = site.client(ADMIN, ["system:masters"])
        await wait_for(
            lambda: self.api.get(f"{addon.NAMESPACES}/default"),
            what="the default namespace",
            tolerate=(ApiFailure, *UNREACHABLE),
        )

    async def _start_controllers(self) -> None:
        """Everything behind the API server starts together; only the CRDs have to be there before."""
        self._addons = await asyncio.to_thread(self._make_addons)
        crds = [*self.options.crds, *(crd for each in self._addons.values() for crd in each.crds)]
        await addon.create_crds(self.api, crds)
        for namespace in (name for each in self._addons.values() for name in each.namespaces):
            await addon.create_namespace(self.api, namespace)
        launched = await asyncio.to_thread(self._make_kube_processes)
        launched += [each.process for each in self._addons.values()]
        for process in launched:
            await self._launch(process)
        addons = [each.process for each in self._addons.values()]
        waiting = [process.wait_ready() for process in launched if process not in addons]
        await asyncio.gather(*waiting, *map(_started, addons))
        for each in self._addons.values():
            await addon.create_webhooks(self.api, each.webhooks)
        await asyncio.gather(*(each.prove(self.api) for each in self._addons.values()))

    async def _start(self, make: Callable[[], Process]) -> None:
        # Making a component may mean building it, which takes minutes: not under the event loop.
        process = await asyncio.to_thread(make)
        await self._launch(process)
        await process.wait_ready()

    def add_guest(self, process: Process) -> None:
        """A process that a test starts beside the plane, in its network; its log is in what an error shows."""
        self._place(process)
        self.guests[process.name] = process

    def _place(self, process: Process) -> None:
        if self._machine is not None:
            process.prefix = self._machine.prefix

    async def _launch(self, process: Process) -> None:
        self._place(process)
        self._processes[process.name] = process
        await process.launch()

    def _make_kube_processes(self) -> list[Process]:
        wanted = []
        if self.options.controller_manager:
            wanted.append(kube.controller_manager(self.site, self._gates, nodes=self.options.nodes > 0))
        if self.options.scheduler:
            wanted.append(kube.scheduler(self.site, self._gates, self.options.scheduler_configuration))
        return wanted

    def _make_addons(self) -> dict[str, addon.Addon]:
        return {name: self._make_addon(name) for name in ADDONS if name in self.options.components}

    def _make_addon(self, name: str) -> addon.Addon:
        makers: dict[str, Callable[[], addon.Addon]] = {
            "jobset": lambda: jobset.jobset(self.site, self.options.jobset, self.options.jobset_gates),
            "kueue": lambda: kueue.kueue(
                self.site,
                {**kueue.DEFAULT_GATES, **self.options.kueue_gates},
                metrics=self.options.kueue_metrics,
                fair_sharing=self.options.kueue_fair_sharing,
                configuration=self.options.kueue_configuration,
            ),
            "kwok": lambda: kwok.kwok(self.site, self.options.kwok_stages),
            "lws": lambda: lws.lws(self.site),
            "trainer": lambda: trainer.trainer(self.site),
        }
        return makers[name]()

    @property
    def _gates(self) -> dict[str, bool]:
        return {**self.minor.gates, **self.options.gates}

    @property
    def _runtime_config(self) -> dict[str, bool]:
        return {**self.minor.runtime_config, **self.options.runtime_config}


class Starting:
    """A plane that is about to start: awaited, it is the caller's to close; in `async with`, it closes itself."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def __await__(self) -> Generator[None, None, ControlPlane]:
        return self._open().__await__()

    async def __aenter__(self) -> ControlPlane:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            # The logs go with the directory.
            error.add_note(self._plane.tails())
        await self._plane.close()

    async def _open(self) -> ControlPlane:
        await self._plane.open()
        return self._plane


async def _started(process: Process) -> None:
    """Wait until it is ready; who exits meanwhile is started again."""

    async def ready() -> bool:
        if not process.running:
            await process.launch()
        await process.wait_ready()
        return True

    # Discovery tells of new kinds a moment after they are served, and some exit when it does not.
    await wait_for(ready, f"{process.name} to start", tolerate=(ComponentFailed,))

"""Volcano from a checkout of its source: built with its own go.mod, run as processes beside a control plane."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import yaml

from tests.controlplane.components import addon
from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import Ports
from tests.controlplane.probe import answers
from tests.controlplane.process import Process

SCHEDULER: Final = "volcano"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
DEFAULT_PERIOD_SECONDS: Final = 1.0
LEAST_PERIOD_SECONDS: Final = 0.1
"""Cycles cost CPU, which all processes share."""
_PROGRAMS: Final = {"scheduler": "vc-scheduler", "controller-manager": "vc-controller-manager"}
_CONTROLLERS: Final = "--controllers=pg-controller,queue-controller"
"""What makes PodGroups of pods, and keeps queues; others wait for kinds that are not here."""
_CRDS: Final = "config/crd/volcano/bases"


class NoVolcanoError(Exception):
    """A directory that is no checkout of Volcano, or one that cannot be built."""


def build(checkout: Path) -> Path:
    """Build the two programs below the checkout, which ignores them; the directory with them.

    Go takes what it has built before from its cache. Raises :class:`NoVolcanoError`.
    """
    if not (checkout / "cmd" / "scheduler").is_dir() or not (checkout / _CRDS).is_dir():
        raise NoVolcanoError(f"{checkout} is no checkout of github.com/volcano-sh/volcano")
    directory = checkout / "_output" / "bin"
    for source, program in _PROGRAMS.items():
        command = ["go", "build", "-o", str(directory / program), f"./cmd/{source}"]
        environment = {**os.environ, "GOFLAGS": "-mod=mod"}
        try:
            ran = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
        except OSError as error:
            raise NoVolcanoError(f"go: {error}") from error
        if ran.returncode:
            raise NoVolcanoError(f"{' '.join(command)} in {checkout}: {ran.stderr.strip()[-500:]}")
    return directory


class Volcano:
    """Its scheduler and its controllers beside a plane, with rights to everything; ``async with``."""

    def __init__(self, plane: ControlPlane, checkout: Path, speed: float) -> None:
        self._plane = plane
        self._checkout = checkout
        self._ports = Ports()
        self._period = max(LEAST_PERIOD_SECONDS, DEFAULT_PERIOD_SECONDS / speed)
        directory = checkout / "_output" / "bin"
        scheduler = [f"--schedule-period={self._period:g}s", "--priority-class=false"]
        configuration = checkout / "installer" / "helm" / "chart" / "volcano" / "config" / "volcano-scheduler.conf"
        if configuration.exists():
            scheduler.append(f"--scheduler-conf={configuration}")
        self._made = {
            "vc-scheduler": self._process("vc-scheduler", directory, scheduler),
            "vc-controller-manager": self._process("vc-controller-manager", directory, [_CONTROLLERS]),
        }

    @property
    def processes(self) -> Mapping[str, Process]:
        """By name."""
        return self._made

    async def __aenter__(self) -> Self:
        files = sorted((self._checkout / _CRDS).glob("*.yaml"))
        crds = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
        await addon.create_crds(self._plane.api, crds)
        await addon.create_namespace(self._plane.api, "volcano-system")
        for process in self._made.values():
            self._plane.add_guest(process)
            await process.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._made.values():
            if process.running:
                await process.stop()
        self._ports.release()

    def _process(self, name: str, directory: Path, more: list[str]) -> Process:
        port = self._ports.take()
        command = [
            str(directory / name),
            f"--kubeconfig={self._plane.kubeconfig_for(name, ['system:masters'])}",
            "--leader-elect=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            "--enable-healthz=true",
            f"--healthz-address=127.0.0.1:{port}",
            *more,
        ]
        ready = f"http://127.0.0.1:{port}/healthz"
        return Process(name, command, self._plane.directory / f"{name}.log", ready=lambda: answers(ready))

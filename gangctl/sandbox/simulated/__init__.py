"""Simulated controllers beside an API server: JobSet, Job, scheduler and kubelets, each in a separate task.

async with Sandbox(options) as sandbox, SimulatedControllers(sandbox.api) as simulated:
    await add_nodes(sandbox.api, 2)
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import TracebackType
from typing import Any, Final, Literal, Self

from gangctl.sandbox.api import Api
from gangctl.sandbox.simulated.binder import Binder
from gangctl.sandbox.simulated.controller import SimulatedController
from gangctl.sandbox.simulated.job import JobController
from gangctl.sandbox.simulated.jobset import JobSetController
from gangctl.sandbox.simulated.kubelet import Kubelet, Outcome, Policy, add_nodes, run_forever

__all__ = ["Outcome", "Policy", "Role", "SimulatedControllers", "add_nodes", "run_forever"]

Role = Literal["jobset", "job", "scheduler", "kubelet"]
ROLES: Final[tuple[Role, ...]] = ("jobset", "job", "scheduler", "kubelet")


class SimulatedControllers:
    """The chosen simulated controllers while the context lasts."""

    def __init__(
        self,
        api: Api,
        *,
        roles: Collection[Role] = ROLES,
        policy: Policy = run_forever,
        work_seconds: float = 0.0,
        pause_seconds: float = 0.0,
    ) -> None:
        """``policy`` ends pods, ``work_seconds`` after its verdict.

        A worker of the Job controller sleeps for ``pause_seconds`` after each pod it has created.
        """
        self.jobset = JobSetController(api)
        self.job = JobController(api, pause_seconds=pause_seconds)
        self.scheduler = Binder(api)
        self.kubelet = Kubelet(api, policy, work_seconds=work_seconds)
        controllers: dict[Role, SimulatedController[Any]] = {
            "jobset": self.jobset,
            "job": self.job,
            "scheduler": self.scheduler,
            "kubelet": self.kubelet,
        }
        self._chosen = [controllers[role] for role in ROLES if role in roles]
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._play(), name="simulated-controllers")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._task is None:
            return
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    async def _play(self) -> None:
        async with asyncio.TaskGroup() as stage:
            for controller in self._chosen:
                stage.create_task(controller.run(), name=controller.name)

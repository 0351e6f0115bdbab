"""Where a lane's worker sits."""

from __future__ import annotations

from gangctl.judge.school import School
from gangctl.runtime.workerprocess import WorkerProcess
from gangctl.runtime.workers import Workers


class Desk:
    """Has one worker at a time."""

    def __init__(self, workers: Workers, school: School) -> None:
        """Have none yet."""
        self._workers = workers
        self._school = school
        self._worker: WorkerProcess | None = None

    async def worker(self) -> WorkerProcess:
        """The present worker or, when that is gone, the next."""
        if self._worker is not None and not self._worker.alive:
            await self.leave()
        if self._worker is None:
            self._worker = await self._workers.take()
            await self._school.set_up(self._worker)
        return self._worker

    def give_back(self) -> None:
        """Return the present worker, which has answered everything, to the reserve."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self._workers.give_back(worker)

    async def leave(self) -> None:
        """End the present worker."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await self._workers.discard(worker)

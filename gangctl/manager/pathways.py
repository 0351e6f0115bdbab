"""The Pathways part of the process: only the leader follows PathwaysJobs."""

from __future__ import annotations

from gangctl.controllers.pathways.controller import NAME, PathwaysController, PathwaysMetrics
from gangctl.gang.reasons import Notice
from gangctl.manager.gangs import Dependencies, GangPart, error_policy, event_of
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.result import Setting, setting_for
from gangctl.pathways.status import PathwaysFacts
from gangctl.pathways.words import API_VERSION, KIND
from gangctl.runtime.events import ObjectReference


class PathwaysPart:
    """Wires the parts for PathwaysJobs."""

    def __init__(self, dependencies: Dependencies, gangs: GangPart) -> None:
        """Make everything, start nothing."""
        clients, metrics = dependencies.clients, dependencies.metrics
        self._gangs = gangs
        self._recorder = dependencies.recorder
        self.controller = PathwaysController(
            clients.reader,
            clients.writer,
            self._record_event,
            setting=self._setting,
            options=dependencies.settings.pathways_options or PathwaysOptions(),
            metrics=PathwaysMetrics(dependencies.registry),
            error_policy=error_policy,
            informer_observer=metrics.informer_observer,
            controller_observer=metrics.controller_observer(NAME),
            share=gangs.share,
        )
        gangs.follow(self.controller.jobset_changed)
        # The informer of all JobSets is listed, which every replica has.
        for informer in (self.controller.jobs, self.controller.upstream.informer):
            metrics.track_informer(informer)

    async def lead(self) -> None:
        """Create JobSets and report their state, until cancelled: on the leader."""
        # Rendering depends on whether there are gangs.
        await self._gangs.synced()
        await self.controller.run()

    def _setting(self) -> Setting:
        generation = self._gangs.state.generation
        if generation is None:
            return Setting(gangs=False, topology=False)
        return setting_for(self._gangs.rules(generation))

    def _record_event(self, job: PathwaysFacts, notice: Notice) -> None:
        regarding = ObjectReference(API_VERSION, KIND, job.namespace, job.name, job.uid)
        self._recorder.record(event_of(regarding, notice))

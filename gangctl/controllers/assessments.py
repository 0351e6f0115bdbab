"""The assessment of each JobSet under the rules of this cluster, made once for each state of the JobSet.

A reconcile and a check of readiness need the same one, and while a gang starts both happen several times without a
change of the JobSet.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.api.scheduling import Generation
from gangctl.gang.desired import Assessment, Lifecycle, assess
from gangctl.gang.generation import ApiState
from gangctl.gang.resolve import ClusterRules
from gangctl.runtime.controller import computed

_Inputs = tuple[JobSet, ClusterRules, Lifecycle]

MOST_KEPT: Final = 500
"""JobSets whose assessment is kept: those that were assessed last."""
LARGEST_KEPT: Final = 128
"""Jobs of a JobSet whose assessment is kept: larger ones would take much memory."""


class Assessments:
    """Assesses JobSets with the last result of discovery."""

    def __init__(
        self,
        state: Callable[[], ApiState],
        rules: Callable[[Generation], ClusterRules],
        suspended: Callable[[JobSet], Lifecycle] = lambda _: Lifecycle.RETIRED,
    ) -> None:
        """``state`` is the last result of discovery.

        ``suspended`` returns which objects a suspended JobSet keeps, which depends on what will resume it.
        """
        self.state = state
        self._rules = rules
        self._suspended = suspended
        self._kept: OrderedDict[Key, tuple[_Inputs, Assessment]] = OrderedDict()

    def rules(self) -> ClusterRules:
        """The rules now; those of the newest generation where the cluster serves none."""
        return self._rules(self.state().generation or ClusterRules().generation)

    def of(self, jobset: JobSet) -> Assessment:
        """The assessment of a stored JobSet."""
        inputs = (jobset, self.rules(), self._suspended(jobset))
        return self._known(inputs) or self._keep(inputs, assess(*inputs))

    async def computed(self, jobset: JobSet) -> Assessment:
        """The same; in a thread where it takes long."""
        inputs = (jobset, self.rules(), self._suspended(jobset))
        return self._known(inputs) or self._keep(inputs, await computed(jobset.jobs, assess, *inputs))

    def _known(self, inputs: _Inputs) -> Assessment | None:
        known = self._kept.get(inputs[0].key)
        return known[1] if known is not None and known[0] == inputs else None

    def _keep(self, inputs: _Inputs, assessment: Assessment) -> Assessment:
        jobset = inputs[0]
        self._kept.pop(jobset.key, None)
        if jobset.jobs <= LARGEST_KEPT:
            self._kept[jobset.key] = inputs, assessment
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return assessment

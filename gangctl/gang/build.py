"""From a plan to the objects of one API generation."""

from __future__ import annotations

from typing import Any, Final

from gangctl.api.scheduling import Generation, SchedulingAdapter
from gangctl.api.scheduling_v1alpha1 import V1Alpha1
from gangctl.api.scheduling_v1alpha2 import V1Alpha2
from gangctl.api.scheduling_v1alpha3 import composite_pod_group
from gangctl.api.scheduling_v1beta1 import V1, V1Beta1
from gangctl.gang.plan import GangPlan

ADAPTERS: Final[dict[Generation, SchedulingAdapter]] = {
    adapter.generation: adapter for adapter in (V1Alpha1(), V1Alpha2(), V1Beta1(), V1())
}


def build_objects(plan: GangPlan, generation: Generation) -> list[dict[str, Any]]:
    """The Workload, then its groups, in the order in which they have to be created."""
    adapter = ADAPTERS[generation]
    objects = [adapter.workload(plan.workload)]
    if plan.composite is not None:
        objects.append(composite_pod_group(plan.composite))
    if generation.capabilities.pod_groups:
        objects += [adapter.pod_group(group) for group in plan.groups]
    return objects

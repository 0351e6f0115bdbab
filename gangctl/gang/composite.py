"""The CompositePodGroup of a JobSet: all of its gangs start together, each placed as a whole (KEP-6012).

The scheduler starts as many groups as minGroupCount says, or none. It does not count a group whose pods have finished:
then a pod that is replaced in another would wait permanently. minGroupCount is immutable on Kubernetes 1.37, so that a
CompositePodGroup with too large a one is deleted and created again; pods that run do not need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gangctl.api.scheduling import CompositePodGroup, CompositeTemplate, Template, Workload
from gangctl.gang import naming

_SEVERAL: Final = 2


def composite_template(templates: Sequence[Template], groups: int) -> CompositeTemplate | None:
    """The parent of all templates of a Workload, from which ``groups`` groups are made; None for a single group."""
    if groups < _SEVERAL:
        return None
    taken = {template.name for template in templates}
    name = next(each for each in naming.numbered("all") if each not in taken)
    return CompositeTemplate(name, groups, templates[0].priority_class)


def composite_of(workload: Workload, attempt: int) -> CompositePodGroup | None:
    """The CompositePodGroup of one attempt, None where the Workload has no template for it."""
    if workload.composite is None:
        return None
    name = naming.group_name(naming.base_name(workload.owner.name), workload.owner.uid, attempt)
    return CompositePodGroup(workload.namespace, name, workload.owner, workload.name, workload.composite)


def with_fewer(group: CompositePodGroup, groups: int) -> CompositePodGroup:
    """The same with another minGroupCount."""
    return group._replace(template=replace(group.template, min_group_count=groups))

"""What coscheduling (scheduler-plugins) makes of a JobSet: one gang for all pods that a label puts into one PodGroup.

Source: scheduler-plugins ``pkg/coscheduling/core``: pods count by label and namespace, whoever made them, and
start when ``minMember`` of them have a place. The scheduler's name is the cluster's choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from gangctl.gang.edits import Object
from gangctl.migration.draft import Draft
from gangctl.migration.podgroups import PodGroup, add_named_group, named_members


def read_coscheduling(draft: Draft, objects: Sequence[Object], pod_groups: Sequence[PodGroup]) -> None:
    """Add the gangs that coscheduling makes of this JobSet."""
    members = named_members(draft, draft.jobset.replicated_jobs)
    for name, joined in members.items():
        add_named_group(draft, objects, pod_groups, name, joined)
    if not members:
        path = "spec.replicatedJobs"
        detail = (
            f"no pod template has the label {draft.names.group_key}: coscheduling makes no gang of this JobSet. Remove "
            "schedulerName and ask for a gang with gangctl.dev/gang-mode"
        )
        draft.refuse(path, detail)

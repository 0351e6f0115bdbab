"""Gangs as modes of GangConfig."""

from __future__ import annotations

from gangctl.gang.config import GangConfig, GangMode, GangOptions
from gangctl.migration.draft import Draft, Group, listed


def _single(draft: Draft, group: Group) -> GangConfig:
    """One gang of several ReplicatedJobs: the JobSet's, without those that are not in it."""
    members = {rj.index for rj in group.members}
    rjs = draft.jobset.replicated_jobs
    return GangConfig(GangMode.GANG, tuple(None if rj.index in members else GangMode.OFF for rj in rjs))


def _mode(group: Group) -> GangMode:
    (rj,) = group.members
    return GangMode.REPLICATED_GANG if group.per_job and rj.replicas > 1 else GangMode.GANG


def gang_config(draft: Draft) -> GangConfig:
    """The configuration equivalent to a draft's groups; adds a problem if there is none."""
    rjs = draft.jobset.replicated_jobs
    shared = [group for group in draft.groups if len(group.members) > 1]
    config = GangConfig(None, (None,) * len(rjs))
    if shared and len(draft.groups) > 1:
        detail = (
            f"a gang of {listed(shared[0].members)} beside another gang cannot be said: one gang of the whole JobSet, "
            "one per replicated job, or one per replica"
        )
        draft.refuse(shared[0].path, detail)
    elif shared:
        config = _single(draft, shared[0])
    elif len(draft.groups) == len(rjs) == 1 and _mode(draft.groups[0]) is GangMode.GANG:
        config = _single(draft, draft.groups[0])
    else:
        modes = {group.members[0].index: _mode(group) for group in draft.groups}
        config = GangConfig(None, tuple(modes.get(rj.index) for rj in rjs))
    options = GangOptions.model_validate({"topologyKey": draft.topology_key})
    return GangConfig(config.jobset, config.replicated_jobs, options)

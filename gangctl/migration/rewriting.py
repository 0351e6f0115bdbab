"""A JobSet without what is for another scheduler, and with gangctl's annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, QUEUE_NAME
from gangctl.gang.config import GangConfig, GangMode
from gangctl.gang.convert import options_text
from gangctl.gang.edits import Object, with_key, with_metadata
from gangctl.migration.draft import Draft
from gangctl.migration.marks import FIELDS, Level


def _without_marks(draft: Draft, holder: Mapping[str, Any], level: Level, index: int = -1) -> Object:
    mine = [mark for mark in draft.marks if (mark.level, mark.index) == (level, index) and draft.names.reads(mark.key)]
    changed = dict(holder)
    for field in FIELDS:
        gone: dict[str, str | None] = {mark.key: None for mark in mine if mark.field == field}
        if gone:
            changed = with_metadata(changed, field, gone)
    return changed


def _replicated_job(draft: Draft, entry: Mapping[str, Any], index: int, mode: GangMode | None) -> Object:
    if "template" not in entry:
        return dict(entry)
    template = _without_marks(draft, entry["template"] or {}, Level.JOB, index)
    if mode is not None:
        template = with_metadata(template, "annotations", {GANG_MODE: str(mode)})
    job_spec = template.get("spec") or {}
    pod = job_spec.get("template") or {}
    changed = _without_marks(draft, pod, Level.POD, index)
    if index in draft.leaving and pod.get("spec"):
        changed = with_key(changed, "spec", with_key(pod["spec"], "schedulerName", None))
    if changed != pod:
        template = with_key(template, "spec", with_key(job_spec, "template", changed))
    return with_key(entry, "template", template)


def rewrite(draft: Draft, config: GangConfig, queue: str) -> Object:
    """The JobSet as gangctl wants it; ``queue`` is a LocalQueue of Kueue, or empty."""
    pairs = zip(draft.raw["spec"].get("replicatedJobs") or (), config.replicated_jobs, strict=True)
    entries = [_replicated_job(draft, entry, index, mode) for index, (entry, mode) in enumerate(pairs)]
    value = _without_marks(draft, draft.raw, Level.JOBSET)
    modes = {GANG_MODE: str(config.jobset) if config.jobset else None, GANG_OPTIONS: options_text(config.options)}
    value = with_metadata(value, "annotations", modes)
    if queue:
        value = with_metadata(value, "labels", {QUEUE_NAME: queue})
    return with_key(value, "spec", with_key(draft.raw["spec"], "replicatedJobs", entries))

"""Responses of the webhooks, as pure functions of the objects in the request.

The JobSet webhook decides the gang once, at CREATE, and writes it into stamps. A Job's
reference follows from the Job's own metadata, so that the Job webhook needs no lookup.
Each error has a field path and a remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gangctl.api import meta
from gangctl.api.jobset import SCHEDULING_REFERENCES, JobSet, ReplicatedJob, read_jobset
from gangctl.api.jsonpatch import pointer
from gangctl.api.objects import controller_owner, is_jobset_owner, within
from gangctl.api.scheduling import Generation, Reference
from gangctl.api.scheduling_versions import SchedulingAdapter
from gangctl.errors import ErrorKind, FieldError, one_line, plural
from gangctl.gang.config import PATH as GANGS_PATH
from gangctl.gang.config import GangMode, GangOptions, gangs_text, parse_gangs, read_config, read_options
from gangctl.gang.naming import Stamp, read_stamp
from gangctl.gang.plan import is_sequenced, job_pods, job_reference, replicated_job_pods, stored_stamps, templates_of
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.resolve import Resolution
from gangctl.gang.validate import OPTIONS_PATH, check_groups, check_templates

SETTLED: Final = "gang configuration is settled when the JobSet is created: delete the JobSet and create it again"

Patch = list[dict[str, Any]]

# An int32 has ten digits at most.
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
# Characters of a changed text in a message, and those of them in front of the change.
_SHOWN: Final = 64
_BEFORE: Final = 16
_ON_JOBSETS: Final = meta.keys_at(meta.Place.JOBSET, meta.KeyRole.CONFIGURATION)
_ON_TEMPLATES: Final = meta.keys_at(meta.Place.TEMPLATE, meta.KeyRole.CONFIGURATION)


def _annotate(raw: Mapping[str, Any], path: str, texts: Mapping[str, str | None]) -> Patch:
    """Operations that set annotations of the object at ``path``, or remove those that are None."""
    metadata = raw.get("metadata")
    notes = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(notes, dict):
        return [operation for key, text in texts.items() for operation in _set(notes, path, key, text)]
    added = {key: text for key, text in texts.items() if text is not None}
    if not added:
        return []
    # RFC 6902: the object to which a member is added has to exist.
    if isinstance(metadata, dict):
        return [{"op": "add", "path": f"{path}/metadata/annotations", "value": added}]
    return [{"op": "add", "path": f"{path}/metadata", "value": {"annotations": added}}]


def _set(notes: Mapping[str, Any], path: str, key: str, text: str | None) -> Patch:
    """The operation, if one is needed, that sets or removes one of the annotations that an object has."""
    where = path + pointer(("metadata", "annotations", key))
    if text is None:
        return [{"op": "remove", "path": where}] if key in notes else []
    if notes.get(key) == text:
        return []
    return [{"op": "replace" if key in notes else "add", "path": where, "value": text}]


def _annotations_patch(raw: Mapping[str, Any], texts: Sequence[Mapping[str, str | None]]) -> Patch:
    patch: Patch = []
    for index, (entry, wanted) in enumerate(zip(raw["spec"]["replicatedJobs"], texts, strict=True)):
        template = entry.get("template") if isinstance(entry, dict) else None
        if isinstance(template, dict):
            patch += _annotate(template, f"/spec/replicatedJobs/{index}/template", wanted)
    return patch


def stamp_patch(raw: Mapping[str, Any], stamps: tuple[Stamp | None, ...]) -> Patch:
    """JSON patch that gives every ReplicatedJob of a raw JobSet exactly these stamps."""
    return _annotations_patch(raw, [{meta.GANG_REF: stamp.encode() if stamp else None} for stamp in stamps])


def unstamped(raw: Mapping[str, Any], jobset: JobSet) -> Patch:
    """JSON patch that removes all stamps from a raw JobSet."""
    # A list that was refused may be in `raw` nevertheless, and has no projection to go through it with.
    return stamp_patch(raw, (None,) * len(jobset.replicated_jobs)) if jobset.replicated_jobs else []


def check_stamped(jobset: JobSet, resolution: Resolution) -> tuple[FieldError, ...]:
    """Errors when the final object at CREATE lacks the stamps that its configuration requires.

    It happens when another webhook changes the configuration after gangctl's has run.
    """
    stamps, malformed = stored_stamps(jobset)
    errors = list(malformed)
    for rj, have, want in zip(jobset.replicated_jobs, stamps, resolution.stamps, strict=True):
        # One error is enough: all stamps have the same cause and the same remedy.
        if have != want and not errors:
            detail = (
                "does not match the gang configuration: another admission webhook changed the JobSet after gangctl's "
                "had run; order that webhook before gangctl-gangs by name, or set the configuration in the manifest"
            )
            errors.append(FieldError(rj.annotation_path(meta.GANG_REF), ErrorKind.INVALID, detail))
    return tuple(errors)


def _configuration(jobset: JobSet) -> dict[str, str | None]:
    """The user's gang configuration, by field path."""
    values = {f"metadata.annotations[{key}]": jobset.annotations.get(key) for key in _ON_JOBSETS}
    values["spec.gangConfig.gangMode"] = jobset.gang_config
    for rj in jobset.replicated_jobs:
        values |= {rj.annotation_path(key): rj.annotations.get(key) for key in _ON_TEMPLATES}
        values[f"{rj.path}.gangConfig.gangMode"] = rj.gang_config
    return values


def _options(text: str) -> GangOptions | None:
    """The options of a text, None where it cannot be read."""
    errors: list[FieldError] = []
    options = read_options(text, OPTIONS_PATH, errors)
    return None if errors else options


def _canonical(path: str, text: str) -> str | None:
    """The one text for all texts that mean the same there, None where it has another format or cannot be read."""
    if path == GANGS_PATH:
        gangs, errors = parse_gangs(text)
        return None if errors else gangs_text(gangs)
    options = _options(text) if path == OPTIONS_PATH else None
    return None if options is None else options.model_dump_json(by_alias=True, exclude_defaults=True)


def _change(path: str, was: str | None, now: str | None) -> str:
    """In words, how a text of the configuration has changed; empty where it means the same."""
    if was is None or now is None:
        said = f'is "{one_line(now, _SHOWN)}"' if now is not None else "is gone"
        return f'{said}, was "{one_line(was, _SHOWN)}"' if was is not None else f"{said}, was not set"
    before, after = _canonical(path, was), _canonical(path, now)
    if before is None or after is None:
        before, after = was, now
    if before == after:
        return ""
    # Of long texts, from shortly before the first difference on: two equal texts would explain nothing.
    ends = min(len(before), len(after))
    same = next((index for index in range(ends) if before[index] != after[index]), ends)
    start = max(0, same - _BEFORE) if max(len(before), len(after)) > _SHOWN else 0
    texts = [f'"{"..." if start else ""}{one_line(text[start:], _SHOWN)}"' for text in (after, before)]
    return f"is {texts[0]}, was {texts[1]}"


def _changed_configuration(old: JobSet, new: JobSet) -> list[FieldError]:
    before, after = _configuration(old), _configuration(new)
    errors = []
    for path in dict.fromkeys([*before, *after]):
        was, now = before.get(path), after.get(path)
        if was != now and (change := _change(path, was, now)):
            errors.append(FieldError(path, ErrorKind.FORBIDDEN, f"{change}; {SETTLED}"))
    return errors


def _resized(old: JobSet, new: JobSet, generation: Generation | None, reason: str) -> list[FieldError]:
    """Errors for elastic resizes that the gang does not support."""
    errors = []
    stamps, _ = stored_stamps(old)
    config, _ = read_config(old)
    for before, after, stamp in zip(old.replicated_jobs, new.replicated_jobs, stamps, strict=False):
        # JobSet's own webhook refuses another name.
        if replicated_job_pods(before) == replicated_job_pods(after) or before.name != after.name:
            continue
        asked = config.mode_of(before) is not GangMode.OFF
        path = f"{after.path}.template.spec.parallelism"
        if stamp is not None and generation is None:
            detail = (
                f'replicated job "{after.name}" is in a gang and cannot be resized now: no gang can be made on this '
                f"cluster: {reason}"
            )
            errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
        elif (
            stamp is not None
            and generation is not None
            and not generation.capabilities.min_count_mutable
            and not _keeps_min_count(old, new, stamps, stamp.template)
        ):
            detail = (
                f'replicated job "{after.name}" is in a gang, whose minCount is immutable on Kubernetes '
                f"{generation.kubernetes}: keep {plural(job_pods(before), 'pod')} per Job, or create a new JobSet"
            )
            errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
        elif stamp is None and asked and job_pods(before) == 0 and not before.scheduling_reference:
            detail = (
                f'replicated job "{after.name}" was created without pods, so that its Jobs belong to no gang and '
                "can join none: create a new JobSet"
            )
            errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
    return errors


def _keeps_min_count(old: JobSet, new: JobSet, stamps: Sequence[Stamp | None], template: str) -> bool:
    """Whether the groups of a template need as many pods before and after a resize."""
    config, _ = read_config(old)
    before, after = (templates_of(jobset, stamps, config).get(template) for jobset in (old, new))
    return before is not None and after is not None and before.min_count == after.min_count


def _groups(jobset: JobSet, stamps: Sequence[Stamp | None]) -> list[list[ReplicatedJob]]:
    """The ReplicatedJobs of each template of these stamps."""
    groups: dict[str, list[ReplicatedJob]] = {}
    for rj, stamp in zip(jobset.replicated_jobs, stamps, strict=False):
        if stamp is not None:
            groups.setdefault(stamp.template, []).append(rj)
    return list(groups.values())


def _unschedulable(jobset: JobSet, stamps: Sequence[Stamp | None], generation: Generation) -> list[FieldError]:
    """Errors that prevent scheduling of the groups of these stamps."""
    groups = _groups(jobset, stamps)
    errors, _ = check_groups(jobset, groups, generation.capabilities)
    return [*errors, *check_templates(jobset, groups)]


def _put_in_order(old: JobSet, new: JobSet, stamps: Sequence[Stamp | None]) -> list[FieldError]:
    """Errors where ReplicatedJobs that start together would start one after another.

    The definition of JobSets refuses another startupPolicy, but neither its removal nor one where there is none.
    """
    if old.in_order or not new.in_order:
        return []
    groups = _groups(new, stamps)
    if read_config(old)[0].options.composite:
        groups = [[rj for group in groups for rj in group]]
    if not any(is_sequenced(new, group) for group in groups):
        return []
    detail = (
        "is InOrder, and replicated jobs of this JobSet are a gang together: the first pods would wait for pods that "
        "wait for them. Leave it out, or create a new JobSet"
    )
    return [FieldError("spec.startupPolicy.startupPolicyOrder", ErrorKind.FORBIDDEN, detail)]


def _lacks_options(was: str, now: str) -> bool:
    """Whether options lack some of those that they had, and have the others as they were."""
    before, after = _options(was), _options(now)
    if before is None or after is None:
        return False
    return after.model_dump(exclude_unset=True).items() < before.model_dump(exclude_unset=True).items()


def _lost(was: Mapping[str, str], now: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """The stored texts of configuration that an update lacks, wholly or in part, by key."""
    return {
        key: was[key]
        for key in keys
        if key in was and (key not in now or (key == meta.GANG_OPTIONS and _lacks_options(was[key], now[key])))
    }


def _lost_on_jobset(old: JobSet, new: JobSet) -> dict[str, str]:
    # Of one that another controller runs, check_update lets everything change.
    return {} if new.managed_elsewhere else _lost(old.annotations, new.annotations, _ON_JOBSETS)


def _lost_on_templates(old: JobSet, new: JobSet) -> list[dict[str, str]]:
    """For each ReplicatedJob of the update."""
    by_name = {rj.name: rj.annotations for rj in old.replicated_jobs}
    return [_lost(by_name.get(rj.name, {}), rj.annotations, _ON_TEMPLATES) for rj in new.replicated_jobs]


def restamp_patch(raw_new: Mapping[str, Any], old: JobSet, new: JobSet) -> Patch:
    """JSON patch that gives an updated JobSet the stamps it was created with, and the configuration that it lost.

    Neither is in the user's file, where defaults of a policy wrote the configuration: `kubectl apply` replaces the list
    of ReplicatedJobs by that of the file, and a full PUT everything. JobSet would refuse the loss, because annotations
    of Job templates are immutable, and for the same reason the original text is restored.
    """
    stamps = {rj.name: rj.annotations.get(meta.GANG_REF) for rj in old.replicated_jobs}
    lost = _lost_on_templates(old, new)
    wanted = [
        {meta.GANG_REF: stamps.get(rj.name), **texts} for rj, texts in zip(new.replicated_jobs, lost, strict=True)
    ]
    return [
        *_annotate(raw_new, "", _lost_on_jobset(old, new)),
        *(_annotations_patch(raw_new, wanted) if wanted else []),
    ]


def check_lost(old: JobSet, new: JobSet) -> tuple[Notice, ...]:
    """A notice about the configuration that :func:`restamp_patch` restores: the user may have meant to remove it."""
    paths = [f"metadata.annotations[{key}]" for key in _lost_on_jobset(old, new)]
    for rj, texts in zip(new.replicated_jobs, _lost_on_templates(old, new), strict=True):
        paths += [rj.annotation_path(key) for key in texts]
    if not paths:
        return ()
    kept = "keeps its value" if len(paths) == 1 else f"and {len(paths) - 1} more keep their value"
    why = "which this update lacks: gang configuration cannot be removed while the JobSet exists"
    return (Notice(Reason.CONFIG_IGNORED, f"{paths[0]} {kept}, {why}"),)


def restored(raw_new: Mapping[str, Any], raw_old: Mapping[str, Any]) -> tuple[Patch, tuple[Notice, ...]]:
    """What the mutating webhook makes of an update, with notices; nothing where the update is malformed."""
    new, errors = read_opted_in(raw_new)
    if errors:
        return [], ()
    old, _ = read_opted_in(raw_old)
    return restamp_patch(raw_new, old, new), check_lost(old, new)


def check_update(
    old: JobSet, new: JobSet, generation: Generation | None, *, reason: str = ""
) -> tuple[FieldError, ...]:
    """Errors of a JobSet UPDATE that its gang does not support; none while the object is being deleted.

    ``reason`` is why there is no generation.
    """
    # Finalizers are removed by updates: a refusal would keep the object.
    if new.deleting or new.managed_elsewhere:
        return ()
    stamps, _ = stored_stamps(old)
    errors = [
        *_changed_configuration(old, new),
        *_resized(old, new, generation, reason),
        *_put_in_order(old, new, stamps),
    ]
    if generation is not None:
        # What an update adds: more pods per Job, or JobSet annotations, next to exclusive placement.
        known = {error.path for error in _unschedulable(old, stamps, generation)}
        errors += [error for error in _unschedulable(new, stamps, generation) if error.path not in known]
    return tuple(errors)


def read_opted_in(raw: Mapping[str, Any]) -> tuple[JobSet, tuple[FieldError, ...]]:
    """Project a JobSet from an admission request; a list of ReplicatedJobs is required, as in the CRD."""
    jobset, errors = read_jobset(raw)
    if not errors and not jobset.replicated_jobs:
        path = "spec.replicatedJobs"
        errors = (FieldError(path, ErrorKind.REQUIRED, "at least one replicated job is needed for a gang"),)
    return jobset, errors


def _pod_spec(raw_job: Mapping[str, Any]) -> Mapping[str, Any]:
    return within(raw_job, "spec", "template", "spec")


def _labelled_reference(metadata: Mapping[str, Any], stamp: Stamp) -> Reference | FieldError:
    """The group by the identity in a Job's labels, which is verified against its controller reference."""
    labels = within(metadata, "labels")
    owner = controller_owner(dict(metadata)) or {}
    name, uid = owner.get("name"), owner.get("uid")
    # Any user may write labels: with those of another JobSet, the pods of a Job would join its groups.
    named = isinstance(name, str) and name == labels.get(meta.JOBSET_NAME)
    if not (named and isinstance(uid, str) and uid == labels.get(meta.JOBSET_UID) and is_jobset_owner(owner)):
        detail = (
            "is written by gangctl for the Jobs of JobSets, but this Job is not controlled by the JobSet "
            f"of its labels {meta.JOBSET_NAME} and {meta.JOBSET_UID}: remove the annotation"
        )
        return FieldError(f"metadata.annotations[{meta.GANG_REF}]", ErrorKind.FORBIDDEN, detail)
    numbers = {
        key: str(labels.get(key, "0")) for key in (meta.JOB_INDEX, meta.RESTART_ATTEMPT, meta.JOB_RESTART_ATTEMPT)
    }
    wrong = [key for key, text in numbers.items() if not _NUMBER.fullmatch(text)]
    if wrong or meta.JOB_INDEX not in labels:
        key = wrong[0] if wrong else meta.JOB_INDEX
        shown = one_line(str(labels.get(key, "")), 64)
        return FieldError("metadata.labels", ErrorKind.INVALID, f'label {key} has to be a number, got "{shown}"')
    index, attempt, job_attempt = (int(text) for text in numbers.values())
    return job_reference(str(name), str(uid), index, stamp, attempt=attempt, job_attempt=job_attempt)


def reference_of_job(raw_job: Mapping[str, Any]) -> Reference | FieldError | None:
    """The group of a Job's pods from its metadata: None without a stamp or where the user chose a group.

    Also None without a pod spec: the API server rejects such a Job.
    """
    metadata = within(raw_job, "metadata")
    if not isinstance(within(raw_job, "spec", "template").get("spec"), dict):
        return None
    stamp = read_stamp(within(metadata, "annotations"), f"metadata.annotations[{meta.GANG_REF}]")
    if stamp is None or isinstance(stamp, FieldError):
        return stamp
    if any(_pod_spec(raw_job).get(field) for field in SCHEDULING_REFERENCES):
        return None
    return _labelled_reference(metadata, stamp)


def inject_patch(reference: Reference, adapter: SchedulingAdapter) -> Patch:
    """JSON patch that makes a Job's pods name their group."""
    path = f"/spec/template/spec/{adapter.reference_field}"
    return [{"op": "add", "path": path, "value": adapter.reference(reference)}]


def repair_patch(old_job: Mapping[str, Any], new_job: Mapping[str, Any]) -> Patch:
    """JSON patch that restores a reference which an UPDATE lost.

    A controller built against another release of the API drops the field on every full PUT,
    and the API server would refuse that PUT as a change of the immutable template.
    """
    new = within(new_job, "spec", "template").get("spec")
    if not isinstance(new, dict) or any(new.get(field) for field in SCHEDULING_REFERENCES):
        return []
    old = {field: within(_pod_spec(old_job), field) for field in SCHEDULING_REFERENCES}
    # A value that is not a map of strings is not a reference.
    return [
        {"op": "add", "path": f"/spec/template/spec/{field}", "value": dict(reference)}
        for field, reference in old.items()
        if reference and all(isinstance(value, str) for value in reference.values())
    ]

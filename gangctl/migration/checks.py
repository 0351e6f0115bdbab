"""What stands in the way of a migration, whatever the gangs are."""

from __future__ import annotations

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import QUEUE_NAME
from gangctl.errors import ErrorKind
from gangctl.gang.config import is_configured
from gangctl.gang.convert import check_words
from gangctl.gang.edits import Object
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.migration.draft import Draft
from gangctl.migration.marks import Level, check_texts, child, mentions, pod_template, replicated_jobs, systems_seen
from gangctl.migration.systems import NAMES


def check_words_of(draft: Draft) -> None:
    """Refuse words that nobody could have read, and words of a second system, gangctl included."""
    for error in (*check_texts(draft.raw, draft.system), *check_words(draft.raw)):
        draft.refuse(error.path, error.detail, error.kind)
    title = draft.names.title
    for system, (what, path) in systems_seen(draft.raw).items():
        if system is not draft.system:
            other = NAMES[system].title
            detail = f"{what} is for {other}, beside what is for {title}: keep one scheduler, remove the other's words"
            draft.refuse(path, detail, ErrorKind.INVALID)
    if is_configured(draft.jobset) or draft.jobset.native_scheduling:
        path = "spec.scheduling" if draft.jobset.native_scheduling else "metadata"
        detail = f"the JobSet has a gang configuration already, beside what is for {title}: remove one of them"
        draft.refuse(path, detail, ErrorKind.INVALID)


def check_queue(draft: Draft, queue: str) -> None:
    """Refuse a second queue of Kueue; say which queue is left out when none is asked for."""
    if queue and draft.jobset.queue not in {"", queue}:
        detail = f'is "{draft.jobset.queue}", not "{queue}": leave --queue out, or this label'
        draft.refuse(f"metadata.labels[{QUEUE_NAME}]", detail, ErrorKind.INVALID)
    elif draft.queues and not queue and not draft.jobset.queue:
        names = ", ".join(f'"{name}"' for name in sorted(set(draft.queues)))
        text = f"queue {names} of {draft.names.title} is left out; --queue NAME puts the JobSet into one of Kueue"
        draft.note("metadata", text)


def check_uses(draft: Draft) -> None:
    """Refuse pods that use a label or an annotation which goes."""
    going = sorted({m.key for m in draft.marks if m.level is Level.POD and draft.names.reads(m.key)})
    for rj, entry in zip(draft.jobset.replicated_jobs, replicated_jobs(draft.raw), strict=True):
        spec = child(pod_template(entry), "spec")
        for key in going:
            if mentions(spec, key):
                detail = f"these pods use {key}, which goes: select by jobset.sigs.k8s.io/jobset-name instead"
                draft.refuse(f"{rj.path}.template.spec.template.spec", detail)


def check_result(draft: Draft, value: Object) -> None:
    """Refuse what gangctl would refuse at admission, on the newest Kubernetes; say what else it would."""
    resolution = resolve(read_jobset(value)[0], ClusterRules())
    for error in resolution.errors:
        draft.refuse(error.path, error.detail, error.kind)
    for notice in resolution.notices:
        draft.note("metadata", notice.message)

"""Facts from a stored PathwaysJob and its JobSet; other fields are ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gangctl.api.meta import controller_owner
from gangctl.api.objects import Object, object_at, objects_at
from gangctl.pathways.status.facts import Condition, JobSetFacts, PathwaysFacts, Replicas, Status
from gangctl.pathways.words import DIGEST, GROUP, HEAD, KIND, WORKER

_ELASTIC: Final = re.compile(r"--num_elastic_slices=(?P<slices>\d{1,6})")


def read_pathways_facts(raw: Object) -> PathwaysFacts:
    """Project a stored PathwaysJob; total."""
    metadata, status = object_at(raw, "metadata"), object_at(raw, "status")
    restarts = status.get("restarts")
    return PathwaysFacts(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        generation=_number(metadata.get("generation")),
        status=Status(
            conditions=tuple(_conditions(status)),
            restarts=None if restarts is None else _number(restarts),
            terminal_state=_text(status, "terminalState"),
        ),
        deleting="deletionTimestamp" in metadata,
    )


def pathways_owner(raw: Object) -> str:
    """UID of the PathwaysJob that controls an object, empty without one."""
    owner = controller_owner(dict(object_at(raw, "metadata")))
    group = _text(owner or {}, "apiVersion").partition("/")[0]
    return _text(owner or {}, "uid") if owner and (group, owner.get("kind")) == (GROUP, KIND) else ""


def read_jobset_facts(raw: Object) -> JobSetFacts:
    """Project a stored JobSet; total."""
    metadata, spec, status = (object_at(raw, key) for key in ("metadata", "spec", "status"))
    jobs = {_text(each, "name"): each for each in objects_at(spec, "replicatedJobs")}
    stand = {_text(each, "name"): each for each in objects_at(status, "replicatedJobsStatus")}
    return JobSetFacts(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        owner=pathways_owner(raw),
        conditions=tuple(_conditions(status)),
        head=_replicas(jobs.get(HEAD, {}), stand.get(HEAD, {})),
        workers=_replicas(jobs.get(WORKER, {}), stand.get(WORKER, {})),
        elastic=_elastic(jobs.get(HEAD, {})),
        restarts=_number(status.get("restarts")),
        max_restarts=_number(object_at(spec, "failurePolicy").get("maxRestarts")),
        terminal_state=_text(status, "terminalState"),
        digest=_text(object_at(metadata, "annotations"), DIGEST),
        deleting="deletionTimestamp" in metadata,
    )


def _replicas(job: Object, status: Object) -> Replicas:
    wanted = job.get("replicas")
    up = _number(status.get("ready")) + _number(status.get("succeeded"))
    return Replicas(1 if wanted is None else _number(wanted), up)


def _elastic(head: Object) -> int:
    """Elastic slices by the argument of its proxy, in any container of the head."""
    spec = head
    for key in ("template", "spec", "template", "spec"):
        spec = object_at(spec, key)
    for container in (*objects_at(spec, "initContainers"), *objects_at(spec, "containers")):
        arguments = container.get("args")
        for argument in arguments if isinstance(arguments, list) else ():
            if isinstance(argument, str) and (found := _ELASTIC.fullmatch(argument)):
                return int(found["slices"])
    return 0


def _conditions(status: Object) -> Iterator[Condition]:
    for each in objects_at(status, "conditions"):
        yield Condition(
            type=_text(each, "type"),
            status=_text(each, "status"),
            reason=_text(each, "reason"),
            message=_text(each, "message"),
            since=_text(each, "lastTransitionTime"),
            generation=_number(each.get("observedGeneration")),
        )


def _text(raw: Object, key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

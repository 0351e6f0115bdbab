"""PathwaysJobs among what is evaluated: each is two requests, its own and the one that creates its JobSet.

A cluster with the controller of PathwaysJobs is sent the PathwaysJob by a person, and the JobSet by the controller.
Policies are hardly ever about the first, always about the second. So the JobSet is what is evaluated, and the
PathwaysJob beside it where a policy says that it is about those. An UPDATE reaches the PathwaysJob alone: its JobSet
is made once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gangctl.api.documents import Document
from gangctl.api.objects import Object
from gangctl.api.scheduling import NEWEST, Generation
from gangctl.cli.manifests import Problems, read_pathways_manifest
from gangctl.pathways.reading.pathwaysjob import is_pathways_job
from gangctl.policy.review import Operation


@dataclass(frozen=True, slots=True)
class Sent:
    """An object that an API server is sent, and the document that it comes from."""

    document: Document
    obj: Object
    notes: tuple[str, ...] = ()
    only_if_matched: bool = False
    """Whether nothing is said where no policy is about it."""


def sent_for(documents: Iterable[Document], operation: Operation, generation: Generation = NEWEST) -> list[Sent]:
    """What an API server of a generation is sent of these documents.

    InvalidInputError with all errors of all PathwaysJobs.
    """
    problems = Problems()
    found: list[Sent] = []
    for document in documents:
        if not is_pathways_job(document.value):
            found.append(Sent(document, document.value))
            continue
        manifest = read_pathways_manifest(document, None, generation)
        if problems.add(document, manifest.errors):
            continue
        if operation == "UPDATE":
            note = "an UPDATE of a PathwaysJob does not change its JobSet: no policy about JobSets is asked"
            found.append(Sent(document, document.value, (note,)))
            continue
        found.append(Sent(document, document.value, only_if_matched=True))
        notes = (
            f"evaluated is the JobSet that PathwaysJob {manifest.title} becomes",
            *(f"{notice.reason}: {notice.message}" for notice in manifest.notices),
        )
        found.append(Sent(document, manifest.raw, notes))
    problems.raise_if_any()
    return found

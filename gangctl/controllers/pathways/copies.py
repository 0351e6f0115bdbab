"""What the informers keep of PathwaysJobs and of the JobSets made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gangctl.client.resources import Resource
from gangctl.pathways.status.facts import JobSetFacts, PathwaysFacts
from gangctl.pathways.status.projections import pathways_owner, read_jobset_facts, read_pathways_facts
from gangctl.pathways.words import API_VERSION, GROUP, KIND, PLURAL

PATHWAYS_JOBS: Final = Resource(GROUP, API_VERSION.partition("/")[2], PLURAL, KIND)

_METADATA: Final = ("name", "namespace", "uid", "generation", "labels", "annotations", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class PathwaysCopy:
    """A PathwaysJob as the API server has it, or as gangctl's last write left it."""

    facts: PathwaysFacts
    version: str
    """The object's resourceVersion."""
    raw: dict[str, Any]
    """The input of rendering; must not be changed."""

    @property
    def order(self) -> int:
        """The later of two copies has the higher number; 0 where the version is not a number."""
        return int(self.version) if self.version.isdigit() else 0


def project_pathways_job(raw: dict[str, Any]) -> PathwaysCopy:
    """Keep what reading and the status need."""
    metadata = raw["metadata"]
    return PathwaysCopy(
        facts=read_pathways_facts(raw),
        version=str(metadata.get("resourceVersion", "")),
        raw={
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
            "spec": raw.get("spec"),
        },
    )


def project_jobset(raw: dict[str, Any]) -> JobSetFacts | None:
    """The facts of a JobSet that a PathwaysJob controls; None for all others."""
    return read_jobset_facts(raw) if pathways_owner(raw) else None

"""What the API server refuses of the pods of Jobs, gangctl says before a JobSet is created, and no more than that."""

from __future__ import annotations

from tests.apiserver.containers import PROBES, SOURCES
from tests.apiserver.podrows import listed, refusals
from tests.apiserver.pods import AFFINITIES, CONTEXTS, PODS
from tests.apiserver.volumes import VOLUMES
from tests.controlplane.api import Object
from tests.rows import each


@each(("refused", "fields", "accepted"), [*SOURCES, *PROBES, *VOLUMES, *AFFINITIES, *CONTEXTS, *PODS])
def test_pods_of_a_jobset_are_those_that_can_be(refused: Object, fields: str | list[str], accepted: Object) -> None:
    assert refusals(refused) == listed(fields)
    assert refusals(accepted) == []

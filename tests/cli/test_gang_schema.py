"""The schema of a Gang is published, and what gangctl makes of any readiness keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.gang.reasons import Reason
from gangctl.readiness.report import MOST_CAUSES, MOST_GROUPS, gang_object
from gangctl.readiness.result import Cause, Counts, GangPhase, GroupReadiness, Readiness
from tests.cli.conftest import Golden
from tests.cli.publishedschemas import schema_of
from tests.cli.schema import violations

SCHEMA = Path(__file__).parents[2] / "docs" / "gang.schema.json"

seconds = st.integers(0, 2**31)
phases = st.sampled_from(GangPhase)
groups = st.builds(GroupReadiness, phase=phases, since=seconds, counts=st.builds(Counts))
causes = st.builds(Cause, reason=st.sampled_from(Reason), since=seconds, pods=st.integers(0, 9))
readinesses = st.builds(
    Readiness,
    phase=phases,
    since=seconds,
    counts=st.builds(Counts, ready=st.integers(0, 9), wanted=st.integers(0, 9)),
    groups=st.lists(groups, max_size=2).map(tuple),
    causes=st.lists(causes, max_size=MOST_CAUSES + 1).map(tuple),
    attempt=st.integers(0, 9),
    **dict.fromkeys(("created_at", "admitted_at", "placed_at", "first_ready_at", "ready_at"), seconds),
)


def test_schema_is_published(golden: Golden) -> None:
    golden(SCHEMA, json.dumps(schema_of("gang"), indent=2) + "\n")


@given(readinesses)
def test_every_gang_matches_the_schema(readiness: Readiness) -> None:
    assert violations(gang_object(readiness), schema_of("gang")) == []


def test_a_gang_of_the_cluster_matches_the_schema() -> None:
    counts = Counts()
    gang = gang_object(Readiness("ns", "js", "uid", GangPhase.PENDING, 1, counts, ()))
    found: dict[str, Any] = json.loads(json.dumps(gang))
    found["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    assert violations(found, schema_of("gang")) == []
    found["status"]["guess"] = 1
    assert violations(found, schema_of("gang"))


def test_lists_are_bounded() -> None:
    group = GroupReadiness("g", "t", ("w",), GangPhase.PENDING, 1, Counts())
    cause = Cause(Reason.PODS_MISSING, "some are missing")
    many = (MOST_GROUPS + 1) * (group,), (MOST_CAUSES + 1) * (cause,)
    status = gang_object(Readiness("ns", "js", "uid", GangPhase.PENDING, 1, Counts(), many[0], many[1]))["status"]
    assert len(status["groups"]) == MOST_GROUPS
    assert len(status["causes"]) == MOST_CAUSES

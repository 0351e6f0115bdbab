"""``spec.scheduling`` and annotations, there and back: every shape exactly, whatever the options, whoever began."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.jobset import read_jobset
from gangctl.gang.convert import Notation, convert
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY

GANG, OFF, EACH = "Gang", "Off", "ReplicatedGang"
SHAPES: dict[str, tuple[str | None, tuple[str | None, ...]]] = {
    "jobset": (GANG, (None, None, None)),
    "jobset-without-one": (GANG, (None, OFF, None)),
    "replicated-jobs": (None, (GANG, GANG, GANG)),
    "one-replicated-job": (None, (None, GANG, None)),
    "replicas": (None, (EACH, EACH, EACH)),
    "some-replicas": (None, (None, None, EACH)),
    "replicated-jobs-and-replicas": (None, (GANG, EACH, None)),
}
OPTIONS: dict[str, dict[str, str]] = {
    "none": {},
    "topology": {"topologyKey": "example.com/rack"},
    "single": {"disruption": "single"},
    "all": {"disruption": "all"},
    "both": {"topologyKey": "zone", "disruption": "all"},
}


def written(shape: str, options: str) -> dict[str, Any]:
    """A JobSet with annotations, in the form in which gangctl writes them."""
    own, modes = SHAPES[shape]
    text = json.dumps(OPTIONS[options], separators=(",", ":")) if OPTIONS[options] else None
    sizes = ((1, 1, 1), (2, 4, 4), (3, 2, 1))
    entries = [rj(f"r{i}", *size, mode=mode) for i, (size, mode) in enumerate(zip(sizes, modes, strict=True))]
    return jobset("js", *entries, mode=own, options=text)


def to(raw: dict[str, Any], notation: Notation) -> dict[str, Any]:
    conversion = convert(raw, notation)
    assert conversion.errors == ()
    return conversion.value


@each("options", OPTIONS)
@each("shape", SHAPES)
def test_there_and_back_is_the_same_text(shape: str, options: str) -> None:
    raw = written(shape, options)
    there = to(raw, Notation.SCHEDULING)
    assert "gangctl.dev" not in json.dumps(there)
    assert to(there, Notation.ANNOTATIONS) == raw
    assert to(to(raw, Notation.GANGCONFIG), Notation.SCHEDULING) == there
    assert to(to(there, Notation.GANGCONFIG), Notation.ANNOTATIONS) == raw


def policy(kind: str, block: dict[str, Any], pods: int, *, full: bool) -> dict[str, Any]:
    """One policy block: of a gang with its options, its count written or not."""
    if kind == "basic":
        return {"schedulingPolicy": {"basic": {}}}
    return {"schedulingPolicy": {"gang": {"minCount": pods} if full else {}}, **block}


@st.composite
def scheduled(draw: st.DrawFn) -> dict[str, Any]:
    """A JobSet with a ``spec.scheduling`` that GangConfig has words for, in any of the forms that mean the same."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 4)), min_size=1, max_size=4))
    entries = [rj(f"r{i}", replicas, pods, pods) for i, (replicas, pods) in enumerate(sizes)]
    totals = [replicas * pods for replicas, pods in sizes]
    block: dict[str, Any] = {}
    if (key := draw(st.sampled_from([None, "zone"]))) is not None:
        block["schedulingConstraints"] = {"topology": [{"key": key}]}
    if (disruption := draw(st.sampled_from([None, "single", "all"]))) is not None:
        block["disruptionMode"] = {disruption: {}}
    full = draw(st.booleans())
    form = draw(st.sampled_from(["top", "together", "apart"]))
    if form == "top":
        scheduling = policy("gang", block, sum(totals), full=full)
    elif form == "together":
        count = draw(st.integers(1, len(entries)))
        names = [f"r{i}" for i in range(count)]
        listed = [{"targetReplicatedJobs": names, **policy("gang", block, sum(totals[:count]), full=full)}]
        listed += [
            {"targetReplicatedJobs": [f"r{i}"], **policy("basic", {}, 0, full=False)}
            for i in range(count, len(entries))
        ]
        scheduling = {"replicatedJobs": draw(st.permutations(listed))}
    else:
        kinds = draw(st.lists(st.sampled_from(["gang", "basic", "job"]), min_size=len(entries), max_size=len(entries)))
        kinds[0] = draw(st.sampled_from(["gang", "job"]))
        listed = []
        for i, (kind, (_, pods)) in enumerate(zip(kinds, sizes, strict=True)):
            inner = policy("gang", block, pods, full=full)
            outer = policy(kind, block, totals[i], full=full)
            listed.append({"targetReplicatedJobs": [f"r{i}"], **({"job": inner} if kind == "job" else outer)})
        scheduling = {"replicatedJobs": draw(st.permutations(listed))}
    return jobset("js", *entries, scheduling=scheduling)


def meaning(raw: dict[str, Any]) -> set[tuple[frozenset[str], str, str]]:
    """Who waits for whom, one by one or per Job, and under which constraints; read without gangctl."""
    scheduling = raw["spec"]["scheduling"]
    everybody = [entry["name"] for entry in raw["spec"]["replicatedJobs"]]
    listed = scheduling.get("replicatedJobs") or [{"targetReplicatedJobs": everybody, **scheduling}]
    found = set()
    for entry in listed:
        block = entry.get("job", entry)
        if "basic" in block.get("schedulingPolicy", {}):
            continue
        rest = {key: block[key] for key in ("schedulingConstraints", "disruptionMode") if key in block}
        kind = "job" if "job" in entry else "gang"
        found.add((frozenset(entry["targetReplicatedJobs"]), kind, json.dumps(rest, sort_keys=True)))
    return found


@PROPERTY
@given(scheduled())
def test_the_affinity_is_that_of_jobset(raw: dict[str, Any]) -> None:
    there = to(raw, Notation.ANNOTATIONS)
    assert read_jobset(there)[0].native_scheduling is False
    back = to(there, Notation.SCHEDULING)
    assert meaning(back) == meaning(raw)
    assert back["spec"]["replicatedJobs"] == raw["spec"]["replicatedJobs"]
    assert to(back, Notation.ANNOTATIONS) == there

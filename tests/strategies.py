"""Hypothesis strategies for JobSets as raw objects: usual ones, and hostile ones.

:func:`jobsets` draws objects of the right types that may still be refused, :func:`gangs`
those with nothing in the way of a gang, :func:`hostile_jobsets` JSON with anything anywhere.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.jobsets import FIXTURE_UID, MODE, OPTIONS, REF, jobset, rj

PROPERTY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For every property of the pure core: it is measured elsewhere, not by deadlines."""

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
OWN_REFERENCES: tuple[dict[str, Any], ...] = (
    {"schedulingGroup": {"podGroupName": "mine"}},
    {"workloadRef": {"name": "mine", "podGroup": "x"}},
)

ODD_NAMES = ("x-", "", "-", "UPPER", "rj0", "rj1", "rj2", "jobset", "jobset-root", "b", "b-0", "b-0-0", "n" * 63)
names = st.one_of(st.sampled_from(ODD_NAMES), st.text("abz09-", min_size=1, max_size=24))
jobset_names = st.one_of(
    st.sampled_from(["js", "a", "js-b", "distributed-training-exp-aaaa", "l" * 52, "l" * 63]),
    st.text("abyz09-", max_size=20).map(lambda tail: f"j{tail}"),
)
uids = st.one_of(st.just(FIXTURE_UID), st.uuids().map(str))
few = st.integers(0, 6)
counts = st.one_of(st.none(), few)


def rarely(value: st.SearchStrategy[Any], otherwise: Any) -> st.SearchStrategy[Any]:
    """``value`` in one draw of six."""
    return st.integers(0, 5).flatmap(lambda n: value if n == 5 else st.just(otherwise))


def _write_mode(entry: dict[str, Any], notes: dict[str, Any], mode: str | None, notation: str) -> None:
    """A mode in one of the two notations, or in both."""
    if mode is None:
        return
    if notation != "field":
        notes[MODE] = mode
    if notation != "annotation":
        entry["gangConfig"] = {"gangMode": mode}


notations = st.sampled_from(["annotation", "annotation", "field", "both"])
options = st.fixed_dictionaries(
    {},
    optional={
        "topologyKey": st.sampled_from(["example.com/rack", "zone"]),
        "disruption": st.sampled_from(["single", "all"]),
        "sequenced": st.just("split"),
        "composite": st.just(False),
    },
)


def _modes(level: str) -> tuple[st.SearchStrategy[str | None], st.SearchStrategy[str | None]]:
    """Strategies of the JobSet's mode and of each ReplicatedJob's."""
    if level == "jobset":
        return st.just("Gang"), rarely(st.just("Off"), None)
    if level == "rj":
        return st.sampled_from([None, "Off"]), st.sampled_from([None, "Off", "Gang", "Gang", "ReplicatedGang"])
    modes = st.sampled_from([None, "Off", "Gang", "ReplicatedGang"])
    return modes, modes


@st.composite
def _replicated_job(
    draw: st.DrawFn, name: str, earlier: list[str], mode: str | None, *, obstacles: bool
) -> dict[str, Any]:
    pod: dict[str, Any] = {}
    notes: dict[str, str] = {}
    if obstacles:
        pod |= draw(rarely(st.sampled_from(OWN_REFERENCES), {}))
        pod |= draw(rarely(st.just({"priorityClassName": "high"}), {}))
        pod |= draw(rarely(st.sampled_from([{"schedulerName": "volcano"}, {"schedulerName": "default-scheduler"}]), {}))
        notes |= draw(rarely(st.just({EXCLUSIVE: "rack"}), {}))
        notes |= draw(rarely(st.just({NODE_SELECTOR: "true"}), {}))
    depends_on = draw(rarely(st.sampled_from(earlier), None)) if earlier else None
    replicas, parallelism, completions = draw(counts), draw(counts), draw(counts)
    entry = rj(name, replicas, parallelism, completions, depends_on=depends_on, pod=pod, annotations=notes)
    metadata = entry["template"].setdefault("metadata", {"annotations": {}})
    _write_mode(entry, metadata["annotations"], mode, draw(notations))
    return entry


def _pod_spec(entry: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = entry["template"]["spec"]["template"]["spec"]
    return spec


@st.composite
def _drawn(draw: st.DrawFn, levels: tuple[str, ...], most: int, *, obstacles: bool) -> dict[str, Any]:
    own, each = _modes(draw(st.sampled_from(levels)))
    listed = draw(st.lists(names, min_size=0 if obstacles else 1, max_size=most, unique=True))
    entries = [
        draw(_replicated_job(name, listed[:i], draw(each), obstacles=obstacles)) for i, name in enumerate(listed)
    ]
    raw = jobset(draw(jobset_names), *entries, uid=draw(uids), suspend=draw(st.booleans()))
    notes = raw["metadata"].setdefault("annotations", {})
    _write_mode(raw["spec"], notes, draw(own), draw(notations))
    if (priority := draw(rarely(st.sampled_from(["high", "low"]), None))) is not None:
        for entry in entries:
            _pod_spec(entry)["priorityClassName"] = priority
    if not any("dependsOn" in entry for entry in entries) and draw(rarely(st.just(True), False)):
        raw["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    if obstacles:
        notes |= draw(rarely(st.just({EXCLUSIVE: "rack"}), {}))
        raw["spec"] |= draw(rarely(st.sampled_from([{"managedBy": "kueue"}, {"scheduling": {"gang": {}}}]), {}))
        if (chosen := draw(rarely(options, None))) is not None:
            notes[OPTIONS] = json.dumps(chosen)
    return raw


def jobsets() -> st.SearchStrategy[dict[str, Any]]:
    """JobSets of the right types: up to ten ReplicatedJobs, every gang configuration, accepted or not."""
    return _drawn(("jobset", "rj", "free"), 10, obstacles=True)


def gangs() -> st.SearchStrategy[dict[str, Any]]:
    """JobSets whose gangs nothing stands in the way of."""
    return _drawn(("jobset", "rj"), 8, obstacles=False)


@st.composite
def gangs_with_classes(draw: st.DrawFn) -> dict[str, Any]:
    """As :func:`gangs`, and gangs of one ReplicatedJob each have priority classes of their own."""
    raw: dict[str, Any] = draw(gangs())
    wide = raw["metadata"]["annotations"].get(MODE) or raw["spec"].get("gangConfig", {}).get("gangMode")
    for entry in () if wide == "Gang" else raw["spec"]["replicatedJobs"]:
        if (priority := draw(st.sampled_from(["", "high", "low"]))) != "":
            _pod_spec(entry)["priorityClassName"] = priority
    return raw


@st.composite
def resized(draw: st.DrawFn, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The same JobSet after an elastic resize of some ReplicatedJobs that had pods."""
    after = copy.deepcopy(dict(raw))
    for entry in after["spec"]["replicatedJobs"]:
        spec = entry["template"]["spec"]
        if spec.get("parallelism") != 0 and spec.get("completions") != 0 and draw(st.booleans()):
            spec["parallelism"] = spec["completions"] = draw(st.integers(1, 9))
    return after


INTERESTING = (
    "Gang",
    "gang",
    "Off",
    "ReplicatedGang",
    "InOrder",
    "default-scheduler",
    "{}",
    "null",
    "[" * 5000,
    '{"sequenced":1,"odd":{}}',
    "job/w/js-w",
    "jobset/jobset/js",
    '{"v":1,"scope":["rj"],"template":{}}',
    "\ud800",
    "İ" * 60,
    "-.a..",
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([2**31 - 1, 2**31, 2**63, 10**400]),
    st.floats(),
    st.sampled_from(INTERESTING),
    st.text(max_size=12),
)
keys = st.one_of(st.sampled_from([MODE, OPTIONS, REF, "name", "gangMode"]), st.text(max_size=4))
hostile_json = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner)),
    max_leaves=5,
)


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) within a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found.append((value, key))
        _places(inner, found)
    return found


@st.composite
def mangled(draw: st.DrawFn, objects: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """An object of ``objects`` with arbitrary JSON in up to four places."""
    raw = copy.deepcopy(draw(objects))
    for _ in range(draw(st.integers(1, 4))):
        container, key = draw(st.sampled_from(_places(raw, [])))
        container[key] = draw(hostile_json)
    return raw


@st.composite
def _with_rare_fields(draw: st.DrawFn) -> dict[str, Any]:
    """A JobSet with stamps, status and the fields that few people write, for mangling."""
    raw = draw(jobsets())
    raw["metadata"] |= {"generateName": "js-", "namespace": "t"}
    raw["spec"] |= draw(st.fixed_dictionaries({}, optional={"gangConfig": hostile_json, "managedBy": hostile_json}))
    raw["status"] = {"restarts": 1, "terminalState": "", "conditions": [{"type": "Completed", "status": "False"}]}
    for entry in raw["spec"]["replicatedJobs"]:
        del entry["template"]["spec"]["backoffLimit"]
        for unread in ("containers", "restartPolicy", "terminationGracePeriodSeconds"):
            del _pod_spec(entry)[unread]
        if (text := draw(rarely(st.sampled_from(INTERESTING), None))) is not None:
            entry["template"]["metadata"]["annotations"][REF] = text
    return raw


def hostile_jobsets() -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects that claim to be JobSets."""
    anything = st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), hostile_json)
    return st.one_of(mangled(_with_rare_fields()), mangled(_with_rare_fields()), anything)

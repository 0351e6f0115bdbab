"""What ``gangctl convert --to scheduling`` writes is accepted by every revision of JobSet's API, and is the same gangs.

The field has changed three times before a release: in the KEP (jobset pull request 1253) and twice in the code (1250).
The rules of each are written here a second time, from their texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import GANGS
from gangctl.gang.convert import Notation, convert
from gangctl.gang.plan import make_plan
from gangctl.gang.resolve import ClusterRules, resolve
from tests.jobsets import FIXTURE_UID, OPTIONS, jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY, gangs

Raw = dict[str, Any]
CLAIMS = [{"name": "c", "resourceClaimName": "shared"}]
POD = {"resourceClaims": CLAIMS}
BLOCK = {"schedulingPolicy", "schedulingConstraints", "disruptionMode", "resourceClaims"}


def keys_of_gang(block: Raw) -> set[str]:
    return set(block.get("schedulingPolicy", {}).get("gang", {}))


def is_sequenced(raw: Raw) -> bool:
    entries = raw["spec"]["replicatedJobs"]
    return "startupPolicy" in raw["spec"] or any(entry.get("dependsOn") for entry in entries)


def complaints(raw: Raw, revision: str) -> Iterator[str]:
    """Why a revision of the API refuses ``spec.scheduling``."""
    scheduling = raw["spec"]["scheduling"]
    entries, rest = scheduling.get("replicatedJobs"), set(scheduling) - {"replicatedJobs"}
    counts = {"minCount"} if revision == "KEP" else {"minGroupCount"}
    if not rest <= BLOCK or (entries is not None and rest):
        yield "a policy of all beside entries"
    if entries is None:
        if revision == "newest" and is_sequenced(raw):
            yield "a policy of all with a sequenced startup"
        if revision == "webhook" and is_sequenced(raw) and "gang" in scheduling.get("schedulingPolicy", {}):
            yield "a gang of all with a sequenced startup"
        if not keys_of_gang(scheduling) <= counts or "resourceClaims" in rest:
            yield "an unknown field of the policy of all"
        return
    replicas = {entry["name"]: entry.get("replicas", 1) for entry in raw["spec"]["replicatedJobs"]}
    targets = [name for entry in entries for name in entry["targetReplicatedJobs"]]
    if sorted(targets) != sorted(replicas):
        yield "replicated jobs in no entry, or in two"
    if sum(replicas[entry["targetReplicatedJobs"][0]] if "job" in entry else 1 for entry in entries) > 8:
        yield "more than eight groups"
    for entry in entries:
        yield from complaints_of_job(entry) if "job" in entry else complaints_of_entry(entry, counts, revision)


def complaints_of_job(entry: Raw) -> Iterator[str]:
    if set(entry) != {"targetReplicatedJobs", "job"} or len(entry["targetReplicatedJobs"]) != 1:
        yield "job beside something else"
    if not set(entry["job"]) <= BLOCK or not keys_of_gang(entry["job"]) <= {"minCount"}:
        yield "an unknown field of the policy of a Job"


def complaints_of_entry(entry: Raw, counts: set[str], revision: str) -> Iterator[str]:
    if not set(entry) <= {"targetReplicatedJobs", *BLOCK} or not keys_of_gang(entry) <= counts:
        yield "an unknown field of an entry"
    if revision != "KEP" and "resourceClaims" in entry:
        yield "claims of an entry"


def planned(raw: Raw) -> set[tuple[Any, ...]]:
    """Which Jobs start together, how many of their pods, under which constraints; whatever the groups are called."""
    jobset, malformed = read_jobset(raw)
    assert malformed == ()
    resolution = resolve(jobset, ClusterRules())
    assert resolution.errors == ()
    plan = make_plan(jobset, resolution.stamps, resolution.config)
    members: dict[str, set[str]] = {}
    for job in plan.jobs() if plan is not None else ():
        if job.reference:
            members.setdefault(job.reference.group, set()).add(job.name)
    return {
        (
            frozenset(members[group.name]),
            template.min_count,
            template.topology_key,
            template.disruption,
            template.claims,
        )
        for group in (plan.groups if plan is not None else ())
        if group.name in members
        for template in (group.template,)
    }


@st.composite
def gang(draw: st.DrawFn, name: str, members: list[str], pods: int, pods_of_job: int) -> Raw:
    """A gang over these ReplicatedJobs, with all that one can have."""
    made: Raw = {"name": name, "replicatedJobs": members}
    if len(members) == 1 and draw(st.booleans()):
        made["perReplica"], pods = True, pods_of_job
    if draw(st.booleans()):
        made["topologyKey"] = draw(st.sampled_from(["rack", "zone"]))
    if draw(st.booleans()):
        made["disruption"] = draw(st.sampled_from(["single", "all"]))
    if pods > 1 and draw(st.booleans()):
        made["minCount"] = draw(st.integers(1, pods - 1))
    if draw(st.booleans()):
        made["resourceClaims"] = CLAIMS
    return made


@st.composite
def lists(draw: st.DrawFn) -> Raw:
    """JobSets with ``gangctl.dev/gangs`` over some ReplicatedJobs, which may wait for another."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=4))
    names = [f"r{number}" for number in range(len(sizes))]
    in_order = draw(st.integers(0, 4)) == 0
    waits = [None if in_order else draw(st.sampled_from([None, None, *names[:number]])) for number in range(len(names))]
    entries = [
        rj(name, replicas, pods, pods, pod=POD, depends_on=wait)
        for name, (replicas, pods), wait in zip(names, sizes, waits, strict=True)
    ]
    groups: dict[int, list[int]] = {}
    for index in range(len(names)):
        groups.setdefault(draw(st.integers(-1, 2)), []).append(index)
    made = [
        draw(
            gang(
                f"g{number}",
                [names[index] for index in members],
                sum(sizes[index][0] * sizes[index][1] for index in members),
                sizes[members[0]][1],
            )
        )
        for number, members in sorted(groups.items())
        if number >= 0
    ]
    notes = {GANGS: json.dumps(made)} if made else {"gangctl.dev/gang-mode": "Gang"}
    if len(made) > 1 and draw(st.integers(0, 3)) == 0:
        notes[OPTIONS] = '{"composite":true}'
    raw = jobset("js", *entries, annotations=notes, uid=FIXTURE_UID)
    if in_order:
        raw["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    return raw


@PROPERTY
@given(st.one_of(gangs(), lists()))
def test_what_is_written_is_accepted_by_every_revision_and_is_the_same_gangs(raw: Raw) -> None:
    if resolve(read_jobset(raw)[0], ClusterRules()).errors:
        return
    there = convert(raw, Notation.SCHEDULING)
    if there.errors:
        assert all(error.path for error in there.errors)
        return
    if "scheduling" not in there.value["spec"]:
        assert planned(raw) == set()
        return
    for revision in ("KEP", "webhook", "newest"):
        assert list(complaints(there.value, revision)) == [], revision
    back = convert(there.value, Notation.ANNOTATIONS)
    assert back.errors == ()
    assert planned(back.value) == planned(raw)


WORKERS = rj("w", 1, 8, 8, pod=POD)
TWO = (rj("a", 2, 4, 4, pod=POD), rj("b", pod=POD))


def listed(*entries: Raw, options: str | None = None, **gang: Any) -> Raw:
    notes = {GANGS: json.dumps([{"name": "g", "replicatedJobs": [entry["name"] for entry in entries], **gang}])}
    return jobset("js", *entries, annotations=notes | ({OPTIONS: options} if options else {}))


@each(
    ("raw", "field"),
    [
        (listed(*TWO, minCount=6), f"metadata.annotations[{GANGS}][0].minCount"),
        (listed(*TWO, resourceClaims=CLAIMS), f"metadata.annotations[{GANGS}][0].resourceClaims"),
        (listed(rj("w", 2, 4, 4), minCount=6), f"metadata.annotations[{GANGS}][0].minCount"),
        (
            jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang"), options='{"composite":true}'),
            f"metadata.annotations[{OPTIONS}].composite",
        ),
        (
            jobset("js", *TWO, scheduling={"schedulingPolicy": {"gang": {"minCount": 6}}}),
            "spec.scheduling",
        ),
    ],
)
def test_what_no_revision_takes_is_refused_with_its_field(raw: Raw, field: str) -> None:
    assert [error.path for error in convert(raw, Notation.SCHEDULING).errors] == [field]


@each(
    ("raw", "entries"),
    [
        (listed(WORKERS, minCount=6), [{"job": {"schedulingPolicy": {"gang": {"minCount": 6}}}}]),
        (
            listed(WORKERS, resourceClaims=CLAIMS),
            [{"job": {"schedulingPolicy": {"gang": {}}, "resourceClaims": CLAIMS}}],
        ),
        (jobset("js", rj("a"), rj("b", depends_on="a"), mode="Gang"), [{"schedulingPolicy": {"gang": {}}}] * 2),
        (
            jobset("js", rj("a"), mode="Gang", startupPolicy={"startupPolicyOrder": "InOrder"}),
            [{"schedulingPolicy": {"gang": {}}}],
        ),
    ],
    ids=["a minimum of one Job", "claims of one Job", "dependsOn", "InOrder"],
)
def test_a_shape_that_every_revision_takes_is_written(raw: Raw, entries: list[Raw]) -> None:
    there = convert(raw, Notation.SCHEDULING)
    assert there.errors == ()
    scheduling = there.value["spec"]["scheduling"]
    assert [
        {key: entry[key] for key in entry if key != "targetReplicatedJobs"} for entry in scheduling["replicatedJobs"]
    ] == (entries)


@each(
    ("scheduling", "words"),
    [
        ({"schedulingPolicy": {"gang": {"minGroupCount": 3}}}, ""),
        ({"schedulingPolicy": {"gang": {"minGroupCount": 1}}}, "minGroupCount: must be the number of Jobs, 3,"),
        ({"schedulingPolicy": {"gang": {"minGroupCount": True}}}, "minGroupCount: must be the number of Jobs, 3,"),
        (
            {
                "replicatedJobs": [
                    {"targetReplicatedJobs": ["a", "b"], "schedulingPolicy": {"gang": {"minGroupCount": 3}}}
                ]
            },
            "",
        ),
        (
            {
                "replicatedJobs": [
                    {"targetReplicatedJobs": ["a", "b"], "schedulingPolicy": {"gang": {"minGroupCount": 2}}}
                ]
            },
            "spec.scheduling.replicatedJobs[0].schedulingPolicy.gang.minGroupCount: must be the number of Jobs, 3,",
        ),
    ],
)
def test_the_newest_minimum_of_groups_is_read(scheduling: Raw, words: str) -> None:
    back = convert(jobset("js", *TWO, scheduling=scheduling), Notation.ANNOTATIONS)
    assert words in "; ".join(map(str, back.errors))
    assert bool(back.errors) is bool(words)
    if not words:
        assert planned(back.value) == planned(jobset("js", *TWO, mode="Gang"))

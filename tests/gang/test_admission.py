"""What the webhooks answer: patches that apply wherever metadata is missing, and refusals that say where."""

from __future__ import annotations

import copy
from typing import Any

from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANG_REF, GANGS
from gangctl.api.scheduling import Generation
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.admission import (
    check_lost,
    check_stamped,
    check_update,
    read_opted_in,
    restamp_patch,
    stamp_patch,
    unstamped,
)
from gangctl.gang.naming import Scope, Stamp
from tests.gang.json_patch import apply
from tests.gang.pipeline import GENERATIONS, read, resolved, stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each
from tests.strategies import EXCLUSIVE, NODE_SELECTOR

Raw = dict[str, Any]
STAMP = Stamp(Scope.REPLICATED_JOB, "w", "js-w")
TEXT = "rj/w/js-w"
TEMPLATE = "/spec/replicatedJobs/0/template"
REF_POINTER = f"{TEMPLATE}/metadata/annotations/gangctl.dev~1gang-ref"
GANG = jobset("js", rj("w", 2, 4, 4, mode="Gang"), uid=FIXTURE_UID)


def with_metadata(metadata: Any) -> Raw:
    raw = jobset("js", rj("w"))
    raw["spec"]["replicatedJobs"][0]["template"]["metadata"] = metadata
    return raw


def notes(raw: Raw) -> Any:
    return raw["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"]


def places(errors: tuple[FieldError, ...]) -> list[tuple[str, ErrorKind]]:
    return [(error.path, error.kind) for error in errors]


@each(
    ("raw", "operation", "pointer", "after"),
    [
        (jobset("js", rj("w")), "add", f"{TEMPLATE}/metadata", {GANG_REF: TEXT}),
        (with_metadata(None), "add", f"{TEMPLATE}/metadata", {GANG_REF: TEXT}),
        (with_metadata({}), "add", f"{TEMPLATE}/metadata/annotations", {GANG_REF: TEXT}),
        (with_metadata({"annotations": None}), "add", f"{TEMPLATE}/metadata/annotations", {GANG_REF: TEXT}),
        (with_metadata({"annotations": {}}), "add", REF_POINTER, {GANG_REF: TEXT}),
        (with_metadata({"annotations": {"a": "b"}}), "add", REF_POINTER, {"a": "b", GANG_REF: TEXT}),
        (with_metadata({"annotations": {GANG_REF: "mine"}}), "replace", REF_POINTER, {GANG_REF: TEXT}),
    ],
)
def test_the_stamp_is_put_where_it_belongs(raw: Raw, operation: str, pointer: str, after: Raw) -> None:
    (change,) = stamp_patch(raw, (STAMP,))
    assert (change["op"], change["path"]) == (operation, pointer)
    stamped = apply(raw, [change])
    assert notes(stamped) == after
    assert stamp_patch(stamped, (STAMP,)) == []


def test_labels_of_the_template_stay() -> None:
    raw = with_metadata({"labels": {"a": "b"}})
    stamped = apply(raw, stamp_patch(raw, (STAMP,)))
    assert stamped["spec"]["replicatedJobs"][0]["template"]["metadata"]["labels"] == {"a": "b"}


def test_a_stamp_that_a_user_wrote_is_removed_where_none_belongs() -> None:
    raw = with_metadata({"annotations": {"a": "b", GANG_REF: TEXT}})
    assert notes(apply(raw, stamp_patch(raw, (None,)))) == {"a": "b"}
    assert apply(raw, unstamped(raw, read(raw))) == apply(raw, stamp_patch(raw, (None,)))
    assert unstamped(jobset("js"), read(jobset("js"))) == []
    assert unstamped(with_metadata(None), read(with_metadata(None))) == []


def test_the_final_object_at_create_must_carry_what_was_decided() -> None:
    path = f"spec.replicatedJobs[0].template.metadata.annotations[{GANG_REF}]"
    decided = resolved(GANG)
    assert places(check_stamped(read(GANG), decided)) == [(path, ErrorKind.INVALID)]
    assert "another admission webhook" in check_stamped(read(GANG), decided)[0].detail
    other = apply(GANG, stamp_patch(GANG, (Stamp(Scope.JOB, "w", "js-w"),)))
    assert places(check_stamped(read(other), decided)) == [(path, ErrorKind.INVALID)]
    broken = copy.deepcopy(stored(GANG))
    notes(broken)[GANG_REF] = "{}"
    assert places(check_stamped(read(broken), decided)) == [(path, ErrorKind.INVALID)]
    uninvited = stored(GANG)
    del notes(uninvited)[GANG_MODE]
    assert places(check_stamped(read(uninvited), resolved(uninvited))) == [(path, ErrorKind.INVALID)]


def test_a_gang_needs_replicated_jobs() -> None:
    empty: list[Raw] = [jobset("js", mode="Gang"), {"metadata": {}}]
    for raw in empty:
        assert places(read_opted_in(raw)[1]) == [("spec.replicatedJobs", ErrorKind.REQUIRED)]
    assert read_opted_in(GANG)[1] == ()


@each("text", ['{"v": 1, "scope": "rj", "template": "w"}', "broken", ""])
def test_an_update_gets_back_the_same_text_that_it_lost(text: str) -> None:
    before = stored(GANG)
    notes(before)[GANG_REF] = text
    for lost in (GANG, stored(GANG)):
        assert apply(lost, restamp_patch(lost, read(before), read(lost))) == before
    assert restamp_patch(before, read(before), read(before)) == []


def test_an_update_cannot_bring_a_stamp() -> None:
    raw = jobset("js", rj("w"), rj("v"))
    forged = apply(raw, stamp_patch(raw, (STAMP, None)))
    assert notes(apply(forged, restamp_patch(forged, read(raw), read(forged)))) == {}
    fewer, renamed = jobset("js"), jobset("js", rj("other"))
    assert restamp_patch(fewer, read(stored(GANG)), read(fewer)) == []
    assert restamp_patch(renamed, read(stored(GANG)), read(renamed)) == []


PARTS = [
    ("a mode of each", {}, {"w": {GANG_MODE: "Gang"}}, {}, {}),
    ("a mode of the JobSet", {GANG_MODE: "Gang"}, {}, {}, {}),
    ("a list", {GANGS: '[{"name": "g", "replicatedJobs": ["w"]}]'}, {}, {}, {}),
    ("both", {GANG_MODE: "Off", GANG_OPTIONS: "{}"}, {"w": {GANG_MODE: "Gang"}}, {GANG_MODE: "Off"}, {}),
    (
        "an option of a policy",
        {GANG_MODE: "Gang", GANG_OPTIONS: '{"disruption":"all","topologyKey":"rack"}'},
        {},
        {GANG_MODE: "Gang", GANG_OPTIONS: '{ "disruption": "all" }'},
        {},
    ),
    ("beside others", {GANG_MODE: "Gang"}, {"w": {"a": "b", GANG_REF: TEXT}}, {"c": "d"}, {"w": {"a": "b"}}),
]
"""Annotations of a JobSet and of its ReplicatedJobs, and what an update has of them."""


@each(("on_jobset", "on_templates", "kept", "kept_there"), [row[1:] for row in PARTS], ids=[row[0] for row in PARTS])
def test_an_update_gets_back_the_configuration_that_it_lost(
    on_jobset: Raw, on_templates: Raw, kept: Raw, kept_there: Raw
) -> None:
    """What a policy's defaults wrote is in no file: `kubectl apply` replaces lists, `kubectl replace` everything."""

    def having(annotations: Raw, there: Raw) -> Raw:
        return jobset("js", *(rj(name, annotations=there.get(name)) for name in ("w", "v")), annotations=annotations)

    before, after = having(on_jobset, on_templates), having(kept, kept_there)
    restored = apply(after, restamp_patch(after, read(before), read(after)))
    assert restored == having({**kept, **on_jobset}, {**kept_there, **on_templates})
    assert check_update(read(before), read(restored), Generation.V1BETA1) == ()
    (notice,) = check_lost(read(before), read(after))
    assert "cannot be removed" in notice.message
    assert check_lost(read(before), read(restored)) == ()


CHANGED_OPTIONS = ['{"disruption":"single"}', '{"disruption":"all","composite":true}', "", "[]", '{"a": 1}']


@each("text", CHANGED_OPTIONS)
def test_options_that_are_no_part_of_the_stored_ones_are_refused(text: str) -> None:
    before = jobset("js", rj("w"), mode="Gang", options='{"disruption":"all","topologyKey":"rack"}')
    after = jobset("js", rj("w"), mode="Gang", options=text)
    assert restamp_patch(after, read(before), read(after)) == []
    assert check_lost(read(before), read(after)) == ()
    assert places(check_update(read(before), read(after), Generation.V1BETA1)) == [
        (f"metadata.annotations[{GANG_OPTIONS}]", ErrorKind.FORBIDDEN)
    ]


def test_the_configuration_of_a_jobset_that_another_controller_runs_may_go() -> None:
    before = jobset("js", rj("w"), mode="Gang", managedBy="x")
    after = jobset("js", rj("w"), managedBy="x")
    assert restamp_patch(after, read(before), read(after)) == []


def test_one_warning_names_what_came_back() -> None:
    before = jobset("js", *(rj(f"w{index}", mode="Gang") for index in range(30)))
    after = jobset("js", *(rj(f"w{index}") for index in range(30)))
    (notice,) = check_lost(read(before), read(after))
    path = f"spec.replicatedJobs[0].template.metadata.annotations[{GANG_MODE}]"
    assert notice.message.startswith(f"{path} and 29 more")
    # The API server cuts a warning at 256 characters.
    assert len(f"{notice.reason}: {notice.message}") <= 256


def annotated(key: str, value: str | None) -> Raw:
    after = copy.deepcopy(stored(GANG))
    if value is None:
        after["metadata"].pop("annotations", None)
    else:
        after["metadata"].setdefault("annotations", {})[key] = value
    return after


@each("generation", [*GENERATIONS, None])
def test_configuration_is_settled_at_creation(generation: Generation | None) -> None:
    mode, options = f"metadata.annotations[{GANG_MODE}]", f"metadata.annotations[{GANG_OPTIONS}]"
    each = f"spec.replicatedJobs[0].template.metadata.annotations[{GANG_MODE}]"
    before = annotated(GANG_MODE, "Off")
    fields = copy.deepcopy(before)
    fields["spec"]["gangConfig"] = {"gangMode": "Off"}
    fields["spec"]["replicatedJobs"][0]["gangConfig"] = {"gangMode": "Gang"}
    off = copy.deepcopy(before)
    notes(off)[GANG_MODE] = "Off"
    optioned = copy.deepcopy(before)
    optioned["metadata"]["annotations"][GANG_OPTIONS] = ""
    for after, changed in (
        (annotated(GANG_MODE, "Gang"), [mode]),
        (annotated(GANG_MODE, None), [mode]),
        (
            {**before, "metadata": {**before["metadata"], "annotations": {GANG_MODE: "Off", GANG_OPTIONS: ""}}},
            [options],
        ),
        (fields, ["spec.gangConfig.gangMode", "spec.replicatedJobs[0].gangConfig.gangMode"]),
        (off, [each]),
    ):
        errors = check_update(read(before), read(after), generation)
        assert places(errors) == [(path, ErrorKind.FORBIDDEN) for path in changed]
        assert all("create it again" in error.detail for error in errors)
        gone = "annotations" not in after["metadata"]
        assert all(("is gone, was" in error.detail) == gone for error in errors)
        assert (
            check_update(read(before), read({**after, "spec": {**after["spec"], "managedBy": "x"}}), generation) == ()
        )


LISTED = '[{"name": "a", "replicatedJobs": ["w"], "minCount": 4}, {"name": "b", "replicatedJobs": ["v"]}]'
SAME_GANGS = """
- {name: a, replicatedJobs: [w], minCount: 4, perReplica: false}
# The other one.
- name: b
  replicatedJobs:
    - v
"""


@each(
    ("key", "was", "now"),
    [
        (GANGS, LISTED, SAME_GANGS),
        (GANGS, SAME_GANGS, LISTED),
        (GANGS, LISTED, f"{LISTED}\n"),
        (GANG_OPTIONS, '{"disruption":"all","composite":true}', '{ "composite": true, "disruption": "all" }\n'),
        (GANG_OPTIONS, "{}", '{"sequenced": "split"}'),
    ],
)
def test_the_same_configuration_in_another_format_is_no_change(key: str, was: str, now: str) -> None:
    before, after = (jobset("js", rj("w"), rj("v"), annotations={key: text}) for text in (was, now))
    assert restamp_patch(after, read(before), read(after)) == []
    assert check_update(read(before), read(after), Generation.V1BETA1) == ()


@each(
    ("key", "was", "now", "shown"),
    [
        # The first gang alone is longer than what a message shows of a text.
        (GANGS, LISTED, LISTED.replace('"v"', '"x"'), ('"x"', '"v"')),
        (GANGS, LISTED, SAME_GANGS.replace("- v", "- x"), ('"x"', '"v"')),
        (GANGS, LISTED, f"{LISTED[:-1]}]]", ("}]]", "}]")),
        (GANGS, "a" * 90, "a" * 100, ("aaaaa", "aaaaa")),
        (GANG_OPTIONS, '{"disruption": "all"}', '{"disruption":"single"}', ('"single"', '"all"')),
    ],
)
def test_a_refusal_shows_what_has_changed(key: str, was: str, now: str, shown: tuple[str, str]) -> None:
    before, after = (jobset("js", rj("w"), rj("v"), annotations={key: text}) for text in (was, now))
    (error,) = check_update(read(before), read(after), Generation.V1BETA1)
    said, had = error.detail.split("; ")[0].split(", was ")
    assert shown[0] in said
    assert shown[1] in had
    assert said.removeprefix("is ") != had
    assert len(error.detail) < 300


def test_opting_in_later_is_refused() -> None:
    plain = jobset("js", rj("w", 1, 2, 2))
    for later in (jobset("js", rj("w", 1, 2, 2), mode="Gang"), jobset("js", rj("w", 1, 2, 2, mode="Off"))):
        (error,) = check_update(read(plain), read(later), Generation.V1BETA1)
        assert "was not set" in error.detail


def resize(raw: Raw, pods: int, position: int = 0) -> Raw:
    after = copy.deepcopy(raw)
    after["spec"]["replicatedJobs"][position]["template"]["spec"] |= {"parallelism": pods, "completions": pods}
    return after


@each("generation", [*GENERATIONS, None])
def test_outside_a_gang_any_resize_is_allowed(generation: Generation | None) -> None:
    raw = stored(jobset("js", rj("w", 1, 4, 4, mode="Gang"), rj("free", 1, 4, 4), rj("none", 0, 4, 4)))
    for position in (1, 2):
        assert check_update(read(raw), read(resize(raw, 6, position)), generation) == ()
    fixed = generation is None or not generation.capabilities.min_count_mutable
    assert len(check_update(read(raw), read(resize(raw, 6)), generation)) == fixed
    unchanged = resize(raw, 4)
    unchanged["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = 9
    assert check_update(read(raw), read(unchanged), generation) == ()


def test_a_resize_without_the_scheduling_api_is_refused_for_now() -> None:
    """The minCount of the gang cannot follow, and it may be mutable once the API is back."""
    before, after = read(stored(GANG)), read(resize(stored(GANG), 6))
    (error,) = check_update(before, after, None, reason="the API is off")
    assert "cannot be resized now" in error.detail
    assert "the API is off" in error.detail
    assert "immutable" not in error.detail
    (error,) = check_update(before, after, Generation.V1ALPHA2)
    assert "immutable on Kubernetes 1.36" in error.detail


@each("minimum", [2, 5])
@each("generation", [Generation.V1ALPHA1, Generation.V1ALPHA2])
def test_a_resize_that_leaves_the_min_count_as_it_is_is_allowed(generation: Generation, minimum: int) -> None:
    gangs = f'[{{"name": "w", "replicatedJobs": ["w"], "minCount": {minimum}}}]'
    raw = stored(jobset("js", rj("w", 1, 6, 6), annotations={GANGS: gangs}))
    changed = check_update(read(raw), read(resize(raw, 4)), generation)
    assert len(changed) == (minimum > 4)
    assert check_update(read(raw), read(resize(raw, 8)), generation) == ()
    one = stored(jobset("js", rj("w", 1, 6, 6), rj("v", 1, 6, 6), mode="Gang"))
    assert check_update(read(one), read(resize(resize(one, 4), 8, 1)), generation) == ()
    assert len(check_update(read(one), read(resize(one, 4)), generation)) == 1


@each(
    "raw",
    [
        jobset("js", rj("w", 1, 0, 0, mode="Gang")),
        jobset("js", {**rj("w", 1, 0, 0), "gangConfig": {"gangMode": "ReplicatedGang"}}),
        jobset("js", rj("w", 1, 0, 0), rj("v", 1, 2, 2, depends_on="w"), mode="Gang"),
    ],
)
def test_jobs_that_had_no_pods_can_join_no_gang_later(raw: Raw) -> None:
    (error,) = check_update(read(stored(raw)), read(resize(stored(raw), 2)), Generation.V1BETA1)
    assert (error.path, error.kind) == ("spec.replicatedJobs[0].template.spec.parallelism", ErrorKind.FORBIDDEN)
    assert "created without pods" in error.detail


def test_an_empty_part_of_a_jobset_wide_gang_may_grow() -> None:
    raw = stored(jobset("js", rj("a", 1, 2, 2), rj("b", 1, 0, 0), mode="Gang"))
    assert check_update(read(raw), read(resize(raw, 3, 1)), Generation.V1BETA1) == ()
    own = jobset("js", rj("w", 1, 0, 0, mode="Gang", pod={"schedulingGroup": {"podGroupName": "mine"}}))
    assert check_update(read(own), read(resize(own, 3)), Generation.V1BETA1) == ()


def test_an_update_may_not_bring_the_exclusive_placement_deadlock() -> None:
    path = f"metadata.annotations[{EXCLUSIVE}]"
    exclusive = {EXCLUSIVE: "rack"}
    leaders = stored(jobset("js", rj("w", 4, 1, 1), mode="Gang", annotations=exclusive))
    selected = stored(jobset("js", rj("w", 1, 2, 2), mode="Gang", annotations={**exclusive, NODE_SELECTOR: "true"}))
    without = copy.deepcopy(selected)
    del without["metadata"]["annotations"][NODE_SELECTOR]
    for before, after in (
        (leaders, resize(leaders, 2)),
        (stored(GANG), annotated(EXCLUSIVE, "rack")),
        (selected, without),
    ):
        assert places(check_update(read(before), read(after), Generation.V1BETA1)) == [(path, ErrorKind.FORBIDDEN)]
        assert check_update(read(after), read(after), Generation.V1BETA1) == ()


def test_a_suspended_jobset_may_not_bring_it_by_its_pod_template() -> None:
    """JobSet lets annotations of the pod template change while the JobSet is suspended."""
    before = stored(jobset("js", rj("w", 1, 2, 2), mode="Gang", suspend=True))
    after = copy.deepcopy(before)
    after["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {"annotations": {EXCLUSIVE: "r"}}
    path = f"spec.replicatedJobs[0].template.spec.template.metadata.annotations[{EXCLUSIVE}]"
    assert places(check_update(read(before), read(after), Generation.V1BETA1)) == [(path, ErrorKind.FORBIDDEN)]


ORDERED = [
    ("a gang of the JobSet", jobset("js", rj("a"), rj("b"), mode="Gang"), True),
    (
        "a gang of two",
        jobset("js", rj("a"), rj("b"), annotations={GANGS: '[{"name": "g", "replicatedJobs": ["a", "b"]}]'}),
        True,
    ),
    ("together", jobset("js", rj("a", mode="Gang"), rj("b", mode="Gang"), options='{"composite": true}'), True),
    ("a gang of each", jobset("js", rj("a", mode="Gang"), rj("b", mode="Gang")), False),
    ("one alone", jobset("js", rj("a"), rj("b", mode="Off"), mode="Gang"), False),
    ("none", jobset("js", rj("a"), rj("b")), False),
]


@each(("raw", "refused"), [row[1:] for row in ORDERED], ids=[row[0] for row in ORDERED])
def test_an_update_may_not_put_the_parts_of_a_gang_in_order(raw: Raw, refused: bool) -> None:
    """JobSet refuses a change of startupPolicy, and no removal, after which any other may be written."""
    first = stored(raw)
    second, third = copy.deepcopy(first), copy.deepcopy(first)
    first["spec"]["startupPolicy"] = {"startupPolicyOrder": "AnyOrder"}
    third["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    for generation in (Generation.V1BETA1, None):
        assert check_update(read(first), read(second), generation) == ()
        errors = check_update(read(second), read(third), generation)
        assert places(errors) == [("spec.startupPolicy.startupPolicyOrder", ErrorKind.FORBIDDEN)] * refused
        assert check_update(read(third), read(third), generation) == ()
        assert check_update(read(third), read(second), generation) == ()


def test_an_update_may_not_bring_more_pods_than_int32() -> None:
    raw = stored(jobset("js", rj("a", 1, 4, 4), rj("b", 1, 4, 4), mode="Gang"))
    errors = check_update(read(raw), read(resize(raw, 2**31 - 1)), Generation.V1BETA1)
    assert places(errors) == [("spec.replicatedJobs", ErrorKind.INVALID)]

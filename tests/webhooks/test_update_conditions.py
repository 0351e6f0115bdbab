"""An update of a gang reaches gangctl wherever its answer could differ from allowing it, and nowhere else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

from hypothesis import assume, given
from hypothesis import strategies as st

from gangctl.api.meta import KEYS, Key, KeyRole, Place
from gangctl.api.scheduling import ApiState, Generation
from gangctl.apiserver.expressions import MatchConditions
from gangctl.gang.admission import read_opted_in
from gangctl.webhooks.configurations import (
    KEYS_WEBHOOK,
    KINDS,
    Endpoint,
    NeededWebhooks,
    WebhookSettings,
    build_configurations,
    build_policy_configurations,
)
from gangctl.webhooks.gangs import GangAdmission
from gangctl.webhooks.review import AdmissionRequest, AdmissionResponse
from gangctl.webhooks.review import Kind as RequestedKind
from tests.gang.pipeline import stored
from tests.jobsets import FIXTURE_UID, MODE, OPTIONS, REF, jobset, rj
from tests.rows import each
from tests.strategies import EXCLUSIVE, NODE_SELECTOR, PROPERTY, gangs, jobsets, mangled, resized
from tests.webhooks.test_gangs import View

Object = dict[str, Any]
Edit = Callable[[Object], object]

SETTINGS: Final = WebhookSettings(Endpoint(url="https://127.0.0.1:9443"))
MUTATING, VALIDATING = (
    MatchConditions(configuration["webhooks"][0]["matchConditions"])
    for configuration in build_configurations(SETTINGS, b"")
    if configuration["metadata"]["name"] == "gangctl-gangs"
)


def sent(new: Object, old: Object) -> bool:
    variables = {"object": new, "oldObject": old, "request": {"operation": "UPDATE"}}
    decisions = {MUTATING.hold(variables), VALIDATING.hold(variables)}
    assert len(decisions) == 1, "the two webhooks are called for the same updates"
    return decisions.pop()


def answers(new: Object, old: Object) -> Iterator[AdmissionResponse]:
    """Of both handlers, on clusters of every generation and on one without."""
    kind = RequestedKind("", "", "JobSet")
    request = AdmissionRequest("u", "UPDATE", kind, "t", "js", object=new, old_object=old)
    for generation in (*Generation, None):
        admission = GangAdmission(View(ApiState(generation)))
        yield admission.mutate_jobset(request)
        yield admission.validate_jobset(request)


def all_allow(new: Object, old: Object) -> bool:
    return all(answer == AdmissionResponse.allow() for answer in answers(new, old))


@st.composite
def updates(draw: st.DrawFn) -> tuple[Object, Object]:
    """A JobSet as it was admitted, and the same with other values in a few places, or resized."""
    old = stored(draw(st.one_of(gangs(), jobsets())))
    return draw(st.one_of(mangled(st.just(old)), resized(old))), old


@given(updates())
@PROPERTY
def test_what_is_not_sent_would_be_allowed_as_it_is(update: tuple[Object, Object]) -> None:
    new, old = update
    # The definition of JobSets refuses other types before a validating webhook is called.
    assume(not read_opted_in(new)[1] and not read_opted_in(old)[1])
    assert sent(new, old) or all_allow(new, old)


def entry(raw: Object) -> Object:
    """Its last ReplicatedJob."""
    found: Object = raw["spec"]["replicatedJobs"][-1]
    return found


def pods(raw: Object) -> Object:
    """The pod template of that."""
    found: Object = entry(raw)["template"]["spec"]["template"]
    return found


def started_by_kueue(raw: Object) -> None:
    raw["spec"]["suspend"] = False
    template = pods(raw)
    template["spec"] |= {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "gpu"}], "schedulingGates": [{}]}
    template["metadata"] = {"labels": {"kueue.x-k8s.io/podset": "w"}, "annotations": {"kueue.x-k8s.io/workload": "x"}}


@each(("key", "place"), [(key, place) for key in KEYS for place in key.places if place is not Place.NAMESPACE])
def test_a_change_of_a_key_that_users_cannot_change_is_sent(key: Key, place: Place) -> None:
    old = jobset("js", rj("w", mode="Gang"))
    new = copy.deepcopy(old)
    holder = new if place is Place.JOBSET else entry(new)["template"]
    holder["metadata"].setdefault("annotations", {})[key.name] = "x"
    assert sent(new, old) is (key.role is not KeyRole.CHANGEABLE)


WITHOUT_GANGCTL: Final[dict[str, Edit]] = {
    "suspend": lambda raw: raw["spec"].update(suspend=True),
    "resume": lambda raw: raw["spec"].update(suspend=False),
    "label": lambda raw: raw["metadata"].update(labels={"team": "a"}),
    "annotation": lambda raw: raw["metadata"].setdefault("annotations", {}).update({"team": "a"}),
    "finalizer": lambda raw: raw["metadata"].update(finalizers=["example.com/hold"]),
    "owner": lambda raw: raw["metadata"].update(ownerReferences=[{"kind": "TrainJob", "name": "t"}]),
    "queue": lambda raw: raw["metadata"].update(labels={"kueue.x-k8s.io/queue-name": "q"}),
    "time to live": lambda raw: raw["spec"].update(ttlSecondsAfterFinished=1),
    "more restarts": lambda raw: raw["spec"].update(failurePolicy={"maxRestarts": 9}),
    "expected duration": lambda raw: (
        raw["metadata"].setdefault("annotations", {}).update({"gangctl.dev/expected-duration": "2h"})
    ),
    "start by Kueue": started_by_kueue,
    "nothing": lambda _: None,
}


@given(old=gangs(), name=st.sampled_from(sorted(WITHOUT_GANGCTL)))
@PROPERTY
def test_an_update_of_a_gang_that_leaves_it_as_it_is_does_not_wait_for_gangctl(old: Object, name: str) -> None:
    before = stored(old)
    after = copy.deepcopy(before)
    WITHOUT_GANGCTL[name](after)
    assert not sent(after, before)


GANG: Final = stored(
    jobset("js", rj("o", mode="Gang"), rj("w", 2, 2, 2, mode="Gang"), annotations={"a": "b"}, uid=FIXTURE_UID)
)
DECIDED: Final[dict[str, Edit]] = {
    "mode": lambda raw: raw["metadata"]["annotations"].update({MODE: "Gang"}),
    "empty mode": lambda raw: raw["metadata"]["annotations"].update({MODE: ""}),
    "options": lambda raw: raw["metadata"]["annotations"].update({OPTIONS: "{}"}),
    "gangs": lambda raw: raw["metadata"]["annotations"].update({"gangctl.dev/gangs": "[]"}),
    "exclusive placement": lambda raw: raw["metadata"]["annotations"].update({EXCLUSIVE: "rack"}),
    "node selector": lambda raw: raw["metadata"]["annotations"].update({NODE_SELECTOR: "true"}),
    "gangConfig": lambda raw: raw["spec"].update(gangConfig={"gangMode": "Gang"}),
    "gangConfig of a ReplicatedJob": lambda raw: entry(raw).update(gangConfig={"gangMode": "Gang"}),
    "mode of a ReplicatedJob": lambda raw: entry(raw)["template"]["metadata"]["annotations"].pop(MODE),
    "stamp": lambda raw: entry(raw)["template"]["metadata"]["annotations"].pop(REF),
    "all annotations of a ReplicatedJob": lambda raw: entry(raw)["template"].pop("metadata"),
    "exclusive placement of a ReplicatedJob": lambda raw: entry(raw)["template"]["metadata"]["annotations"].update(
        {EXCLUSIVE: "rack"}
    ),
    "exclusive placement of pods": lambda raw: pods(raw).update(metadata={"annotations": {EXCLUSIVE: "rack"}}),
    "startup in order": lambda raw: raw["spec"].update(startupPolicy={"startupPolicyOrder": "InOrder"}),
    "replicas": lambda raw: entry(raw).update(replicas=3),
    "parallelism": lambda raw: entry(raw)["template"]["spec"].update(parallelism=3),
    "completions": lambda raw: entry(raw)["template"]["spec"].update(completions=1),
    "priority": lambda raw: pods(raw)["spec"].update(priorityClassName="high"),
    "name": lambda raw: entry(raw).update(name="v"),
    "order": lambda raw: raw["spec"]["replicatedJobs"].reverse(),
    "fewer": lambda raw: raw["spec"]["replicatedJobs"].pop(),
    "no ReplicatedJobs": lambda raw: raw["spec"].pop("replicatedJobs"),
    "no spec": lambda raw: raw.pop("spec"),
}


@each("name", DECIDED)
def test_an_update_of_what_a_gang_was_made_from_is_sent(name: str) -> None:
    after = copy.deepcopy(GANG)
    DECIDED[name](after)
    assert sent(after, GANG)
    assert sent(GANG, after)


@each("name", DECIDED)
def test_nothing_of_an_object_that_is_being_deleted_is_sent(name: str) -> None:
    """A finalizer has to go, whoever takes it off, and whatever else the request changes."""
    before, after = copy.deepcopy(GANG), copy.deepcopy(GANG)
    DECIDED[name](after)
    for raw in (before, after):
        raw["metadata"]["deletionTimestamp"] = "2026-11-27T00:00:00Z"
    every = frozenset({"CREATE", "UPDATE", "DELETE"})
    demand = NeededWebhooks(every, frozenset(), "Fail")
    everything = [*build_configurations(SETTINGS, b""), *build_policy_configurations(SETTINGS, demand, b"")]
    for webhook in (webhook for configuration in everything for webhook in configuration["webhooks"]):
        for operation in {"UPDATE", "DELETE"}.intersection(webhook["rules"][0]["operations"]):
            new = after if operation == "UPDATE" else None
            request = {"object": new, "oldObject": before, "request": {"operation": operation}}
            deleted = [each for each in webhook["matchConditions"] if each["name"] == "not-being-deleted"]
            assert not MatchConditions(deleted).hold(request)


def test_a_resize_of_a_jobset_without_a_gang_is_not_sent() -> None:
    plain = jobset("js", rj("w", 2, 2, 2))
    after = copy.deepcopy(plain)
    DECIDED["replicas"](after)
    assert not sent(after, plain)


def test_both_kinds_have_the_conditions() -> None:
    names = [
        [condition["name"] for condition in configuration["webhooks"][0]["matchConditions"]]
        for configuration in build_configurations(SETTINGS, b"")
        if configuration["kind"] in KINDS and configuration["metadata"]["name"] == "gangctl-gangs"
    ]
    assert names == [["about-gangs", "not-being-deleted", "new-or-changes-its-gang"]] * 2


_KEYS = MatchConditions(
    next(
        webhook["matchConditions"]
        for configuration in build_configurations(SETTINGS, b"")
        for webhook in configuration["webhooks"]
        if webhook["name"] == KEYS_WEBHOOK
    )
)


def _warned(new: Object, old: Object) -> tuple[str, ...] | None:
    """The warnings of an update; None where it is not sent."""
    if not _KEYS.hold({"object": new, "oldObject": old, "request": {"operation": "UPDATE"}}):
        return None
    kind = RequestedKind("", "", "JobSet")
    request = AdmissionRequest("u", "UPDATE", kind, "t", "js", object=new, old_object=old)
    answer = GangAdmission(View(ApiState(None))).validate_keys(request)
    assert answer == AdmissionResponse.allow(warnings=answer.warnings)
    return answer.warnings


@each(
    ("before", "after", "words"),
    [
        ({}, {"annotations": {"gangctl.dev/gang-mod": "Gang"}}, ["did you mean gangctl.dev/gang-mode"]),
        ({}, {"labels": {"gangctl.dev/skip": "true"}}, ["it is a label of namespaces"]),
        ({}, {"annotations": {"gangctl.dev/expected-duration": "2 hours"}}, ["is no positive duration"]),
        ({}, {"annotations": {"gangctl.dev/expected-duration": "2h"}}, []),
        (
            {"annotations": {"gangctl.dev/x": "1"}},
            {"annotations": {"gangctl.dev/x": "1", "gangctl.dev/y": ""}},
            ["[gangctl.dev/y]"],
        ),
        ({"annotations": {"gangctl.dev/x": "1"}}, {"annotations": {"gangctl.dev/x": "1", "other": "1"}}, None),
        ({"annotations": {"gangctl.dev/x": "1"}}, {}, None),
        ({}, {"annotations": {"other": "1"}, "labels": {"kueue.x-k8s.io/queue-name": "a"}}, None),
    ],
)
def test_an_update_warns_of_keys_that_it_sets_without_effect(
    before: Object, after: Object, words: list[str] | None
) -> None:
    old, new = ({**jobset("a", rj("w")), "metadata": {"name": "a", **metadata}} for metadata in (before, after))
    warnings = _warned(new, old)
    assert (warnings is None) == (words is None)
    assert len(warnings or ()) == len(words or ())
    assert all(word in warning for word, warning in zip(words or (), warnings or (), strict=True))

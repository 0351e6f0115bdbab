"""The gate in ``admission-gated-by``: put on without touching others, and taken off when it is time."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import ADMISSION_GATED_BY, QUEUE_NAME
from gangctl.api.scheduling import ApiState, Generation, Observed
from gangctl.gang.diff import Kind
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.checks import Progress, Status
from gangctl.kueue.gates import Move, decide_gate, gate_patch, gated, ungate_patch
from gangctl.kueue.names import GATE, MULTIKUEUE_ORIGIN, PREBUILT_WORKLOAD
from gangctl.webhooks.gangs import GangAdmission
from gangctl.webhooks.review import AdmissionRequest, RequestedResource
from gangctl.webhooks.review import Kind as RequestedKind
from tests.jobsets import jobset, rj
from tests.kueue.workloads import no, queued, yes
from tests.rows import each

DONE = Status(Progress.DONE, "all there")
UNDER_WAY = Status(Progress.UNDER_WAY, "not yet")
FOREIGN = "example.com/quota-team"


def raw(
    annotations: dict[str, str] | None = None, queue: str = "main", labels: dict[str, str] | None = None
) -> dict[str, Any]:
    made = jobset("js", rj("w", 1, 2, 2, mode="Gang"), uid="u", annotations=annotations, suspend=True)
    made["metadata"]["labels"] = {**({QUEUE_NAME: queue} if queue else {}), **(labels or {})}
    return made


def patched(body: dict[str, Any], patch: list[dict[str, Any]]) -> str | None:
    """The annotation after a patch of one of the two shapes that are used; tests are checked."""
    notes: dict[str, str] = dict(body["metadata"].get("annotations", {}))
    for item in patch:
        value: Any = item.get("value")
        match item["op"], item["path"].rpartition("/")[2].replace("~1", "/"):
            case "test", "uid":
                assert body["metadata"]["uid"] == value
            case "test", key:
                assert notes[key] == value
            case "remove", key:
                del notes[key]
            case _, "annotations":
                assert not notes
                notes = dict(value)
            case _, key:
                notes[key] = value
    return notes.get(ADMISSION_GATED_BY)


def read(body: dict[str, Any]) -> JobSet:
    found, errors = read_jobset(body)
    assert not errors
    return found


@each(
    ("before", "after"),
    [
        (None, GATE),
        ({"other": "note"}, GATE),
        ({ADMISSION_GATED_BY: ""}, GATE),
        ({ADMISSION_GATED_BY: FOREIGN}, f"{FOREIGN},{GATE}"),
        ({ADMISSION_GATED_BY: f"b.dev/x, {FOREIGN}"}, f"b.dev/x, {FOREIGN},{GATE}"),
    ],
)
def test_the_gate_is_added_to_those_of_other_controllers(before: dict[str, str] | None, after: str) -> None:
    body = raw(before)
    assert patched(body, gate_patch(body)) == after


@each(
    "body",
    [
        raw(queue=""),
        raw({ADMISSION_GATED_BY: GATE}),
        raw({ADMISSION_GATED_BY: f" {GATE} ,{FOREIGN}"}),
        raw({PREBUILT_WORKLOAD: "wl"}),
        raw(labels={PREBUILT_WORKLOAD: "wl"}),
        raw(labels={MULTIKUEUE_ORIGIN: "manager"}),
        {"metadata": None},
        {"metadata": {"labels": 7, "annotations": []}},
    ],
    ids=["no queue", "there", "among others", "prebuilt", "prebuilt by label", "a copy", "no metadata", "nonsense"],
)
def test_no_gate_is_added_without_a_queue_or_twice(body: dict[str, Any]) -> None:
    assert gate_patch(body) == []


@each(
    ("value", "left"),
    [
        (GATE, None),
        (f"{FOREIGN},{GATE}", FOREIGN),
        (f"{GATE},{FOREIGN}", FOREIGN),
        (f"b.dev/x, {GATE} , {FOREIGN}", f"b.dev/x, {FOREIGN}"),
    ],
)
def test_only_the_own_gate_is_removed(value: str, left: str | None) -> None:
    body = raw({ADMISSION_GATED_BY: value})
    assert patched(body, ungate_patch(read(body))) == left


def test_a_gate_list_changed_meanwhile_is_not_overwritten() -> None:
    before = read(raw({ADMISSION_GATED_BY: f"{GATE},{FOREIGN}"}))
    with pytest.raises(AssertionError):
        patched(raw({ADMISSION_GATED_BY: GATE}), ungate_patch(before))


HELD = queued("js", gates=(GATE,))


@each(
    ("status", "workload", "move"),
    [
        (DONE, None, Move.WAIT),
        (DONE, HELD, Move.OPEN),
        (Status(Progress.NOTHING_TO_DO, "no gang"), HELD, Move.OPEN),
        (UNDER_WAY, HELD, Move.WAIT),
        (DONE, queued("js"), Move.REPORT),
        (DONE, queued("js", gates=(FOREIGN,)), Move.REPORT),
        (UNDER_WAY, queued("js"), Move.REPORT),
        (DONE, queued("js", gates=(GATE,), QuotaReserved=yes()), Move.REPORT),
        (DONE, queued("js", gates=(GATE,), QuotaReserved=no("AdmissionGated")), Move.OPEN),
    ],
)
def test_the_gate_is_removed_once_the_gang_exists_if_kueue_honours_it(
    status: Status, workload: Any, move: Move
) -> None:
    assert decide_gate(read(raw({ADMISSION_GATED_BY: GATE})), workload, status).move is move


def test_a_running_jobset_was_not_gated() -> None:
    body = raw({ADMISSION_GATED_BY: GATE})
    body["spec"]["suspend"] = False
    assert decide_gate(read(body), HELD, DONE).move is Move.REPORT


def test_a_jobset_with_the_gate_is_gated() -> None:
    body = raw({ADMISSION_GATED_BY: f"{FOREIGN},{GATE}"})
    assert gated(read(body))
    assert not gated(read(raw({ADMISSION_GATED_BY: FOREIGN})))
    assert not gated(read({**body, "metadata": {**body["metadata"], "deletionTimestamp": "now"}}))
    assert not gated(read({**body, "status": {"terminalState": "Completed"}}))


class View:
    """A cluster as the webhooks see it."""

    def __init__(self, state: ApiState) -> None:
        self.state = state

    def rules(self, generation: Generation) -> ClusterRules:
        return ClusterRules(generation)

    def claimed(self, namespace: str, jobset: str) -> str | None:  # noqa: ARG002 - the protocol's
        return None

    def scheduling(self, kind: Kind, namespace: str, name: str) -> Observed | None:  # noqa: ARG002 - as above
        return None


def gate_of(body: dict[str, Any], *, gate: bool, state: ApiState | None = None, fail_open: bool = False) -> str | None:
    """What the webhook puts into the annotation at CREATE."""
    view = View(state or ApiState(Generation.V1BETA1))
    kind, resource = RequestedKind("", "", "JobSet"), RequestedResource("", "", "")
    request = AdmissionRequest("uid", "CREATE", kind, resource, "t", "js", object=body)
    answer = GangAdmission(view, gate=gate, fail_open=fail_open).mutate_jobset(request)
    assert answer.allowed
    ours = [dict(each) for each in answer.patch if each["path"].startswith("/metadata")]
    return patched(body, ours)


def test_the_webhook_gates_gangs_in_a_queue() -> None:
    assert gate_of(raw(), gate=True) == GATE
    assert gate_of(raw({ADMISSION_GATED_BY: FOREIGN}), gate=True) == f"{FOREIGN},{GATE}"
    assert gate_of(raw(), gate=False) is None
    assert gate_of(raw(queue=""), gate=True) is None


def test_the_webhook_gates_no_jobset_without_a_gang() -> None:
    off = jobset("js", rj("w", 1, 2, 2), mode="Off", uid="u")
    off["metadata"]["labels"] = {QUEUE_NAME: "main"}
    assert gate_of(off, gate=True) is None
    unavailable = ApiState(None, reason="it is not served")
    assert gate_of(raw(), gate=True, state=unavailable, fail_open=True) is None


def test_the_webhook_adds_no_gate_later() -> None:
    kind, resource = RequestedKind("", "", "JobSet"), RequestedResource("", "", "")
    body = raw()
    request = AdmissionRequest("uid", "UPDATE", kind, resource, "t", "js", object=body, old_object=body)
    answer = GangAdmission(View(ApiState(Generation.V1BETA1)), gate=True).mutate_jobset(request)
    assert answer.allowed
    assert not answer.patch

"""Gangs beside Kueue: the checks of queues at CREATE, and that all changes by Kueue are admitted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.scheduling import ApiState, Generation
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.config import GangConfig
from gangctl.gang.plan import make_plan, stored_stamps
from gangctl.kueue.consistency import KueueFacts
from gangctl.webhooks.gangs import GangAdmission
from gangctl.webhooks.review import AdmissionRequest, AdmissionResponse
from tests.gang.json_patch import apply
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.webhooks.test_gangs import View, asked

Object = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
GATED = "kueue.x-k8s.io/admission-gated-by"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@dataclass
class Queues:
    """Kueue as a test wants it; only queue ``q`` exists."""

    present: bool = True
    facts: KueueFacts = field(default_factory=KueueFacts)
    refused: tuple[FieldError, ...] = ()
    seen: list[tuple[Mapping[str, Any], str]] = field(default_factory=list)

    def check(
        self, raw: Mapping[str, Any], _read: JobSet, namespace: str
    ) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
        self.seen.append((raw, namespace))
        queue = raw["metadata"]["labels"][QUEUE]
        return self.refused, () if queue == "q" else (f"QueueBlocked: no LocalQueue {queue} in {namespace}",)


def gang(*replicated_jobs: Object, queue: str = "q", mode: str | None = "Gang", **more: Any) -> Object:
    raw = jobset("js", *(replicated_jobs or (rj("w", 2, 2, 2),)), mode=mode, suspend=True, **more)
    raw["metadata"]["labels"] = {QUEUE: queue}
    return raw


def stamped(raw: Object, view: View | None = None) -> Object:
    """The JobSet after gangctl's mutating webhook."""
    answer = GangAdmission(view or View()).mutate_jobset(asked(raw))
    assert answer.allowed
    changed: Object = apply(raw, list(answer.patch))
    return changed


def created(raw: Object, queues: Queues, **options: Any) -> AdmissionResponse:
    return GangAdmission(View(), queues=queues, **options).validate_jobset(asked(stamped(raw)))


def test_a_missing_queue_is_a_warning_and_no_refusal() -> None:
    queues = Queues()
    answer = created(gang(queue="typo"), queues)
    assert answer.allowed
    assert answer.warnings == ("QueueBlocked: no LocalQueue typo in t",)
    assert [namespace for _, namespace in queues.seen] == ["t"]
    assert created(gang(), queues).warnings == ()


def test_a_jobset_that_can_never_be_admitted_is_refused() -> None:
    never = FieldError("spec.replicatedJobs", ErrorKind.FORBIDDEN, "can never be admitted")
    answer = created(gang(), Queues(refused=(never,)))
    assert (answer.allowed, answer.code) == (False, 422)
    assert "can never be admitted" in answer.message
    assert answer.causes == (never,)


def without_queue(raw: Object) -> Object:
    del raw["metadata"]["labels"]
    return raw


@each(
    ("raw", "queues"),
    [
        pytest.param(gang(queue="typo"), Queues(present=False), id="no-kueue"),
        pytest.param(without_queue(gang()), Queues(), id="no-queue"),
        pytest.param(gang(queue="typo", mode="Off"), Queues(), id="no-gang"),
    ],
)
def test_queues_are_not_checked_without_kueue_or_a_queue(raw: Object, queues: Queues) -> None:
    answer = created(raw, queues)
    assert (answer.allowed, answer.warnings, queues.seen) == (True, (), [])


def test_without_a_queue_view_there_is_no_warning() -> None:
    assert GangAdmission(View()).validate_jobset(asked(stamped(gang(queue="typo")))).warnings == ()


def test_queues_are_checked_at_create_only() -> None:
    queues, raw = Queues(), stamped(gang())
    answer = GangAdmission(View(), queues=queues).validate_jobset(updated(raw, into(raw, queue("typo"))))
    assert (answer.allowed, queues.seen) == (True, [])


def test_queues_are_not_checked_for_a_jobset_of_another_controller() -> None:
    queues = Queues(refused=(FieldError("spec", ErrorKind.FORBIDDEN, "no"),))
    assert GangAdmission(View(foreign="theirs"), queues=queues).validate_jobset(asked(gang())).allowed
    assert queues.seen == []


def preset() -> Object:
    raw = gang()
    raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {
        "labels": {"kueue.x-k8s.io/podset": "other"}
    }
    return raw


def test_a_jobset_that_kueue_could_not_start_is_refused_at_create() -> None:
    answer = created(preset(), Queues(present=False))
    assert (answer.allowed, answer.code) == (False, 422)
    assert "would fail to start" in answer.message
    (cause,) = answer.causes
    assert isinstance(cause, FieldError)
    assert cause.path == "spec.replicatedJobs[0].template.spec.template.metadata.labels[kueue.x-k8s.io/podset]"


def test_a_jobset_that_kueue_could_not_start_can_be_updated() -> None:
    """An older gangctl may have let it in; its owner has to be able to change and to delete it."""
    raw = stamped(preset())
    assert GangAdmission(View(), queues=Queues()).validate_jobset(updated(raw, into(raw, queue("q2")))).allowed


def test_the_podset_limit_of_kueue_applies() -> None:
    entries = [rj(f"w{number}") for number in range(9)]
    answer = created(gang(*entries), Queues(facts=KueueFacts(podset_limit=8)))
    assert (answer.allowed, answer.code) == (False, 422)
    assert "8 podsets at most" in answer.message
    (warning,) = created(gang(*entries), Queues()).warnings
    assert warning.startswith("QueueConflict: 9 replicated jobs")


def test_too_many_gangs_are_refused_with_the_limits_of_workload_and_kueue() -> None:
    entries = [rj(f"w{number}", mode="Gang") for number in range(9)]
    answer = GangAdmission(View(), queues=Queues(facts=KueueFacts(podset_limit=8))).mutate_jobset(
        asked(gang(*entries, mode=None))
    )
    assert (answer.allowed, answer.code) == (False, 422)
    assert "a Workload holds at most 8" in answer.message
    assert "Kueue's Workload holds 8 podsets at most" in answer.message


def test_a_jobset_managed_by_multikueue_gets_one_warning() -> None:
    """Kueue sets managedBy after gangctl's mutating webhook has run."""
    queues = Queues()
    late = stamped(gang())
    late["spec"]["managedBy"] = MULTIKUEUE
    for raw in (late, gang(managedBy=MULTIKUEUE)):
        answer = GangAdmission(View(), queues=queues).validate_jobset(asked(raw))
        assert answer.allowed
        assert [warning.partition(":")[0] for warning in answer.warnings] == ["NotGanged"]
    assert GangAdmission(View(), queues=queues).mutate_jobset(asked(gang(managedBy=MULTIKUEUE))).warnings == ()


def test_a_cluster_that_dispatches_needs_no_scheduling_api() -> None:
    """Whether Kueue dispatches a JobSet is known only after gangctl's mutating webhook has run."""
    admission = GangAdmission(View(ApiState(None, "the API is off")), queues=Queues())
    assert admission.mutate_jobset(asked(gang())).allowed
    answer = admission.validate_jobset(asked(gang(managedBy=MULTIKUEUE)))
    assert answer.allowed
    assert [warning.partition(":")[0] for warning in answer.warnings] == ["NotGanged"]
    refused = admission.validate_jobset(asked(gang()))
    assert "the API is off" in refused.message


def test_queues_are_checked_for_a_jobset_admitted_without_a_gang() -> None:
    view = View(ApiState(None, "the API is off"))
    answer = GangAdmission(view, queues=Queues(), fail_open=True).validate_jobset(asked(gang(queue="typo")))
    assert answer.allowed
    assert "typo" in answer.warnings[0]


# What Kueue changes

Change = Callable[[Object], None]


def updated(old: Object, new: Object) -> AdmissionRequest:
    request = asked(new, "UPDATE")
    return AdmissionRequest(request.uid, "UPDATE", request.kind, "t", request.name, object=new, old_object=old)


def into(raw: Object, *changes: Change) -> Object:
    changed = copy.deepcopy(raw)
    for change in changes:
        change(changed)
    return changed


def queue(name: str) -> Change:
    def change(raw: Object) -> None:
        raw["metadata"]["labels"][QUEUE] = name

    return change


def priority(name: str) -> Change:
    def change(raw: Object) -> None:
        raw["metadata"]["labels"][PRIORITY] = name

    return change


def gates(*names: str) -> Change:
    def change(raw: Object) -> None:
        raw["metadata"]["annotations"] |= {GATED: ",".join(names)}
        if not names:
            del raw["metadata"]["annotations"][GATED]

    return change


def started(raw: Object) -> None:
    """All that Kueue writes when it admits a JobSet, with topology-aware scheduling and a flavor of its own."""
    raw["spec"]["suspend"] = False
    for entry in raw["spec"]["replicatedJobs"]:
        pod = entry["template"]["spec"]["template"]
        meta = pod.setdefault("metadata", {})
        meta["labels"] = {
            **meta.get("labels", {}),
            "kueue.x-k8s.io/podset": entry["name"],
            "kueue.x-k8s.io/local-queue-name": "q",
            "kueue.x-k8s.io/cluster-queue-name": "cq",
        }
        meta["annotations"] = {
            **meta.get("annotations", {}),
            "kueue.x-k8s.io/workload": "jobset-js-12345",
            "kueue.x-k8s.io/podset-unconstrained-topology": "true",
        }
        pod["spec"] |= {
            "nodeSelector": {**pod["spec"].get("nodeSelector", {}), "pool": "spot"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
            "schedulingGates": [{"name": "kueue.x-k8s.io/topology"}],
        }


def gangs_of(raw: Object) -> list[tuple[str, int, str]]:
    projection, errors = read_jobset({**raw, "metadata": {**raw["metadata"], "uid": "u"}})
    assert errors == ()
    plan = make_plan(projection, stored_stamps(projection)[0], GangConfig(None, ()))
    assert plan is not None
    return [(group.name, group.template.min_count, group.template.topology_key) for group in plan.groups]


MODES = {
    "one gang": gang(rj("w", 2, 2, 2), rj("ps", 1)),
    "a gang each": gang(rj("w", 2, 2, 2, mode="Gang"), rj("ps", 1, mode="Gang"), mode=None),
    "a gang for each Job": gang(rj("w", 2, 2, 2, mode="ReplicatedGang"), mode=None),
    "some gangs": gang(rj("w", 2, 2, 2, mode="Gang"), rj("ps", 1), mode=None),
    "with options": gang(options='{"topologyKey":"rack"}'),
}


@each("case", MODES)
@each("generation", list(Generation))
def test_kueue_can_start_stop_and_restart_a_gang(case: str, generation: Generation) -> None:
    view = View(ApiState(generation))
    waiting = stamped(MODES[case], View())
    admission = GangAdmission(view, queues=Queues(facts=KueueFacts(podset_limit=1, pods_ready_seconds=1)))
    running = into(waiting, started)
    for old, new in ((waiting, running), (running, waiting), (waiting, into(waiting, queue("q2"), started))):
        request = updated(old, new)
        assert admission.mutate_jobset(request) == AdmissionResponse.allow()
        assert admission.validate_jobset(request) == AdmissionResponse.allow()
        assert gangs_of(old) == gangs_of(new)


@each(
    "changes",
    [
        pytest.param([queue("q2")], id="another-queue"),
        pytest.param([queue("")], id="no-queue"),
        pytest.param([priority("high")], id="priority"),
        pytest.param([gates("gangctl.dev/gang", "other.example/x")], id="gates"),
        pytest.param([gates()], id="no-gates"),
        pytest.param([queue("q2"), priority("low"), gates("other.example/x")], id="all"),
    ],
)
def test_a_waiting_jobset_can_change_its_queue_and_priority(changes: list[Change]) -> None:
    waiting = into(stamped(gang()), priority("normal"), gates("gangctl.dev/gang"))
    request = updated(waiting, into(waiting, *changes))
    admission = GangAdmission(View(), queues=Queues())
    assert admission.mutate_jobset(request) == AdmissionResponse.allow()
    assert admission.validate_jobset(request) == AdmissionResponse.allow()


def test_a_queue_can_be_added_and_removed_later() -> None:
    with_queue = stamped(gang())
    without = without_queue(copy.deepcopy(with_queue))
    for old, new in ((with_queue, without), (without, with_queue)):
        assert GangAdmission(View(), queues=Queues()).validate_jobset(updated(old, new)).allowed


def test_stamps_that_kueue_dropped_are_restored() -> None:
    """It writes the whole JobSet, by an API that may be older than it."""
    waiting = stamped(gang())
    lost = into(waiting, started)
    del lost["spec"]["replicatedJobs"][0]["template"]["metadata"]
    answer = GangAdmission(View()).mutate_jobset(updated(waiting, lost))
    assert apply(lost, list(answer.patch)) == into(waiting, started)

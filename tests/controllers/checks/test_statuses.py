"""The progress of a JobSet: by the objects of its gang, and by the current policies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.objects import Object
from gangctl.api.scheduling import ApiState, Generation, Observed
from gangctl.controllers.checks import workloads
from gangctl.controllers.checks.workloads import Statuses
from gangctl.gang.desired import JobProgress
from gangctl.gang.diff import Existing, Kind
from gangctl.gang.plan import GangPlan, make_plan, stored_stamps
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.kueue.checks import Progress
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction
from gangctl.runtime import controller
from tests.jobsets import FIXTURE_UID, REF, jobset, rj


def stamped(*, options: str | None = None, **spec: Any) -> JobSet:
    """A JobSet as it is stored: a gang for each of two replicas."""
    raw = jobset("js", rj("w", 2, 2, 2, mode="ReplicatedGang"), uid=FIXTURE_UID, options=options, **spec)
    stamps = resolve(read_jobset(raw)[0], ClusterRules()).stamps
    for entry, stamp in zip(raw["spec"]["replicatedJobs"], stamps, strict=True):
        assert stamp is not None
        entry["template"]["metadata"]["annotations"][REF] = stamp.encode()
    return read_jobset(raw)[0]


@dataclass
class Caches:
    """Objects that are there."""

    objects: dict[tuple[Kind, str], Observed] = field(default_factory=dict)
    of_jobset: list[JobProgress] = field(default_factory=list)

    def jobs(self, _: tuple[str, str]) -> list[JobProgress]:
        return self.of_jobset

    async def existing(self, plan: GangPlan) -> Existing:
        by_kind: dict[Kind, dict[str, Observed]] = {"PodGroup": {}, "CompositePodGroup": {}}
        for (kind, name), observed in self.objects.items():
            by_kind.setdefault(kind, {})[name] = observed
        workload = self.objects.get(("Workload", plan.workload.name))
        orphans: list[tuple[Kind, Observed]] = [
            (kind, observed) for (kind, _), observed in self.objects.items() if observed.orphan_of
        ]
        return Existing(workload, by_kind["PodGroup"], by_kind["CompositePodGroup"], tuple(orphans))

    def fill(self, made: JobSet, *, owner: str = FIXTURE_UID, deleting: bool = False) -> None:
        plan = make_plan(made, stored_stamps(made)[0], resolve(made, ClusterRules()).config)
        assert plan is not None
        counts = tuple((each.name, each.min_count) for each in plan.workload.templates)
        parent = plan.composite
        self.put("Workload", plan.workload.name, owner, counts, deleting=deleting, composite=parent is not None)
        if parent is not None:
            self.put("CompositePodGroup", parent.name, owner, (("", parent.min_group_count),), deleting=deleting)
        for group in plan.groups:
            self.put("PodGroup", group.name, owner, (("", group.template.min_count),), deleting=deleting)

    def put(
        self,
        kind: Kind,
        name: str,
        owner: str,
        counts: tuple[tuple[str, int], ...],
        *,
        deleting: bool = False,
        **more: Any,
    ) -> None:
        self.objects[kind, name] = Observed("t", name, "u", "1", owner, "js", deleting, "", counts, **more)


@dataclass
class Policies:
    """Returns what a test sets."""

    outcomes: tuple[Outcome, ...] | None = ()
    any: bool = True
    asked: list[str] = field(default_factory=list)

    def scanned(self) -> Sequence[LoadedPolicy]:
        return [None] if self.any else []  # type: ignore[list-item]  # only whether there are any is asked

    def documents(self) -> Sequence[Object]:
        return ()

    async def evaluate(self, raw: Mapping[str, Any]) -> tuple[Outcome, ...] | None:
        self.asked.append(raw["metadata"]["name"])
        return self.outcomes


class Reader:
    """A client that reads one JobSet."""

    async def get(self, _resource: object, name: str, _namespace: str) -> dict[str, Any]:
        return {"metadata": {"name": name}}


def statuses(caches: Caches, policies: Policies | None = None, state: ApiState | None = None) -> Statuses:
    return Statuses(
        Reader(),  # type: ignore[arg-type]  # reads, and no more
        caches,  # type: ignore[arg-type]  # the questions that are asked
        policies,
        state=lambda: state or ApiState(Generation.V1BETA1),
        rules=ClusterRules,
    )


COMPOSITE = '{"composite":true}'
DENIAL = Finding("p", "r", Result.FAIL, "too large")


@pytest.mark.parametrize("suspend", [True, False])
async def test_a_gang_is_done_when_all_its_objects_exist(*, suspend: bool) -> None:
    caches = Caches()
    caches.fill(stamped())
    found = await statuses(caches).of_objects(stamped(suspend=suspend))
    assert found.progress is Progress.DONE
    assert "with 2 groups" in found.message


@pytest.mark.parametrize("active", [False, True])
async def test_a_group_that_has_to_be_replaced_is_not_there(*, active: bool) -> None:
    caches, made = Caches(), stamped(suspend=True)
    caches.fill(made)
    name = min(name for kind, name in caches.objects if kind == "PodGroup")
    done = JobProgress("t", "js-w-0", "js", FIXTURE_UID, "w", 0, 0, 1, complete=False, deleting=False, group=name)
    # With pods that still end it is no change yet.
    caches.of_jobset.append(replace(done, active=active))
    found = await statuses(caches, state=ApiState(Generation.V1ALPHA2)).of_objects(made)
    assert (found.progress, name in found.message) == (Progress.UNDER_WAY, True)


async def test_a_large_gang_is_computed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    here, computed = threading.get_ident(), list[str]()

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            assert threading.get_ident() != here, f"{name} holds the event loop"
            computed.append(name)
            return function(*args)

        return call

    for name in ("assess", "desire", "diff"):
        monkeypatch.setattr(workloads, name, noting(name, getattr(workloads, name)))
    monkeypatch.setattr(controller, "AT_ONCE", 0)
    await statuses(Caches()).of_objects(stamped())
    assert computed == ["assess", "desire", "diff"]


async def test_gangs_that_start_together_are_done_with_their_parent() -> None:
    caches = Caches()
    caches.fill(stamped(options=COMPOSITE))
    assert (await statuses(caches).of_objects(stamped(options=COMPOSITE))).progress is Progress.DONE


async def test_an_object_that_is_to_be_deleted_first_is_waited_for() -> None:
    """The Workload of an earlier JobSet, deleted with --cascade=orphan: the gang is made after its deletion."""
    caches = Caches()
    caches.put("Workload", "js-earlier", "", (("w", 2),), orphan_of="js")
    found = await statuses(caches).of_objects(stamped())
    assert found.progress is Progress.UNDER_WAY
    assert "js-earlier" in found.message


@pytest.mark.parametrize("kind", ["Workload", "CompositePodGroup", "PodGroup"])
async def test_missing_objects_are_named(kind: Kind) -> None:
    caches = Caches()
    caches.fill(stamped(options=COMPOSITE))
    gone = next(key for key in caches.objects if key[0] == kind)
    del caches.objects[gone]
    found = await statuses(caches).of_objects(stamped(options=COMPOSITE))
    assert found.progress is Progress.UNDER_WAY
    assert f"{kind} {gone[1]}" in found.message


async def test_an_object_of_another_owner_does_not_count() -> None:
    caches = Caches()
    caches.fill(stamped(), owner="other")
    found = await statuses(caches).of_objects(stamped())
    assert found.progress is Progress.UNDER_WAY
    assert "has another owner" in found.message


async def test_a_terminating_object_does_not_count() -> None:
    caches = Caches()
    caches.fill(stamped(), deleting=True)
    assert (await statuses(caches).of_objects(stamped())).progress is Progress.UNDER_WAY


async def test_without_the_scheduling_api_the_gang_is_not_possible() -> None:
    found = await statuses(Caches(), state=ApiState(None, reason="it is not served")).of_objects(stamped())
    assert found.progress is Progress.UNDER_WAY
    assert "it is not served" in found.message


@pytest.mark.parametrize(
    "made",
    [
        read_jobset(jobset("js", rj("w", 1, 1, 1), uid=FIXTURE_UID))[0],
        replace(stamped(), managed_by="kueue.x-k8s.io/multikueue"),
    ],
    ids=["no gang", "elsewhere"],
)
async def test_a_jobset_without_a_gang_has_nothing_to_wait_for(made: JobSet) -> None:
    policies = Policies()
    assert (await statuses(Caches(), policies).of(made)).progress is Progress.NOTHING_TO_DO
    assert policies.asked == []


async def test_policies_are_evaluated_last() -> None:
    caches = Caches()
    policies = Policies((Outcome("p", matched=True, actions=frozenset({ValidationAction.DENY}), violations=(DENIAL,)),))
    assert (await statuses(caches, policies).of(stamped())).progress is Progress.UNDER_WAY
    assert policies.asked == []
    caches.fill(stamped())
    found = await statuses(caches, policies).of(stamped())
    assert found.progress is Progress.DENIED
    assert "too large" in found.message
    assert policies.asked == ["js"]


@pytest.mark.parametrize(
    "policies",
    [
        Policies(None),
        Policies((Outcome("p", matched=True, actions=frozenset({ValidationAction.WARN}), violations=(DENIAL,)),)),
        Policies((Outcome("p", matched=False),)),
    ],
    ids=["left alone", "warns", "does not apply"],
)
async def test_only_a_deny_action_denies(policies: Policies) -> None:
    caches = Caches()
    caches.fill(stamped())
    assert (await statuses(caches, policies).of(stamped())).progress is Progress.DONE


async def test_without_policies_no_jobset_is_read() -> None:
    caches = Caches()
    caches.fill(stamped())
    policies = Policies(any=False)
    assert (await statuses(caches, policies).of(stamped())).progress is Progress.DONE
    assert policies.asked == []

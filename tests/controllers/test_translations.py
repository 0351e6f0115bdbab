"""Changes that were carried out, in words that can be counted."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry

from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import NEWEST, ApiState, Generation, Observed, Owner, PodGroup, Template, Workload
from gangctl.api.store import Entry
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.gangs import Assessments, GangController, PodReader
from gangctl.controllers.reporter import GangMetrics, GangReporter, obstacles, repairs, result_of
from gangctl.controllers.writer import Writer
from gangctl.gang.desired import Assessment, Desired, Lifecycle, assess
from gangctl.gang.diff import Change, Create, Delete, Difference, Kind, SetMinCounts
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.resolve import ClusterRules
from tests.credentials import StaticCredentials
from tests.gang.pipeline import some_plan, stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each
from tests.steps import steps

OWNER = Owner("js", "u")
WORKLOAD = Create("Workload", Workload("ns", "w", OWNER, ()))
GROUP = Create("PodGroup", PodGroup("ns", "g", OWNER, "w", Template("t", 2), 2))


def found(name: str) -> Observed:
    return Observed("ns", name, "uid", "1", "u", "js", deleting=False, claims_jobset="", min_counts=(("", 2),))


def resized(kind: Kind) -> SetMinCounts:
    return SetMinCounts(kind, found("g"), ((0, "", 2, 3),))


@each(
    ("changes", "before", "result"),
    [
        ([], True, "unchanged"),
        ([WORKLOAD, GROUP], False, "created"),
        ([GROUP], True, "recreated"),
        ([resized("PodGroup")], True, "patched"),
        ([Delete("PodGroup", found("g")), Delete("Workload", found("w"))], True, "deleted"),
        ([resized("PodGroup"), Delete("PodGroup", found("g"))], True, "patched"),
    ],
)
def test_outcomes_of_a_translation_are_counted(changes: list[Change], before: bool, result: str) -> None:
    assert result_of(changes, before=before, prepared=False) == result


def test_groups_of_the_next_attempt_are_the_result_only_where_nothing_else_changed() -> None:
    assert (result_of([], before=True, prepared=True), result_of([GROUP], before=True, prepared=True)) == (
        "prepared",
        "recreated",
    )


def test_an_edited_topology_is_reported_with_both_keys() -> None:
    edited = Difference(edited=(("g", "rack", "zone"), ("h", "rack", "")))
    first, second = obstacles(edited, Generation.V1BETA1, Lifecycle.RETIRED)
    assert {first.reason, second.reason} == {Reason.CONFIG_CHANGED}
    assert first.message.startswith("PodGroup g has topologyKey rack, and the JobSet asks for zone")
    assert second.message.startswith("PodGroup h has topologyKey rack, and the JobSet asks for none")


def test_what_is_frozen_or_held_is_renewed_by_who_resumes_the_jobset() -> None:
    frozen = Difference(frozen=(("PodGroup", "g", 2, 3),))
    held = Difference(conflicts=(("PodGroup", "g"),), going=frozenset({"g"}))
    for difference in (frozen, held):
        (alone,) = obstacles(difference, Generation.V1ALPHA2, Lifecycle.RETIRED)
        (queued,) = obstacles(difference, Generation.V1ALPHA2, Lifecycle.KEPT)
        assert alone.message.endswith(" Suspend the JobSet, and resume it once its pods have ended.")
        assert queued.message.endswith(
            " Set spec.active of its Kueue Workload to false, and to true once its pods have ended."
        )


def test_a_conflict_names_what_it_knows_of_the_owner() -> None:
    conflict = Difference(conflicts=(("PodGroup", "g"), ("PodGroup", "h")), unowned=frozenset({"h"}))
    theirs, no_ones = obstacles(conflict, Generation.V1BETA1, Lifecycle.RETIRED)
    assert theirs.message.startswith("PodGroup g exists and has another owner: ")
    assert no_ones.message.startswith("PodGroup h exists and has no owner: ")


async def test_the_controller_knows_who_resumes_a_jobset() -> None:
    notices = list[Notice]()
    transport = Transport(StaticCredentials("http://127.0.0.1:1"))
    client = Client(transport)
    gangs = GangCaches(client, lambda *_: None, lambda: 0.0)
    running = read_jobset(stored(jobset("js", rj("w", mode="Gang"), uid=FIXTURE_UID)))[0]
    gangs.jobsets.store.put(running.key, Entry(FIXTURE_UID, "1", running))
    plan = assess(running, ClusterRules()).plan
    assert plan is not None
    (group,) = plan.groups
    theirs = Observed("t", group.name, "g", "1", "another", "", deleting=True, claims_jobset="", min_counts=(("", 1),))
    counts = tuple((template.name, template.min_count) for template in plan.workload.templates)
    own = replace(theirs, name=plan.workload.name, owner_uid=plan.uid, deleting=False, min_counts=counts)
    gangs.overlay.wrote("Workload", own)
    gangs.overlay.wrote("PodGroup", theirs)
    controller = GangController(
        gangs,
        lambda generation: Writer(client, generation, gangs.overlay),
        PodReader(client),
        GangReporter(lambda _, notice: notices.append(notice), GangMetrics(CollectorRegistry())),
        Assessments(lambda: ApiState(NEWEST), ClusterRules, lambda _: Lifecycle.KEPT),
        concerns=lambda _: True,
    )
    await controller.reconcile(running.key)
    await transport.close()
    assert notices[-1].reason is Reason.NAME_CONFLICT
    assert "Set spec.active of its Kueue Workload" in notices[-1].message


LASTING = [Reason.CONFIG_IGNORED, Reason.INVALID_GANG_CONFIG, Reason.UNSUPPORTED_SCHEDULER]


@each(
    ("created", "ended", "recorded"),
    [
        ("", "", [Reason.GANG_SPLIT, *LASTING]),
        ("2020-01-01T00:00:00Z", "", LASTING),
        ("2020-01-01T00:00:00Z", "Failed", []),
    ],
    ids=["new", "old", "finished"],
)
def test_a_configuration_without_effect_is_reported_of_any_age(
    created: str, ended: str, recorded: list[Reason]
) -> None:
    """The other notices are about a decision at its creation."""
    raw = jobset("js", rj("a", mode="Gang"), uid="u")
    raw["metadata"]["creationTimestamp"], raw["status"] = created, {"terminalState": ended}
    running, notices = read_jobset(raw)[0], list[Reason]()
    reporter = GangReporter(lambda _, notice: notices.append(notice.reason), GangMetrics(CollectorRegistry()))
    decided = (
        Notice(Reason.GANG_SPLIT, "split"),
        Notice(Reason.CONFIG_IGNORED, "changed"),
        Notice(Reason.INVALID_GANG_CONFIG, "stored while gangctl was down"),
        Notice(Reason.UNSUPPORTED_SCHEDULER, "another scheduler"),
    )
    reporter.planned(running, Desired(Assessment(Lifecycle.PRESENT, None, decided)), None)
    assert notices == recorded


@each(
    ("change", "before", "repaired"),
    [
        (WORKLOAD, False, []),
        (WORKLOAD, True, [("Workload", "existence")]),
        (resized("PodGroup"), True, [("PodGroup", "min_count")]),
        (Delete("Workload", found("w")), True, [("Workload", "templates")]),
        (Delete("PodGroup", found("g")), True, [("PodGroup", "surplus")]),
    ],
)
def test_repairs_are_counted(change: Change, before: bool, repaired: list[tuple[str, str]]) -> None:
    assert list(repairs([change], before=before)) == repaired


def test_work_grows_linearly_with_the_number_of_changed_groups() -> None:
    """With each change compared to all groups, the event loop was held for two minutes at 50,000."""

    def work(groups: int) -> int:
        raw = jobset("js", rj("a", groups, mode="ReplicatedGang"), uid="u")
        running, plan = read_jobset(raw)[0], some_plan(raw)
        reporter = GangReporter(lambda _, __: None, GangMetrics(CollectorRegistry()))
        changes: tuple[Change, ...] = (
            *(Create("PodGroup", group) for group in plan.groups),
            *(Delete("PodGroup", found(f"{group.name}0")) for group in plan.groups),
        )

        def report() -> None:
            reporter.applied(running, plan, changes, Generation.V1BETA1, interrupted=False, prepared=False)
            reporter.present(
                running, plan, Difference(changes), Generation.V1BETA1, suspended=Lifecycle.RETIRED, interrupted=False
            )

        return steps(report)

    assert work(200) < 2.5 * work(100)


def test_the_event_about_a_missing_gang_names_every_cause() -> None:
    """Not only that gangctl was down: in a namespace that it does not serve, the JobSet would be without one again."""
    notices = list[Notice]()
    reporter = GangReporter(lambda _, notice: notices.append(notice), GangMetrics(CollectorRegistry()))
    running = read_jobset(jobset("js", rj("a", mode="Gang"), uid="u"))[0]
    reporter.planned(running, Desired(Assessment(Lifecycle.PRESENT, None, unstamped=True)), None)
    (notice,) = notices
    assert notice.reason is Reason.NOT_GANGED
    assert "(label gangctl.dev/skip, --namespace-selector)" in notice.message
    assert "or could make none" in notice.message

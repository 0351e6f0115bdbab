"""Every finding of the two reviews about gangs as a mutant that brings it back, and what has to notice it.

A mutant changes functions of gangctl in every module that has imported them. What no state of a world shows has to be
noticed on another ground, which the table names.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from gangctl.apiserver import jobs
from gangctl.cluster import members
from gangctl.controllers import caches, gangs, reporter
from gangctl.controllers.readiness import events
from gangctl.gang import desired, diff, naming, plan
from gangctl.manager import settings, webhooks
from gangctl.pathways import job
from gangctl.pathways.rendering import metadata
from gangctl.runtime.controller import await_change
from gangctl.sandbox import controllers
from gangctl.webhooks import configurations
from tests.search import exchanges
from tests.search.draws import Plan, draw
from tests.search.exchanges import Exchange
from tests.search.explorer import Explorer, Violation
from tests.search.known import KNOWN, is_known
from tests.search.worlds import named

Ground = Literal["explorer", "simulation", "real", "examples", "benchmark"]


class Patch(NamedTuple):
    """A function, by its module or class and its name, and what makes another one of it."""

    holder: Any
    name: str
    exchange: Exchange


@dataclass(frozen=True)
class Mutant:
    """A finding, and how it comes back; ``worlds`` are those in which the explorer has to notice it."""

    finding: str
    what: str
    ground: Ground
    worlds: tuple[str, ...] = ()
    patches: tuple[Patch, ...] = ()
    seed: int | None = None
    """A seed of the simulation that shows it."""
    actions: tuple[str, ...] = ()
    """In the place of those that the seed draws."""

    @property
    def shown_by(self) -> Plan | None:
        """The plan of the simulation that shows it."""
        if self.seed is None:
            return None
        drawn = draw(self.seed)
        return replace(drawn, actions=self.actions) if self.actions else drawn


TABLE: Final[tuple[Mutant, ...]] = (
    Mutant(
        "A",
        "failed indexes are not counted",
        "explorer",
        ("failed-indexes-1.37",),
        (Patch(plan, "pods_that_can_exist", exchanges.ignoring("failed_indexes")),),
    ),
    Mutant(
        "B",
        "a PodGroup in deletion keeps its minCount",
        "explorer",
        ("group-deleted-by-hand-1.37",),
        (Patch(gangs, "diff", exchanges.changing(exchanges.without_terminating)),),
        seed=35,
    ),
    Mutant(
        "C",
        "the groups of a restart are those of the attempt before it",
        "explorer",
        ("restart-1.37", "restart-in-the-tail"),
        (
            Patch(naming, "group_name", exchanges.without_attempt),
            Patch(naming, "replica_names", exchanges.without_attempt),
            Patch(desired, "spare_groups", exchanges.constantly(())),
        ),
    ),
    Mutant(
        "D",
        "a Job that names another group counts as a member",
        "explorer",
        ("stray-1.37",),
        (Patch(desired, "find_unlinked", exchanges.constantly(())),),
        seed=207,
    ),
    Mutant("E", "a later webhook changes the mode to Off unnoticed", "examples"),
    Mutant(
        "F",
        "--unregister-on-exit deletes the configurations of all replicas",
        "simulation",
        patches=(Patch(settings, "load_settings", exchanges.with_any_replica),),
        seed=342,
    ),
    Mutant("G", "planning holds the event loop", "benchmark"),
    Mutant(
        "H",
        "no event says what cures a gang that waits for another owner's group",
        "explorer",
        ("foreign-1.37",),
        (Patch(reporter, "obstacles", exchanges.constantly([])),),
        seed=537,
    ),
    Mutant("I", "spec.scheduling of a Job beside a gang passes silently", "examples"),
    Mutant("J", "a misspelt key passes silently", "examples"),
    Mutant("K", "managedBy with a gang is not explained", "examples"),
    Mutant("L", "the README says that JobSets are never written", "examples"),
    Mutant("M", "a bad JobSet name is blamed on a ReplicatedJob", "examples"),
    Mutant(
        "N",
        "PathwaysJobs with one gang a slice strand each other",
        "explorer",
        ("slices-of-a-pathways-job-1.36", "slices-of-a-pathways-job-1.37", "slices-start-together"),
        (
            Patch(metadata, "_slices_together", exchanges.constantly(value=False)),
            Patch(job, "_has_topology", exchanges.constantly(value=True)),
        ),
    ),
    Mutant("O", "exclusive topology beside a gang is refused without a way out", "examples"),
    Mutant(
        "C1",
        "a PodGroup is created with the minCount of its template",
        "explorer",
        ("suspend-1.36", "suspend-1.37"),
        (Patch(gangs, "diff", exchanges.changing(exchanges.with_full_counts)),),
        seed=232,
    ),
    Mutant(
        "C2",
        "every UPDATE of a ganged JobSet is refused while gangctl is down",
        "simulation",
        patches=(
            Patch(configurations, "MUTATING", exchanges.every_update),
            Patch(configurations, "VALIDATING", exchanges.every_update),
        ),
        seed=4,
    ),
    Mutant(
        "C3",
        "a policy that is deleted or edited tears new gangs",
        "simulation",
        patches=(Patch(webhooks.Webhooks, "_wanted", exchanges.without_net),),
        seed=11,
    ),
    Mutant(
        "C4",
        "deletes of what no pod needs come after creates",
        "explorer",
        ("quota-1.37", "quota-1.36"),
        (Patch(gangs, "diff", exchanges.changing(exchanges.deletes_last)),),
        seed=210,
    ),
    Mutant(
        "C5",
        "the pods of a work queue are counted like those with completions",
        "explorer",
        ("work-queue-1.37",),
        (Patch(plan, "pods_that_can_exist", exchanges.like_a_counted_job),),
    ),
    Mutant(
        "C6",
        "a JobSet that is held in deletion is left alone",
        "explorer",
        ("held-in-deletion-1.37",),
        (Patch(desired, "assess", exchanges.untouched_in_deletion),),
    ),
    Mutant(
        "C7",
        "an orphan of gangctl's own counts as another owner's",
        "explorer",
        ("orphaned-1.37",),
        (Patch(caches.GangCaches, "claimed", exchanges.orphans_are_foreign),),
        seed=2,
    ),
    Mutant(
        "C8",
        "causes are recorded once an attempt",
        "simulation",
        patches=(Patch(events, "REPEAT_SECONDS", exchanges.fixed(math.inf)),),
        seed=129,
    ),
    Mutant(
        "C9",
        "--unregister-on-exit deletes the policy for Jobs",
        "simulation",
        patches=(Patch(webhooks.Webhooks, "_unregister", exchanges.unregisters_all),),
        seed=519,
    ),
    Mutant("C10", "a later webhook drops the reference, and the policy is not invoked again", "real"),
    Mutant(
        "C11",
        "a simulated controller ends with an error of a Job that a real API server refuses",
        "simulation",
        patches=(
            Patch(jobs, "_indexed", exchanges.constantly(None)),
            Patch(controllers.SandboxController, "run", exchanges.ends_with_an_error),
        ),
        seed=46,
    ),
    Mutant(
        "9.1 resync",
        "no reconcile without a trigger",
        "explorer",
        ("lost-trigger-1.37",),
        (Patch(gangs.GangController, "_resync", exchanges.constantly(await_change())),),
    ),
    Mutant(
        "8.2",
        "the groups of the next attempt are not made before it",
        "explorer",
        ("restart-1.37",),
        (Patch(desired, "spare_groups", exchanges.constantly(())),),
    ),
    Mutant(
        "9.1 triggers",
        "no change of a Job is a trigger",
        "explorer",
        ("tail-1.37",),
        (Patch(caches, "changes_objects", exchanges.constantly(value=False)),),
    ),
    Mutant(
        "late spares",
        "a failed create of the next attempt's groups counts as a refusal",
        "explorer",
        ("spares-refused-and-late-1.37",),
        (Patch(gangs, "is_transient", exchanges.constantly(value=False)),),
    ),
    Mutant(
        "finished",
        "the group of a finished gang uses up the quota that another one needs",
        "simulation",
        patches=(Patch(diff, "_surplus", exchanges.finished_groups_stay),),
        seed=2592,
        # The quota has room for one group when both are made anew. Then the front gang finishes.
        actions=(
            *("create a", "wait 0.05", "suspend a", "wait 1", "quota 1", "wait 1", "resume a", "wait 70"),
            *(action for pod in range(6) for action in (f"succeed a {pod}", "wait 1")),
            "wait 70",
        ),
    ),
    Mutant(
        "orphans",
        "a group is not found as an orphan once its Workload has gone",
        "explorer",
        ("orphaned-one-by-one-1.36", "orphaned-one-by-one-1.37"),
        (Patch(members, "_orphaned_groups", exchanges.constantly([])),),
    ),
    Mutant(
        "devices of the finished",
        "the group of a finished gang keeps the device that another one needs",
        "explorer",
        ("devices-one-after-another",),
        (Patch(diff, "_surplus", exchanges.finished_groups_stay),),
    ),
    Mutant(
        "devices of the suspended",
        "the groups of a JobSet that a queue has suspended keep their devices",
        "explorer",
        ("devices-in-a-queue",),
        (Patch(desired, "assess", exchanges.kept_in_a_queue),),
    ),
    Mutant(
        "order",
        "PodGroups are created before their Workload",
        "explorer",
        ("suspend-1.36",),
        (Patch(gangs, "diff", exchanges.changing(exchanges.groups_first)),),
        seed=7,
    ),
)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """gangctl with the mutant in it."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for patch in mutant.patches:
            original = getattr(patch.holder, patch.name)
            changed = patch.exchange(original)
            for holder in _holders(patch, original):
                undo.append((holder, patch.name, original))
                setattr(holder, patch.name, changed)
        yield
    finally:
        for holder, name, original in undo:
            setattr(holder, name, original)


def _holders(patch: Patch, original: object) -> list[Any]:
    """A class, or every module of gangctl that has imported the function, and the one that starts gangctl in tests."""
    names = [name for name in sys.modules if name.partition(".")[0] == "gangctl" or name == "tests.faults.world"]
    modules = [sys.modules[name] for name in names]
    imported = [module for module in modules if getattr(module, patch.name, None) is original]
    return imported if patch.holder in modules else [patch.holder]


def killed(mutant: Mutant, limit: int = 20_000) -> Violation | None:
    """The first violation that is not known, in the first world that has one; None if the mutant survives."""
    with applied(mutant):
        for name in mutant.worlds:
            explored = Explorer(named(name)).run(limit, violations=4)
            for violation in explored.violations:
                if not is_known(violation, KNOWN):
                    return violation
    return None

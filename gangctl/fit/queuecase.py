"""The state of one verdict on a JobSet in a queue, and the report that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.errors import one_line
from gangctl.fit import explain, report
from gangctl.fit.clusterstate import ClusterSnapshot, FitRequest
from gangctl.fit.conditions import Conditions
from gangctl.fit.demands import Member, Needs
from gangctl.fit.quotas import Capacity
from gangctl.fit.search import Step
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.consistency import FEWEST_PODSETS
from gangctl.kueue.queues import MOST_PODSETS

PODSETS: Final = f"how many podsets this Kueue takes ({FEWEST_PODSETS} to {MOST_PODSETS} by version)"
_BY_QUOTAS: Final = frozenset({"NeverExceedsQuota", "NeverUndeclaredResource", "NeverNoFlavor"})


@dataclass(slots=True)
class QueueCase:
    """State of one verdict, with facts for the report."""

    request: FitRequest
    cluster: ClusterSnapshot
    jobset: JobSet
    conditions: Conditions
    queue: str
    cluster_queue: str = ""
    blocked: str = ""
    missing: str = ""
    strict: bool = False
    preemptions: int = 0
    unknown: list[str] = field(default_factory=list)
    """What could change a ``never``, too."""
    elsewhere: list[str] = field(default_factory=list)
    """What of it is about the clusters of MultiKueue: the verdict is that of the queue."""
    checks: list[str] = field(default_factory=list)
    """What AdmissionChecks of others decide once it has quota: the verdict is that of the quota."""
    members: Sequence[Member] = ()
    needs: Needs | None = None
    capacity: Capacity | None = None
    steps: Sequence[Step] = ()
    domains: list[report.DomainReport] = field(default_factory=list)
    holders: list[report.HolderReport] = field(default_factory=list)
    preempts: list[report.PreemptedReport] = field(default_factory=list)
    starts: report.StartReport | None = None

    def answer(
        self, verdict: report.Verdict, reason: str, message: str, *, blocking: bool = False, reorder: bool = False
    ) -> report.FitReport:
        """The report; it does not say ``fits`` where something that decides is not known."""
        # These leave `fits` as it is: it holds by Kueue's defaults, and with checks for the queue's own quota.
        assumed = {self.cluster.configuration.unreadable, *self.elsewhere, *self.checks}
        if verdict == "fits" and not assumed.issuperset(self.not_known):
            verdict, reason = "unknown", "MayFit"
        words = one_line(message + (explain.BLOCKS if blocking else ""))
        sentence = words[:1].upper() + words[1:] + "."
        return {
            **report.report_of(self.jobset, self.request.namespace, verdict, reason, sentence),
            "queue": self.queue,
            "clusterQueue": self.cluster_queue,
            "blocked": self.blocked,
            "blocking": blocking,
            "reorder": reorder,
            "podSets": [
                report.podset_report(
                    member.podset.name,
                    member.podset.pods,
                    member.requests,
                    self._flavors(index),
                    self.needs.refused[index] if self.needs else {},
                )
                for index, member in enumerate(self.members)
            ],
            "limits": self._limits(),
            "domains": self.domains,
            "holders": self.holders,
            "preempts": self.preempts,
            "starts": self.starts,
            "unknown": self.not_known,
        }

    @property
    def not_known(self) -> list[str]:
        """What could change a verdict."""
        return [*self.unknown, *self.conditions.doubts, *self.checks]

    @property
    def unsure(self) -> str:
        """The end of a message that something may contradict; empty if nothing can."""
        return f", as far as is known; not known: {'; '.join(self.not_known)}" if self.not_known else ""

    def never(self, reason: str, message: str, *, blocking: bool = True, by_podsets: bool = False) -> report.FitReport:
        """``never``, unless an unknown fact could change that; the limit of podsets makes no room."""
        # No check makes room.
        self.checks = []
        if not by_podsets:
            self.unknown = [why for why in self.unknown if why != PODSETS]
        if self.unknown:
            words = f"as far as is known it can never be admitted: {message}; but not known: {'; '.join(self.unknown)}"
            return self.answer("unknown", "Unknown", words)
        # Quotas that something computes change at any time: exceeding them proves nothing.
        if reason in _BY_QUOTAS and (orchestrator := self.cluster.quotas.orchestrator(self.cluster_queue)):
            words = f"by the quotas that {orchestrator} gives now it is not admitted: {message}; they may change"
            return self.answer("not-now", "WaitsForQuota", words, blocking=blocking and self.strict)
        where = f' by ClusterQueue "{self.cluster_queue}"' if self.cluster_queue else ""
        return self.answer(
            "never", reason, f"it can never be admitted{where}: {message}", blocking=blocking and self.strict
        )

    def _flavors(self, index: int) -> dict[str, str]:
        if self.needs is None or not self.steps:
            return {}
        own = self.members[index].requests
        return {
            resource: step.flavor
            for demand, owners, step in zip(self.needs.demands, self.needs.owners, self.steps, strict=True)
            if index in owners
            for resource in demand.amounts
            if resource in own
        }

    def _limits(self) -> list[report.LimitReport]:
        if self.needs is None or self.capacity is None:
            return []
        limits = []
        for resource, indexes in self.needs.undeclared.items():
            members = [self.members[index] for index in indexes]
            asked = sum(member.requests[resource] * member.podset.pods for member in members)
            limits.append(report.limit_report("", resource, asked, 0, "no resource group has it"))
        for pair, ceiling in self.capacity.ceilings.items():
            flavor, resource = pair
            free = self.capacity.free[pair]
            asked = sum(d.amounts.get(resource, 0) for d in self.needs.demands if flavor in d.flavors)
            if not asked:
                continue
            limits.append(
                report.limit_report(
                    flavor,
                    resource,
                    asked,
                    UNLIMITED if ceiling.amount is None else ceiling.amount,
                    ceiling.limit,
                    nominal=self.capacity.nominal[pair],
                    used=self.capacity.used[pair],
                    free=UNLIMITED if free is None else free,
                )
            )
        return limits

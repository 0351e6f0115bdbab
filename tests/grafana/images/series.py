"""The metrics of the story: those about gangs by gangctl's own collectors, Kueue's and the rest beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry

from gangctl.api.requests import is_extended
from gangctl.gang.reasons import Reason
from gangctl.manager.readinessmetrics import ReadinessMetrics
from gangctl.readiness.result import PODS, Cause, Counts, GangPhase, Readiness, Usage
from gangctl.runtime.families import new_registry
from tests.grafana.images.story import END, QUOTA, TENANTS, Gang, Step, gangs

Sample = tuple[str, dict[str, str], float]

FROM: Final = -60
"""The first minute that is scraped: before the time shown, for what looks back."""
_KEPT: Final = 20
"""Minutes after which a JobSet that is over is deleted."""
_PASSING: Final = {Reason.WAITING_FOR_QUOTA, Reason.STARTING, Reason.NOT_READY, Reason.RESTARTING}
"""They end by themselves."""
_OURS: Final = {"cluster": "prod", "job": "gangctl", "instance": "10.0.1.7:8080"}
_STANDBY: Final = {**_OURS, "instance": "10.0.2.9:8080"}
_KUEUE: Final = {"cluster": "prod", "job": "kueue", "instance": "10.0.1.5:8443", "replica_role": "leader"}
_DEVICES: Final = {"gpus": ("h100", "nvidia.com/gpu", 8), "cpus": ("default", "cpu", 4)}
"""Flavor, resource, and how much of it a pod takes."""
_WAITS: Final = (1, 2.5, *(5 * 2**power for power in range(14)))


@dataclass
class Cluster:
    """Gives gangctl's collectors the events of a story, minute by minute; ``now`` is the Unix time of minute END."""

    now: int
    registry: CollectorRegistry = field(default_factory=new_registry)
    minute: float = 0
    _reported: dict[str, Readiness] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._gangs = gangs()
        self.minute = min(gang.created for gang in self._gangs) - 1
        self._steps = sorted(((step.minute, gang, step) for gang in self._gangs for step in gang.steps), key=_first)
        self._metrics = ReadinessMetrics(self.registry, monotonic=self._clock, wall=self._clock)
        self._metrics.leads()

    def scrapes(self) -> Iterator[tuple[int, list[Sample]]]:
        """Unix time and samples of every minute."""
        for minute in range(FROM, END + 1):
            self._until(minute)
            self.minute = minute
            ours = [
                (sample.name, {**_OURS, **sample.labels}, sample.value)
                for metric in self.registry.collect()
                for sample in metric.samples
            ]
            yield self._unix(minute), [*ours, *self._process(), *self._kueue(), *self._alerts()]

    def _clock(self) -> float:
        return self.now + (self.minute - END) * 60

    def _unix(self, minute: float) -> int:
        return int(self.now + (minute - END) * 60)

    def _past(self, minute: float | None, step: Step) -> int:
        return 0 if minute is None or minute > step.minute else self._unix(minute)

    def _until(self, minute: int) -> None:
        while self._steps and self._steps[0][0] <= minute:
            self.minute, gang, step = self._steps.pop(0)
            self._tell(gang, self._readiness(gang, step))
        for gang in self._gangs:
            last = gang.steps[-1]
            if gang.name in self._reported and last.phase.over and last.minute + _KEPT < minute:
                self._tell(gang, None)

    def _tell(self, gang: Gang, readiness: Readiness | None) -> None:
        self._metrics.on_status_change(self._reported.pop(gang.name, None), readiness)
        if readiness is not None:
            self._reported[gang.name] = readiness

    def _readiness(self, gang: Gang, step: Step) -> Readiness:
        before = self._reported.get(gang.name)
        causes: tuple[Cause, ...] = ()
        if step.reason is not None:
            old = next((cause for cause in before.causes if cause.reason is step.reason), None) if before else None
            since = old.since if old else self._unix(step.minute)
            causes = (Cause(step.reason, "", since=since, blocking=step.reason not in _PASSING),)
        was = gang.first_ready is not None and gang.first_ready <= step.minute
        exists = gang.pods if step.placed or (gang.admitted is not None and gang.admitted < step.minute) else 0
        return Readiness(
            gang.tenant.namespace,
            gang.name,
            gang.name,
            step.phase,
            before.since if before and before.phase is step.phase else self._unix(step.minute),
            Counts(
                desired=gang.pods,
                minimum=gang.pods,
                wanted=0 if step.phase.over else gang.pods,
                created=exists,
                placed=step.placed,
                ready=step.ready,
                stranded=step.placed if step.phase is GangPhase.PARTIALLY_PLACED else 0,
            ),
            (),
            causes,
            level="JobSet",
            local_queue=gang.tenant.local_queue,
            cluster_queue=gang.tenant.cluster_queue,
            created_at=self._unix(gang.created),
            admitted_at=self._past(gang.admitted, step),
            placed_at=self._past(gang.scheduled, step),
            first_ready_at=self._past(gang.first_pod_ready, step),
            ready_at=self._past(gang.first_ready, step),
            been_ready=was,
            usage=self._usage(gang, step),
        )

    def _usage(self, gang: Gang, step: Step) -> tuple[Usage, ...]:
        """What its pods hold: no metric of gangctl has CPUs."""
        if not step.placed or step.phase.over:
            return ()
        _, resource, amount = _DEVICES[gang.tenant.cluster_queue]
        pods = Usage(PODS, step.placed, step.ready)
        return (Usage(resource, amount * step.placed, amount * step.ready), pods) if is_extended(resource) else (pods,)

    def _process(self) -> Iterator[Sample]:
        for labels, leads in ((_OURS, 1), (_STANDBY, 0)):
            yield "gangctl_leader_election_master_status", labels, leads
            yield "gangctl_shard_leader_election_master_status", {**labels, "shard": "0"}, leads
            yield "gangctl_build_info", {**labels, "version": "0.1.0"}, 1
        for tenant in TENANTS:
            labels = {**_OURS, "namespace": tenant.namespace}
            labels |= {"local_queue": tenant.local_queue, "cluster_queue": tenant.cluster_queue}
            for verdict, reason in (("waiting", Reason.WAITING_FOR_QUOTA), ("never", Reason.NEVER_FITS)):
                count = sum(
                    each.namespace == tenant.namespace and each.reason is reason for each in self._reported.values()
                )
                yield "gangctl_fit_verdicts", {**labels, "verdict": verdict}, count

    def _kueue(self) -> Iterator[Sample]:
        for name, quota in QUOTA.items():
            queue = {**_KUEUE, "cluster_queue": name}
            here = [gang for gang in self._gangs if gang.tenant.cluster_queue == name]
            reported = [each for each in self._reported.values() if each.cluster_queue == name]
            waits = [
                (gang.admitted - gang.created) * 60
                for gang in here
                if gang.admitted is not None and gang.admitted <= self.minute
            ]
            active = [each for each in reported if each.phase is not GangPhase.QUEUED and not each.phase.over]
            yield "kueue_cluster_queue_info", {**queue, "root_cohort": "all", "parent_cohort": "all"}, 1
            for status, reason in (("active", Reason.WAITING_FOR_QUOTA), ("inadmissible", Reason.NEVER_FITS)):
                count = sum(each.phase is GangPhase.QUEUED and each.reason is reason for each in reported)
                yield "kueue_pending_workloads", {**queue, "status": status}, count
            yield "kueue_admitted_active_workloads", queue, len(active)
            counted = {**queue, "priority_class": ""}
            yield "kueue_admitted_workloads_total", counted, len(waits)
            for le in (*_WAITS, float("inf")):
                bound = {**counted, "le": "+Inf" if le == float("inf") else str(le)}
                yield "kueue_admission_wait_time_seconds_bucket", bound, sum(wait <= le for wait in waits)
            flavor, resource, amount = _DEVICES[name]
            of = {**queue, "cohort": "all", "flavor": flavor, "resource": resource}
            used = sum(each.counts.desired for each in active) * amount
            yield "kueue_cluster_queue_nominal_quota", of, quota * amount
            yield "kueue_cluster_queue_resource_usage", of, used
            yield "kueue_cluster_queue_resource_reservation", of, used

    def _alerts(self) -> Iterator[Sample]:
        """What the rules come to, for the three gangs that are held back."""
        for name, reason, alert, patience in (
            ("sweep-wide", Reason.NEVER_FITS, "GangNeverFits", 2),
            ("llm-70b", Reason.UNSCHEDULABLE, "GangUnschedulable", 65),
            ("eval-nightly", Reason.IMAGE_PULL, "GangImagePullFailing", 10),
        ):
            gang = self._reported.get(name)
            if gang is None or gang.reason is not reason:
                continue
            state = "firing" if self._clock() - gang.causes[0].since >= patience * 60 else "pending"
            labels = {"alertname": alert, "alertstate": state, "severity": "warning", "namespace": gang.namespace}
            labels |= {"local_queue": gang.local_queue, "cluster_queue": gang.cluster_queue}
            yield "ALERTS", {"cluster": "prod", **labels, **({"reason": reason} if alert == "GangNeverFits" else {})}, 1


def _first(step: tuple[float, Gang, Step]) -> float:
    return step[0]

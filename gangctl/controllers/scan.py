"""The background scan: the outcomes of policies for existing JobSets, and PolicyReports of them.

It pages through all JobSets and keeps none of them, evaluates one at a time, and writes only differences from the last
scan, one report per namespace: in a cluster without changes it only reads.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import structlog
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client import Counter as Total

from gangctl.api.objects import Object
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBSETS, Resource
from gangctl.controllers.policy_sources import GANG_POLICIES
from gangctl.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
)
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.reports import (
    API_VERSION,
    KIND,
    LABELS,
    NAME,
    NamespaceReport,
    PolicyTotals,
    count,
    severity_of,
    totals_of,
    withdrawn,
)
from gangctl.policy.verdict import Outcome, Result, ValidationAction
from gangctl.runtime.families import new_registry

_GROUP, _VERSION = API_VERSION.split("/")
POLICY_REPORTS: Final = Resource(_GROUP, _VERSION, "policyreports", KIND)
_OURS: Final = Selection(label_selector=",".join(f"{key}={value}" for key, value in LABELS.items()))
_COMPARED: Final = ("summary", "results")
_OF_ONE_REPORT: Final = (
    NotFoundError,
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    ServerError,
)
"""Refusals of a write that may be about this report alone.

The namespace may be terminating, its quota used up, the name another owner's, or the object larger than etcd takes,
which is a 500. Other namespaces get their reports all the same, and this one may after the next scan.
"""

_log = structlog.get_logger(__name__)


class Reports:
    """Reports of every scan; none where the cluster lacks the kind, or the permission for it."""

    def __init__(self, reader: Client, writer: Client, *, now: Callable[[], datetime]) -> None:
        """Read through one client and write through the other."""
        self._reader = reader
        self._writer = writer
        self._now = now
        self._reported = ""

    @asynccontextmanager
    async def scan(self, annotations: Mapping[str, Mapping[str, str]]) -> AsyncIterator[Scan]:
        """The reports of one scan; those of namespaces without a JobSet are deleted when it succeeds."""
        before = await self._existing()
        scan = Scan(self._writer, annotations, before, int(self._now().timestamp()))
        yield scan
        await scan.finish()

    async def _existing(self) -> dict[str, Object] | None:
        """Own reports by namespace; None where there can be none."""
        try:
            page = await self._reader.list(POLICY_REPORTS, selection=_OURS)
        except (NotFoundError, ForbiddenError) as error:
            # A cluster without this kind is normal; one that lacks only the permission is logged once.
            problem = "" if isinstance(error, NotFoundError) else str(error)
            if problem and problem != self._reported:
                _log.warning("no policy reports", error=problem)
            self._reported = problem
            return None
        self._reported = ""
        return {item["metadata"]["namespace"]: item for item in page.items if item["metadata"]["name"] == NAME}


class Scan:
    """JobSets arrive in the order of their namespaces, so that one report is in memory at a time."""

    def __init__(
        self,
        writer: Client,
        annotations: Mapping[str, Mapping[str, str]],
        before: dict[str, Object] | None,
        now: int,
    ) -> None:
        """``before`` are the existing reports by namespace, None where reports cannot be written."""
        self._writer = writer
        self._annotations = annotations
        self._before = before
        self._now = now
        self._namespace = ""
        self._report = NamespaceReport()

    async def add(self, outcomes: Iterable[Outcome], jobset: Object) -> None:
        """Add the outcomes of one JobSet."""
        if self._before is None:
            return
        namespace = str(jobset["metadata"]["namespace"])
        if namespace != self._namespace:
            await self._close()
            self._namespace = namespace
        self._report.add(outcomes, jobset, self._annotations)

    async def finish(self) -> None:
        """Write the last report, and delete stale ones of earlier scans."""
        await self._close()
        for namespace in self._before or {}:
            try:
                await self._writer.delete(POLICY_REPORTS, NAME, namespace)
            except NotFoundError:
                continue
            except _OF_ONE_REPORT as error:
                _log_refusal(namespace, error)

    async def _close(self) -> None:
        report, namespace = self._report, self._namespace
        self._report = NamespaceReport()
        # Without a result there is no report, and ``finish`` deletes the earlier one.
        if self._before is None or not report.summary:
            return
        # Removed, because ``finish`` deletes those that are left.
        before = self._before.pop(namespace, None)
        wanted = report.build(namespace, before, self._now)
        if before is not None and _same(before, wanted):
            return
        try:
            if before is None:
                await self._writer.create(POLICY_REPORTS, wanted)
            else:
                # Never over a write since the list: an update without a version would replace it.
                wanted["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
                await self._writer.update(POLICY_REPORTS, wanted)
        except _OF_ONE_REPORT as error:
            _log_refusal(namespace, error)


def _log_refusal(namespace: str, error: ApiError) -> None:
    _log.warning("policy report not written", namespace=namespace, error=str(error), status=error.status)


def _same(before: Object, wanted: Mapping[str, Any]) -> bool:
    if any(before.get(key) != wanted[key] for key in _COMPARED):
        return False
    metadata = before["metadata"]
    return bool((metadata.get("annotations") or {}) == wanted["metadata"]["annotations"])


_ACTIONS: Final = (ValidationAction.DENY, ValidationAction.WARN, ValidationAction.AUDIT)

MOST_POLICIES: Final = 200
"""Policies with labels of their own."""
PAGE: Final = 100
"""JobSets in memory at once: some may be megabytes."""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """A scan follows a change of policies after ``settle_seconds`` without another, and every ``period_seconds``."""

    period_seconds: float = 600.0
    settle_seconds: float = 2.0
    retry_seconds: float = 30.0
    page: int = PAGE


class ScanView(Protocol):
    """The policies and cluster state that a scan uses."""

    def scanned(self) -> Sequence[LoadedPolicy]:
        """The policies in force that request evaluation of existing JobSets."""

    def documents(self) -> Sequence[Object]:
        """Every policy as last seen, with its status: also those that are not scanned."""

    async def evaluate(self, jobset: Object) -> tuple[Outcome, ...] | None:
        """Outcomes of these policies for one JobSet; None where policies do not apply, as in excluded namespaces."""


class ScanMetrics:
    """Results of the last scan; only the replica that scans has values."""

    def __init__(self, registry: CollectorRegistry, policies: Callable[[], Sequence[LoadedPolicy]]) -> None:
        """Register every family; ``policies`` are those that are scanned."""
        self._policies = policies
        self._violations = Gauge(
            "gangctl_policy_violations",
            "Violations of rules by existing JobSets, by the last scan.",
            ["policy", "severity", "action"],
            registry=registry,
        )
        self._jobsets = Gauge(
            "gangctl_policy_scanned_jobsets", "JobSets that the last scan evaluated.", registry=registry
        )
        self._seconds = Gauge(
            "gangctl_policy_scan_duration_seconds", "Duration of the last scan in seconds.", registry=registry
        )
        self._at = Gauge(
            "gangctl_policy_last_scan_timestamp_seconds",
            "When the last complete scan ended (Unix time).",
            registry=registry,
        )
        self._failures = Total("gangctl_policy_scan_failures", "Scans that failed.", registry=registry)

    def scan_done(self, jobsets: int, seconds: float, results: Mapping[str, Counter[Result]]) -> None:
        """Replace the results of the previous scan."""
        # Policies that are gone, and earlier severities and actions, must not keep their values.
        self._violations.clear()
        for policy in self._policies()[:MOST_POLICIES]:
            actions = set(policy.spec.validation_actions)
            action = next((action.value.lower() for action in _ACTIONS if action in actions), "none")
            counts = results.get(policy.name, Counter())
            self._violations.labels(policy.name, severity_of(policy.source), action).set(counts[Result.FAIL])
        self._jobsets.set(jobsets)
        self._seconds.set(seconds)
        self._at.set_to_current_time()

    def forget(self) -> None:
        """Have no values, as before the first scan: another replica scans from now on."""
        self._violations.clear()
        # A gauge without labels can only be set: prometheus_client always exports it.
        for gauge in (self._jobsets, self._seconds, self._at):
            gauge.set(0)

    def scan_failed(self) -> None:
        """Count it."""
        self._failures.inc()


class PolicyScan:
    """Run :meth:`run` in a task of the leader, and :meth:`wake` it when other policies are in force."""

    def __init__(
        self,
        reader: Client,
        writer: Client,
        view: ScanView,
        *,
        options: ScanOptions | None = None,
        metrics: ScanMetrics | None = None,
        now: Callable[[], datetime],
    ) -> None:
        """Read through one client and write through the other, whose guard stops a replica that lost the lease."""
        self._reader = reader
        self._writer = writer
        self._view = view
        self._reports = Reports(reader, writer, now=now)
        self._options = options or ScanOptions()
        self._metrics = metrics or ScanMetrics(new_registry(), view.scanned)
        self._now = now
        self._dirty = asyncio.Event()
        self._dirty.set()

    def wake(self) -> None:
        """Scan again soon: policies, exceptions or parameters changed."""
        self._dirty.set()

    async def run(self) -> None:
        """Scan until cancelled, and then forget the results."""
        try:
            while True:
                delay = self._options.period_seconds
                # Before the scan: a change during it causes another one.
                self._dirty.clear()
                try:
                    await self.scan()
                except ApiError as error:
                    _log.warning("scan failed", error=str(error), status=error.status)
                    self._metrics.scan_failed()
                    delay = self._options.retry_seconds
                await self._wait(delay)
        finally:
            self._metrics.forget()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._dirty.wait()
        except TimeoutError:
            return
        while self._dirty.is_set():
            self._dirty.clear()
            await asyncio.sleep(self._options.settle_seconds)

    async def scan(self) -> None:
        """Evaluate everything once, and write what is new.

        :class:`~gangctl.errors.ApiError` when reading fails, and when a status was refused: the others are still
        written.
        """
        began = asyncio.get_running_loop().time()
        policies = self._view.scanned()
        totals = totals_of([policy.name for policy in policies])
        annotations = {policy.name: _annotations(policy.source) for policy in policies}
        jobsets = 0
        async with self._reports.scan(annotations) as reports:
            # Without policies the block still deletes the reports of earlier scans at its end.
            if policies:
                async with aclosing(self._jobsets()) as stream:
                    async for jobset in stream:
                        outcomes = await self._view.evaluate(jobset)
                        if outcomes is not None:
                            jobsets += 1
                            count(outcomes, jobset, totals)
                            await reports.add(outcomes, jobset)
                        # Cheap evaluation never waits, so this gives requests a turn in between.
                        await asyncio.sleep(0)
        refused: ApiError | None = None
        for document in self._view.documents():
            try:
                await self._write(document, totals.get(document["metadata"]["name"]))
            except ApiError as error:
                refused = error
        if refused is not None:
            raise refused
        results = {name: total.counts for name, total in totals.items()}
        self._metrics.scan_done(jobsets, asyncio.get_running_loop().time() - began, results)

    async def _jobsets(self) -> AsyncGenerator[Object, None]:
        try:
            async with aclosing(self._reader.pages(JOBSETS, limit=self._options.page, consistent=False)) as pages:
                async for page in pages:
                    for item in page.items:
                        # What violates a rule and is being deleted needs no repair.
                        if not item["metadata"].get("deletionTimestamp"):
                            # Items of a list have no apiVersion and kind.
                            yield {**item, "apiVersion": JOBSETS.api_version, "kind": JOBSETS.kind}
        except NotFoundError:
            return  # a cluster without JobSets has none that break a rule

    async def _write(self, document: Object, totals: PolicyTotals | None) -> None:
        before = document.get("status") or {}
        now = self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
        status = withdrawn(before) if totals is None else totals.status(before, now)
        if status is None:
            return
        name = document["metadata"]["name"]
        try:
            # Without a resourceVersion: conditions, which PolicyStatusWriter writes, are other fields of the status.
            await self._writer.merge_patch(GANG_POLICIES, name, {"status": status}, subresource="status")
        except NotFoundError:
            return  # it was deleted during the scan


def _annotations(document: Object) -> Mapping[str, str]:
    metadata = document.get("metadata")
    annotations: Any = metadata.get("annotations") if isinstance(metadata, dict) else None
    return {str(key): str(value) for key, value in annotations.items()} if isinstance(annotations, dict) else {}

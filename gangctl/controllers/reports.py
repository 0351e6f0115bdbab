"""PolicyReports, if the cluster has that kind: one per namespace, written when a scan's result has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from gangctl.api.objects import Object
from gangctl.client.client import Client, Selection
from gangctl.client.resources import Resource
from gangctl.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from gangctl.policy.reports import API_VERSION, KIND, LABELS, NAME, Report
from gangctl.policy.verdict import Outcome

_GROUP, _VERSION = API_VERSION.split("/")
POLICY_REPORTS: Final = Resource(_GROUP, _VERSION, "policyreports", KIND)
_OURS: Final = Selection(label_selector=",".join(f"{key}={value}" for key, value in LABELS.items()))
_COMPARED: Final = ("summary", "results")

_log = structlog.get_logger(__name__)


class Reports:
    """Reports of every scan; none where the cluster lacks the kind, or the permission for it."""

    def __init__(
        self,
        reader: Client,
        writer: Client,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
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
        return {each["metadata"]["namespace"]: each for each in page.items if each["metadata"]["name"] == NAME}


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
        self._report = Report()

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
            except (ForbiddenError, InvalidError) as error:
                _log_refusal(namespace, error)

    async def _close(self) -> None:
        report, namespace = self._report, self._namespace
        self._report = Report()
        if self._before is None or not report.summary:
            return
        before = self._before.pop(namespace, None)
        wanted = report.build(namespace, before, self._now)
        if before is not None and _same(before, wanted):
            return
        try:
            if before is None:
                await self._writer.create(POLICY_REPORTS, wanted)
            else:
                wanted["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
                await self._writer.update(POLICY_REPORTS, wanted)
        except (NotFoundError, AlreadyExistsError, ConflictError, ForbiddenError, InvalidError) as error:
            # The namespace may be terminating, its quota used up, or the name another owner's: other namespaces get
            # their reports all the same, and this one may after the next scan.
            _log_refusal(namespace, error)


def _log_refusal(namespace: str, error: ApiError) -> None:
    _log.warning("policy report not written", namespace=namespace, error=str(error), status=error.status)


def _same(before: Object, wanted: Mapping[str, Any]) -> bool:
    if any(before.get(key) != wanted[key] for key in _COMPARED):
        return False
    metadata = before["metadata"]
    return bool((metadata.get("annotations") or {}) == wanted["metadata"]["annotations"])

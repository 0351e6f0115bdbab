"""Judging from a command: the judge of admission, in an event loop of the command's own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import structlog

from gangctl.judge.judge import Judge
from gangctl.judge.options import JudgeOptions
from gangctl.judge.policyset import PolicySet
from gangctl.policy.cel.meter import POLICY_SECONDS
from gangctl.policy.exemptions import LoadedException
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.review import Review
from gangctl.policy.verdict import Outcome


def now() -> datetime:
    """The time by which exceptions expire."""
    return datetime.now(tz=UTC)


def options_of(minor: str) -> JudgeOptions:
    """A judge that nobody else waits for: most is judged in this process, and a worker may take its time to start.

    What a policy may spend is what it may spend at admission.
    """
    return JudgeOptions(
        minor=minor,
        ahead=False,
        spares=0,
        inline_seconds=0.25,
        inline_text=1 << 20,
        fair_seconds=POLICY_SECONDS,
        patience_seconds=POLICY_SECONDS,
        lesson_seconds=30.0,
        request_seconds=60.0,
    )


class Court:
    """A judge that a command asks and waits for; what policies spend is bounded as at admission."""

    def __init__(self, minor: str) -> None:
        """Evaluate with the CEL libraries of a Kubernetes minor."""
        self._runner = asyncio.Runner()
        self._judge = Judge(options_of(minor))
        self._generation = 0

    def __enter__(self) -> Self:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
        self._runner.__enter__()
        self._runner.run(self._judge.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self._judge.__aexit__(kind, error, traceback))
        finally:
            self._runner.__exit__(kind, error, traceback)

    def install(self, policies: Sequence[LoadedPolicy], exceptions: Sequence[LoadedException]) -> None:
        """Judge by these from now on."""
        self._generation += 1
        installed = PolicySet(self._generation, policies=tuple(policies), exceptions=tuple(exceptions))
        self._runner.run(self._judge.install(installed))

    def judge(self, review: Review, policies: Sequence[str] | None = None) -> tuple[Outcome, ...]:
        """What the policies of these names, or all of them, say of one request."""
        return self._runner.run(self._judge.judge(review, policies))

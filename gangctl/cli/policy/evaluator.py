"""The policy evaluator of admission, for commands: in an event loop of the command's own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import structlog

from gangctl.cel.meter import POLICY_SECONDS
from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.policy.exemptions import LoadedException
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.review import Review
from gangctl.policy.snapshot import PolicySet
from gangctl.policy.verdict import Outcome


def now() -> datetime:
    """The time by which exceptions expire."""
    return datetime.now(tz=UTC)


def options_of(minor: str) -> EvaluatorOptions:
    """Options for a command, which runs one review at a time: most of it in this process, and workers may start slowly.

    The limits of a policy are those of admission.
    """
    return EvaluatorOptions(
        minor=minor,
        ahead=False,
        workers=1,
        spares=0,
        slice_seconds=0.25,
        local_text=1 << 20,
        local_values=1 << 20,
        shared_seconds=POLICY_SECONDS,
        slow_seconds=POLICY_SECONDS,
        load_seconds=30.0,
        request_seconds=60.0,
    )


class CommandEvaluator:
    """A policy evaluator that a command calls without ``await``."""

    def __init__(self, minor: str) -> None:
        """Evaluate native policies with the CEL libraries of a Kubernetes minor."""
        self._runner = asyncio.Runner()
        self._evaluator = PolicyEvaluator(options_of(minor))
        self._generation = 0

    def __enter__(self) -> Self:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
        self._runner.__enter__()
        self._runner.run(self._evaluator.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self._evaluator.__aexit__(kind, error, traceback))
        finally:
            self._runner.__exit__(kind, error, traceback)

    def install(self, policies: Sequence[LoadedPolicy], exceptions: Sequence[LoadedException]) -> None:
        """Evaluate by these from now on."""
        self._generation += 1
        installed = PolicySet(self._generation, policies=tuple(policies), exceptions=tuple(exceptions))
        self._runner.run(self._evaluator.install(installed))

    def evaluate(self, review: Review, policies: Sequence[str] | None = None) -> tuple[Outcome, ...]:
        """The outcomes of the policies of these names, or of all of them, for one request."""
        return self._runner.run(self._evaluator.evaluate(review, policies))

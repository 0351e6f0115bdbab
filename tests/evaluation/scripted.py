"""Policies that do what their name says, and a worker's service that runs them, in place of hostile ones."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gangctl.evaluation.messages import (
    LATE,
    MEMORY,
    READ,
    Evaluate,
    Evaluated,
    Load,
    plain_evaluated,
    read_request,
)
from gangctl.policy.loaded import KeyedSet, LoadedPolicy, PolicySet, Programs, snapshot_of
from gangctl.policy.model import GangPolicySpec
from gangctl.policy.review import Review
from gangctl.policy.verdict import Outcome

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def review(name: str = "js", **fields: Any) -> Review:
    request: dict[str, Any] = {
        "operation": "CREATE",
        "name": name,
        "namespace": "team",
        "resource": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"},
    }
    return Review(operation="CREATE", now=NOW, request=request, object={"metadata": {"name": name}}, **fields)


def policy(name: str, **spec: Any) -> LoadedPolicy:
    """A policy without expressions; what its worker does with it is in its name."""
    document = {"metadata": {"name": name}, "spec": spec}
    return LoadedPolicy(name, GangPolicySpec.model_validate(spec), document, native=False, programs=Programs())


def snapshot_with(*names: str) -> KeyedSet:
    return snapshot_of(PolicySet(1, tuple(policy(name) for name in names)))


def work_for(seconds: float) -> None:
    """Use so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def hang_once(file: Path) -> None:
    """Use CPU time until killed, unless ``file`` exists because this has happened."""
    if not file.exists():
        file.touch()
        while True:
            pass


class Service:
    """Does to policies by name what the real one does by evaluating them; ``kind`` and ``kind-anything``."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.names: dict[str, str] = {}
        self.over = False
        """Whether a policy took the rest of the review's time."""

    def __call__(self, request: Any) -> Iterator[Any]:
        message = read_request(request)
        return self.load(message) if isinstance(message, Load) else self.evaluate(message)

    def load(self, message: Load) -> Iterator[str]:
        self.known -= message.forget
        for key, (name, _) in message.policies.items():
            self.names[key] = name
            if name.startswith("unloadable"):
                raise RuntimeError("no such policy")
            self.known.add(key)
            yield key

    def evaluate(self, message: Evaluate) -> Iterator[Any]:
        end, self.over = time.monotonic() + message.seconds, False
        if message.review.request["name"] == "unreadable":
            os.kill(os.getpid(), signal.SIGABRT)
        yield READ
        for key in message.policies:
            assert key in self.known
            began = time.thread_time()
            outcome = LATE if self.over or time.monotonic() >= end else self.outcome(self.names[key])
            yield plain_evaluated(Evaluated(outcome, time.thread_time() - began))

    def outcome(self, name: str) -> Outcome | str:
        match name.partition("-")[0]:
            case "hang":
                while True:
                    pass
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "abort":
                os.kill(os.getpid(), signal.SIGABRT)
            case "memory":
                return MEMORY
            case "slow":
                hang_once(Path(name.partition("-")[2]))
                work_for(0.5)
            case "longer":
                self.over = True
        return Outcome(name, matched=True, steps=os.getpid())

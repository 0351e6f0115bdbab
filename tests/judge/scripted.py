"""Policies that do what their name says, and a worker's service that lets them: what hostile ones may come to."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from gangctl.judge.messages import BOUND, LATE, MEMORY, Lesson, Question, Setup, Statement
from gangctl.judge.policyset import Docket, PolicySet, docket
from gangctl.policy.loaded import LoadedPolicy, Programs
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


def docket_of(*names: str) -> Docket:
    return docket(PolicySet(1, tuple(policy(name) for name in names)))


def work_for(seconds: float) -> None:
    """Use so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Service:
    """Does to policies by name what the real one does by evaluating them; ``kind`` and ``kind-anything``."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.names: dict[str, str] = {}

    def __call__(self, request: Setup | Lesson | Question) -> Iterator[Any]:
        if isinstance(request, Lesson):
            yield from self.learn(request)
        elif isinstance(request, Question):
            yield from self.judge(request)

    def learn(self, lesson: Lesson) -> Iterator[str]:
        self.known -= lesson.forget
        for key, (name, _) in lesson.policies.items():
            self.names[key] = name
            if name.startswith("unteachable"):
                raise RuntimeError("no such policy")
            self.known.add(key)
            yield key

    def judge(self, question: Question) -> Iterator[Statement | str]:
        end = time.monotonic() + question.seconds
        if question.review.request["name"] == "unreadable":
            os.kill(os.getpid(), signal.SIGABRT)
        yield BOUND
        for key in question.policies:
            assert key in self.known
            began = time.thread_time()
            outcome = LATE if time.monotonic() >= end else self.outcome(self.names[key], end)
            yield Statement(outcome, time.thread_time() - began)

    def outcome(self, name: str, end: float) -> Outcome | str:
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
                work_for(0.5)
            case "longer":
                # Than the review, whenever it begins.
                while time.monotonic() < end:
                    pass
            case "rude":
                work_for(0.15)
        return Outcome(name, matched=True, steps=os.getpid())

"""Policies and requests for tests of the judge, with real engines."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from gangctl.client.pacing import Clock
from gangctl.judge.judge import Judge
from gangctl.judge.options import JudgeObserver, JudgeOptions, Lane
from gangctl.judge.policyset import PolicySet
from gangctl.policy.cel.meter import StepMeter
from gangctl.policy.evaluate import evaluate
from gangctl.policy.exemptions import LoadedException
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.review import Review
from gangctl.policy.verdict import Outcome
from tests.controlplane.wait import wait_for
from tests.judge.scripted import review

INLINE = JudgeOptions(inline_seconds=1e6, inline_text=10**9, patience_seconds=1e6, ahead=False)
FAST = JudgeOptions(
    inline_seconds=0,
    patience_seconds=1e6,
    policy_seconds=30,
    request_seconds=600,
    lesson_seconds=300,
    fair_seconds=600,
)
SLOW = replace(FAST, patience_seconds=0, fair_seconds=0)


def document(name: str, *expressions: str, **spec: Any) -> dict[str, Any]:
    """A GangPolicy with a rule for each expression."""
    validations = [{"expression": each} for each in expressions]
    return {
        "apiVersion": "gangctl.dev/v1alpha1",
        "kind": "GangPolicy",
        "metadata": {"name": name},
        "spec": {"validations": validations, **spec},
    }


def jobset_review(jobs: int = 3, **annotations: str) -> Review:
    """A JobSet of so many ReplicatedJobs."""
    made = [
        {"name": f"job-{n}", "replicas": n, "template": {"spec": {"parallelism": 2, "completions": 2}}}
        for n in range(jobs)
    ]
    obj = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "team", "labels": {"team": "a"}, "annotations": annotations},
        "spec": {"replicatedJobs": made},
    }
    return replace(review(), object=obj)


FINE = document("fine", "object.spec.replicatedJobs.all(j, j.replicas >= 0)")

POLICIES = (
    document("all", "object.spec.replicatedJobs.all(j, j.replicas >= 0)"),
    document("some", "object.spec.replicatedJobs.exists(j, j.replicas > 100)", failurePolicy="Ignore"),
    document("missing", "object.spec.nothing == 1"),
    document("missing-open", "object.spec.nothing == 1", failurePolicy="Ignore"),
    document(
        "named",
        "object.metadata.name == 'js'",
        "size(variables.names) < 2",
        variables=[{"name": "names", "expression": "object.spec.replicatedJobs.map(j, j.name)"}],
        validationActions=["Warn", "Audit"],
        auditAnnotations=[{"key": "names", "valueExpression": "string(size(variables.names))"}],
    ),
    document("elsewhere", "false", matchConditions=[{"name": "never", "expression": "request.namespace == 'other'"}]),
    document("others", "false", matchConstraints={"objectSelector": {"matchLabels": {"team": "b"}}}),
)


class Seen(JudgeObserver):
    """Everything a judge tells."""

    def __init__(self) -> None:
        self.lanes: list[tuple[str, Lane]] = []
        self.kills: list[tuple[str, Lane, str]] = []
        self.refusals: list[tuple[Lane, str]] = []

    def judged(self, policy: str, lane: Lane, seconds: float) -> None:
        assert seconds >= 0
        self.lanes.append((policy, lane))

    def killed(self, policy: str, lane: Lane, why: str) -> None:
        self.kills.append((policy, lane, why))

    def refused(self, lane: Lane, why: str) -> None:
        self.refusals.append((lane, why))


def directly(
    policies: list[LoadedPolicy], about: Review, exceptions: tuple[LoadedException, ...] = ()
) -> list[Outcome]:
    """What policies say when they are simply asked."""
    return [evaluate(policy, about, StepMeter.request(time.monotonic, seconds=30), exceptions) for policy in policies]


def loaded(*documents: dict[str, Any]) -> tuple[LoadedPolicy, ...]:
    return tuple(load_policy(each) for each in documents)


@asynccontextmanager
async def judge_of(
    options: JudgeOptions,
    *documents: dict[str, Any],
    observer: JudgeObserver | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Judge]:
    async with Judge(options, observer=observer, clock=clock) as judge:
        await judge.install(PolicySet(1, tuple([await judge.load(each) for each in documents])))
        yield judge


async def until_warm(judge: Judge) -> None:
    async def warm() -> bool:
        [outcome] = await judge.judge(jobset_review(), {"fine"})
        return not outcome.violations and all(workers.idle == 1 for workers in judge._workers.values())

    await wait_for(warm, what="a worker and spares")

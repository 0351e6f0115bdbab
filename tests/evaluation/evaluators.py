"""Policies, reviews and policy evaluators for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from gangctl.cel.meter import StepMeter
from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorObserver, EvaluatorOptions, Queue
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedException, LoadedPolicy, PolicySet
from gangctl.policy.review import Review
from gangctl.policy.verdict import Outcome
from tests.controlplane.wait import wait_for
from tests.evaluation.scripted import review

LOCAL = EvaluatorOptions(slice_seconds=1e6, local_text=10**9, local_values=10**9, ahead=False)
PATIENT = EvaluatorOptions(
    slice_seconds=0,
    policy_seconds=30,
    request_seconds=600,
    load_seconds=300,
    slow_seconds=600,
    workers=2,
)
"""Everything goes to a worker, and has all the time."""


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


class Seen(EvaluatorObserver):
    """Everything that an evaluator reports."""

    def __init__(self) -> None:
        self.queues: list[tuple[str, Queue]] = []
        self.kills: list[tuple[str, str]] = []
        self.missing: list[tuple[Queue, str]] = []

    def evaluated(self, policy: str, queue: Queue, seconds: float) -> None:
        assert seconds >= 0
        self.queues.append((policy, queue))

    def killed(self, policy: str, why: str) -> None:
        self.kills.append((policy, why))

    def unanswered(self, queue: Queue, why: str) -> None:
        self.missing.append((queue, why))


def directly(
    policies: list[LoadedPolicy], about: Review, exceptions: tuple[LoadedException, ...] = ()
) -> list[Outcome]:
    """The outcomes of policies that are evaluated directly."""
    evaluation = Evaluation(about)
    return [evaluation.evaluate(policy, StepMeter.request(lambda: 0.0), exceptions) for policy in policies]


def loaded(*documents: dict[str, Any]) -> tuple[LoadedPolicy, ...]:
    return tuple(load_policy(each) for each in documents)


@asynccontextmanager
async def evaluator_of(
    options: EvaluatorOptions, *documents: dict[str, Any], observer: EvaluatorObserver | None = None
) -> AsyncIterator[PolicyEvaluator]:
    async with PolicyEvaluator(options, observer=observer) as evaluator:
        await evaluator.install(PolicySet(1, tuple([await evaluator.load(each) for each in documents])))
        yield evaluator


async def until_warm(evaluator: PolicyEvaluator) -> None:
    """Until all workers have loaded what is in force."""
    options = evaluator._options
    workers = evaluator.pool.workers

    async def warm() -> bool:
        return workers.idle == options.workers + options.spares

    await wait_for(warm, what="workers and spares")

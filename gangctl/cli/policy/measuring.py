"""Measuring: how long a function takes, in rounds; what the rules of a policy take so; and JobSets to measure on."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gangctl.api.meta import GANG_MODE, JOBSET_API_VERSION, QUEUE_NAME
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import EvalError
from gangctl.cel.meter import StepMeter
from gangctl.cel.program import Bindings
from gangctl.cli.policy.variables import Variables
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.loaded import Expression, LoadedPolicy
from gangctl.policy.review import Review

SIZES: Final = (3, 50)
"""ReplicatedJobs: an ordinary JobSet, and a large one."""
_VARIABLES: Final = 12


def sample(replicated_jobs: int) -> dict[str, Any]:
    """A training job as people write it, with so many ReplicatedJobs of two containers each."""
    return {
        "apiVersion": JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": {
            "name": f"sample-{replicated_jobs}",
            "namespace": "default",
            "labels": {QUEUE_NAME: "research", "team": "research", "app.kubernetes.io/name": "training"},
            "annotations": {GANG_MODE: "Gang"},
        },
        "spec": {
            "ttlSecondsAfterFinished": 3600,
            "failurePolicy": {"maxRestarts": 3},
            "replicatedJobs": [_replicated_job(index) for index in range(replicated_jobs)],
        },
    }


def _replicated_job(index: int) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        "priorityClassName": "training",
        "nodeSelector": {"pool": "accelerated"},
        "tolerations": [{"key": "accelerator", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [_container("main", index), _container("metrics", index)],
    }
    job = {"parallelism": 4, "completions": 4, "backoffLimit": 0, "template": {"spec": pod}}
    return {"name": f"workers-{index}", "replicas": 1, "template": {"spec": job}}


def _container(name: str, index: int) -> dict[str, Any]:
    amounts = {"cpu": "500m", "memory": "2Gi"}
    return {
        "name": name,
        "image": f"registry.example/team/{name}:1.4.{index}",
        "command": ["python", "-m", "training", "--epochs=10"],
        "env": [{"name": f"SETTING_{number}", "value": "a value of ordinary length"} for number in range(_VARIABLES)],
        "resources": {"requests": amounts, "limits": amounts},
    }


WHOLE: Final = "(whole policy)"
_SECONDS: Final = 1.0
"""For all rounds of one measurement; a slow rule has fewer rounds."""
_LEAST: Final = 5
_WARM_UP: Final = 2
_PERCENTILE: Final = 0.99


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of one evaluation, over so many rounds."""

    median: float
    p99: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One rule, or a policy as a whole, on one object.

    ``steps`` are those that it took; ``result`` is what it said.
    """

    policy: str
    rule: str
    object: str
    timing: Timing
    steps: int
    result: str


def measure(function: Callable[[], object], rounds: int) -> Timing:
    """Time a function, with fewer rounds where it is slow."""
    for _ in range(_WARM_UP):
        function()
    taken: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(taken) < rounds and (len(taken) < _LEAST or time.perf_counter() < end):
        start = time.perf_counter()
        function()
        taken.append((time.perf_counter() - start) * 1e6)
    taken.sort()
    return Timing(statistics.median(taken), taken[math.ceil(_PERCENTILE * len(taken)) - 1], len(taken))


def measure_policy(policy: LoadedPolicy, review: Review, title: str, rounds: int) -> list[Measured]:
    """Every rule with the variables that it reads, and the whole policy as a request meets it."""
    evaluation = Evaluation(review)
    params = review.params.get(policy.name, ())
    bindings = {**evaluation.bindings, "params": params[0]} if params else evaluation.bindings
    found = []
    for rule in policy.programs.rules:
        condition = rule.condition
        run = partial(_evaluate, policy, condition, bindings)
        timing = measure(run, rounds)
        result, steps = run()
        found.append(Measured(policy.name, rule.id, title, timing, steps, result))
    return [*found, _measure_whole(policy, evaluation, title, rounds)]


def _evaluate(policy: LoadedPolicy, condition: Expression, bindings: Bindings) -> tuple[str, int]:
    """The result of a rule, and the steps it took."""
    meter = StepMeter.request(time.monotonic).policy()
    variables = Variables(policy, bindings, meter)
    try:
        value = plain(condition.program.evaluate(bindings, variables, meter.expression()))
    except EvalError as error:
        return str(error.kind), meter.spent
    return "pass" if value is True else "fail", meter.spent


def _measure_whole(policy: LoadedPolicy, evaluation: Evaluation, title: str, rounds: int) -> Measured:
    def run() -> Any:
        return evaluation.evaluate(policy, StepMeter.request(time.monotonic))

    timing = measure(run, rounds)
    outcome = run()
    result = ("fail" if outcome.violations else "pass") if outcome.matched else f"skipped: {outcome.skipped}"
    return Measured(policy.name, WHOLE, title, timing, outcome.steps, result)


def measure_binding(review: Review, rounds: int) -> Timing:
    """What it takes to read a request's objects, once for all policies."""
    return measure(lambda: Evaluation(review).bindings, rounds)

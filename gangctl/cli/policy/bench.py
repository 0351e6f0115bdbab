"""``gangctl policy bench``: what policies cost, measured in rounds, in all and by rule."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from gangctl.api.meta import GANG_MODE, JOBSET_API_VERSION, QUEUE_NAME
from gangctl.api.objects import Object
from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import EvalError
from gangctl.cel.meter import StepMeter
from gangctl.cel.program import Bindings
from gangctl.cli import options
from gangctl.cli.inputs import read_documents
from gangctl.cli.messages import plural
from gangctl.cli.output import Section, Table, print_answer
from gangctl.cli.policy import flags
from gangctl.cli.policy.bundle import FileCatalogue, check_names, sort_documents
from gangctl.cli.policy.evaluator import Variables, bound, now
from gangctl.cli.policy.loading import Loaded, is_parameter, load
from gangctl.cli.policy.requests import Setting, request_of, sent_for, title_of
from gangctl.errors import InputError
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.loaded import Expression, LoadedPolicy
from gangctl.policy.model import API_VERSION
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


Timing = Mapping[str, float | int]
"""Microseconds of one evaluation, over so many rounds, as ``-o json`` prints it."""


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
    return {
        "medianMicroseconds": round(statistics.median(taken), 2),
        "p99Microseconds": round(taken[math.ceil(_PERCENTILE * len(taken)) - 1], 2),
        "rounds": len(taken),
    }


def measure_policy(policy: LoadedPolicy, review: Review, title: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Every rule with the variables that it reads, and the whole policy as a request meets it."""
    evaluation = Evaluation(review)
    params = review.params.get(policy.name, ())
    bindings = bound(evaluation, params[0] if params else None)
    runs = [(rule.id, partial(_evaluate, policy, rule.condition, bindings)) for rule in policy.programs.rules]
    for rule, run in (*runs, (WHOLE, partial(_evaluate_whole, policy, evaluation))):
        timing = measure(run, rounds)
        result, steps = run()
        yield {"policy": policy.name, "rule": rule, "object": title, **timing, "steps": steps, "result": result}


def _evaluate(policy: LoadedPolicy, condition: Expression, bindings: Bindings) -> tuple[str, int]:
    """The result of a rule, and the steps it took."""
    meter = StepMeter.request(time.monotonic).policy()
    try:
        value = plain(Variables(policy, bindings, meter).value(condition))
    except EvalError as error:
        return str(error.kind), meter.spent
    return "pass" if value is True else "fail", meter.spent


def _evaluate_whole(policy: LoadedPolicy, evaluation: Evaluation) -> tuple[str, int]:
    outcome = evaluation.evaluate(policy, StepMeter.request(time.monotonic))
    result = ("fail" if outcome.violations else "pass") if outcome.matched else f"skipped: {outcome.skipped}"
    return result, outcome.steps


KIND: Final = "PolicyBenchmark"
_COMPILATIONS: Final = 20


@click.command("bench")
@flags.files_of_policies
@options.paths(
    *options.FILENAMES,
    about=f"Objects to measure on. Default: built-in JobSets of {' and '.join(map(str, SIZES))} ReplicatedJobs.",
)
@click.option("--params", "param_files", multiple=True, metavar="FILE", type=click.Path(), help="Parameter objects.")
@click.option(
    "--rounds",
    type=click.IntRange(5, 100_000),
    default=200,
    show_default=True,
    help="Evaluations of each rule; fewer where that would take more than a second.",
)
@options.output("table", "json", "yaml")
@flags.kubernetes
@options.colour
def command(
    *,
    files: tuple[str, ...],
    filenames: tuple[str, ...],
    param_files: tuple[str, ...],
    rounds: int,
    form: str,
    kube: str,
) -> None:
    """Measure what policies cost.

    For each rule and object the median and the 99th percentile of one evaluation in
    microseconds, with the variables that the rule reads, and the steps that it took. What this
    machine measures is no verdict: there is no threshold, and the exit code is 0.

    \b
    Examples:
      gangctl policy bench policies/
      gangctl policy bench policy.yaml -f jobset.yaml -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    bundle = sort_documents(read_documents(files))
    generation = generation_of_minor(kube) or NEWEST
    subjects = _subjects(filenames, generation)
    params = read_documents(param_files) if param_files else []
    check_names(params)
    setting = Setting(now(), generation=generation)
    loaded = load(bundle, kube)
    compiling = measure(partial(load, bundle, kube), _COMPILATIONS)
    own = [document for document in bundle.others if is_parameter(document, loaded.policies)]
    catalogue = FileCatalogue([document.value for document in (*own, *params)])
    reviews = [
        (title_of(each, setting), request_of(each, "CREATE", setting, loaded.policies, catalogue)[0])
        for each in subjects
    ]
    report = _report(loaded, compiling, reviews, rounds)
    print_answer(form, [report], lambda: [_section(report, len(loaded.policies))])


def _subjects(filenames: Sequence[str], generation: Generation) -> list[Object]:
    if not filenames:
        return [sample(size) for size in SIZES]
    documents = sort_documents(read_documents(filenames)).others
    check_names(documents)
    if not documents:
        raise InputError("nothing to measure on: no object in the files of -f")
    return [sent.obj for sent in sent_for(documents, "CREATE", generation) if not sent.only_if_matched]


def _report(loaded: Loaded, compiling: Timing, reviews: Sequence[tuple[str, Review]], rounds: int) -> dict[str, Any]:
    """The measurements."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "compile": compiling,
        # What it takes to read a request's objects, once for all policies.
        "bind": [{"object": title, **measure(partial(_bindings, review), rounds)} for title, review in reviews],
        "rules": [
            each
            for policy in loaded.policies
            for title, review in reviews
            for each in measure_policy(policy, review, title, rounds)
        ],
    }


def _bindings(review: Review) -> Bindings:
    return Evaluation(review).bindings


def _section(report: Mapping[str, Any], policies: int) -> Section:
    """For a person."""
    lines = [
        f"compiling {plural(policies, 'policy', 'policies')}: {_us(report['compile']['medianMicroseconds'])} us",
        *(f"binding {each['object']}: {_us(each['medianMicroseconds'])} us" for each in report["bind"]),
    ]
    headers = ("POLICY", "RULE", "OBJECT", "MEDIAN-US", "P99-US", "STEPS", "RESULT")
    rows = tuple(
        (
            each["policy"],
            each["rule"],
            each["object"].removeprefix("JobSet default/"),
            _us(each["medianMicroseconds"]),
            _us(each["p99Microseconds"]),
            str(each["steps"]),
            each["result"],
        )
        for each in report["rules"]
    )
    return Section(lines=tuple(lines), table=Table(headers, rows))


def _us(microseconds: float) -> str:
    return f"{microseconds:.1f}" if microseconds < 100 else f"{microseconds:.0f}"  # noqa: PLR2004 - three digits

"""``gangctl policy bench``: what policies cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import click

from gangctl.api.objects import Object
from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cli import options
from gangctl.cli.inputs import read_documents
from gangctl.cli.output import Section, Table, print_answer
from gangctl.cli.policy import flags
from gangctl.cli.policy.bundle import FileCatalogue, check_names, sort_documents
from gangctl.cli.policy.evaluator import now
from gangctl.cli.policy.loading import Loaded, is_parameter, load
from gangctl.cli.policy.measuring import SIZES, Measured, Timing, measure, measure_binding, measure_policy, sample
from gangctl.cli.policy.requests import Setting, request_of, sent_for, title_of
from gangctl.errors import InputError
from gangctl.policy.review import Review

KIND: Final = "PolicyBenchmark"
API_VERSION: Final = "gangctl.dev/v1alpha1"
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
        (title_of(each, setting), request_of(each, "CREATE", setting, loaded.policies, catalogue).review)
        for each in subjects
    ]
    run = _Run(loaded, compiling, reviews, rounds)
    print_answer(form, [run.data()], lambda: [run.section()])


def _subjects(filenames: Sequence[str], generation: Generation) -> list[Object]:
    if not filenames:
        return [sample(size) for size in SIZES]
    documents = sort_documents(read_documents(filenames)).others
    check_names(documents)
    if not documents:
        raise InputError("nothing to measure on: no object in the files of -f")
    return [sent.obj for sent in sent_for(documents, "CREATE", generation) if not sent.only_if_matched]


class _Run:
    """The measurements."""

    def __init__(self, loaded: Loaded, compiling: Timing, reviews: Sequence[tuple[str, Review]], rounds: int) -> None:
        self._loaded = loaded
        self._compiling = compiling
        self._binding = [(title, measure_binding(review, rounds)) for title, review in reviews]
        self._measured = [
            measured
            for policy in loaded.policies
            for title, review in reviews
            for measured in measure_policy(policy, review, title, rounds)
        ]

    def section(self) -> Section:
        """For a person."""
        policies = len(self._loaded.policies)
        lines = [
            f"compiling {policies} {'policy' if policies == 1 else 'policies'}: {_us(self._compiling.median)} us",
            *(f"binding {title}: {_us(timing.median)} us" for title, timing in self._binding),
        ]
        headers = ("POLICY", "RULE", "OBJECT", "MEDIAN", "P99", "STEPS", "RESULT")
        rows = tuple(_row(each) for each in self._measured)
        table = Table(headers, rows, right=frozenset({3, 4, 5}))
        return Section("microseconds", tuple(lines), table)

    def data(self) -> dict[str, Any]:
        """For a program."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "unit": "microseconds",
            "compile": _timing(self._compiling),
            "bind": [{"object": title, **_timing(timing)} for title, timing in self._binding],
            "rules": [
                {
                    "policy": each.policy,
                    "rule": each.rule,
                    "object": each.object,
                    **_timing(each.timing),
                    "steps": each.steps,
                    "result": each.result,
                }
                for each in self._measured
            ],
        }


def _row(each: Measured) -> tuple[str, ...]:
    timing = each.timing
    return (
        each.policy,
        each.rule,
        each.object.removeprefix("JobSet default/"),
        _us(timing.median),
        _us(timing.p99),
        str(each.steps),
        each.result,
    )


def _us(microseconds: float) -> str:
    return f"{microseconds:.1f}" if microseconds < 100 else f"{microseconds:.0f}"  # noqa: PLR2004 - three digits


def _timing(timing: Timing) -> dict[str, float | int]:
    return {"median": round(timing.median, 2), "p99": round(timing.p99, 2), "rounds": timing.rounds}

"""``gangctl policy bench``: what policies cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from gangctl.api.objects import Object
from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cli import options
from gangctl.cli.inputs import read_documents
from gangctl.cli.messages import plural
from gangctl.cli.output import Section, Table, print_answer
from gangctl.cli.policy import flags
from gangctl.cli.policy.bundle import FileCatalogue, check_names, sort_documents
from gangctl.cli.policy.evaluator import now
from gangctl.cli.policy.loading import Loaded, is_parameter, load
from gangctl.cli.policy.measuring import SIZES, Timing, measure, measure_binding, measure_policy, sample
from gangctl.cli.policy.requests import Setting, request_of, sent_for, title_of
from gangctl.errors import InputError
from gangctl.policy.model import API_VERSION
from gangctl.policy.review import Review

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
        (title_of(each, setting), request_of(each, "CREATE", setting, loaded.policies, catalogue).review)
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
        "compile": _timing(compiling),
        "bind": [{"object": title, **_timing(measure_binding(review, rounds))} for title, review in reviews],
        "rules": [
            {
                "policy": each.policy,
                "rule": each.rule,
                "object": each.object,
                **_timing(each.timing),
                "steps": each.steps,
                "result": each.result,
            }
            for policy in loaded.policies
            for title, review in reviews
            for each in measure_policy(policy, review, title, rounds)
        ],
    }


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


def _timing(timing: Timing) -> dict[str, float | int]:
    return {
        "medianMicroseconds": round(timing.median, 2),
        "p99Microseconds": round(timing.p99, 2),
        "rounds": timing.rounds,
    }

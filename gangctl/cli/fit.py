"""``gangctl fit``: whether a JobSet can ever be admitted, and whether it can be now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import click

from gangctl.cli import options
from gangctl.cli.fitting import Answer, Question, answer_of, fit_sections, subjects_of
from gangctl.cli.inputs import DEFAULT_NAMESPACE
from gangctl.cli.names import GANGS, NameArgument, ObjectName, name_argument, queue_name
from gangctl.cli.output import answer_no, print_answer
from gangctl.cli.quantities import with_quantities
from gangctl.cli.queuefiles import check_stdin, read_stock
from gangctl.errors import InputError
from gangctl.fit.report import DispatchedFit


def _address(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """HOST:PORT of a listener."""
    # A question without --serve, too, calls this.
    if value is None:
        return None
    from gangctl.manager.settings import split_address  # noqa: PLC0415 -- a tenth of a second

    try:
        return split_address(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


PERIOD_SECONDS: Final = 60.0


@click.command()
@name_argument(NameArgument(*GANGS), required=False)
@options.paths(
    *options.FILENAMES,
    about="Read JobSets from a file, from all manifests below a directory, or from stdin (-). Can be repeated.",
)
@options.paths(
    "--queues",
    "queue_files",
    about="Read Kueue's objects, LimitRanges, RuntimeClasses, Namespaces, Nodes and Kueue's configuration from files "
    "instead of a cluster. Can be repeated.",
)
@options.namespace
@click.option(
    "--queue",
    metavar="NAME",
    callback=queue_name,
    help="LocalQueue to ask about, instead of the one that a JobSet names.",
)
@click.option("--now", is_flag=True, help="Exit with 1 unless it fits now; without, only if it never fits.")
@click.option(
    "--fixed-nodes",
    is_flag=True,
    help="Check the nodes, too, and assume that none is added; without Kueue, check the nodes alone. With a "
    "topology the nodes are checked in any case.",
)
@click.option(
    "--largest",
    is_flag=True,
    help="Say how many pods like those of each replicated job fit now: on a node, in a domain, in a flavor.",
)
@click.option(
    "--serve",
    metavar="HOST:PORT",
    callback=_address,
    help="With --largest and -f: go on until SIGTERM, and serve the numbers as metrics at /metrics.",
)
@click.option(
    "--period",
    "period_seconds",
    type=options.Seconds(min=1),
    metavar="SECONDS",
    help=f"Pause between two reads of the cluster with --serve.  [default: {PERIOD_SECONDS:g}]",
)
@options.kueue_namespace
@options.output("table", "yaml", "json")
@options.cluster
@options.workers
@options.colour
def fit(
    *,
    name: ObjectName | None,
    now: bool,
    largest: bool,
    serve: tuple[str, int] | None,
    period_seconds: float | None,
    form: str,
    cluster: options.ClusterFlags,
    workers: tuple[options.Worker, ...],
    **given: Any,
) -> None:
    """Say whether a JobSet can be admitted, ever and now.

    Compares what all pods of a JobSet request, as Kueue counts it, with what its queue can
    ever have and with what is free. NAME is a JobSet of the cluster; with -f JobSets of files
    are compared with the cluster of --kubeconfig or --context, with the defaults (a queue, for
    example) that its GangPolicies give to new JobSets, or with the objects that --queues names.
    A PathwaysJob counts as the JobSet that it becomes. Nothing is written.

    A queue of MultiKueue dispatches to worker clusters: with --worker each of these is asked, too.
    It fits if it fits on one of them, and never fits only if it never fits on any.

    In the table of resources, MAXIMUM is the most that could ever be available, borrowing included,
    NOMINAL the queue's own quota, and OVER-MAX by how much REQUESTED exceeds MAXIMUM.

    With --largest the number of pods in the file does not count: it prints the largest gang of
    each replicated job's pods that fits now, and how many fit on one node, in one domain, in one
    flavor and on all nodes. Its exit code is 0. With --serve it does so again and again, and
    serves the numbers to Prometheus.

    Exit code 0, 1 when one can never fit or names no queue that exists (with --now: when one does
    not fit now), 2 for bad input, 3 when the cluster cannot be reached or does not have Kueue.

    \b
    Examples:
      gangctl fit -f jobset.yaml --queues queues.yaml
      gangctl fit -f jobset.yaml --context production --queue research
      gangctl fit train -n research --now
      gangctl fit -f jobset.yaml --context production --fixed-nodes
      gangctl fit -f jobset.yaml --context production --largest
      gangctl fit -f shapes/ --largest --serve :8080
      gangctl fit train --context manager --worker west --worker east=east-context
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    # --serve asks a cluster also where none is named: in a pod that is the one of its service account.
    live = name is not None or cluster.given or serve is not None
    question = Question(name, **given)
    _check_sources(question, live=live)
    if largest and (now or question.fixed_nodes or workers):
        raise click.UsageError("--largest excludes --now, --fixed-nodes and --worker")
    if period_seconds is not None and serve is None:
        raise click.UsageError("--period needs --serve")
    if serve is not None:
        _serve(question, cluster, serve, period_seconds or PERIOD_SECONDS, largest=largest)
    elif largest:
        _print_largest(question, form, cluster, live=live)
    else:
        answers = _ask_cluster(question, workers, cluster) if live else _ask_files(question, workers)
        _print_answers(answers, form)
        if any(answer.report["verdict"] != "fits" if now else _needs_a_change(answer.report) for answer in answers):
            answer_no()


def _print_answers(answers: Sequence[Answer], form: str) -> None:
    print_answer(
        form,
        [with_quantities(answer.report, DispatchedFit) for answer in answers],
        lambda: [
            section
            for answer in answers
            for section in fit_sections(answer.report, answer.remarks, answer.report["workers"])
        ],
    )


def _ask_cluster(
    question: Question, workers: tuple[options.Worker, ...], cluster: options.ClusterFlags
) -> list[Answer]:
    from gangctl.cli.kueuecluster import answers_in_cluster, fit_with_workers  # noqa: PLC0415 -- half a second

    if workers:
        return fit_with_workers(question, workers, cluster)
    return answers_in_cluster(question, cluster, partial(answer_of, fixed_nodes=question.fixed_nodes))


def _serve(
    question: Question, cluster: options.ClusterFlags, address: tuple[str, int], period_seconds: float, *, largest: bool
) -> None:
    from gangctl.cli.largestmetrics import serve  # noqa: PLC0415 -- only with --serve

    if not largest:
        raise click.UsageError("--serve needs --largest")
    if question.name is not None or "-" in question.filenames:
        raise click.UsageError("--serve reads JobSets from files or directories: give them with -f")
    options.refuse_given("form", "prints an answer, and --serve serves numbers: leave it out")
    # Without fixed_nodes, nodes are read for topologies alone.
    serve(replace(question, fixed_nodes=True), cluster, address, period_seconds)


def _print_largest(question: Question, form: str, cluster: options.ClusterFlags, *, live: bool) -> None:
    from gangctl.cli.largest import largest_of, largest_sections  # noqa: PLC0415 -- only with --largest
    from gangctl.fit.largest import LargestReport  # noqa: PLC0415

    reports: list[LargestReport]
    if live:
        from gangctl.cli.kueuecluster import answers_in_cluster  # noqa: PLC0415 -- as above

        reports = answers_in_cluster(replace(question, fixed_nodes=True), cluster, largest_of)
    else:
        stock = read_stock(question.queue_files, question.namespace)
        if not stock.nodes and not len(stock.cluster_queues):
            raise InputError("the files of --queues have neither Node nor ClusterQueue")
        reports = [largest_of(subject, stock) for subject in subjects_of(question, DEFAULT_NAMESPACE)]
    print_answer(
        form,
        [with_quantities(report, LargestReport) for report in reports],
        lambda: [section for report in reports for section in largest_sections(report)],
    )


def _needs_a_change(report: DispatchedFit) -> bool:
    """Whether it waits without use: it can never fit, there is no queue for it, or its pods are refused."""
    no_queue = report["reason"] == "QueueBlocked" and not report["clusterQueue"]
    return report["verdict"] == "never" or report["reason"] == "PodsRefused" or no_queue


def _check_sources(question: Question, *, live: bool) -> None:
    filenames, queue_files = question.filenames, question.queue_files
    if (question.name is not None) == bool(filenames):
        raise click.UsageError("give the NAME of a JobSet, or files with -f")
    if live and queue_files:
        raise click.UsageError("--queues stands in for a cluster: leave it out, or NAME, --kubeconfig and --context")
    if not live and not queue_files:
        raise click.UsageError(
            "name a cluster by --context (kubectl config current-context prints yours) or --kubeconfig, or "
            "queues by --queues FILE"
        )
    if not live:
        options.no_cluster_is_asked()
    check_stdin(filenames, queue_files)


def _ask_files(question: Question, workers: tuple[options.Worker, ...]) -> list[Answer]:
    if workers:
        raise click.UsageError("--worker needs the cluster that dispatches: NAME, --kubeconfig or --context")
    stock = read_stock(question.queue_files, question.namespace)
    if question.fixed_nodes and not stock.nodes:
        raise InputError("the files of --queues have no Node", hint="kubectl get nodes -o yaml prints them")
    if not question.fixed_nodes and not len(stock.cluster_queues):
        raise InputError("the files of --queues have no ClusterQueue", hint="kubectl get clusterqueues -o yaml")
    subjects = subjects_of(question, DEFAULT_NAMESPACE)
    return [answer_of(subject, stock, fixed_nodes=question.fixed_nodes) for subject in subjects]

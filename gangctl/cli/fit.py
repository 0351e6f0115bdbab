"""``gangctl fit``: whether a JobSet can ever be admitted, and whether it can be now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from gangctl.api.jobset import read_jobset
from gangctl.cli import options
from gangctl.cli.fitview import fit_sections
from gangctl.cli.kueuesnapshot import DEFAULT_NAMESPACE, Stock, read_stock
from gangctl.cli.manifests import Problems, read_manifests
from gangctl.cli.output import print_objects, print_sections
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS
from gangctl.errors import InputError, NotFoundError
from gangctl.fit import verdict
from gangctl.fit.report import FitReport
from gangctl.gang.report import requests_per_pod
from gangctl.kueue.moments import age, span
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.states import status_of

NO: Final = 1
KUEUE_NAMESPACE: Final = "kueue-system"


@dataclass(frozen=True, slots=True)
class Subject:
    """A JobSet that is asked about; ``new`` when it is not in the cluster yet."""

    raw: dict[str, Any]
    name: str
    namespace: str
    queue: str
    uid: str = ""
    new: bool = True

    def owns(self, workload: QueuedWorkload) -> bool:
        """Whether a Workload of Kueue is this JobSet's own: what it holds is not in its way."""
        if self.uid and workload.owner_uid:
            return workload.owner_uid == self.uid
        named = (workload.owner_kind, workload.namespace, workload.owner_name)
        return named == ("JobSet", self.namespace, self.name)


@click.command()
@click.argument("name", required=False)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    metavar="FILE|DIR|-",
    type=click.Path(allow_dash=True),
    help="Read JobSets from a file, from all manifests below a directory, or from stdin (-). Can be repeated.",
)
@click.option(
    "--queues",
    "queue_files",
    multiple=True,
    metavar="FILE|DIR|-",
    type=click.Path(allow_dash=True),
    help="Read Kueue's objects, LimitRanges, RuntimeClasses, Namespaces, Nodes and Kueue's configuration from files "
    "instead of a cluster. Can be repeated.",
)
@options.namespace
@click.option("--queue", metavar="NAME", help="LocalQueue to ask about, instead of the one that a JobSet names.")
@click.option("--now", is_flag=True, help="Exit with 1 unless it fits now; without, only if it never fits.")
@click.option(
    "--kueue-namespace",
    metavar="NAMESPACE",
    default=KUEUE_NAMESPACE,
    show_default=True,
    help="Where Kueue runs: the ConfigMap with its configuration is read there.",
)
@options.output("table", "yaml", "json")
@options.cluster
@options.colour
def fit(
    *,
    name: str | None,
    filenames: tuple[str, ...],
    queue_files: tuple[str, ...],
    namespace: str | None,
    queue: str | None,
    now: bool,
    kueue_namespace: str,
    form: str,
    kubeconfig: str | None,
    context: str | None,
    no_color: bool,
) -> None:
    """Say whether a JobSet can be admitted, ever and now.

    Compares what all pods of a JobSet request, as Kueue counts it, with what its queue can
    ever have and with what is free. NAME is a JobSet of the cluster; with -f JobSets of files
    are compared with the cluster of --kubeconfig or --context, or with the objects that
    --queues names. Nothing is written.

    Exit code 0, 1 when one can never fit (with --now: when one does not fit now), 2 for bad
    input, 3 when the cluster cannot be reached or does not have Kueue.

    \b
    Examples:
      gangctl fit -f jobset.yaml --queues queues.yaml
      gangctl fit -f jobset.yaml --context production --queue research
      gangctl fit train -n research --now
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    live = name is not None or kubeconfig is not None or context is not None
    _check_usage(name, filenames, queue_files, live=live)
    question = Question(name, filenames, queue_files, namespace, queue, kueue_namespace)
    answers = _ask_cluster(question, kubeconfig, context) if live else _ask_files(question)
    if form == "table":
        sections = [section for each in answers for section in fit_sections(each.report, each.remarks)]
        print_sections(sections, no_color=no_color)
    else:
        print_objects([each.report for each in answers], form)
    if any(_is_no(each.report, now=now) for each in answers):
        raise click.exceptions.Exit(NO)


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, where the cluster is not part of it."""

    name: str | None
    filenames: Sequence[str]
    queue_files: Sequence[str]
    namespace: str | None
    queue: str | None
    kueue_namespace: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One JobSet's report, and lines on what it is doing."""

    report: FitReport
    remarks: tuple[str, ...] = ()


def _check_usage(name: str | None, filenames: Sequence[str], queue_files: Sequence[str], *, live: bool) -> None:
    if (name is not None) == bool(filenames):
        raise click.UsageError("give the NAME of a JobSet, or files with -f")
    if live and queue_files:
        raise click.UsageError("--queues stands in for a cluster: leave it out, or NAME, --kubeconfig and --context")
    if not live and not queue_files:
        raise click.UsageError(
            "there is nothing to fit into: --queues FILE names queues, --kubeconfig or --context a cluster"
        )
    if "-" in filenames and "-" in queue_files:
        raise click.UsageError("stdin can be only one of -f and --queues")


def _is_no(report: FitReport, *, now: bool) -> bool:
    return report["verdict"] != "fits" if now else report["verdict"] == "never"


def _ask_files(question: Question) -> list[Answer]:
    stock = read_stock(question.queue_files)
    subjects = _subjects(question, DEFAULT_NAMESPACE)
    return [_answer(subject, stock) for subject in subjects]


def _ask_cluster(question: Question, kubeconfig: str | None, context: str | None) -> list[Answer]:
    from gangctl.cli.kueuecluster import read_kueue  # noqa: PLC0415 -- half a second that files do without
    from gangctl.cli.policy.cluster import ask_cluster  # noqa: PLC0415

    async def ask(client: Client, own_namespace: str) -> list[Answer]:
        home = question.namespace or own_namespace
        subjects = _subjects(question, home) if question.name is None else [await _stored(client, question, home)]
        places = {subject.namespace for subject in subjects}
        stock = await read_kueue(client, places, kueue_namespace=question.kueue_namespace)
        return [_answer(subject, stock) for subject in subjects]

    return ask_cluster(kubeconfig, context, ask)


async def _stored(client: Client, question: Question, namespace: str) -> Subject:
    """The JobSet of the cluster; InputError when there is none of this name."""
    name = question.name or ""
    try:
        raw = await client.get(JOBSETS, name, namespace)
    except NotFoundError as error:
        hint = "-n NAMESPACE looks elsewhere, -f FILE asks about one that is not created yet"
        raise InputError(f"there is no JobSet {namespace}/{name}", hint=hint) from error
    jobset, _ = read_jobset(raw)
    return Subject(raw, name, namespace, question.queue or jobset.queue, jobset.uid, new=False)


def _subjects(question: Question, home: str) -> list[Subject]:
    """The JobSets of the files; InvalidInputError with all errors of all of them."""
    problems = Problems()
    subjects = []
    for manifest in read_manifests(question.filenames, question.namespace):
        errors = [*manifest.errors, *(requests_per_pod(manifest.raw)[1] if manifest.readable else ())]
        if not problems.add(manifest.document, errors):
            jobset = manifest.jobset
            queue = question.queue or jobset.queue
            subjects.append(Subject(manifest.raw, jobset.name, jobset.namespace or home, queue, jobset.uid))
    problems.raise_if_any()
    return subjects


def _answer(subject: Subject, stock: Stock) -> Answer:
    snapshot = stock.snapshot(without=subject.owns)
    labels = stock.namespaces.get(subject.namespace)
    ask = verdict.Ask(subject.raw, subject.namespace, labels, subject.queue, subject.new)
    report = verdict.fit(ask, snapshot)
    now = datetime.now(UTC)
    own = [workload for workload in stock.workloads() if subject.owns(workload)]
    return Answer(report, tuple(_remark(workload, now) for workload in own))


def _remark(workload: QueuedWorkload, now: datetime) -> str:
    """What Kueue has made of the JobSet, which is not counted as in use."""
    status = status_of(workload, now)
    since = age(status.since, now)
    told = ", ".join(part for part in (status.reason, status.message or status.phase.sentence) if part)
    return f"Kueue: {status.label}{f' for {span(since)}' if since is not None else ''} ({told})"

"""``gangctl policy scan``: results of policies for the JobSets of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final

import click

from gangctl.api.objects import Object
from gangctl.cli import options
from gangctl.cli.cluster import ask_cluster
from gangctl.cli.inputs import read_documents
from gangctl.cli.kueuecluster import read_kueue
from gangctl.cli.messages import note, plural
from gangctl.cli.output import Section, Table, answer_no, print_answer
from gangctl.cli.policy import flags
from gangctl.cli.policy.bundle import Bundle, FileCatalogue, name_of, sort_documents
from gangctl.cli.policy.cluster import (
    generation_of,
    is_left_alone,
    namespaces_of,
    parameters_of,
    rules_of,
    typed,
)
from gangctl.cli.policy.evaluator import evaluator_of, now
from gangctl.cli.policy.loading import Loaded, is_parameter, load, try_to_load
from gangctl.cli.policy.requests import Fit
from gangctl.cli.policy.verdicts import finding_data
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBSETS
from gangctl.errors import ClusterUnavailableError, ForbiddenError, InputError, NotFoundError
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.names import KUEUE_NAMESPACE
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.policy.model import API_VERSION
from gangctl.policy.review import review_of_existing
from gangctl.policy.variables import gang_of, unknown_fit, with_params
from gangctl.policy.verdict import Outcome, Result

PAGE: Final = 100
"""JobSets in memory at once."""
KIND: Final = "PolicyScanReport"


@dataclass(slots=True)
class Report:
    """What was found."""

    jobsets: int = 0
    left_alone: int = 0
    results: dict[str, Counter[Result]] = field(default_factory=dict)
    violations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, jobset: Object, outcomes: tuple[Outcome, ...]) -> None:
        """Count one JobSet."""
        self.jobsets += 1
        place = {key: str(jobset["metadata"].get(key, "")) for key in ("namespace", "name")}
        for outcome in outcomes:
            self.results.setdefault(outcome.policy, Counter()).update(each.result for each in outcome.findings)
            actions = ", ".join(sorted(outcome.actions))
            self.violations += [
                {**place, "actions": actions, **finding_data(finding)}
                for finding in outcome.findings
                if finding.result in {Result.FAIL, Result.ERROR}
            ]


@click.command("scan")
@flags.policies(required=False)
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Namespace to scan. Default: that of the context.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Scan all namespaces.")
@options.selector("JobSets")
@options.output("table", "json", "yaml", "name")
@options.no_headers
@options.cluster
@options.colour
def command(
    *,
    policy_files: tuple[str, ...],
    namespace: str | None,
    everywhere: bool,
    selector: str | None,
    form: str,
    no_headers: bool,
    cluster: options.ClusterFlags,
) -> None:
    """Evaluate the JobSets of a cluster.

    Each JobSet is evaluated as if it were created now, by the policies of the cluster or by
    those of --policy, before these are applied. Reads page by page, and writes nothing.
    Exit code 0 when no rule is broken, 1 when one is (whatever the action of its policy),
    2 when a policy of a file is refused, 3 when the cluster cannot be reached.

    \b
    Examples:
      gangctl policy scan -A
      gangctl policy scan -A --policy new-policy.yaml
      gangctl policy scan -n team-a -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if everywhere and namespace is not None:
        raise click.UsageError("--namespace and --all-namespaces exclude each other")
    bundle = sort_documents(read_documents(policy_files)) if policy_files else None

    async def ask(client: Client, own_namespace: str) -> Report:
        return await _scan(client, None if everywhere else namespace or own_namespace, selector, bundle)

    report = ask_cluster(cluster, ask)
    names = dict.fromkeys(each["name"] for each in report.violations)
    print_answer(
        form,
        [report_data(report)],
        lambda: _sections(report),
        [{"apiVersion": JOBSETS.api_version, "kind": "JobSet", "metadata": {"name": name}} for name in names],
        headers=not no_headers,
    )
    if report.violations:
        answer_no()


async def _scan(client: Client, place: str | None, selector: str | None, files: Bundle | None) -> Report:
    """Evaluate the JobSets of a namespace, None for all, by the policies of files or else of the cluster."""
    moment = now()
    generation = await generation_of(client)
    loaded = await _load(client, files, generation.kubernetes)
    namespaces = dict(await namespaces_of(client))
    for document in files.namespaces if files else ():
        namespaces[name_of(document.value)] = document.value
    catalogue = await _catalogue(client, files, loaded)
    rules = ClusterRules(generation)
    fit = await _fit(client, loaded.policies)
    report = Report(results={policy.name: Counter() for policy in loaded.policies})
    async with evaluator_of(generation.kubernetes) as evaluator:
        await evaluator.install(PolicySet(1, policies=loaded.policies, exceptions=loaded.exceptions))
        async with aclosing(_jobsets(client, place, selector)) as jobsets:
            async for jobset in jobsets:
                home = str(jobset["metadata"].get("namespace", ""))
                if is_left_alone(home, namespaces):
                    report.left_alone += 1
                    continue
                plan, answer = gang_of(jobset, rules), fit(jobset, home)
                review = review_of_existing(jobset, namespaces.get(home), plan, moment, answer)
                report.add(jobset, await evaluator.evaluate(with_params(review, loaded.policies, catalogue)))
    return report


async def _fit(client: Client, policies: Iterable[LoadedPolicy]) -> Fit:
    """Whether JobSets can be admitted, where some policy asks: that takes all of Kueue's objects."""
    if not any("fit" in policy.reads for policy in policies):
        return lambda raw, namespace: unknown_fit(raw, namespace, ["no policy asks"])
    try:
        stock = await read_kueue(client, None, kueue_namespace=KUEUE_NAMESPACE)
    except (ClusterUnavailableError, ForbiddenError) as error:
        why = str(error)
        note(f"fit is unknown: {why}")
        return lambda raw, namespace: unknown_fit(raw, namespace, [why])
    return lambda raw, namespace: stock.fit(raw, namespace, new=False)


async def _load(client: Client, files: Bundle | None, minor: str) -> Loaded:
    """The policies to evaluate by. A broken one of the cluster is reported and left out, one in a file is an error."""
    if files is not None:
        return load(files, minor)
    bundle = await rules_of(client)
    if not bundle.policies:
        raise InputError("there is no GangPolicy in the cluster", hint="--policy FILE evaluates by policies of files")
    loaded = try_to_load(bundle, minor)
    for remark in loaded.remarks:
        note(f"left out: {remark.document.source}: {remark.message}")
    kept = tuple(policy for policy in loaded.policies if policy.spec.background)
    for policy in loaded.policies:
        if policy not in kept:
            note(f"left out: {policy.name}: spec.background is false")
    return replace(loaded, policies=kept, remarks=())


async def _catalogue(client: Client, files: Bundle | None, loaded: Loaded) -> FileCatalogue:
    """Parameters of the files, where there are any, else of the cluster."""
    others = files.others if files is not None else ()
    own = [document.value for document in others if is_parameter(document, loaded.policies)]
    if own:
        return FileCatalogue(own)
    return await parameters_of(client, loaded.policies)


async def _jobsets(client: Client, namespace: str | None, selector: str | None) -> AsyncGenerator[Object, None]:
    try:
        async with aclosing(client.pages(JOBSETS, namespace, selection=Selection(selector), limit=PAGE)) as pages:
            async for page in pages:
                for item in page.items:
                    if not item["metadata"].get("deletionTimestamp"):
                        yield typed(item, JOBSETS)
    except NotFoundError as error:
        raise ClusterUnavailableError("the cluster does not have JobSets", hint="install JobSet first") from error


def report_data(report: Report) -> dict[str, Any]:
    """What ``-o json`` prints."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "jobsets": report.jobsets,
        "leftAlone": report.left_alone,
        "policies": [{"policy": name, **_counts(found)} for name, found in sorted(report.results.items())],
        "violations": report.violations,
    }


def _counts(found: Mapping[Result, int]) -> dict[str, int]:
    return {result.value: found.get(result, 0) for result in Result}


def _sections(report: Report) -> list[Section]:
    rows = tuple((name, *(str(n) for n in _counts(found).values())) for name, found in sorted(report.results.items()))
    headers = ("POLICY", *(result.value.upper() for result in Result))
    sections = [Section(table=Table(headers, rows))]
    columns = ("namespace", "name", "policy", "rule", "result", "actions", "message")
    broken = tuple(tuple(each[column] for column in columns) for each in report.violations)
    if broken:
        table = Table(("NAMESPACE", "JOBSET", "POLICY", "RULE", "RESULT", "ACTION", "MESSAGE"), broken)
        sections.append(Section(table=table))
    left = f", {report.left_alone} left alone" if report.left_alone else ""
    summary = f"{plural(report.jobsets, 'JobSet')} evaluated{left}: {plural(len(broken), 'violation')}"
    return [*sections, Section(lines=(summary,))]

"""``gangctl policy scan``: results of policies for the JobSets of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import click

from gangctl.api.meta import API_VERSION, SKIP_LABEL
from gangctl.api.objects import Object
from gangctl.cli import options
from gangctl.cli.cluster import ask_cluster, no_jobsets
from gangctl.cli.kueuecluster import read_kueue
from gangctl.cli.messages import note, plural
from gangctl.cli.output import Section, Table, answer_no, print_answer
from gangctl.cli.policy import cluster as clusters
from gangctl.cli.policy.bundle import Bundle, policy_files, read_bundle
from gangctl.cli.policy.loading import LoadedPolicies, is_parameter, load, try_to_load
from gangctl.cli.policy.requests import Fit, is_left_alone
from gangctl.cli.policy.session import Session, evaluator_of, finding_data
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBSETS, NAMESPACES
from gangctl.controllers.policy_sources import GANG_POLICY_EXCEPTIONS
from gangctl.errors import ClusterUnavailableError, ForbiddenError, InputError, NotFoundError, ValidationError
from gangctl.gang.resolve import ClusterRules
from gangctl.policy.loaded import LoadedException, LoadedPolicy, load_exception
from gangctl.policy.review import review_of_existing
from gangctl.policy.variables import gang_of, unknown_fit, with_params
from gangctl.policy.verdict import Outcome, Result

PAGE: Final = 100
"""JobSets in memory at once."""
KIND: Final = "PolicyScanReport"


@dataclass(slots=True)
class ScanResult:
    """What was found."""

    results: dict[str, Counter[Result]]
    jobsets: int = 0
    left_alone: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, jobset: Object, outcomes: Sequence[Outcome]) -> None:
        """Count one JobSet."""
        self.jobsets += 1
        place = {key: str(jobset["metadata"].get(key, "")) for key in ("namespace", "name")}
        for outcome in outcomes:
            self.results.setdefault(outcome.policy, Counter()).update(finding.result for finding in outcome.findings)
            actions = ", ".join(sorted(outcome.actions))
            self.violations += [
                {**place, "actions": actions, **finding_data(finding)}
                for finding in outcome.findings
                if finding.result in {Result.FAIL, Result.ERROR}
            ]

    def counts(self) -> dict[str, dict[str, int]]:
        """How often each result was found, by policy."""
        return {
            policy: {result.value: results[result] for result in Result}
            for policy, results in sorted(self.results.items())
        }


@click.command("scan")
@policy_files(required=False)
@options.namespace_of("Namespace to scan. Default: that of the context.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Scan all namespaces.")
@options.selector("JobSets")
@options.kueue_namespace
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
    kueue_namespace: str,
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
    bundle = read_bundle(policy_files) if policy_files else None

    async def ask(client: Client, own_namespace: str) -> ScanResult:
        place = None if everywhere else namespace or own_namespace
        return await _scan(client, place, selector, bundle, kueue_namespace)

    report = ask_cluster(cluster, ask)
    names = dict.fromkeys(violation["name"] for violation in report.violations)
    print_answer(
        form,
        [report_data(report)],
        lambda: _sections(report),
        [{"apiVersion": JOBSETS.api_version, "kind": "JobSet", "metadata": {"name": name}} for name in names],
        headers=not no_headers,
    )
    if report.violations:
        answer_no()


async def _scan(
    client: Client, place: str | None, selector: str | None, files: Bundle | None, kueue_namespace: str
) -> ScanResult:
    """Evaluate the JobSets of a namespace, None for all, by the policies of files or else of the cluster."""
    generation = await clusters.generation_of(client)
    # By the clock of the API server, which its first answer shows.
    moment = client.server_time()
    loaded = await _load(client, files, generation.kubernetes)
    namespaces = await _namespaces(client, place, needed=loaded.read_namespaces)
    namespaces |= files.namespaces_by_name if files is not None else {}
    others = files.others if files is not None else ()
    params = [document.value for document in others if is_parameter(document, loaded.policies)]
    catalogue = await clusters.parameters_of(client, loaded.policies, params)
    rules = ClusterRules(generation)
    evaluated = await clusters.evaluated_in(client)
    fit = await _fit(client, loaded.policies, kueue_namespace)
    report = ScanResult({policy.name: Counter() for policy in loaded.policies})
    async with evaluator_of(generation.kubernetes) as evaluator:
        session = await Session.start(evaluator, loaded, catalogue)
        async with aclosing(_jobsets(client, place, selector)) as jobsets:
            async for jobset in jobsets:
                home = str(jobset["metadata"].get("namespace", ""))
                if is_left_alone(home, namespaces.get(home), evaluated):
                    report.left_alone += 1
                    continue
                plan, answer = gang_of(jobset, rules, new=False), fit(jobset, home)
                review = review_of_existing(jobset, namespaces.get(home), plan, moment, answer)
                report.add(jobset, await session.evaluator.evaluate(with_params(review, loaded.policies, catalogue)))
    return report


async def _namespaces(client: Client, place: str | None, *, needed: bool) -> dict[str, Object]:
    """All Namespaces, or the one of that name; none if they may not be read and are not ``needed``."""
    try:
        if place is None:
            return await clusters.namespaces_of(client)
        # By its name, which takes no right to list all Namespaces.
        return {place: clusters.typed(await client.get(NAMESPACES, place), NAMESPACES)}
    except NotFoundError:
        return {}
    except ForbiddenError as refused:
        if needed:
            raise
        note(f"JobSets of namespaces with the label {SKIP_LABEL} are scanned, too: {refused}")
        return {}


async def _fit(client: Client, policies: Iterable[LoadedPolicy], kueue_namespace: str) -> Fit:
    """Whether JobSets can be admitted, where some policy asks: that takes all of Kueue's objects."""
    if not any("fit" in policy.reads for policy in policies):
        return lambda raw, namespace: unknown_fit(raw, namespace, ["no policy asks"])
    try:
        stock = await read_kueue(client, None, kueue_namespace=kueue_namespace)
    except (ClusterUnavailableError, ForbiddenError) as error:
        why = str(error)
        note(f"fit is unknown: {why}")
        return lambda raw, namespace: unknown_fit(raw, namespace, [why])
    return lambda raw, namespace: stock.fit(raw, namespace, new=False)


async def _load(client: Client, files: Bundle | None, minor: str) -> LoadedPolicies:
    """The policies to evaluate by. A broken one of the cluster is reported and left out, one in a file is an error."""
    if files is not None:
        loaded = load(files, minor)
        known = {one.name: one for one in (*await _exceptions(client, loaded), *loaded.exceptions)}
        return replace(loaded, exceptions=tuple(known[name] for name in sorted(known)))
    bundle = await clusters.rules_of(client)
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


async def _exceptions(client: Client, loaded: LoadedPolicies) -> list[LoadedException]:
    """Those of the cluster from policies of these names: they go on when the files are applied."""
    try:
        documents = await clusters.all_of(client, GANG_POLICY_EXCEPTIONS)
    except ForbiddenError as refused:
        note(f"exceptions of the cluster do not count: {refused}")
        return []
    names = {policy.name for policy in loaded.policies}
    exceptions = []
    for document in documents:
        with suppress(ValidationError):
            exceptions.append(load_exception(document))
    return [one for one in exceptions if any(named.name in names for named in one.spec.policies)]


async def _jobsets(client: Client, namespace: str | None, selector: str | None) -> AsyncGenerator[Object, None]:
    try:
        pages = client.pages(JOBSETS, namespace, selection=Selection(selector), limit=PAGE, consistent=False)
        async with aclosing(pages):
            async for page in pages:
                for item in page.items:
                    if not item["metadata"].get("deletionTimestamp"):
                        yield clusters.typed(item, JOBSETS)
    except NotFoundError as error:
        raise no_jobsets() from error


def report_data(report: ScanResult) -> dict[str, Any]:
    """What ``-o json`` prints."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "jobsets": report.jobsets,
        "leftAlone": report.left_alone,
        "policies": [{"policy": policy, **counts} for policy, counts in report.counts().items()],
        "violations": report.violations,
    }


def _sections(report: ScanResult) -> list[Section]:
    rows = tuple((policy, *map(str, counts.values())) for policy, counts in report.counts().items())
    sections = [Section(table=Table(("POLICY", *(result.value.upper() for result in Result)), rows))]
    columns = ("namespace", "name", "policy", "rule", "result", "actions", "message")
    violations = tuple(tuple(violation[column] for column in columns) for violation in report.violations)
    if violations:
        table = Table(("NAMESPACE", "JOBSET", "POLICY", "RULE", "RESULT", "ACTION", "MESSAGE"), violations)
        sections.append(Section(table=table))
    left = f", {report.left_alone} left alone" if report.left_alone else ""
    summary = f"{plural(report.jobsets, 'JobSet')} evaluated{left}: {plural(len(violations), 'violation')}"
    return [*sections, Section(lines=(summary,))]

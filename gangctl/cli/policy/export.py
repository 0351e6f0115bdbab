"""``gangctl policy export``: GangPolicies as ValidatingAdmissionPolicies with their bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import click

from gangctl.api.documents import Document
from gangctl.api.scheduling import NEWEST, generation_of_minor
from gangctl.cli import options
from gangctl.cli.inputs import read_documents
from gangctl.cli.messages import note, plural
from gangctl.cli.output import Section, Table, answer_no, print_answer
from gangctl.cli.policy import flags
from gangctl.cli.policy.bundle import Bundle, FileCatalogue, name_of, no_policies, sort_documents
from gangctl.cli.policy.evaluator import evaluator_of, now
from gangctl.cli.policy.loading import Loaded, load
from gangctl.cli.policy.requests import Sent, Setting, request_of, sent_for, title_of
from gangctl.policy.export import Exported
from gangctl.policy.export import export as as_native
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.policy.native import load_native
from gangctl.policy.verdict import Outcome

_HEADERS: Final = ("NAME", "EXPORTED", "REASON")


@click.command("export")
@click.argument("files", nargs=-1, metavar="[FILE|DIR|URL|-]...", type=click.Path(allow_dash=True))
@options.cluster
@options.output("yaml", "json", "table", "name")
@click.option(
    "--check",
    "subjects",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="Evaluate these objects by the policies and by what is exported, and fail where the two differ.",
)
@flags.kubernetes
@options.colour
def command(
    *, files: tuple[str, ...], cluster: options.ClusterFlags, form: str, subjects: tuple[str, ...], kube: str
) -> None:
    """Write policies as ValidatingAdmissionPolicies with their bindings.

    The API server evaluates those itself, also while gangctl is down. Policies that read gang or
    fit, set defaults or have exceptions are left out: stderr has the reason of each, and what CEL
    can compute instead; -o table has the reasons in place of the policies. With files: the policies
    in them. Without: those of the cluster, whose exceptions count.

    Exit code 0, 1 when no policy can be exported or --check finds a difference, 2 when a policy
    cannot be loaded or the input is bad.

    \b
    Examples:
      gangctl policy export policies/ > native.yaml
      gangctl policy export policies/ -o table
      gangctl policy export policy.yaml --check jobset.yaml
      gangctl policy export --context production | kubectl apply -f -
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if files and cluster.given:
        raise click.UsageError("give files, or a cluster")
    bundle = sort_documents(read_documents(files)) if files else _of_cluster(cluster)
    if not bundle.policies:
        raise no_policies(bundle)
    loaded = load(Bundle(policies=bundle.policies, exceptions=bundle.exceptions), kube)
    exported = [as_native(policy, loaded.exceptions, minor=kube) for policy in loaded.policies]
    objects = [native for one in exported for native in one.objects]
    if form == "table":
        print_answer(form, objects, lambda: [Section(table=Table(_HEADERS, tuple(map(_row, exported))))])
    else:
        for one in exported:
            for reason in one.reasons:
                note(f"{one.name} is not exported: {reason}")
            for name, instead in one.instead.items():
                if instead:
                    note(f"{one.name}: CEL can compute {name}: {instead}")
        print_answer(form, objects)
    if not objects or (subjects and not _agree(bundle, loaded, exported, _sent(subjects, kube), kube)):
        answer_no()


def _of_cluster(cluster: options.ClusterFlags) -> Bundle:
    from gangctl.cli.cluster import ask_cluster  # noqa: PLC0415 -- half a second that files do without
    from gangctl.cli.policy.cluster import policies_of  # noqa: PLC0415

    bundle: Bundle = ask_cluster(cluster, lambda client, _: policies_of(client))
    return bundle


def _row(exported: Exported) -> tuple[str, str, str]:
    return exported.name, "yes" if exported.objects else "no", "; ".join(exported.reasons)


def _sent(files: Sequence[str], kube: str) -> list[Sent]:
    """The requests that create the objects of files."""
    return sent_for(sort_documents(read_documents(files)).others, "CREATE", generation_of_minor(kube) or NEWEST)


def _agree(bundle: Bundle, loaded: Loaded, exported: Iterable[Exported], sent: Sequence[Sent], kube: str) -> bool:
    """Whether the verdicts are the same; stderr has every difference, or how many verdicts were compared."""
    pairs = {one.name: load_native(one.objects, kube)[0] for one in exported if one.objects}
    policies = [policy for policy in loaded.policies if policy.name in pairs]
    setting = Setting(
        now=now(),
        generation=generation_of_minor(kube) or NEWEST,
        namespaces={name_of(document.value): document.value for document in bundle.namespaces},
    )
    verdicts = asyncio.run(_verdicts(policies, pairs, sent, setting, bundle.others))
    differences = [(title, own, native) for title, own, native in verdicts if own != native]
    for title, own, native in differences:
        note(f"{title}: {own or 'allowed'}; exported: {native or 'allowed'}")
    if not differences:
        broken = sum(bool(own) for _, own, _ in verdicts)
        note(f"{plural(len(verdicts), 'verdict')} compared, all the same; {plural(broken, 'violation')} among them")
    return not differences


async def _verdicts(
    policies: Sequence[LoadedPolicy],
    pairs: dict[str, LoadedPolicy],
    sent: Sequence[Sent],
    setting: Setting,
    params: Iterable[Document],
) -> list[tuple[str, str, str]]:
    """For each object and each policy that is about it: their titles, the verdict, and that of the exported one."""
    catalogue = FileCatalogue([document.value for document in params], setting.namespace)
    everything = (*policies, *pairs.values())
    verdicts = []
    async with evaluator_of(setting.generation.kubernetes) as evaluator:
        await evaluator.install(PolicySet(1, policies=everything))
        for one in sent:
            review, _ = request_of(one.obj, "CREATE", setting, everything, catalogue)
            outcomes = {outcome.policy: outcome for outcome in await evaluator.evaluate(review)}
            for policy in policies:
                own, native = outcomes[policy.name], outcomes[pairs[policy.name].name]
                if own.matched or native.matched:
                    title = f"{title_of(one.obj, setting)}, {policy.name}"
                    verdicts.append((title, _said(own), _said(native)))
    return verdicts


def _said(outcome: Outcome) -> str:
    """Everything of a verdict but the names of rules; empty where nothing is violated."""
    actions = ", ".join(sorted(outcome.actions))
    return "; ".join(f"{actions} ({finding.reason}): {finding.message}" for finding in outcome.violations)

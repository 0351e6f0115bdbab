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
from gangctl.cli.messages import errors_in, note, plural
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
    can compute instead; -o table has only these. With files: the policies in them. Without: those
    of the cluster, whose exceptions count.

    Exit code 0, or 1 where no policy can be exported or --check finds a difference.

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
    if subjects:
        _check(bundle, loaded, exported, sent_of(subjects, kube), kube)
    if not objects:
        answer_no()


def _of_cluster(cluster: options.ClusterFlags) -> Bundle:
    from gangctl.cli.cluster import ask_cluster  # noqa: PLC0415 -- half a second that files do without
    from gangctl.cli.policy.cluster import policies_of  # noqa: PLC0415

    bundle: Bundle = ask_cluster(cluster, lambda client, _: policies_of(client))
    return bundle


def _row(exported: Exported) -> tuple[str, str, str]:
    return exported.name, "yes" if exported.objects else "no", "; ".join(exported.reasons)


def sent_of(files: Sequence[str], kube: str) -> list[Sent]:
    """The requests that create the objects of files."""
    return sent_for(sort_documents(read_documents(files)).others, "CREATE", generation_of_minor(kube) or NEWEST)


def _check(bundle: Bundle, loaded: Loaded, exported: Iterable[Exported], sent: Sequence[Sent], kube: str) -> None:
    """Compare the verdicts; InvalidInputError with all differences."""
    pairs = {one.name: load_native(one.objects, kube)[0] for one in exported if one.objects}
    policies = [policy for policy in loaded.policies if policy.name in pairs]
    setting = Setting(
        now=now(),
        generation=generation_of_minor(kube) or NEWEST,
        namespaces={name_of(document.value): document.value for document in bundle.namespaces},
    )
    differences = asyncio.run(_differences(policies, pairs, sent, setting, bundle.others))
    if differences:
        raise errors_in("the exported policies", differences)
    note(f"{plural(len(sent), 'object')} and {plural(len(pairs), 'policy', 'policies')}: the same verdicts")


async def _differences(
    policies: Sequence[LoadedPolicy],
    pairs: dict[str, LoadedPolicy],
    sent: Sequence[Sent],
    setting: Setting,
    params: Iterable[Document],
) -> list[str]:
    catalogue = FileCatalogue([document.value for document in params], setting.namespace)
    everything = (*policies, *pairs.values())
    differences = []
    async with evaluator_of(setting.generation.kubernetes) as evaluator:
        await evaluator.install(PolicySet(1, policies=everything))
        for one in sent:
            review, _ = request_of(one.obj, "CREATE", setting, everything, catalogue)
            outcomes = {outcome.policy: outcome for outcome in await evaluator.evaluate(review)}
            for policy in policies:
                own, native = _said(outcomes[policy.name]), _said(outcomes[pairs[policy.name].name])
                if own != native:
                    title = title_of(one.obj, setting)
                    differences.append(f"{title}: {policy.name} has {own}; exported it has {native}")
    return differences


def _said(outcome: Outcome) -> str:
    """Everything of a verdict but the names of rules."""
    actions = ", ".join(sorted(outcome.actions))
    return "; ".join(f"{actions} ({finding.reason}): {finding.message}" for finding in outcome.violations) or "nothing"

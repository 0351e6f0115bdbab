"""``gangctl policy export``: GangPolicies as ValidatingAdmissionPolicies with their bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cli import options
from gangctl.cli.inputs import read_documents
from gangctl.cli.messages import note, plural
from gangctl.cli.output import Section, Table, answer_no, print_answer
from gangctl.cli.policy import flags
from gangctl.cli.policy.agreement import Agreement, by_dry_run, by_evaluation
from gangctl.cli.policy.bundle import Bundle, name_of, no_policies, sort_documents
from gangctl.cli.policy.evaluator import now
from gangctl.cli.policy.loading import Loaded, load
from gangctl.cli.policy.requests import Sent, Setting, sent_for
from gangctl.policy.export import Exported
from gangctl.policy.export import export as as_native
from gangctl.policy.native import load_native

if TYPE_CHECKING:
    from gangctl.client.client import Client

_HEADERS: Final = ("NAME", "EXPORTED", "REASON")


class Work(NamedTuple):
    """What is exported from each policy, and whether the verdicts agree, where that was asked."""

    exported: tuple[Exported, ...]
    agreement: Agreement | None = None


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
    help="Compare the verdicts on these objects, and fail where they differ. Of a cluster's policies: "
    "create them there as dry runs, where what is exported is in force.",
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
      gangctl policy export --context production --check jobset.yaml > /dev/null
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if files and cluster.given:
        raise click.UsageError("give files, or a cluster")
    if files:
        work = _of_files(sort_documents(read_documents(files)), subjects, kube)
    else:
        from gangctl.cli.cluster import ask_cluster  # noqa: PLC0415 -- half a second that files do without

        work = ask_cluster(cluster, lambda client, namespace: _of_cluster(client, namespace, subjects, kube))
    objects = [native for one in work.exported for native in one.objects]
    if form == "table":
        print_answer(form, objects, lambda: [Section(table=Table(_HEADERS, tuple(map(_row, work.exported))))])
    else:
        for one in work.exported:
            for reason in one.reasons:
                note(f"{one.name} is not exported: {reason}")
            for name, instead in one.instead.items():
                if instead:
                    note(f"{one.name}: CEL can compute {name}: {instead}")
        print_answer(form, objects)
    if work.agreement is not None:
        _report(work.agreement)
    if not objects or (work.agreement is not None and work.agreement.differences):
        answer_no()


async def _of_cluster(client: Client, namespace: str, subjects: Sequence[str], kube: str) -> Work:
    from gangctl.cli.policy.cluster import namespaces_of, parameters_of, rules_of  # noqa: PLC0415

    bundle = await rules_of(client)
    loaded, exported = _exported(bundle, kube)
    if not subjects:
        return Work(exported)
    policies = [policy for policy, one in zip(loaded.policies, exported, strict=True) if one.objects]
    setting = Setting(now(), namespace, generation=_generation(kube), namespaces=await namespaces_of(client))
    catalogue = await parameters_of(client, policies)
    return Work(exported, await by_dry_run(client, policies, _sent(subjects, kube), setting, catalogue))


def _of_files(bundle: Bundle, subjects: Sequence[str], kube: str) -> Work:
    loaded, exported = _exported(bundle, kube)
    if not subjects:
        return Work(exported)
    pairs = {one.name: load_native(one.objects, kube)[0] for one in exported if one.objects}
    policies = [policy for policy in loaded.policies if policy.name in pairs]
    namespaces = {name_of(document.value): document.value for document in bundle.namespaces}
    setting = Setting(now(), generation=_generation(kube), namespaces=namespaces)
    return Work(exported, asyncio.run(by_evaluation(policies, pairs, _sent(subjects, kube), setting, bundle.others)))


def _exported(bundle: Bundle, kube: str) -> tuple[Loaded, tuple[Exported, ...]]:
    """The policies in the order of their names, and what is exported from each."""
    if not bundle.policies:
        raise no_policies(bundle)
    loaded = load(Bundle(policies=bundle.policies, exceptions=bundle.exceptions), kube)
    return loaded, tuple(as_native(policy, loaded.exceptions, minor=kube) for policy in loaded.policies)


def _row(exported: Exported) -> tuple[str, str, str]:
    return exported.name, "yes" if exported.objects else "no", "; ".join(exported.reasons)


def _sent(files: Sequence[str], kube: str) -> list[Sent]:
    """The requests that create the objects of files."""
    return sent_for(sort_documents(read_documents(files)).others, "CREATE", _generation(kube))


def _generation(kube: str) -> Generation:
    return generation_of_minor(kube) or NEWEST


def _report(agreement: Agreement) -> None:
    """Every difference, or how many verdicts were compared."""
    for title, own, native in agreement.differences:
        note(f"{title}: {own or 'allowed'}; exported: {native or 'allowed'}")
    if not agreement.differences:
        broken = sum(bool(verdict.own) for verdict in agreement.verdicts)
        compared = plural(len(agreement.verdicts), "verdict")
        unseen = f"; the API server does not show {agreement.unseen} more" if agreement.unseen else ""
        note(f"{compared} compared, all the same; {plural(broken, 'violation')} among them{unseen}")

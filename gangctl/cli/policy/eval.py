"""``gangctl policy eval``: what policies say of objects in files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from gangctl.api.documents import Document
from gangctl.api.objects import Object, kind_of, object_at
from gangctl.api.scheduling import NEWEST, generation_of_minor
from gangctl.cli import options
from gangctl.cli.inputs import DEFAULT_NAMESPACE, read_documents
from gangctl.cli.messages import note
from gangctl.cli.output import answer_no, print_answer
from gangctl.cli.policy import flags
from gangctl.cli.policy.bundle import (
    Bundle,
    FileCatalogue,
    check_names,
    check_unique,
    name_of,
    sort_documents,
)
from gangctl.cli.policy.evaluator import evaluator_of, meet, now, variables_of
from gangctl.cli.policy.loading import Loaded, is_parameter, load, orphans
from gangctl.cli.policy.requests import (
    GROUPS,
    USER,
    Sent,
    Setting,
    fit_of,
    is_namespaced,
    sent_for,
    title_of,
)
from gangctl.cli.policy.verdicts import Evaluated, verdict_data, verdict_sections
from gangctl.cli.queuefiles import read_stock
from gangctl.errors import InputError
from gangctl.policy.loaded import PolicySet
from gangctl.policy.review import Operation
from gangctl.policy.verdict import Action, merge

OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE")


@click.command("eval")
@flags.policies()
@options.files
@options.namespace
@options.output("table", "json", "yaml", "name")
@click.option(
    "--operation",
    type=click.Choice(OPERATIONS, case_sensitive=False),
    default=OPERATIONS[0],
    show_default=True,
    help="What is asked for the objects of -f.",
)
@click.option("--old", "old_files", multiple=True, metavar="FILE", type=click.Path(), help="Objects before an UPDATE.")
@click.option("--params", "param_files", multiple=True, metavar="FILE", type=click.Path(), help="Parameter objects.")
@click.option(
    "--namespace-object",
    "namespace_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="Namespaces with their labels; without one, a Namespace has no labels of its own.",
)
@click.option(
    "--queues",
    "queue_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="Kueue's objects and configuration, for the variable fit; without them, its verdict is unknown.",
)
@click.option(
    "--action",
    type=click.Choice([each.value for each in Action], case_sensitive=False),
    help="Evaluate as if all policies had this validationAction. Default: what each policy or its binding says.",
)
@click.option("--user", default=USER, show_default=True, metavar="NAME", help="Who asks: request.userInfo.username.")
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help=f"Groups of who asks. Default: {', '.join(GROUPS)}."
)
@flags.kubernetes
@options.gang_schedulers
@click.option("--details", is_flag=True, help="Show what every rule said, and each variable's value.")
@options.colour
def command(
    *,
    policy_files: tuple[str, ...],
    filenames: tuple[str, ...],
    namespace: str | None,
    form: str,
    operation: Operation,
    old_files: tuple[str, ...],
    param_files: tuple[str, ...],
    namespace_files: tuple[str, ...],
    queue_files: tuple[str, ...],
    action: str | None,
    user: str,
    groups: tuple[str, ...],
    kube: str,
    gang_schedulers: tuple[str, ...],
    details: bool,
) -> None:
    """Evaluate objects in files: allowed or denied, and why.

    Exit code 0 when everything is allowed, 1 when something is denied, 2 when a policy is
    refused or the input is bad. The column ACTION is what the policy does as it is applied:
    Deny, Warn or Audit. With --action Deny, whatever a policy warns of is denied.

    JobSets are evaluated with the fields that the API server and JobSet fill in, and see the plan
    of "gangctl plan" as the variable gang and the answer of "gangctl fit" as the variable fit.
    Bindings, exceptions, parameter objects and Namespaces may stand in any of the files. Of a
    PathwaysJob the JobSet that it becomes is evaluated and, by policies that are about
    PathwaysJobs, itself.

    \b
    Examples:
      gangctl policy eval --policy policy.yaml -f jobset.yaml
      gangctl policy eval --policy policies/ -f jobset.yaml --action Deny
      gangctl policy eval --policy policies/ -f new.yaml --operation UPDATE --old old.yaml
      gangctl policy eval --policy p.yaml -f jobset.yaml --params limits.yaml --details
      gangctl policy eval --policy p.yaml -f jobset.yaml --queues queues.yaml
      kubectl get jobset a -o yaml | gangctl policy eval --policy p.yaml -f -
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if (operation == "UPDATE") != bool(old_files):
        raise click.UsageError("--operation UPDATE and --old belong together")
    _check_stdin(policy_files, filenames, queue_files)
    inputs = _read(
        policy_files, filenames, kube, namespace_files=namespace_files, param_files=param_files, old_files=old_files
    )
    _print_notes(inputs, action or Action.DENY)
    if namespace is not None:
        _check_namespace(inputs.subjects, namespace)
    setting = Setting(
        now=now(),
        namespace=namespace or DEFAULT_NAMESPACE,
        user=user,
        groups=groups or GROUPS,
        generation=generation_of_minor(kube) or NEWEST,
        gang_schedulers=gang_schedulers,
        namespaces={name_of(document.value): document.value for document in inputs.bundle.namespaces},
    )
    if queue_files:
        setting = replace(setting, fit=fit_of(read_stock(queue_files), setting))
    catalogue = FileCatalogue([document.value for document in inputs.params], setting.namespace)
    work = _evaluate_all(
        inputs,
        sent_for(inputs.subjects, operation, setting.generation),
        setting,
        catalogue,
        operation=operation,
        details=details,
        action=None if action is None else Action(action),
    )
    evaluated = asyncio.run(work)
    print_answer(
        form,
        [verdict_data(each) for each in evaluated],
        lambda: verdict_sections(evaluated, everything=details),
        [_named(each.subject) for each in evaluated if not each.verdict.allowed],
    )
    if not all(each.verdict.allowed for each in evaluated):
        answer_no()


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What is in the files."""

    bundle: Bundle
    loaded: Loaded
    subjects: list[Document]
    """What is evaluated."""
    params: list[Document]
    old: list[Document]
    """What ``subjects`` were before an UPDATE."""


def _check_stdin(policy_files: Sequence[str], filenames: Sequence[str], queue_files: Sequence[str]) -> None:
    if "-" in queue_files and "-" in {*policy_files, *filenames}:
        raise InputError("stdin can be read only once", hint="give --queues a file")
    if "-" in policy_files and "-" in filenames:
        raise InputError("stdin can be read only once", hint="give -f - alone: policies may stand among the objects")


def _read(
    policy_files: Sequence[str],
    filenames: Sequence[str],
    kube: str,
    *,
    namespace_files: Sequence[str],
    param_files: Sequence[str],
    old_files: Sequence[str],
) -> _Inputs:
    """Read the files: objects of -f of a kind that a policy takes as parameters are not evaluated."""
    rules, files = sort_documents(read_documents(policy_files)), sort_documents(read_documents(filenames))
    bundle = rules + files + _namespaces(namespace_files)
    check_names(bundle.namespaces)
    check_unique(bundle.namespaces, "Namespace")
    params = read_documents(param_files) if param_files else []
    old = read_documents(old_files) if old_files else []
    check_names([*params, *old])
    loaded = load(bundle, kube)
    subjects = [document for document in files.others if not is_parameter(document, loaded.policies)]
    if not subjects:
        raise InputError("nothing to evaluate: no object in the files of -f besides policies and what belongs to them")
    found = [each for each in (*rules.others, *files.others) if is_parameter(each, loaded.policies)]
    check_names([*subjects, *found])
    return _Inputs(bundle, loaded, subjects, [*params, *found], old)


def _namespaces(files: Sequence[str]) -> Bundle:
    found = sort_documents(read_documents(files)) if files else Bundle()
    if found.others or found.rules:
        raise InputError(f"{(found.others or found.rules)[0].where()}: --namespace-object takes Namespaces only")
    return found


def _check_namespace(subjects: Sequence[Document], namespace: str) -> None:
    for document in subjects:
        own = object_at(document.value, "metadata").get("namespace")
        if own and own != namespace and is_namespaced(document.value):
            where = document.where("metadata.namespace")
            raise InputError(f'{where}: metadata.namespace: is "{own}" but --namespace is "{namespace}"')


def _before(document: Document, old: Sequence[Document], setting: Setting) -> Object | None:
    """The object as it was."""
    if not old:
        return None
    title = title_of(document.value, setting)
    same = [each for each in old if title_of(each.value, setting) == title]
    if len(same) != 1:
        raise InputError(f"{document.where()}: {len(same)} objects of --old are {title}, 1 is wanted")
    return same[0].value


async def _evaluate_all(
    inputs: _Inputs,
    subjects: Sequence[Sent],
    setting: Setting,
    catalogue: FileCatalogue,
    *,
    operation: Operation,
    details: bool,
    action: Action | None,
) -> list[Evaluated]:
    """The results of all policies for each object; ``action`` is that of all policies, in place of their own."""
    found, loaded = [], inputs.loaded
    async with evaluator_of(setting.generation.kubernetes) as evaluator:
        await evaluator.install(PolicySet(1, policies=loaded.policies, exceptions=loaded.exceptions))
        for sent in subjects:
            before = _before(sent.document, inputs.old, setting)
            met = await meet(evaluator, loaded.policies, setting, catalogue, sent.obj, operation=operation, old=before)
            review = met.review
            outcomes = [met.refusal()] if met.conflicts else [*await evaluator.evaluate(review)]
            if action is not None:
                outcomes = [replace(outcome, actions=frozenset({action})) for outcome in outcomes]
            verdict = merge(outcomes)
            if sent.only_if_matched and not any(outcome.matched for outcome in verdict.outcomes):
                continue
            values = variables_of(loaded.policies, review) if details else {}
            title = title_of(sent.obj, setting)
            notes = (*sent.notes, *met.notes)
            found.append(Evaluated(title, sent.obj, review, verdict, values, met.defaults, notes))
    return found


def _print_notes(inputs: _Inputs, action: str) -> None:
    for name in inputs.loaded.unbound:
        note(f"no binding of {name} among the files: evaluated as if bound with validationActions [{action}]")
    for name in orphans(inputs.bundle):
        note(f"binding {name} has no policy among the files")


def _named(subject: Object) -> dict[str, Any]:
    """With the name in the input, also if the server generates one."""
    _, kind = kind_of(subject)
    return {"apiVersion": subject.get("apiVersion"), "kind": kind, "metadata": {"name": name_of(subject)}}

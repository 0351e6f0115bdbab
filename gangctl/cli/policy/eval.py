"""``gangctl policy eval``: what policies say of objects in files."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from gangctl.api.documents import Document
from gangctl.api.meta import API_VERSION
from gangctl.api.objects import Object, kind_of, object_at
from gangctl.api.scheduling import NEWEST, generation_of_minor
from gangctl.cli import options
from gangctl.cli.inputs import DEFAULT_NAMESPACE, read_documents
from gangctl.cli.messages import note, plural
from gangctl.cli.output import Section, Table, answer_no, print_answer
from gangctl.cli.policy import bundle as bundles
from gangctl.cli.policy.bundle import Bundle, check_names, name_of, read_bundle
from gangctl.cli.policy.loading import LoadedPolicies, is_parameter, load, orphans
from gangctl.cli.policy.requests import (
    GROUPS_OF_USER,
    USER,
    FileCatalogue,
    RequestSetting,
    fit_of,
    is_namespaced,
    sent_for,
    title_of,
)
from gangctl.cli.policy.session import Met, Session, evaluator_of, finding_data, variables_of
from gangctl.cli.queuefiles import read_stock
from gangctl.errors import InputError
from gangctl.policy import native
from gangctl.policy.review import Operation
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction, Verdict, merge, show

KIND: Final = "PolicyVerdict"
OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE")
_MUTATING: Final = "MutatingAdmissionPolicy"


@click.command("eval")
@bundles.policy_files()
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
@bundles.paths("--old", "old_files", about="Objects before an UPDATE.")
@bundles.paths("--params", "param_files", about="Parameter objects.")
@bundles.paths(
    "--namespace-object",
    "namespace_files",
    about="Namespaces with their labels; without one, a Namespace has no labels of its own.",
)
@bundles.paths(
    "--queues",
    "queue_files",
    about="Kueue's objects and configuration, for the variable fit; without them, its verdict is unknown.",
)
@click.option(
    "--action",
    type=click.Choice([action.value for action in ValidationAction], case_sensitive=False),
    help="Evaluate as if all policies had this validationAction. Default: what each policy or its binding says.",
)
@click.option("--user", default=USER, show_default=True, metavar="NAME", help="Who asks: request.userInfo.username.")
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help=f"Groups of who asks. Default: {GROUPS_OF_USER}."
)
@bundles.kubernetes
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
    _print_notes(inputs, action or ValidationAction.DENY)
    if namespace is not None:
        _check_namespace(inputs.subjects, namespace)
    setting = RequestSetting(
        namespace=namespace or DEFAULT_NAMESPACE,
        user=user,
        groups=groups,
        generation=generation_of_minor(kube) or NEWEST,
        gang_schedulers=gang_schedulers,
        namespaces=inputs.bundle.namespaces_by_name,
    )
    if queue_files:
        setting = replace(setting, fit=fit_of(read_stock(queue_files, namespace), setting))
    forced = None if action is None else ValidationAction(action)
    evaluated = asyncio.run(_evaluate_all(inputs, setting, operation, action=forced, details=details))
    print_answer(
        form,
        [verdict_data(answer) for answer in evaluated],
        lambda: verdict_sections(evaluated, everything=details),
        [_named(answer.subject) for answer in evaluated if not answer.verdict.allowed],
    )
    if not all(answer.verdict.allowed for answer in evaluated):
        answer_no()


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What is in the files."""

    bundle: Bundle
    loaded: LoadedPolicies
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
    rules, files = read_bundle(policy_files), read_bundle(filenames)
    given = read_documents(namespace_files) if namespace_files else []
    namespaces = bundles.only("namespaces", given, "--namespace-object", "Namespaces")
    bundle = rules + files + namespaces
    check_names(bundle.namespaces)
    bundles.check_unique(bundle.namespaces, "Namespace")
    params = read_documents(param_files) if param_files else []
    old = read_documents(old_files) if old_files else []
    check_names([*params, *old])
    loaded = load(bundle, kube)
    subjects = [document for document in files.others if not is_parameter(document, loaded.policies)]
    if not subjects:
        raise InputError("nothing to evaluate: no object in the files of -f besides policies and what belongs to them")
    beside = [document for document in (*rules.others, *files.others) if is_parameter(document, loaded.policies)]
    check_names([*subjects, *beside])
    return _Inputs(bundle, loaded, subjects, [*params, *beside], old)


def _check_namespace(subjects: Sequence[Document], namespace: str) -> None:
    for document in subjects:
        own = object_at(document.value, "metadata").get("namespace")
        if own and own != namespace and is_namespaced(document.value):
            where = document.where("metadata.namespace")
            raise InputError(f'{where}: metadata.namespace: is "{own}" but --namespace is "{namespace}"')


def _before(document: Document, old: Mapping[str, Sequence[Document]], setting: RequestSetting) -> Object | None:
    """The object as it was; ``old`` are those of ``--old`` by title."""
    if not old:
        return None
    title = title_of(document.value, setting)
    same = old.get(title, ())
    if len(same) != 1:
        raise InputError(f"{document.where()}: {len(same)} objects of --old are {title}, 1 is wanted")
    return same[0].value


@dataclass(frozen=True, slots=True)
class EvaluatedObject:
    """One object, the request for it, and what was said; ``values`` are variables by policy, where asked for."""

    title: str
    subject: Object
    met: Met
    verdict: Verdict
    values: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...]


async def _evaluate_all(
    inputs: _Inputs, setting: RequestSetting, operation: Operation, *, action: ValidationAction | None, details: bool
) -> list[EvaluatedObject]:
    """The results of all policies for each object; ``action`` is that of all policies, in place of their own."""
    evaluated = []
    params, policies = [document.value for document in inputs.params], inputs.loaded.policies
    catalogue = FileCatalogue(params, setting.namespace, policies=policies)
    subjects = sent_for(inputs.subjects, operation, setting.generation)
    old: defaultdict[str, list[Document]] = defaultdict(list)
    for document in inputs.old:
        old[title_of(document.value, setting)].append(document)
    async with evaluator_of(setting.generation.kubernetes) as evaluator:
        session = await Session.start(evaluator, inputs.loaded, catalogue)
        for sent in subjects:
            met = await session.meet(sent.obj, setting, operation, _before(sent.document, old, setting))
            outcomes = await session.outcomes(met)
            if action is not None:
                outcomes = tuple(replace(outcome, actions=frozenset({action})) for outcome in outcomes)
            if sent.only_if_matched and not any(outcome.matched for outcome in outcomes):
                continue
            values = variables_of(session.loaded.policies, met.review) if details else {}
            title, notes = title_of(sent.obj, setting), (*sent.notes, *met.notes)
            evaluated.append(EvaluatedObject(title, sent.obj, met, merge(outcomes), values, notes))
    return evaluated


def _print_notes(inputs: _Inputs, action: str) -> None:
    for name in inputs.loaded.unbound:
        note(f"no binding of {name} among the files: evaluated as if bound with validationActions [{action}]")
    for document in inputs.bundle.others:
        if kind_of(document.value) == (native.GROUP, _MUTATING):
            changed = "give the objects as it leaves them, because it changes them before policies see them"
            note(f"{_MUTATING} {name_of(document.value)} is not evaluated: {changed}")
    for name in orphans(inputs.bundle):
        note(f"binding {name} has no policy among the files")


def _named(subject: Object) -> dict[str, Any]:
    """With the name in the input, also if the server generates one."""
    _, kind = kind_of(subject)
    return {"apiVersion": subject.get("apiVersion"), "kind": kind, "metadata": {"name": name_of(subject)}}


def verdict_data(evaluated: EvaluatedObject) -> dict[str, Any]:
    """What ``-o json`` prints for one object."""
    verdict, review, values = evaluated.verdict, evaluated.met.review, evaluated.values
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": str(review.request.get("name") or ""),
            "namespace": str(review.request.get("namespace") or ""),
        },
        "object": {"apiVersion": evaluated.subject.get("apiVersion"), "kind": evaluated.subject.get("kind")},
        "operation": review.operation,
        "allowed": verdict.allowed,
        "code": verdict.code,
        "message": show(verdict.denials[0]) if verdict.denials else "",
        "denials": [finding_data(finding) for finding in verdict.denials],
        "warnings": list(verdict.warnings),
        "auditAnnotations": dict(verdict.audit_annotations),
        "policies": [
            {
                "policy": outcome.policy,
                "matched": outcome.matched,
                "skipped": outcome.skipped,
                "actions": sorted(action.value for action in outcome.actions),
                "steps": outcome.steps,
                "rules": [finding_data(finding) for finding in outcome.findings],
                **({"variables": values[outcome.policy]} if outcome.policy in values else {}),
            }
            for outcome in verdict.outcomes
        ],
        "defaults": [
            {"field": path, "value": source.value, "policies": list(source.policies)}
            for path, source in evaluated.met.defaults.items()
        ],
        "notes": list(evaluated.notes),
    }


def verdict_sections(evaluated: Sequence[EvaluatedObject], *, everything: bool) -> list[Section]:
    """What is wrong or, with ``everything``, what each rule said, in one table; then each object."""
    rows = tuple(
        (answer.title, *_row(outcome, finding))
        for answer in evaluated
        for outcome in answer.verdict.outcomes
        for finding in outcome.findings
        if everything or finding.result is not Result.PASS
    )
    table = Section(table=Table(("OBJECT", "POLICY", "RULE", "RESULT", "ACTION", "MESSAGE"), rows))
    return [*([table] if rows else []), *map(_verdict_section, evaluated)]


def _row(outcome: Outcome, finding: Finding) -> tuple[str, ...]:
    message = finding.message
    if finding.exception:
        message = f"allowed by exception {finding.exception}: {message}"
    if finding.params:
        message = f"{message} (params {finding.params})" if message else f"params {finding.params}"
    action = ", ".join(sorted(outcome.actions)) if finding in outcome.violations else "-"
    return (finding.policy, finding.rule, finding.result.value, "Deny" if finding.always else action, message)


def _verdict_section(evaluated: EvaluatedObject) -> Section:
    verdict, outcomes = evaluated.verdict, evaluated.verdict.outcomes
    results = Counter(finding.result for outcome in outcomes for finding in outcome.findings)
    counts = ", ".join(f"{results[result]} {result.value}" for result in Result if results[result]) or "no rule"
    applied = sum(outcome.matched for outcome in outcomes)
    policies, apply = plural(len(outcomes), "policy", "policies"), "applies" if applied == 1 else "apply"
    lines = [f"{policies}, {applied} {apply}: {counts}"]
    lines += [f"{path}: {source}" for path, source in evaluated.met.defaults.items()]
    lines += [f"skipped {outcome.policy}: {outcome.skipped}" for outcome in outcomes if not outcome.matched]
    for policy, values in evaluated.values.items():
        lines += [f"{policy}: variables.{name} = {value}" for name, value in values.items()]
    answer = "allowed" if verdict.allowed else f"denied ({verdict.code})"
    if verdict.allowed and verdict.warnings:
        answer = "allowed, with warnings"
    return Section(
        title=f"{evaluated.title}: {answer}",
        lines=tuple(lines),
        warnings=(*verdict.warnings, *evaluated.notes),
    )

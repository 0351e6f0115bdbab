"""``gangctl policy export``: GangPolicies as ValidatingAdmissionPolicies with their bindings.

``--check`` is whether these give the verdicts of the policies that they were exported from. On files, gangctl evaluates
both. On a cluster, API servers evaluate what was exported, by dry runs: they name every policy that warns, and of those
that deny the first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from gangctl.api.objects import object_at
from gangctl.api.scheduling import NEWEST, generation_of_minor
from gangctl.cli import options
from gangctl.cli.messages import note, plural
from gangctl.cli.output import Section, Table, answer_no, print_answer
from gangctl.cli.policy.bundle import Bundle, kubernetes, no_policies, paths, read_bundle
from gangctl.cli.policy.loading import LoadedPolicies, load
from gangctl.cli.policy.requests import FileCatalogue, RequestSetting, Sent, is_jobset, sent_for, title_of
from gangctl.cli.policy.session import Session, evaluator_of
from gangctl.client.resources import JOBSETS
from gangctl.errors import AlreadyExistsError, ForbiddenError, InvalidError
from gangctl.policy.export import Exported
from gangctl.policy.export import export as as_native
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.native import load_native
from gangctl.policy.review import EVALUATED
from gangctl.policy.variables import ParamCatalogue
from gangctl.policy.verdict import Outcome, ValidationAction

if TYPE_CHECKING:
    from gangctl.client.client import Client

_HEADERS: Final = ("NAME", "EXPORTED", "REASON")
# As dispatcher.go of k8s.io/apiserver writes them (pkg/admission/plugin/policy/validating).
_DENIED: Final = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: ")
_WARNED: Final = re.compile(
    r"Validation failed for ValidatingAdmissionPolicy '([^']+)' with binding '[^']+': (.*)", re.DOTALL
)


class Comparison(NamedTuple):
    """What both make of one object and one policy; empty where they allow it."""

    title: str
    own: str
    exported: str


@dataclass(slots=True)
class Agreement:
    """All comparisons, and how many verdicts could not be compared."""

    comparisons: list[Comparison] = field(default_factory=list)
    unseen: int = 0

    @property
    def differences(self) -> list[Comparison]:
        """Verdicts that are not the same."""
        return [comparison for comparison in self.comparisons if comparison.own != comparison.exported]


class Work(NamedTuple):
    """What is exported from each policy, and whether the verdicts agree, where that was asked."""

    exported: tuple[Exported, ...]
    agreement: Agreement | None = None


@click.command("export")
@click.argument("files", nargs=-1, metavar="[FILE|DIR|URL|-]...", type=click.Path(allow_dash=True))
@options.cluster
@options.output("yaml", "json", "table", "name")
@paths(
    "--check",
    "subjects",
    about="Compare the verdicts on these objects, and fail where they differ. Of a cluster's policies: "
    "create them there as dry runs, where what is exported is in force.",
)
@kubernetes
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
        work = asyncio.run(_of_files(read_bundle(files), subjects, kube))
    else:
        from gangctl.cli.cluster import ask_cluster  # noqa: PLC0415 -- half a second that files do without

        work = ask_cluster(cluster, lambda client, namespace: _of_cluster(client, namespace, subjects, kube))
    objects = [native for exported in work.exported for native in exported.objects]
    if form == "table":
        print_answer(form, objects, lambda: [Section(table=Table(_HEADERS, tuple(map(_row, work.exported))))])
    else:
        for exported in work.exported:
            for reason in exported.reasons:
                note(f"{exported.name} is not exported: {reason}")
            for name, instead in exported.instead.items():
                if instead:
                    note(f"{exported.name}: CEL can compute {name}: {instead}")
        print_answer(form, objects)
    if work.agreement is not None:
        _report(work.agreement)
    if not objects or (work.agreement is not None and work.agreement.differences):
        answer_no()


def _row(exported: Exported) -> tuple[str, str, str]:
    return exported.name, "yes" if exported.objects else "no", "; ".join(exported.reasons)


def _report(agreement: Agreement) -> None:
    """Every difference, or how many verdicts were compared."""
    for title, own, native in agreement.differences:
        note(f"{title}: {own or 'allowed'}; exported: {native or 'allowed'}")
    if not agreement.differences:
        broken = sum(bool(comparison.own) for comparison in agreement.comparisons)
        compared = plural(len(agreement.comparisons), "verdict")
        unseen = f"; the API server does not show {agreement.unseen} more" if agreement.unseen else ""
        note(f"{compared} compared, all the same; {plural(broken, 'violation')} among them{unseen}")


async def _of_files(bundle: Bundle, subjects: Sequence[str], kube: str) -> Work:
    """The policies of files; gangctl evaluates them, and what is exported from each, on these objects."""
    loaded, exported = _exported(bundle, kube)
    if not subjects:
        return Work(exported)
    setting = RequestSetting(generation=generation_of_minor(kube) or NEWEST, namespaces=bundle.namespaces_by_name)
    pairs = {policy.name: load_native(policy.objects, kube)[0] for policy in exported if policy.objects}
    own_policies = [policy for policy in loaded.policies if policy.name in pairs]
    params = [document.value for document in bundle.others]
    catalogue = FileCatalogue(params, setting.namespace, policies=loaded.policies)
    agreement = Agreement()
    policies, requests = [*own_policies, *pairs.values()], _sent(subjects, setting)
    for sent, outcomes in zip(requests, await _evaluated(policies, requests, setting, catalogue), strict=True):
        for policy in own_policies:
            own, native = outcomes[policy.name], outcomes[pairs[policy.name].name]
            if own.matched or native.matched:
                title = f"{title_of(sent.obj, setting)}, {policy.name}"
                agreement.comparisons.append(Comparison(title, _text(own), _text(native)))
    return Work(exported, agreement)


async def _of_cluster(client: Client, namespace: str, subjects: Sequence[str], kube: str) -> Work:
    """The policies of a cluster; there JobSets are created as dry runs, where what is exported is in force.

    :class:`~gangctl.errors.ApiError` where the cluster does not answer.
    """
    from gangctl.cli.policy.cluster import (  # noqa: PLC0415
        evaluated_in,
        namespaces_of,
        parameters_of,
        rules_of,
    )

    evaluated = await evaluated_in(client)
    loaded, exported = _exported(await rules_of(client), kube, evaluated)
    if not subjects:
        return Work(exported)
    generation = generation_of_minor(kube) or NEWEST
    setting = RequestSetting(
        namespace=namespace, generation=generation, namespaces=await namespaces_of(client), evaluated=evaluated
    )
    policies = [policy for policy, native in zip(loaded.policies, exported, strict=True) if native.objects]
    agreement = Agreement()
    tries = [await _dry_run(client, sent, setting) for sent in _sent(subjects, setting) if is_jobset(sent.obj)]
    catalogue = await parameters_of(client, policies)
    evaluated_here = await _evaluated(policies, [tried.sent for tried in tries], setting, catalogue)
    for tried, outcomes in zip(tries, evaluated_here, strict=True):
        for policy in policies:
            own = _strongest(outcomes[policy.name])
            native = tried.seen.get(policy.name, "")
            # Audit is in the audit log alone; a second denial is not reported.
            hidden = own == ValidationAction.AUDIT or (own == ValidationAction.DENY and tried.denied)
            if outcomes[policy.name].matched and not native and (hidden or tried.refused):
                agreement.unseen += 1
            elif outcomes[policy.name].matched or native:
                title = f"{title_of(tried.sent.obj, setting)}, {policy.name}"
                agreement.comparisons.append(Comparison(title, own, native))
    return Work(exported, agreement)


def _exported(
    bundle: Bundle, kube: str, namespaces: Sequence[Mapping[str, Any]] = EVALUATED
) -> tuple[LoadedPolicies, tuple[Exported, ...]]:
    """The policies in the order of their names, and what is exported from each."""
    if not bundle.policies:
        raise no_policies(bundle)
    loaded = load(Bundle(policies=bundle.policies, exceptions=bundle.exceptions), kube)
    return loaded, tuple(
        as_native(policy, loaded.exceptions, minor=kube, namespaces=namespaces) for policy in loaded.policies
    )


def _sent(files: Sequence[str], setting: RequestSetting) -> list[Sent]:
    """The requests that create the objects of files."""
    return sent_for(read_bundle(files).others, "CREATE", setting.generation)


async def _evaluated(
    policies: Sequence[LoadedPolicy], requests: Iterable[Sent], setting: RequestSetting, catalogue: ParamCatalogue
) -> list[dict[str, Outcome]]:
    """The outcomes by policy of each request."""
    async with evaluator_of(setting.generation.kubernetes) as evaluator:
        session = await Session.start(evaluator, LoadedPolicies(tuple(policies)), catalogue)
        outcomes = [await session.outcomes(await session.meet(sent.obj, setting)) for sent in requests]
    return [{outcome.policy: outcome for outcome in one} for one in outcomes]


def warned(warnings: Iterable[str]) -> list[tuple[str, str]]:
    """Policy and message of each warning that is of a ValidatingAdmissionPolicy."""
    return [(match[1], match[2]) for warning in warnings if (match := _WARNED.fullmatch(warning))]


class Tried(NamedTuple):
    """A request that was tried as a dry run."""

    sent: Sent
    """With what mutating webhooks have made of the object, where it was admitted: policies are asked about that."""
    seen: dict[str, str]
    """The strongest action by native policy."""
    denied: bool = False
    """Whether a policy denied it: then others may have denied it, too."""
    refused: bool = False
    """Whether something else refused it, perhaps before the policies: a webhook that mutates, or a schema."""


async def _dry_run(client: Client, sent: Sent, setting: RequestSetting) -> Tried:
    namespace = str(object_at(sent.obj, "metadata").get("namespace") or setting.namespace)
    try:
        stored, warnings = await client.try_create(JOBSETS, sent.obj, namespace)
    except (InvalidError, ForbiddenError, AlreadyExistsError) as error:
        denial, seen = _DENIED.search(error.message), _seen(error.warnings)
        if denial is not None:
            return Tried(sent, seen | {denial[1]: str(ValidationAction.DENY)}, denied=True)
        if isinstance(error, ForbiddenError) and "denied the request" not in error.message:
            raise
        # That the name is taken is found after all policies.
        return Tried(sent, seen, refused=not isinstance(error, AlreadyExistsError))
    return Tried(replace(sent, obj=stored), _seen(warnings))


def _seen(warnings: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys((policy for policy, _ in warned(warnings)), str(ValidationAction.WARN))


def _strongest(outcome: Outcome) -> str:
    """The action that a violation has; empty where nothing is violated."""
    if not outcome.violations:
        return ""
    return str(
        next(
            action
            for action in (ValidationAction.DENY, ValidationAction.WARN, ValidationAction.AUDIT)
            if action in outcome.actions
        )
    )


def _text(outcome: Outcome) -> str:
    """Everything of a verdict but the names of rules; empty where nothing is violated."""
    actions = ", ".join(sorted(outcome.actions))
    return "; ".join(f"{actions} ({finding.reason}): {finding.message}" for finding in outcome.violations)

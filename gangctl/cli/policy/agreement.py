"""Whether exported policies give the verdicts of the policies that they were exported from: ``export --check``.

On files, gangctl evaluates both. On a cluster, API servers evaluate what was exported, by dry runs: they name every
policy that warns, and of those that deny the first.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from gangctl.api.documents import Document
from gangctl.api.objects import object_at
from gangctl.cli.policy.bundle import FileCatalogue
from gangctl.cli.policy.evaluator import evaluator_of
from gangctl.cli.policy.requests import Sent, Setting, is_jobset, request_of, title_of
from gangctl.client.resources import JOBSETS
from gangctl.errors import AlreadyExistsError, ForbiddenError, InvalidError
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.policy.variables import ParamCatalogue
from gangctl.policy.verdict import Action, Outcome

if TYPE_CHECKING:
    from gangctl.client.client import Client

_DENIED: Final = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: ")
_WARNED: Final = re.compile(
    r"Validation failed for ValidatingAdmissionPolicy '([^']+)' with binding '[^']+': (.*)", re.DOTALL
)


class Verdict(NamedTuple):
    """What both make of one object and one policy; empty where they allow it."""

    title: str
    own: str
    exported: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """All verdicts, and how many could not be compared."""

    verdicts: tuple[Verdict, ...]
    unseen: int = 0

    @property
    def differences(self) -> list[Verdict]:
        """Verdicts that are not the same."""
        return [verdict for verdict in self.verdicts if verdict.own != verdict.exported]


async def by_evaluation(
    policies: Sequence[LoadedPolicy],
    pairs: Mapping[str, LoadedPolicy],
    sent: Iterable[Sent],
    setting: Setting,
    params: Iterable[Document],
) -> Agreement:
    """Evaluate policies, and what was exported from each (by name), on the requests that create these objects."""
    catalogue = FileCatalogue([document.value for document in params], setting.namespace)
    verdicts = []
    async for one, outcomes in _evaluated((*policies, *pairs.values()), sent, setting, catalogue):
        for policy in policies:
            own, native = outcomes[policy.name], outcomes[pairs[policy.name].name]
            if own.matched or native.matched:
                verdicts.append(Verdict(f"{title_of(one.obj, setting)}, {policy.name}", _said(own), _said(native)))
    return Agreement(tuple(verdicts))


async def by_dry_run(
    client: Client, policies: Sequence[LoadedPolicy], sent: Iterable[Sent], setting: Setting, catalogue: ParamCatalogue
) -> Agreement:
    """Create the JobSets as dry runs, where what was exported from these policies is in force.

    :class:`~gangctl.errors.ApiError` where the cluster does not answer.
    """
    verdicts: list[Verdict] = []
    unseen = 0
    jobsets = [one for one in sent if is_jobset(one.obj)]
    async for one, outcomes in _evaluated(policies, jobsets, setting, catalogue):
        seen, denied = await _dry_run(client, one, setting)
        for policy in policies:
            own = _strongest(outcomes[policy.name])
            exported = seen.get(policy.name, "")
            # Audit is in the audit log alone; a second denial is not reported.
            if own == Action.AUDIT or (own == Action.DENY and denied and not exported):
                unseen += 1
            elif outcomes[policy.name].matched or exported:
                verdicts.append(Verdict(f"{title_of(one.obj, setting)}, {policy.name}", own, exported))
    return Agreement(tuple(verdicts), unseen)


def warned(warnings: Iterable[str]) -> list[tuple[str, str]]:
    """Policy and message of each warning that is of a ValidatingAdmissionPolicy."""
    return [(found[1], found[2]) for warning in warnings if (found := _WARNED.fullmatch(warning))]


async def _evaluated(
    policies: Sequence[LoadedPolicy], sent: Iterable[Sent], setting: Setting, catalogue: ParamCatalogue
) -> AsyncIterator[tuple[Sent, dict[str, Outcome]]]:
    """Each object with its outcomes by policy."""
    async with evaluator_of(setting.generation.kubernetes) as evaluator:
        await evaluator.install(PolicySet(1, policies=tuple(policies)))
        for one in sent:
            review, _ = request_of(one.obj, "CREATE", setting, policies, catalogue)
            yield one, {outcome.policy: outcome for outcome in await evaluator.evaluate(review)}


async def _dry_run(client: Client, sent: Sent, setting: Setting) -> tuple[dict[str, str], bool]:
    """The strongest action by native policy, and whether any denied: then others may have denied as well."""
    namespace = str(object_at(sent.obj, "metadata").get("namespace") or setting.namespace)
    denial = None
    try:
        warnings = await client.warnings(JOBSETS, sent.obj, namespace)
    except (InvalidError, ForbiddenError, AlreadyExistsError) as error:
        # JobSet's rules and webhooks refuse after all policies, and so does the object that has its name.
        warnings, denial = error.warnings, _DENIED.search(error.message)
        if denial is None and isinstance(error, ForbiddenError) and "denied the request" not in error.message:
            raise
    seen = dict.fromkeys((policy for policy, _ in warned(warnings)), str(Action.WARN))
    return seen | ({} if denial is None else {denial[1]: str(Action.DENY)}), denial is not None


def _strongest(outcome: Outcome) -> str:
    """The action that a violation has; empty where nothing is violated."""
    if not outcome.violations:
        return ""
    return str(next(action for action in (Action.DENY, Action.WARN, Action.AUDIT) if action in outcome.actions))


def _said(outcome: Outcome) -> str:
    """Everything of a verdict but the names of rules; empty where nothing is violated."""
    actions = ", ".join(sorted(outcome.actions))
    return "; ".join(f"{actions} ({finding.reason}): {finding.message}" for finding in outcome.violations)

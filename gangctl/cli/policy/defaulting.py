"""JobSets of files with the defaults that a cluster's GangPolicies give to new ones, as gangctl's webhook would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import QUEUE_NAME
from gangctl.api.objects import Object, object_at
from gangctl.api.scheduling import NEWEST
from gangctl.cli.fitting import FitSubject
from gangctl.cli.messages import full_name, note
from gangctl.cli.policy import cluster as clusters
from gangctl.cli.policy.loading import try_to_load
from gangctl.cli.policy.requests import RequestSetting, before_defaults, is_left_alone
from gangctl.cli.policy.session import Met, Session, evaluator_of
from gangctl.client.client import Client
from gangctl.client.resources import NAMESPACES
from gangctl.controllers.policy_sources import GANG_POLICIES
from gangctl.errors import ForbiddenError, NotFoundError
from gangctl.policy.defaults import is_conditional
from gangctl.policy.loaded import LoadedPolicy


@dataclass(frozen=True, slots=True)
class Defaulted:
    """A JobSet with its defaults; ``given`` names each with its policy, ``unread`` is why they are not known."""

    raw: dict[str, Any]
    given: tuple[str, ...] = ()
    unread: str = ""


async def defaulted(client: Client, subjects: Sequence[FitSubject], queue: str | None) -> list[FitSubject]:
    """JobSets for ``gangctl fit``, perhaps in the ``queue`` that is asked about, which no policy changes.

    Those that exist are as they are: defaults are given at CREATE alone.
    """
    new = [subject for subject in subjects if subject.new]
    asked = [(one.raw if queue is None else _queued(one.raw, queue), one.namespace) for one in new]
    changed = {
        id(subject): replace(
            subject,
            raw=result.raw,
            queue=queue or read_jobset(result.raw)[0].queue,
            given=result.given,
            unread=result.unread,
        )
        for subject, result in zip(new, await with_defaults(client, asked), strict=True)
        if result.given or result.unread
    }
    return [changed.get(id(subject), subject) for subject in subjects]


def _queued(raw: Object, queue: str) -> dict[str, Any]:
    metadata = object_at(raw, "metadata")
    return {**raw, "metadata": {**metadata, "labels": {**object_at(metadata, "labels"), QUEUE_NAME: queue}}}


async def with_defaults(client: Client, jobsets: Sequence[tuple[dict[str, Any], str]]) -> list[Defaulted]:
    """The JobSets, each with the namespace that it is created in; what keeps a default from being given is noted."""
    # First whether there are any: an API server forbids also what it does not serve.
    if not jobsets or not await client.discovery.serves(GANG_POLICIES):
        return [Defaulted(raw) for raw, _ in jobsets]
    try:
        policies = await clusters.all_of(client, GANG_POLICIES)
    except ForbiddenError:
        return [Defaulted(raw, unread=f"{GANG_POLICIES.plural} may not be read") for raw, _ in jobsets]
    giving = [policy for policy in policies if object_at(policy, "spec").get("defaults")]
    loaded = try_to_load(clusters.bundle_of(giving), NEWEST.kubernetes)
    for remark in loaded.remarks:
        note(f"left out: {remark.document.source}: {remark.message}")
    if not loaded.policies:
        return [Defaulted(raw) for raw, _ in jobsets]
    namespaces = await _namespaces(client, {home for _, home in jobsets}, loaded.policies)
    conditional = [policy for policy in loaded.policies if is_conditional(policy)]
    # Where no conditional policy reads the gang, it does not matter which generation is served.
    generation = (
        await clusters.generation_of(client) if any("gang" in policy.reads for policy in conditional) else NEWEST
    )
    evaluated = await clusters.evaluated_in(client)
    setting = RequestSetting(generation=generation, namespaces=namespaces, evaluated=evaluated)
    catalogue = await clusters.parameters_of(client, conditional)
    results = []
    async with evaluator_of(generation.kubernetes, log=False) as evaluator:
        session = await Session.start(evaluator, loaded, catalogue)
        for raw, home in jobsets:
            if is_left_alone(home, namespaces.get(home), evaluated):
                results.append(Defaulted(raw))
                continue
            met = await session.meet(raw, replace(setting, namespace=home))
            _note_missing(met, home)
            given = tuple(f"{path}: {source}" for path, source in met.defaults.items())
            changed = before_defaults(met.review).object or raw
            results.append(Defaulted(_placed_as(raw, changed), given) if given else Defaulted(raw))
    return results


def _placed_as(raw: Object, changed: Object) -> dict[str, Any]:
    """The changed JobSet, without a namespace where the file has none."""
    metadata = {**object_at(changed, "metadata")}
    if "namespace" not in object_at(raw, "metadata"):
        metadata.pop("namespace", None)
    return {**changed, "metadata": metadata}


async def _namespaces(client: Client, names: Iterable[str], policies: Sequence[LoadedPolicy]) -> dict[str, Object]:
    """Those of these Namespaces that exist and may be read."""
    known: dict[str, Object] = {}
    for name in sorted(names):
        try:
            known[name] = await client.get(NAMESPACES, name)
        except ForbiddenError as refused:
            if any(policy.reads_namespace for policy in policies):
                note(f"GangPolicies give defaults to {name} as to a namespace without labels of its own: {refused}")
        except NotFoundError:
            continue
    return known


def _note_missing(met: Met, home: str) -> None:
    title = full_name(home, str(met.review.request.get("name") or ""))
    for conflict in met.conflicts:
        note(f"{title}: gangctl refuses it: {conflict}")
    for finding in met.unanswered:
        why = finding.error or finding.message
        refuses = "gangctl refuses it: " if finding in met.refused else ""
        note(f"{title}: {refuses}whether it has the defaults of GangPolicy {finding.policy} is not known: {why}")

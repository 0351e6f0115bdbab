"""Checks of a cluster before an installation: objects that it would reject, and notes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.api.meta import JOBSET_GROUP
from gangctl.api.scheduling import ApiState
from gangctl.cli.cluster import ask_cluster
from gangctl.cli.install.components import COMPONENTS, Component
from gangctl.cli.install.rendering import POLICY_KINDS, Object
from gangctl.cli.messages import note
from gangctl.cli.options import ClusterFlags
from gangctl.client.client import Client
from gangctl.client.resources import MUTATING_ADMISSION_POLICIES
from gangctl.controllers.discovery import served_resources
from gangctl.errors import ClusterUnavailableError
from gangctl.gang.generation import pick_generation

_GROUPS: Final = sorted({JOBSET_GROUP} | {component.suggested_by for component in COMPONENTS if component.suggested_by})


_APIS: Final = frozenset(component.api for component in COMPONENTS)
"""That not every cluster serves."""


@dataclass(frozen=True, slots=True)
class Served:
    """Facts of the cluster: the state of its scheduling API, and the versions of each group."""

    state: ApiState
    versions: Mapping[str, tuple[str, ...]]
    policies: bool = True
    """MutatingAdmissionPolicies, as v1."""

    def has(self, api: str) -> bool:
        """Whether GROUP/VERSION is served."""
        group, _, version = api.partition("/")
        return version in self.versions.get(group, ())

    def may_have(self, item: Object) -> bool:
        """Whether the kind of an object of gangctl is served."""
        if item["kind"] in POLICY_KINDS:
            return self.policies
        return item["apiVersion"] not in _APIS or self.has(item["apiVersion"])


def look(cluster: ClusterFlags) -> Served:
    """What a cluster serves, by discovery alone, which every user may do."""
    return ask_cluster(cluster, _look)


def check(served: Served, names: Iterable[str]) -> None:
    """Print notes about an installation with these components.

    ClusterUnavailableError for objects of kinds that the API server does not serve.
    """
    wanted = set(names)
    chosen = [component for component in COMPONENTS if component.name in wanted]
    for text in _advice(served, chosen):
        note(text)
    for component in chosen:
        if component.api and not served.has(component.api):
            hint = f"install {component.needs} first, or leave --component {component.name} out"
            message = f"component {component.name}: the cluster does not serve {component.api}, so it would refuse its"
            raise ClusterUnavailableError(f"{message} objects", hint=hint)


async def _look(client: Client, _namespace: str) -> Served:
    state = pick_generation(await served_resources(client))
    versions = await asyncio.gather(*map(client.discovery.group_versions, _GROUPS))
    policies = await client.discovery.serves(MUTATING_ADMISSION_POLICIES)
    return Served(state, dict(zip(_GROUPS, map(tuple, versions), strict=True)), policies)


def _advice(served: Served, chosen: Sequence[Component]) -> list[str]:
    """Notes, one sentence each."""
    notes = []
    generation = served.state.generation
    if generation is None:
        notes.append(f"no gang can be made in this cluster yet: {served.state.reason}")
    else:
        notes.append(
            f"the cluster serves {generation.api_version}; gangctl finds that out by itself, also after upgrades"
        )
    if not served.versions.get(JOBSET_GROUP):
        notes.append(f"the cluster does not serve {JOBSET_GROUP}: gangctl waits until JobSet is installed")
    if not served.policies:
        notes.append(
            f"the cluster does not serve {MUTATING_ADMISSION_POLICIES.qualified_name} as v1 (Kubernetes 1.36 and newer "
            "do): without the policy for Jobs, which is left out, the Jobs of gangs wait for gangctl"
        )
    for component in chosen:
        if component.suggested_by and not component.api and not served.versions.get(component.suggested_by):
            notes.append(f"component {component.name} does nothing before {component.needs} is installed")
    for component in COMPONENTS:
        group = component.suggested_by
        if component not in chosen and group and served.versions.get(group):
            notes.append(f"the cluster serves {group}: --component {component.name} adds {component.adds}")
    return notes

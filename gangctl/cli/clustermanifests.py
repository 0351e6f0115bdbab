"""JobSets of files beside a cluster: its rules, the defaults of its policies and its nodes, in one connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gangctl.api.jobset import read_jobset
from gangctl.cli.cluster import ask_cluster, discover_rules
from gangctl.cli.kueuecluster import read_device_classes, read_pod_surroundings, take
from gangctl.cli.manifests import Manifest, PlanQuestion, read_manifests
from gangctl.cli.messages import note
from gangctl.client.client import Client
from gangctl.client.resources import NODES
from gangctl.errors import ForbiddenError
from gangctl.fit.nodes import too_large
from gangctl.gang.resolve import ClusterRules


def read_beside_cluster(
    question: PlanQuestion, *, with_defaults: bool, sizes: bool
) -> tuple[ClusterRules, list[Manifest]]:
    """The cluster's rules, and the JobSets as it would store new ones; ``sizes`` notes pods larger than its nodes."""

    async def ask(client: Client, own_namespace: str) -> tuple[ClusterRules, list[Manifest]]:
        home = question.namespace or own_namespace
        rules = question.rules(await discover_rules(client, home))
        manifests = read_manifests(question.filenames, question.namespace, rules)
        if with_defaults:
            manifests = await _defaulted(client, home, manifests)
        if sizes:
            await _note_what_is_too_large(client, home, manifests)
        return rules, manifests

    # In one connection, because an exec plugin runs for each.
    return ask_cluster(question.cluster, ask)


def _is_right(manifest: Manifest) -> bool:
    return manifest.readable and not manifest.errors


async def _defaulted(client: Client, home: str, manifests: Sequence[Manifest]) -> list[Manifest]:
    """With the defaults of policies; a JobSet with a UID exists, and one with errors is not created."""
    new = [manifest for manifest in manifests if _is_right(manifest) and not manifest.jobset.uid]
    if not new:
        return [*manifests]
    from gangctl.cli.policy.defaulting import with_defaults  # noqa: PLC0415 -- the compiler is large

    homes = ((manifest.raw, manifest.jobset.namespace or home) for manifest in new)
    changed = {}
    unread = ""
    for manifest, result in zip(new, await with_defaults(client, list(homes)), strict=True):
        # It is the same of all: the policies of a cluster are read once.
        unread = result.unread
        for text in result.given:
            note(f"{manifest.title}: {text}")
        if result.given:
            # The name that a generateName stands for is a placeholder, which the object itself does not have.
            jobset = replace(read_jobset(result.raw)[0], name=manifest.jobset.name, namespace=manifest.jobset.namespace)
            changed[id(manifest)] = replace(manifest, raw=result.raw, jobset=jobset)
    if unread:
        note(f"defaults of GangPolicies are not known: {unread}")
    return [changed.get(id(manifest), manifest) for manifest in manifests]


async def _note_what_is_too_large(client: Client, home: str, manifests: Sequence[Manifest]) -> None:
    """Note pods that are larger than any node of the cluster."""
    right = [manifest for manifest in manifests if _is_right(manifest)]
    places = [manifest.jobset.namespace or home for manifest in right]
    stock = await read_pod_surroundings(client, places)
    try:
        await take(client, stock, NODES)
    except ForbiddenError as refused:
        note(f"whether a node is large enough is not known: {refused}")
        return
    await read_device_classes(client, stock)
    for manifest, namespace in zip(right, places, strict=True):
        surroundings, devices = stock.snapshot.surroundings(namespace), stock.devices(namespace, lambda _: False)
        for why in too_large(manifest.raw, stock.nodes, surroundings, devices):
            note(f"{manifest.title}: {why}")

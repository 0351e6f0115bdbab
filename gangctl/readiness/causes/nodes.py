"""Pods on nodes that cannot be counted on any more."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Context, Finding, listed, oldest, some
from gangctl.readiness.facts import NodeFacts, PodFacts
from gangctl.readiness.membership import Group


def node_lost(context: Context) -> Iterator[Finding]:
    """Pods on nodes that are not ready, or gone; those that should end there never do by themselves."""
    nodes = context.snapshot.nodes
    if nodes is None:
        return
    found: list[tuple[Group, PodFacts]] = []
    for group in context.groups:
        for pod in (*group.pods, *group.leaving, *group.earlier):
            node = nodes.get(pod.node)
            if pod.node and (node is None or not node.ready):
                found.append((group, pod))
    if not found:
        return
    names = sorted({pod.node for _, pod in found})
    lost = [nodes[name] for name in names if name in nodes]
    since = oldest(node.since for node in lost)
    leaving = [pod.name for _, pod in found if pod.deleting]
    yield context.cause(
        Reason.NODE_LOST,
        f"{some(len(found), 'pod')} {'is' if len(found) == 1 else 'are'} on "
        f"{'a node that is' if len(names) == 1 else 'nodes that are'} not ready or gone: {listed(names)}",
        evidence=[
            *(_state(context, node) for node in lost[:4]),
            *(f"node {name} does not exist" for name in names if name not in nodes),
        ][:6]
        + ([f"terminating there, which only the node can confirm: {listed(leaving)}"] if leaving else []),
        remedy="bring the node back, or delete it (or taint it out-of-service) once it is surely off:"
        " its pods are replaced then",
        command=f"kubectl describe node {quote(names[0])}",
        groups=[group for group, _ in found],
        pods=len(found),
        since=since,
    )


def _state(context: Context, node: NodeFacts) -> str:
    since = f", {context.lasting(node.since)}" if node.since else ""
    return f"node {node.name} is not ready{f' ({node.reason})' if node.reason else ''}{since}"

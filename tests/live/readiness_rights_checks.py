"""What the rights for readiness are for, as in :mod:`tests.live.rights_checks`: without it, and with it again.

What may not be read is not explained. gangctl is ready without it, makes gangs, and says what it may not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from gangctl.api.meta import API_VERSION
from gangctl.policy.export import export
from gangctl.policy.load import load_policy
from gangctl.policy.model import POLICY_KIND
from tests.controlplane.api import path_of
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import read_until
from tests.live.observe import gang_of, pods_refused
from tests.live.rights import Right
from tests.live.rights_stage import Stage


async def _is(stage: Stage, number: int, name: str, **labels: str) -> None:
    """Wait until a metric has the value."""
    await read_until(
        lambda: stage.gangctl.metric(name, labels), lambda value: value == number, f"{name} of {labels} to be {number}"
    )


async def _blocked(stage: Stage, reason: str, number: int = 1) -> None:
    await _is(stage, number, "gangctl_gangs_blocked", namespace=stage.cluster.namespace, reason=reason)


async def _restart(stage: Stage, rights: tuple[Right, ...]) -> None:
    """It becomes ready, and reports the missing right."""
    await stage.gangctl.process.stop()
    await stage.start()
    for right in rights:
        await stage.reported(right)


async def _refuse_pods(stage: Stage) -> None:
    """A JobSet whose pods a quota refuses."""
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await stage.api.create(stage.cluster.path("v1", "resourcequotas"), quota)
    await pods_refused(stage.cluster, "exceeded quota")
    await stage.jobset()
    await gang_of(stage.cluster, "js")


async def watches_pods(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """The JobSets are counted, and gangs are made; which pods there are is seen once they may be watched."""
    yield
    await _restart(stage, rights)
    await stage.jobset()
    await gang_of(stage.cluster, "js")
    yield
    await _is(stage, 2, "gangctl_gang_pods", namespace=stage.cluster.namespace, state="unscheduled")


async def reads_nodes(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Gangs are counted all the same; nodes are known once they may be read."""
    yield
    await _restart(stage, rights)
    await stage.jobset()
    await _is(stage, 2, "gangctl_gang_pods", namespace=stage.cluster.namespace, state="unscheduled")
    assert await stage.gangctl.metric("gangctl_informer_synced", {"resource": "nodes"}) == 0
    yield
    await _is(stage, 1, "gangctl_informer_synced", resource="nodes")


async def watches_nodes(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Those that there were at the start are known, and those that come are seen once they may be watched."""
    yield
    await _restart(stage, rights)
    await _is(stage, 1, "gangctl_informer_synced", resource="nodes")
    yield
    before = await stage.gangctl.metric("gangctl_informer_objects", {"resource": "nodes"})
    nodes = await add_nodes(stage.api, 1, cpu="1")
    try:
        await _is(stage, int(before) + 1, "gangctl_informer_objects", resource="nodes")
    finally:
        await remove_nodes(stage.api, nodes)


async def reads_events(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """That pods are missing is known, and not why."""
    yield
    await _restart(stage, rights)
    await _refuse_pods(stage)
    await _is(stage, 1, "gangctl_gangs", namespace=stage.cluster.namespace, phase="waitingforpods")
    await _blocked(stage, "PodCreationRefused", 0)
    yield
    await _blocked(stage, "PodCreationRefused")


async def watches_events(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Why is known once they may be watched."""
    yield
    await _restart(stage, rights)
    yield
    await _refuse_pods(stage)
    await _blocked(stage, "PodCreationRefused")


async def reads_exported_policies(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """gangctl is ready and evaluates all policies; what was exported is known once it may be read."""
    yield
    await _restart(stage, rights)
    for right in rights:
        assert await stage.gangctl.metric("gangctl_informer_synced", {"resource": _qualified(right)}) == 0
    yield
    for right in rights:
        await _is(stage, 1, "gangctl_informer_synced", resource=_qualified(right))


async def watches_exported_policies(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """What there was at the start is known, and what comes is seen once it may be watched."""
    yield
    await _restart(stage, rights)
    for right in rights:
        await _is(stage, 1, "gangctl_informer_synced", resource=_qualified(right))
    yield
    spec = {"validations": [{"expression": "true"}], "validationActions": ["Audit"]}
    document = {"apiVersion": API_VERSION, "kind": POLICY_KIND, "metadata": {"name": "seen"}, "spec": spec}
    for right, made in zip(rights, export(load_policy(document)).objects, strict=True):
        path = path_of("admissionregistration.k8s.io/v1", right.resource)
        await stage.api.create(path, dict(made))
        try:
            await _is(stage, 1, "gangctl_informer_objects", resource=_qualified(right))
        finally:
            await stage.api.delete(f"{path}/seen")


def _qualified(right: Right) -> str:
    return f"{right.resource}.{right.group}"

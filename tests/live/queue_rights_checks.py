"""What the rights for Kueue are for, as in :mod:`tests.live.rights_checks`: without it, and with it again.

What cannot be read makes no verdict wrong: it is unknown. gangctl is ready without it, and says what it may not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

from tests.controlplane.api import ApiFailure
from tests.controlplane.wait import read_until, wait_for
from tests.live import kueue
from tests.live.observe import said
from tests.live.policy_rights_checks import WITH_LIMITS, policies
from tests.live.rights import Right
from tests.live.rights_stage import Stage


async def _queue(stage: Stage) -> None:
    """A queue of two CPUs."""
    await kueue.make_queue(stage.cluster, {f"f-{stage.cluster.namespace[-20:]}": 2})


async def _counted(stage: Stage, verdict: str) -> None:
    """Wait until one JobSet of the namespace is counted with this verdict."""
    labels = {"namespace": stage.cluster.namespace, "verdict": verdict}

    await read_until(
        lambda: stage.gangctl.metric("gangctl_fit_verdicts", labels),
        lambda value: value == 1,
        f"one JobSet to be {verdict}",
    )


async def _restart(stage: Stage, rights: tuple[Right, ...]) -> None:
    """It becomes ready, and reports the missing right."""
    await stage.start()
    for right in rights:
        await stage.reported(right)


async def reads_queues(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Whether a JobSet can ever be admitted is unknown until the objects can be read."""
    await _queue(stage)
    await stage.gangctl.process.stop()
    yield
    await _restart(stage, rights)
    await stage.cluster.create_jobset(kueue.queued("big", 3))
    await _counted(stage, "unknown")
    assert "NeverFits" not in await stage.cluster.reasons("big")
    yield
    await said(stage.cluster, "NeverFits", "big")


async def watches_queues(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """What there was at the start is known, and changes are not seen until it may be watched."""
    await _queue(stage)
    await stage.gangctl.process.stop()
    yield
    await _restart(stage, rights)
    yield
    name = f"cq-{stage.cluster.namespace[-20:]}"
    await stage.cluster.create_jobset(kueue.queued("big", 3))
    await _counted(stage, "never")
    await stage.api.patch(kueue.path("clusterqueues", name), {"spec": {"stopPolicy": "Hold"}})
    await _counted(stage, "blocked")


async def reads_configurations(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without Kueue's configuration there is no never, and a policy without its parameters reports it."""
    async with policies(stage) as made:
        await made.limits()
        await _queue(stage)
        await stage.gangctl.process.stop()
        yield
        await stage.start()
        await stage.cluster.create_jobset(kueue.queued("big", 3))
        await made.create(**WITH_LIMITS)
        for right in rights:
            await stage.reported(right)
        await made.has_status(made.policy, "ParametersUnavailable")
        await _counted(stage, "unknown")
        assert "NeverFits" not in await stage.cluster.reasons("big")
        yield
        await made.has_status(made.policy)
        await said(stage.cluster, "NeverFits", "big")


async def watches_configurations(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """A parameter that is changed is not seen, nor what becomes of Kueue's configuration."""
    async with policies(stage) as made:
        await made.limits()
        await _queue(stage)
        await stage.gangctl.process.stop()
        yield
        await stage.start()
        await made.create(**WITH_LIMITS, failurePolicy="Fail")
        for right in rights:
            await stage.reported(right)
        await made.has_status(made.policy)
        # The right for all of them is one for Kueue's as well: it is the watch of this one that counts.
        limits = replace(rights[0], name="limits")
        await stage.blind(limits)
        path = stage.cluster.path("v1", "configmaps", "limits")
        await stage.api.patch(path, {"data": {"jobs": "0"}})
        await stage.unseen(await _refused(stage), replace(limits, name=""))
        yield
        await wait_for(lambda: _refused(stage), "the change to be seen")


async def _refused(stage: Stage) -> bool:
    try:
        await stage.cluster.create_jobset(kueue.queued("big", 3), dry_run=True)
    except ApiFailure as failure:
        return "no jobs at all" in failure.message
    return False

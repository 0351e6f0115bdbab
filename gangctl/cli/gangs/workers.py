"""The worker clusters on which MultiKueue runs gangs: each is read as if it had been asked in its own context."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from gangctl.api.objects import Key
from gangctl.cli.cluster import connected
from gangctl.cli.gangs.asking import Asking
from gangctl.cli.gangs.cluster import Reader, Scope
from gangctl.cli.gangs.state import GangState
from gangctl.cli.messages import note
from gangctl.cli.options import Worker
from gangctl.errors import ApiError, ClusterUnavailableError
from gangctl.kueue.names import MULTIKUEUE_ORIGIN

More = Callable[[Reader, list[Key]], Awaitable[None]]


async def read_workers(
    asking: Asking, state: GangState, keys: Sequence[Key], more: More | None
) -> dict[Key, GangState]:
    """The states of the worker clusters that run these gangs, by gang; ``more`` reads further objects of each.

    A cluster that does not answer is left out, with a note. Raises ConfigError if the kubeconfig lacks a context.
    """
    found = await asyncio.gather(
        *(
            _read(asking, worker, own, more)
            for worker in asking.workers
            if (own := [key for key in keys if state.cluster_of(key) == worker.name])
        )
    )
    return {key: there for each in found for key, there in each.items()}


async def _read(asking: Asking, worker: Worker, keys: Sequence[Key], more: More | None) -> dict[Key, GangState]:
    namespaces = {namespace for namespace, _ in keys}
    scope = Scope(namespaces.pop() if len(namespaces) == 1 else None, tuple({name: None for _, name in keys}))
    try:
        async with connected(replace(asking.cluster, context=worker.context)) as (client, _):
            reader = Reader(client, scope, kueue_namespace=asking.kueue_namespace, worker=worker)
            state = await reader.read()
            copies = [key for key in keys if _is_copy(state, key)]
            if more is not None:
                await more(reader, copies)
    except (ApiError, ClusterUnavailableError) as error:
        note(f"worker cluster {worker.name} cannot be read: {error}")
        return {}
    return dict.fromkeys(copies, state)


def _is_copy(state: GangState, key: Key) -> bool:
    """Whether there is a JobSet of this name that MultiKueue made."""
    found = state.jobsets.get(*key)
    return found is not None and MULTIKUEUE_ORIGIN in (found.raw["metadata"].get("labels") or {})

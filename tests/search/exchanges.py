"""What functions are exchanged for in mutants of gangctl: each makes a function from the one in its place."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from gangctl.controllers import caches
from gangctl.errors import ApiError
from gangctl.gang.desired import Assessment, Lifecycle
from gangctl.gang.diff import Change, Create, Delete, Difference, SetMinCounts
from gangctl.manager import webhooks
from gangctl.sandbox import controllers
from gangctl.sandbox.errors import StatusError
from gangctl.webhooks.configurations import JOBS_NAME

Exchange = Callable[[Any], Any]
"""Makes a function from the one in its place."""


def changing(change: Callable[[Sequence[Change]], Sequence[Change]]) -> Exchange:
    """Of a function that returns a difference."""

    def exchange(original: Callable[..., Difference]) -> Callable[..., Difference]:
        def mutated(*args: Any, **kwargs: Any) -> Difference:
            difference = original(*args, **kwargs)
            return replace(difference, changes=tuple(change(difference.changes)))

        return mutated

    return exchange


def without_terminating(changes: Sequence[Change]) -> Sequence[Change]:
    return [change for change in changes if not isinstance(change, SetMinCounts) or not change.observed.deleting]


def with_full_counts(changes: Sequence[Change]) -> Sequence[Change]:
    def full(change: Change) -> Change:
        wanted: Any = change.wanted if isinstance(change, Create) else None
        if not isinstance(change, Create) or change.kind != "PodGroup":
            return change
        return replace(change, wanted=wanted._replace(min_count=wanted.template.min_count))

    return [full(change) for change in changes]


def deletes_last(changes: Sequence[Change]) -> Sequence[Change]:
    return sorted(changes, key=lambda change: isinstance(change, Delete))


def groups_first(changes: Sequence[Change]) -> Sequence[Change]:
    return sorted(changes, key=lambda change: change.kind == "Workload")


def finished_groups_stay(original: Callable[..., Any]) -> Callable[..., Any]:
    def mutated(desired: Any, plan: Any, existing: Any) -> Any:
        return original(desired, replace(plan, finished=frozenset()), existing)

    return mutated


def ignoring(keyword: str) -> Exchange:
    def exchange(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop(keyword, None)
            return original(*args, **kwargs)

        return mutated

    return exchange


def like_a_counted_job(original: Callable[..., int]) -> Callable[..., int]:
    def mutated(parallelism: int | None, completions: int | None, **kwargs: int) -> int:
        if completions is None:
            completions = 1 if parallelism is None else parallelism
        return original(parallelism, completions, **kwargs)

    return mutated


def without_attempt(original: Callable[..., Any]) -> Callable[..., Any]:
    def mutated(base: str, uid: str, attempt: int, *args: Any, **kwargs: Any) -> Any:
        return original(base, uid, attempt * 0, *args, **kwargs)

    return mutated


def untouched_in_deletion(original: Callable[..., Assessment]) -> Callable[..., Assessment]:
    def mutated(jobset: Any, *args: Any, **kwargs: Any) -> Assessment:
        return Assessment(Lifecycle.UNTOUCHED, None) if jobset.deleting else original(jobset, *args, **kwargs)

    return mutated


def kept_in_a_queue(original: Callable[..., Assessment]) -> Callable[..., Assessment]:
    def mutated(jobset: Any, *args: Any, **kwargs: Any) -> Assessment:
        assessment = original(jobset, *args, **kwargs)
        retired = jobset.suspend and assessment.lifecycle is Lifecycle.RETIRED
        return replace(assessment, lifecycle=Lifecycle.KEPT) if retired else assessment

    return mutated


def orphans_are_foreign(_original: object) -> Callable[..., str | None]:
    def mutated(self: caches.GangCaches, namespace: str, jobset: str) -> str | None:
        claims = self._store("Workload").by_index("claims", (namespace, jobset))
        return next((observed.name for observed in claims if observed.owner_jobset != jobset), None)

    return mutated


def constantly(value: object) -> Exchange:
    return lambda _original: lambda *_args, **_kwargs: value


def fixed(value: object) -> Exchange:
    return lambda _original: value


def every_update(hooks: Sequence[Any]) -> Sequence[Any]:
    """Webhooks that are called for every UPDATE of what is about gangs."""
    return tuple(replace(hook, conditions=hook.conditions[:1]) for hook in hooks)


def without_net(original: Callable[..., list[dict[str, Any]]]) -> Callable[..., list[dict[str, Any]]]:
    def mutated(self: webhooks.Webhooks, authorities: bytes) -> list[dict[str, Any]]:
        wanted = original(self, authorities)
        return [one for one in wanted if not (self._gangs.state.policies and one["metadata"]["name"] == JOBS_NAME)]

    return mutated


def unregisters_all(_original: object) -> Callable[..., Coroutine[Any, Any, None]]:
    async def mutated(self: webhooks.Webhooks) -> None:
        with suppress(ApiError):
            await self._registrar.unregister(self._wanted(b""))

    return mutated


def with_any_replica(original: Callable[..., Any]) -> Callable[..., Any]:
    def mutated(flags: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        asked = bool(flags.get("unregister_on_exit"))
        settings = original({**flags, "unregister_on_exit": False}, *args, **kwargs)
        return settings.model_copy(update={"unregister_on_exit": asked})

    return mutated


def ends_with_an_error(_original: object) -> Callable[..., Coroutine[Any, Any, None]]:
    async def mutated(self: controllers.SandboxController[Any]) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self.reconcile(key)
            except StatusError as error:
                if error.code != HTTPStatus.NOT_FOUND:
                    self.queue.add_failed(key)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)

    return mutated

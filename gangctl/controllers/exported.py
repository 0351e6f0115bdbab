"""Which GangPolicies API servers evaluate themselves: those whose exported objects are in the cluster, and equal.

gangctl leaves these out at admission, and still scans existing JobSets with them. It may not read the two kinds in an
older installation; then it evaluates everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gangctl.api.objects import Object, object_at
from gangctl.client.client import Client, Selection
from gangctl.client.resources import Resource
from gangctl.controllers.caches import Observer
from gangctl.controllers.source import RETRY_SECONDS, InformerSource
from gangctl.policy.export import EXPORTED_LABEL, difference, origin_of
from gangctl.policy.loaded import LoadedException, LoadedPolicy
from gangctl.policy.native import BINDING_KIND, GROUP, POLICY_KIND, Pair, pair
from gangctl.runtime.informer import Informer, InformerObserver, InformerOptions

VALIDATING_ADMISSION_POLICIES: Final = Resource(
    GROUP, "v1", "validatingadmissionpolicies", POLICY_KIND, namespaced=False
)
VALIDATING_ADMISSION_POLICY_BINDINGS: Final = Resource(
    GROUP, "v1", "validatingadmissionpolicybindings", BINDING_KIND, namespaced=False
)
SETTLE_SECONDS: Final = 30.0
"""How old a change has to be: every API server knows it then."""
_UNSETTLED: Final = "it is new, and some API server may not know it yet"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is exported at one time.

    ``differences`` is by GangPolicy: empty where API servers evaluate it, else why they do not do all that gangctl
    does. ``bound`` are those of which API servers evaluate anything. ``seconds`` is when to look again, None where only
    a change of an object matters.
    """

    differences: Mapping[str, str] = field(default_factory=dict)
    bound: frozenset[str] = frozenset()
    seconds: float | None = None

    @property
    def names(self) -> frozenset[str]:
        """The GangPolicies that API servers evaluate."""
        return frozenset(name for name, why in self.differences.items() if not why)


class ExportedPolicies:
    """The informers; ``on_change`` is called whenever :meth:`standing` may have changed."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], None],
        *,
        namespaces: Iterable[Mapping[str, Any]] = (),
        observer: Observer = lambda _: InformerObserver(),
        options: InformerOptions | None = None,
    ) -> None:
        """``namespaces`` are the ``matchExpressions`` of the namespaces that gangctl evaluates."""
        self._namespaces = [*namespaces]
        self._sources = [
            InformerSource(
                client,
                resource,
                _typed(resource),
                observer=observer(resource),
                on_change=on_change,
                options=options or InformerOptions(cap_delay_seconds=RETRY_SECONDS),
                selection=Selection(label_selector=f"{EXPORTED_LABEL}=true"),
            )
            for resource in (VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS)
        ]
        for source in self._sources:
            source.informer.subscribe(lambda *_: on_change())

    @property
    def informers(self) -> list[Informer[Object]]:
        """Both."""
        return [source.informer for source in self._sources]

    async def settled(self) -> None:
        """Wait until both were read, or cannot be read."""
        for source in self._sources:
            await source.settled.wait()

    async def run(self) -> None:
        """Keep everything current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())

    def standing(
        self, policies: Iterable[LoadedPolicy], exceptions: Iterable[LoadedException], now: datetime
    ) -> Standing:
        """Compare the policies in force with what was exported from them."""
        # With one kind unread nothing counts as exported: to evaluate twice is harmless, not to evaluate is not.
        if not all(source.known for source in self._sources):
            return Standing()
        natives = pair(obj for source in self._sources for obj in source.store.values())[0]
        exceptions = [*exceptions]
        differences: dict[str, str] = {}
        waits: list[float] = []
        for policy in policies:
            for native in (native for native in natives if origin_of(native.policy) == policy.name):
                # One binding that is equal is enough.
                if differences.get(policy.name) == "":
                    break
                why = difference(policy, exceptions, native, self._namespaces)
                if not why and (wait := SETTLE_SECONDS - (now - _changed(native)).total_seconds()) > 0:
                    waits.append(wait)
                    why = _UNSETTLED
                differences[policy.name] = why
        bound = frozenset(origin_of(native.policy) for native in natives if native.binding is not None)
        return Standing(differences, bound, min(waits, default=None))


def _typed(resource: Resource) -> Callable[[Object], Object]:
    """The projection that adds apiVersion and kind: items of a list have none. managedFields stay, for their times."""
    return lambda raw: {**raw, "apiVersion": resource.api_version, "kind": resource.kind}


def _changed(native: Pair) -> datetime:
    """When metadata or spec of one of the two changed last."""
    times = []
    for one in (native.policy, native.binding):
        metadata = object_at(one or {}, "metadata")
        fields = metadata.get("managedFields") or ()
        # The status has the result of the API server's type checking, which changes nothing that is enforced.
        times += [entry.get("time") for entry in fields if not entry.get("subresource")]
        times.append(metadata.get("creationTimestamp"))
    return max(datetime.fromisoformat(time) for time in times if time)

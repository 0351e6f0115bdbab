"""Sources used by readiness alone: pods of JobSets, nodes, refusals, and the state of a JobSet in Kueue.

Only the leader follows them. There are 100,000 pods for 10,000 JobSets, so a standby keeps none of it, and a replica
that stops leading forgets it. Permission for nodes and refusals is optional: without it, less is explained. Without
pods nothing is known.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from gangctl.api.jobset import JobSet
from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Key
from gangctl.api.pods import FAILED, UNFINISHED
from gangctl.api.store import Store
from gangctl.client.client import EVERYTHING, Client, Selection
from gangctl.client.resources import EVENTS, NODES, PODS, Resource
from gangctl.cluster import members
from gangctl.controllers.caches import Observer
from gangctl.controllers.queues.view import QueueView
from gangctl.controllers.source import RETRY_SECONDS, InformerSource
from gangctl.kueue.queues import Never, QueueFacts
from gangctl.readiness.facts import (
    REFUSING_KINDS,
    EndedPod,
    NodeFacts,
    PodFacts,
    Refused,
    read_ended,
    read_node,
    read_pod,
    read_refusal,
)
from gangctl.runtime.informer import Informer, InformerObserver, InformerOptions
from gangctl.runtime.pernamespace import Namespaces, PerNamespaceInformer
from gangctl.runtime.shards import Share


class QueueStatuses:
    """Answers from ``view``; ``never`` returns why a JobSet can never be admitted, where that was found."""

    def __init__(self, view: QueueView, never: Callable[[Key], Never | None]) -> None:
        """Nothing is kept here."""
        self._view = view
        self._never = never

    @property
    def kueue(self) -> bool | None:
        """Whether the cluster has Kueue; None while that is not known."""
        return self._view.known

    def of(self, jobset: JobSet, pods: int, now: datetime) -> QueueFacts | None:
        """The facts of a JobSet with this many pods left; None without a queue, and without Kueue."""
        return self._view.facts_of(jobset, pods, now, never=lambda *key: self._never(key), kept=True)


class ActiveNamespaces:
    """Follows JobSets from the moment it is made."""

    def __init__(self, jobsets: Informer[JobSet], share: Share) -> None:
        """Count the namespaces of ``jobsets``."""
        self._share = share
        self._jobsets: Counter[str] = Counter()
        self._on_change: list[Callable[[], None]] = []
        jobsets.subscribe(self._count)

    def current(self) -> list[str]:
        """Their names at the moment."""
        return [namespace for namespace in self._jobsets if self._share.holds(namespace)]

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call this when a namespace gets its first JobSet, or has lost its last."""
        self._on_change.append(on_change)

    def _count(self, old: JobSet | None, new: JobSet | None) -> None:
        jobset = new or old
        if jobset is None or (old is not None and new is not None):
            return
        namespace = jobset.namespace
        self._jobsets[namespace] += 1 if new is not None else -1
        if not self._jobsets[namespace]:
            del self._jobsets[namespace]
        elif self._jobsets[namespace] > 1 or new is None:
            return
        for call in self._on_change:
            call()


T = TypeVar("T")

PAGE_SIZE: Final = 250
"""The garbage collector walks all of a larger page of pods while it is decoded."""
# Jobs count succeeded pods. With the selector, a pod that finishes leaves the watch as if it were deleted.
_OF_JOBSETS: Final = Selection(JOBSET_NAME, UNFINISHED)
# Jobs count those that fail, too, and do not say why they did.
_FAILED: Final = Selection(JOBSET_NAME, FAILED)


class ReadinessSources:
    """All sources; ``on_known`` is called whenever a source becomes readable."""

    def __init__(
        self,
        client: Client,
        on_known: Callable[[], None] = lambda: None,
        *,
        observer: Observer = lambda _: InformerObserver(),
        retry_seconds: float = RETRY_SECONDS,
        namespaces: Namespaces | None = None,
    ) -> None:
        """Follow nothing yet; pods and refusals of these ``namespaces`` only, if not of all."""
        self._namespaces = namespaces
        self._client = client
        self._on_known = on_known
        self._observer = observer
        self._options = InformerOptions(page_size=PAGE_SIZE, cap_delay_seconds=retry_seconds)
        self.all: list[InformerSource[Any]] = []
        """Every source."""
        self.pods: InformerSource[PodFacts] = self._source(PODS, read_pod, members.pod_store(), _OF_JOBSETS)
        # Not quoted: the controller stores it where others read it than those who may read logs.
        self.failed: InformerSource[EndedPod] = self._source(
            PODS, partial(read_ended, quoted=False), members.ended_store(), _FAILED
        )
        self.nodes: InformerSource[NodeFacts] = self._source(NODES, read_node)
        # By field labels that every server of events.k8s.io/v1 supports.
        refusing = [Selection(field_selector=f"reason={why},regarding.kind={of}") for why, of in REFUSING_KINDS.items()]
        self.refusals: tuple[InformerSource[Refused], ...] = tuple(
            self._source(EVENTS, read_refusal, members.refusal_store(), selection) for selection in refusing
        )
        # Kept beside the store, whose keys have a namespace: each check of a gang asks for all nodes by name.
        self._node_facts: dict[str, NodeFacts] = {}
        self.nodes.informer.subscribe(self._keep_node)

    def pods_of(self, key: Key) -> list[PodFacts]:
        """Pods of JobSets of this name that have not finished."""
        return self.pods.store.by_index("jobset", key)

    def failed_of(self, key: Key) -> list[EndedPod]:
        """Pods of JobSets of this name that have failed."""
        return self.failed.store.by_index("jobset", key)

    def gangs_on(self, node: str) -> dict[Key, None]:
        """JobSets that have pods on a node."""
        return dict.fromkeys((pod.namespace, pod.jobset) for pod in self.pods.store.by_index("node", node))

    def nodes_by_name(self) -> Mapping[str, NodeFacts] | None:
        """Every node as it is now, None without permission to read nodes."""
        return self._node_facts if self.nodes.known else None

    def refused(self, namespace: str, kind: str, name: str) -> Refused | None:
        """The last refusal of an object."""
        return members.last_refusal((source.store for source in self.refusals), namespace, kind, name)

    async def known(self) -> None:
        """Wait until all pods are synced, and the rest as far as it may be read."""
        # Not only settled: without its pods each gang would be reported as incomplete.
        await self.pods.informer.synced.wait()
        for source in self.all:
            await source.settled.wait()

    async def run(self) -> None:
        """Keep all of it current until cancelled, and then forget it."""
        try:
            async with asyncio.TaskGroup() as group:
                for source in self.all:
                    group.create_task(source.informer.run(), name=f"readiness-{source.informer.resource.plural}")
        finally:
            self.forget()

    def forget(self) -> None:
        """Drop everything; not while it runs."""
        for source in self.all:
            source.forget()
        self._node_facts.clear()

    def _source(
        self,
        resource: Resource,
        project: Callable[[dict[str, Any]], T | None],
        store: Store[T] | None = None,
        selection: Selection = EVERYTHING,
    ) -> InformerSource[T]:
        kind: Callable[..., Informer[T]] = Informer[T]
        if self._namespaces is not None and resource.namespaced:
            kind = partial(PerNamespaceInformer[T], namespaces=self._namespaces)
        source = InformerSource(
            self._client,
            resource,
            project,
            observer=self._observer(resource),
            on_change=self._on_known,
            informer=kind,
            store=store,
            selection=selection,
            options=self._options,
        )
        self.all.append(source)
        return source

    def _keep_node(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        if new is not None:
            self._node_facts[new.name] = new
        elif old is not None:
            self._node_facts.pop(old.name, None)

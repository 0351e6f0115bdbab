"""Kueue's objects of one cluster, and the answers from them: for controllers, webhooks, policies and commands.

Informers, a listing or files bring the objects. The cost of a change depends on the changed object, not on the size of
the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.objects import Key, Object
from gangctl.api.store import Entry, Store
from gangctl.client.resources import Resource
from gangctl.cluster import kinds
from gangctl.fit.clusterstate import ClusterSnapshot, FitRequest, Held
from gangctl.fit.quotas import Quotas
from gangctl.fit.report import FitReport, never_of
from gangctl.fit.verdict import fit
from gangctl.gang.reasons import Reason
from gangctl.kueue.amounts import age
from gangctl.kueue.blocked import (
    NAME_A_QUEUE,
    UNQUEUED,
    Blocked,
    JobFacts,
    ReadyTimeouts,
    Stuck,
    blocked,
    selected,
    stuck_at,
    stuck_workload,
    without_workload,
)
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.consistency import check_stored
from gangctl.kueue.objects import ClusterQueue, Cohort, LocalQueue, QueuedWorkload
from gangctl.kueue.queues import Head, Never, QueueFacts, current, find_head, is_queued, may_be_admitted, pods_ready

LocalQueueKey = tuple[str, str]
"""Namespace and LocalQueue, there or not."""
Nevers = Callable[[str, str], Never | None]
"""Why the JobSet of a namespace and name can never be admitted, empty if that is not known."""


HEAD_SECONDS: Final = 5.0
"""How long a head is cached, unless its Workload changes, or one comes that goes before it."""


class Queues:
    """All objects; what fills it calls :meth:`keep`, after the object is in its store, if it has one."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC), *, masked: bool = False) -> None:
        """Start empty; ``masked`` reports name no Workload outside of their JobSet's namespace."""
        self.now = now
        """The time, by the clock of the cluster where that is known."""
        self._masked = masked
        self.cluster_queues: Store[ClusterQueue] = Store()
        self.local_queues: Store[LocalQueue] = kinds.local_queue_store()
        self.workloads: Store[QueuedWorkload] = kinds.workload_store()
        """With finished ones, which have no usage and do not wait."""
        self.namespaces: Store[Mapping[str, str]] = Store()
        """Labels of those that are known."""
        self.others: defaultdict[type[Held], Store[Any]] = defaultdict(Store)
        """Of other kinds what was taken, by type."""
        self.heads_known = True
        """Whether LocalQueues and Workloads of all namespaces are known: otherwise any may be the head of a queue."""
        self.short: Collection[LocalQueueKey] = ()
        """LocalQueues of files in which more Workloads wait, by their status, than the files have."""
        self.snapshot = ClusterSnapshot(queued=False, unknown=self.unknown)
        """For fits."""
        self.snapshot.has_workload = self.has_workload
        self._unused = Quotas()
        self.heads = Heads(self, now)
        self._unread: dict[str, str] = {}
        self._present: bool | None = None
        self._podset_limit: int | None = None

    @property
    def unused(self) -> ClusterSnapshot:
        """The snapshot without Workloads: what never fits does not fit an unused quota either."""
        return self.snapshot.over(self._unused)

    @property
    def known(self) -> bool | None:
        """Whether the cluster has Kueue; None while that is not known."""
        return self._present

    @property
    def present(self) -> bool:
        """The same, as far as is known."""
        return bool(self.known)

    @property
    def podset_limit(self) -> int | None:
        """Podsets that a Workload of this Kueue may have; None if unknown."""
        return self._podset_limit

    def note_presence(self, present: bool | None, podset_limit: int | None = None) -> None:
        """Set whether the cluster has Kueue, and how many podsets a Workload of it may have."""
        self._present, self._podset_limit = present, podset_limit

    def note_unread(self, resource: Resource, text: str, namespace: str | None = None) -> None:
        """Set that objects of a kind, of one namespace or of all, are not known: ``text`` says which, and why."""
        self._unread[f"{namespace}/{resource.plural}" if namespace else resource.plural] = text

    def trouble(self, resource: Resource) -> str:
        """What of a kind is not known, and why; empty if it is known."""
        return self._unread.get(resource.plural, "")

    def unknown(self) -> Sequence[str]:
        """What could change a ``never`` and is not known, each in a few words."""
        return sorted(text for name, text in self._unread.items() if name not in kinds.HARMLESS)

    @property
    def queues_known(self) -> bool:
        """Whether LocalQueues and ClusterQueues are known: otherwise no queue is closed and nothing is ``never``."""
        return self.present and not self.missing()

    def missing(self) -> list[str]:
        """What is not known without which no verdict is possible."""
        if self.known is None:
            return ["gangctl does not know yet whether the cluster has Kueue"]
        essential = (kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES) if self.known else ()
        return [trouble for resource in essential if (trouble := self.trouble(resource))]

    def take(self, held: Held) -> None:
        """Add or update an object, in its store too."""
        store: Store[Any]
        match held:
            case ClusterQueue():
                store = self.cluster_queues
            case LocalQueue():
                store = self.local_queues
            case QueuedWorkload():
                # Objects in files may have no UIDs, and two Workloads must stay distinct.
                held = held if held.uid else replace(held, uid=f"{held.namespace}/{held.name}")
                store = self.workloads
            case _:
                store = self.others[type(held)]
        entry: Entry[Any] = Entry(getattr(held, "uid", ""), "", held)
        for change in store.put((getattr(held, "namespace", ""), held.name), entry):
            self.keep(change.old, change.new)

    def keep(self, old: Any, new: Any) -> None:
        """Follow a change of one object: None is one that does not exist."""
        changed = new if new is not None else old
        if new is not None:
            self.snapshot.take(new)
        elif old is not None:
            self.snapshot.drop(old)
        match changed:
            case QueuedWorkload():
                self.heads.changed(old, new)
                return
            case ClusterQueue() | Cohort() if new is not None:
                # Their quotas alone: what never fits must not depend on Workloads.
                self._unused.take(new)
            case ClusterQueue() | Cohort():
                self._unused.drop(old)
        before, after = _order(old), _order(new)
        for cluster_queue, _ in {*before.items()} ^ {*after.items()}:
            self.heads.refresh(cluster_queue)

    @property
    def configuration(self) -> KueueConfiguration:
        """Kueue's configuration; its defaults where it is not known."""
        return self.snapshot.configuration

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue; None if there is none."""
        return self.local_queues.get(namespace, name)

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """A ClusterQueue; None if there is none."""
        return self.cluster_queues.get("", name)

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """Labels of a namespace; None if unknown."""
        return self.namespaces.get("", namespace)

    def has_priority_class(self, name: str) -> bool | None:
        """Whether a WorkloadPriorityClass of this name exists; None if unknown."""
        return None if self.trouble(kinds.PRIORITY_CLASSES) else self.snapshot.priority(name) is not None

    def has_workload(self, namespace: str, name: str) -> bool | None:
        """Whether a Workload of Kueue exists that no object controls (ensureOneWorkload); None if unknown."""
        if (workload := self.workloads.get(namespace, name)) is not None:
            return not workload.owner_uid
        known = self.snapshot.workloads_known and self.heads_known and not self.trouble(kinds.QUEUED_WORKLOADS)
        return False if known else None

    def workloads_of(self, uid: str) -> list[QueuedWorkload]:
        """Kueue's Workloads that a JobSet of this UID controls, finished ones as well: never by name."""
        return self.workloads.by_index("owner", uid)

    def cluster_queue_of(self, queue_key: LocalQueueKey) -> str:
        """Name of the ClusterQueue that a LocalQueue points to; empty if there is no such LocalQueue."""
        local_queue = self.local_queue(*queue_key)
        return local_queue.cluster_queue if local_queue is not None else ""

    def inside(self, cluster_queue: str) -> list[QueuedWorkload]:
        """Kueue's Workloads in a ClusterQueue that have not finished."""
        workloads = self.workloads.by_index("cluster_queue", cluster_queue)
        for local_queue in self.local_queues.by_index("cluster_queue", cluster_queue):
            came = self.workloads.by_index("local_queue", (local_queue.namespace, local_queue.name))
            # One with a ClusterQueue is found above, or has its quota in another one.
            workloads += [workload for workload in came if not workload.cluster_queue]
        return [workload for workload in workloads if not workload.holds("Finished")]

    def tried(self, cluster_queue: str) -> Iterator[QueuedWorkload]:
        """The same without those of stopped LocalQueues, which Kueue does not try."""
        # A generator: of a queue without a head nothing is listed.
        for workload in self.inside(cluster_queue):
            local_queue = self.local_queue(workload.namespace, workload.queue)
            if local_queue is not None and local_queue.stop_policy == "None":
                yield workload

    def fit(self, raw: Object, namespace: str, *, new: bool = True) -> FitReport:
        """Whether a JobSet (of this namespace, where it names none) can be admitted, ever and now; never raises.

        The quota that an existing JobSet itself holds does not count against it.
        """
        jobset, _ = read_jobset(raw)
        own = () if new else self.workloads_of(jobset.uid)
        workload = current(own)
        jobset = replace(jobset, queue=self.own_queue(jobset.queue, jobset, workload, new=new))
        with self.snapshot.without(kinds.with_variants(self.workloads, own)):
            return self._fit(self.snapshot, raw, jobset, namespace, new=new, workload=workload)

    def ever(self, raw: Object, namespace: str, *, new: bool = True, jobset: JobSet | None = None) -> FitReport:
        """The same with nothing in use: whether it can ever be admitted. The time is independent of other Workloads.

        ``jobset`` is the object, where it has been read already.
        """
        return self._fit(self.unused, raw, jobset or read_jobset(raw)[0], namespace, new=new)

    def never(self, raw: Object, namespace: str) -> Never | None:
        """Why an existing JobSet can never be admitted; None where that is not found."""
        return never_of(self.ever(raw, namespace, new=False))

    def _fit(
        self,
        snapshot: ClusterSnapshot,
        raw: Object,
        jobset: JobSet,
        namespace: str,
        *,
        new: bool,
        workload: QueuedWorkload | None = None,
    ) -> FitReport:
        home = jobset.namespace or namespace
        # Without Workloads there is no head to wait behind.
        head = self.heads.of if snapshot is self.snapshot else lambda _: None
        reader = home if self._masked else None
        labels, queue = self.labels(home), jobset.queue
        request = FitRequest(raw, home, labels, queue, new, workload, reader=reader, head=head, parsed=jobset)
        return fit(request, self.completed(snapshot))

    def completed(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with the facts that no change of an object carries."""
        snapshot.queued = self.present
        snapshot.queue_limit = self.podset_limit
        snapshot.heads_known = self.heads_known
        snapshot.unread = frozenset(kind for resource, kind in kinds.CLASSES.items() if self.trouble(resource))
        return snapshot

    def facts_of(
        self, jobset: JobSet, pods: int | None, now: datetime, *, never: Nevers, kept: bool = False
    ) -> QueueFacts | None:
        """The facts of a JobSet with this many pods left, None if unknown; None if it is in no queue itself.

        That is without a queue, without Kueue, and where Kueue queues the object that controls it. ``kept`` texts are
        stored for all readers of the JobSet's namespace: they have absolute times, and name no other namespace's
        Workload.
        """
        if not self.present:
            return None
        if not jobset.queue:
            held = self.configuration.suspends_unqueued(self.labels(jobset.namespace), jobset.namespace)
            if not held or not jobset.suspend or jobset.owned or jobset.finished:
                return None
            return QueueFacts("", "", stuck=Stuck(Reason.QUEUE_BLOCKED, UNQUEUED, NAME_A_QUEUE))
        workload = current(self.workloads_of(jobset.uid)) if jobset.uid else None
        if self.queued_by_owner(jobset, workload):
            return None
        name = workload.cluster_queue if workload is not None else ""
        name = name or self.cluster_queue_of((jobset.namespace, jobset.queue))
        waits = not jobset.finished and may_be_admitted(workload)
        closed = self.obstacle(jobset.namespace, jobset.queue) if waits else None
        reason = never(*jobset.key) if waits and jobset.suspend else None
        own = workload.name if workload is not None else ""
        conflicts = check_stored(jobset, cluster_queue=name, workload=own) if waits else ()
        due = None
        if workload is None:
            stuck = self.unqueued(jobset, now, kept=kept)
        else:
            owner = facts_of_job(jobset, pods)
            due = stuck_at(workload, owner, self._ready_timeouts())
            stuck = self.stuck(workload, owner, now, blocked=closed, kept=kept)
            # Only where nothing else keeps it: to find a head, all that waits in the queue is sorted.
            queue = self.cluster_queue(name) if stuck is None and waits and not reason else None
            head = self.heads.of(queue, now) if queue is not None else None
            if head is not None and head.precedes(workload):
                impossible = bool(never(head.workload.namespace, head.workload.owner_name))
                reader = jobset.namespace if kept else None
                # Its Workload may be newer than the head is known for.
                stuck = head.effect(reader, joined=not head.behind, impossible=impossible, kept=kept)
        return QueueFacts(
            local_queue=jobset.queue,
            cluster_queue=name,
            workload=workload,
            blocked=closed,
            opened=workload is not None and closed is None and self._opened(jobset, workload),
            stuck=stuck,
            stuck_at=due,
            never=reason,
            conflicts=conflicts,
            cluster=workload.cluster if workload is not None else "",
            queues_known=self.queues_known,
            workloads_known=not self._unlisted(jobset),
        )

    def _opened(self, jobset: JobSet, workload: QueuedWorkload) -> bool:
        """Whether both queues of a JobSet are active since a time after Kueue's last words on its quota."""
        local = self.local_queue(jobset.namespace, jobset.queue)
        queue = self.cluster_queue(local.cluster_queue) if local is not None else None
        said = workload.condition("QuotaReserved").since
        if local is None or queue is None or local.active is None or queue.active is None or not said:
            return False
        # What Kueue said of the namespace stays while its labels are not known. Times of Kubernetes sort as text.
        if selected(queue.selector, self.labels(jobset.namespace), jobset.namespace) is not True:
            return False
        return local.active.status and queue.active.status and max(local.active.since, queue.active.since) > said

    def obstacle(self, namespace: str, name: str) -> Blocked | None:
        """What blocks a LocalQueue for all JobSets; None where it is open, and where that is not known."""
        if not self.queues_known:
            return None
        local_queue = self.local_queue(namespace, name)
        queue = self.cluster_queue(local_queue.cluster_queue) if local_queue is not None else None
        return blocked(name, local_queue, queue, self.labels(namespace), namespace=namespace)

    def stuck(
        self, workload: QueuedWorkload, owner: JobFacts, now: datetime, *, blocked: Blocked | None, kept: bool = False
    ) -> Stuck | None:
        """Why a Workload cannot go on by itself; ``blocked`` is what blocks its queue, for one that waits."""
        return stuck_workload(
            workload,
            owner,
            now,
            blocked=blocked,
            timeouts=self._ready_timeouts(),
            missing_priority_class=self._missing_class(owner.priority_class),
            kept=kept,
        )

    def _missing_class(self, name: str) -> str:
        """The name of a WorkloadPriorityClass that does not exist; empty for others, and where that is not known."""
        return name if self.has_priority_class(name) is False else ""

    def _ready_timeouts(self) -> ReadyTimeouts | None:
        ready = pods_ready(self.configuration, self.podset_limit)
        if ready is None:
            return None
        # Kueue's default for a configuration without recoveryTimeout.
        recovery = ready.timeout if ready.recovery is None else ready.recovery
        return ReadyTimeouts(timedelta(seconds=ready.timeout), timedelta(seconds=recovery))

    def queued_by_owner(self, jobset: JobSet, own: QueuedWorkload | None) -> bool:
        """Whether Kueue queues the object that controls a stored JobSet in its place; ``own`` is its Workload."""
        # Whether that object names a queue is not known here: if it does not, the JobSet gets a Workload by its label.
        return own is None and self.configuration.manages_owner(jobset)

    def own_queue(self, queue: str, jobset: JobSet, own: QueuedWorkload | None, *, new: bool) -> str:
        """The queue of a JobSet that names this one: none where Kueue queues the object that controls it."""
        # Of a new one Kueue has not decided yet, and anyone can write an ownerReference.
        return "" if not new and self.queued_by_owner(jobset, own) else queue

    def _unlisted(self, jobset: JobSet) -> bool:
        """Whether a JobSet may have a Workload that is not known."""
        return bool(self.trouble(kinds.QUEUED_WORKLOADS)) or (jobset.namespace, jobset.queue) in self.short

    def unqueued(self, jobset: JobSet, now: datetime, *, kept: bool = False) -> Stuck | None:
        """Why Kueue has made no Workload for a JobSet with a queue; None while that is normal, or is not known."""
        waited = age(jobset.created, now)
        if waited is None or not jobset.suspend or jobset.finished or self._unlisted(jobset):
            return None
        if self.queued_by_owner(jobset, None):
            return None
        configuration = self.configuration
        return without_workload(
            waited,
            podsets=len(jobset.replicated_jobs),
            podset_limit=self.podset_limit,
            frameworks=configuration.frameworks if configuration.known else None,
            managed=configuration.manages(self.labels(jobset.namespace), jobset.namespace),
            missing_priority_class=self._missing_class(jobset.priority_class),
            made=jobset.created if kept else "",
        )


def facts_of_job(jobset: JobSet, pods: int | None) -> JobFacts:
    """The facts of a JobSet of which so many pods are left in this cluster; None if that is not known."""
    # Of one that MultiKueue runs they are in another cluster.
    pods = None if jobset.managed_elsewhere else pods
    return JobFacts(jobset.finished, pods, jobset.priority_class if jobset.suspend and not jobset.finished else "")


def _order(held: object) -> Mapping[str, object]:
    """What of a queue decides which Workload is its head, by ClusterQueue: not how many wait, which often changes."""
    match held:
        case ClusterQueue():
            return {held.name: (held.strategy, held.by_usage)}
        case LocalQueue():
            return {held.cluster_queue: held.stop_policy}
    return {}


class Heads:
    """The heads of StrictFIFO queues, found at ``now()`` and cached: thousands may wait behind one, and are sorted."""

    def __init__(self, queues: Queues, now: Callable[[], datetime]) -> None:
        """Find nothing yet."""
        self._queues = queues
        self._now = now
        self._cached: dict[str, tuple[datetime, Head | None]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def subscribe(self, on_change: Callable[[str], None]) -> None:
        """Call ``on_change`` with the name of each ClusterQueue whose Workloads wait for another reason than before."""
        self._listeners.append(on_change)

    def of(self, queue: ClusterQueue, now: datetime | None = None) -> Head | None:
        """The head of a queue; None for another strategy, where nothing waits, and where the order is not known."""
        now = now or self._now()
        until, known = self._cached.get(queue.name, (None, None))
        if until is not None and now < until:
            return known
        return self._find(queue, now)

    def forget(self) -> None:
        """Find each head again when it is asked for, and call no listener: all JobSets are evaluated again anyway."""
        self._cached.clear()

    def refresh(self, name: str) -> None:
        """Find a known head again: its queue, or one that leads to it, has changed."""
        if name in self._cached:
            queue = self._queues.cluster_queue(name)
            if queue is None:
                del self._cached[name]
            else:
                self._find(queue, self._now())

    def changed(self, old: QueuedWorkload | None, new: QueuedWorkload | None) -> None:
        """Find the head of its queue again if it was it, or may be now: those behind have no change of their own."""
        # Two queues if it was moved: it may have been the head of the one that it has left.
        for name, workload in {self._place(held): held for held in (old, new) if held is not None}.items():
            _, head = self._cached.get(name, (None, None))
            was = head is not None and head.workload.uid == workload.uid
            if was or (workload is new and is_queued(workload) and (head is None or not head.precedes(workload))):
                self.refresh(name)

    def note_verdict(self, key: Key) -> None:
        """Call the listeners if this JobSet is a head: whether it can ever be admitted is known, or is another now."""
        for name, (_, head) in list(self._cached.items()):
            if head is not None and (head.workload.namespace, head.workload.owner_name) == key:
                self._notify(name)

    def _place(self, workload: QueuedWorkload) -> str:
        """The ClusterQueue of a Workload."""
        return workload.cluster_queue or self._queues.cluster_queue_of((workload.namespace, workload.queue))

    def _find(self, queue: ClusterQueue, now: datetime) -> Head | None:
        configuration = self._queues.configuration
        known = self._queues.heads_known and not configuration.unordered(queue)
        tried: Iterable[QueuedWorkload] = self._queues.tried(queue.name) if known else ()
        head = find_head(queue, tried, now, configuration.ordering)
        # Without an earlier head there is no change of it, and no listener is called.
        _, earlier = self._cached.get(queue.name, (None, head))
        self._cached[queue.name] = now + timedelta(seconds=HEAD_SECONDS), head
        if _reason(earlier) != _reason(head):
            self._notify(queue.name)
        return head

    def _notify(self, cluster_queue: str) -> None:
        for listener in self._listeners:
            listener(cluster_queue)


def _reason(head: Head | None) -> tuple[str, str] | None:
    """What those behind a head wait for: which it is, and what helps; empty where it blocks none."""
    if head is None:
        return None
    effect = head.effect("", joined=True)
    return head.workload.uid, effect.remedy if effect is not None else ""

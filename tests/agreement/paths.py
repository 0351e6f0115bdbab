"""The same objects, read as the controller reads them (its informers) and as the commands do (files)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from gangctl.api.emit import to_yaml
from gangctl.api.objects import Key
from gangctl.api.pods import FINISHED
from gangctl.api.scheduling import NEWEST, ApiState
from gangctl.cli.fitting import FitSubject, answer_of
from gangctl.cli.gangs.files import read_files
from gangctl.cli.gangs.state import modern
from gangctl.client.client import Client
from gangctl.client.pacing import Clock
from gangctl.client.resources import Resource
from gangctl.client.transport import Transport
from gangctl.cluster import kinds
from gangctl.controllers.caches import Enqueue, GangCaches, SchedulingCache
from gangctl.controllers.gangs import Assessments
from gangctl.controllers.queues.sources import QueueSources
from gangctl.controllers.queues.view import QueueView
from gangctl.controllers.readiness.controller import ReadinessController, ReadinessObserver
from gangctl.controllers.readiness.sources import QueueStatuses, ReadinessSources
from gangctl.fit.report import FitReport
from gangctl.gang.desired import while_suspended
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.configuration import CONFIG_KEY
from gangctl.kueue.queues import Never, QueueFacts
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import Snapshot, is_followed
from gangctl.runtime.informer import InformerObserver
from tests.credentials import StaticCredentials

Object = dict[str, Any]
Answers = dict[Key, dict[str, Any]]
"""What is answered of each gang."""

_KUEUE: Final = "kueue.x-k8s.io"
_VERDICT: Final = ("verdict", "reason", "queue", "clusterQueue", "blocked", "blocking", "reorder", "podSets", "limits")
_WORDS: Final = frozenset({"message", "evidence", "remedy", "command", "look_again"})
"""Not compared: what the controller writes has absolute times, and names nothing of another namespace."""


def by_controller(
    objects: Iterable[Object], now: datetime, *, podset_limit: int | None = None, unread: Collection[Resource] = ()
) -> Answers:
    """The readiness that the controller computes, once its informers have all objects but those of ``unread`` kinds."""
    return Fed(objects, podset_limit=podset_limit, unread=unread).answers(now)


def by_commands(
    directory: Path,
    objects: Iterable[Object],
    now: datetime,
    *,
    podset_limit: int | None = None,
    unread: Collection[Resource] = (),
) -> Answers:
    """The readiness that ``gangctl get`` prints of a file with all objects."""
    file = directory / "objects.yaml"
    file.write_text(to_yaml(objects), encoding="utf-8")
    state = read_files([str(file)])
    # A file without any pod or group may be one of a user who cannot read them; a controller knows that there are none.
    state.pods_known = state.groups_known = True
    state.queues.note_presence(state.queues.known, podset_limit)
    for resource in unread:
        state.queues.note_unread(resource, f"{resource.plural} may not be read")
    answers: Answers = {}
    for key in state.followed():
        snapshot, stored = state.snapshot(key, now.timestamp()), state.jobsets.get(*key)
        assert snapshot is not None
        assert stored is not None
        answers[key] = _answer(snapshot, now)
        if state.queues.queues_known:
            subject = FitSubject(stored.raw, key[1], key[0], stored.jobset.queue, stored.jobset.uid, new=False)
            answers[key]["fit"] = _verdict(answer_of(subject, state.queues, fixed_nodes=False).report)
    return answers


def _verdict(report: FitReport) -> dict[str, Any]:
    """What both have to agree on: only commands estimate starts, and only they name what is in other namespaces."""
    verdict: dict[str, Any] = {field: report[field] for field in _VERDICT}
    return {**verdict, "blocked": verdict["blocked"].partition("; namespace ")[0]}


def _answer(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    return {"queue": _queue(snapshot.queue), **_without_words(asdict(evaluate(snapshot, now.timestamp(), None)))}


def _without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_words(part) for key, part in value.items() if key not in _WORDS}
    return [_without_words(part) for part in value] if isinstance(value, list | tuple) else value


def _queue(facts: QueueFacts | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    return {
        "queues": (facts.local_queue, facts.cluster_queue, facts.queues_known),
        "workload": facts.workload.name if facts.workload is not None else "",
        "blocked": str(facts.blocked.reason) if facts.blocked is not None else "",
        "stuck": str(facts.stuck.reason) if facts.stuck is not None else "",
        "never": facts.never,
        "conflicts": [str(error) for error in facts.conflicts],
        "cluster": facts.cluster,
    }


class Fed:
    """The parts of the controller that readiness is computed from, fed as by watches.

    ``enqueue`` is called with the key of each JobSet that has changed.
    """

    def __init__(
        self,
        objects: Iterable[Object],
        *,
        podset_limit: int | None = None,
        unread: Collection[Resource] = (),
        enqueue: Enqueue = lambda *_: None,
        clock: Clock | None = None,
    ) -> None:
        client = Client(Transport(StaticCredentials("http://127.0.0.1:1", token="none")))
        self.caches = GangCaches(client, enqueue, lambda: 0.0)
        scheduling = SchedulingCache(client, NEWEST, "", lambda _: InformerObserver(), lambda: None)
        self.caches._scheduling = scheduling
        self.sources = ReadinessSources(client)
        self.queues = QueueSources(client)
        self.queues.presence.podset_limit = podset_limit
        self.view = QueueView(self.queues, (clock or Clock()).wall)
        self._raws: dict[Key, Object] = {}
        self._informers = {
            **{(each.resource.group, each.resource.kind): each for each in self.caches.informers.values()},
            **{(each.informer.resource.group, each.informer.resource.kind): each.informer for each in self.queues.all},
            ("", "Pod"): self.sources.pods.informer,
            ("", "Node"): self.sources.nodes.informer,
        }
        found = [*objects]
        kueue = [each for each in found if each["apiVersion"].startswith(f"{_KUEUE}/")]
        self.queues.presence.present = bool(kueue)
        for informer in self._informers.values():
            informer.synced.set()
        for resource in unread:
            self._informers[resource.group, resource.kind].synced.clear()
        if not any(each["kind"] == "Node" for each in found):
            self.sources.nodes.informer.synced.clear()
        if not any(each["kind"] == "ClusterQueue" for each in kueue):
            self.queues.cluster_queues.informer.synced.clear()
        for each in found:
            self.deliver(each)
        self.assessments = Assessments(
            lambda: ApiState(NEWEST), ClusterRules, lambda jobset: while_suspended(jobset, queues=bool(kueue))
        )

    def deliver(self, raw: Object) -> None:
        """An object is new, or has changed."""
        group, _, _ = raw["apiVersion"].rpartition("/")
        kind = raw["kind"]
        if kind == "Configuration":
            name = {"name": kinds.CONFIG_NAME, "namespace": "kueue-system", "uid": "configuration"}
            self.queues.configuration.informer._upsert({"metadata": name, "data": {CONFIG_KEY: to_yaml([raw])}})
        elif kind == "Event":
            event = modern(raw)
            for source in self.sources.refusals:
                # As the selection of the informer.
                if source.informer._selection.field_selector == (
                    f"reason={event.get('reason')},regarding.kind={event.get('regarding', {}).get('kind')}"
                ):
                    source.informer._upsert(event)
        elif (group, kind) in self._informers:
            if kind == "JobSet":
                self._raws[raw["metadata"]["namespace"], raw["metadata"]["name"]] = raw
            phase = raw.get("status", {}).get("phase") if kind == "Pod" else None
            if phase not in FINISHED:
                self._informers[group, kind]._upsert(raw)
            elif phase == "Failed":
                self.sources.failed.informer._upsert(raw)

    def withdraw(self, raw: Object) -> None:
        """An object is gone, or a pod has finished."""
        group, _, _ = raw["apiVersion"].rpartition("/")
        self._informers[group, raw["kind"]]._forget(raw)

    def controller(
        self, observers: Sequence[ReadinessObserver] = (), clock: Clock | None = None
    ) -> ReadinessController:
        """Computes readiness of what was delivered."""
        queues = QueueStatuses(self.view, self.never)
        parts = self.caches, self.assessments, self.sources
        return ReadinessController(*parts, evaluate, observers, follows=is_followed, queues=queues, clock=clock)

    def answers(self, now: datetime) -> Answers:
        """The readiness of each JobSet."""
        controller = self.controller()
        jobsets = [jobset for jobset in self.caches.jobsets.store.values() if is_followed(jobset)]
        answers = {jobset.key: _answer(controller.snapshot(jobset, now), now) for jobset in jobsets}
        for key, answer in answers.items() if self.view.queues_known else ():
            answer["fit"] = _verdict(self.view.fit(self._raws[key], key[0], new=False))
        return answers

    def never(self, key: Key) -> Never | None:
        """Why its queue can never admit a JobSet; None if it can."""
        return self.view.never(self._raws[key], key[0])

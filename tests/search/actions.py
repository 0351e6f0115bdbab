"""All that can happen in a state, by name, and what follows if nothing goes wrong any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tests.search import apiserver, jobs, jobsets, scheduler
from tests.search.gangctl import Decision, Gangctl
from tests.search.state import FOREIGN, KNOWN, NOW, ORPHAN, RESYNC, SOON, Job, JobSet, Object, State, drop, find, put
from tests.search.views import Views
from tests.search.world import NUMBER, World

Step = tuple[str, State]
_LATE: Final = NUMBER["fault.late"]


class Actions:
    """The actions of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.views = Views(world)
        self.gangctl = Gangctl(world, self.views)
        self._labels = [f"{world.jobs[i].name}-{index}" for i, index in world.slots]
        self._specs = [world.jobs[i] for i, _ in world.slots]
        self._eager = tuple(source for actor, source in self._sources().items() if actor in world.eager)
        self._free = tuple(source for actor, source in self._sources().items() if actor not in world.eager)
        self._can_fail_over = bool(world.steps.get("fault.failover"))
        self._memo_jobs: dict[tuple[int, Job], tuple[tuple[str, Job | None], ...]] = {}
        self._pods: dict[tuple[int, Job], tuple[tuple[str, Job], ...]] = {}

    def _sources(self) -> dict[str, Callable[[State], Iterator[Step]]]:
        """Actions by actor, in the order of the fair continuation: gangctl is faster than the scheduler there."""
        return {
            "job": self._job,
            "jobset": self._jobset,
            "kubelet": self._kubelet,
            "gc": self._gc,
            "watch": self._watch,
            "gangctl": self._gangctl,
            "scheduler": self._scheduler,
        }

    def start(self) -> State:
        """The first state: the JobSet does not exist yet."""
        none = (None,) * len(self.world.slots)
        return State(None, none, (), None, (0,) * len(none), (), (), 0, (), None, self.world.budget)

    def successors(self, state: State) -> list[Step]:
        """Every action, and the state after it and after what eager actors do then."""
        steps = [step for source in self._free for step in source(state)]
        steps += self._user(state)
        steps += self._pod(state)
        steps += self._faults(state)
        found: list[Step] = []
        for name, new in steps:
            settled = self.settle(new)
            if settled != state:
                found.append((name, settled))
        return found

    def settle(self, state: State) -> State:
        """What eager actors do at once."""
        if not self._eager:
            return state
        for _ in range(200):
            for source in self._eager:
                new = next((new for _, new in source(state) if new != state), None)
                if new is not None:
                    state = new
                    break
            else:
                return state
        raise RuntimeError(f"{self.world.name}: eager actors do not come to rest")

    def fair(self, state: State) -> Step | None:
        """The next action if nothing goes wrong any more; None at rest, where gangctl does not ask for a resync."""
        for source in (*self._sources().values(), self._arrives):
            for name, new in source(state):
                if new != state:
                    return name, new
        if not state.due & RESYNC:
            return None
        return "gangctl.resync", state._replace(due=NOW | KNOWN)

    # What has no budget.

    def _job(self, state: State) -> Iterator[Step]:
        for slot, job in enumerate(state.jobs):
            if job is None:
                continue
            key = slot, job
            step = self._memo_jobs.get(key)
            if step is None:
                new = jobs.sync(self._specs[slot], job)
                step = self._memo_jobs[key] = ((f"job.sync {self._labels[slot]}", new),) if new != job else ()
            for name, new in step:
                yield name, state._replace(jobs=_with(state.jobs, slot, new))

    def _jobset(self, state: State) -> Iterator[Step]:
        new = jobsets.sync(self.views, state)
        if new != state:
            yield "jobset.sync", new

    def _kubelet(self, state: State) -> Iterator[Step]:
        for slot, job in enumerate(state.jobs):
            if job is not None and job.ending:
                yield (
                    f"pod.ends {self._labels[slot]}",
                    state._replace(jobs=_with(state.jobs, slot, job._replace(ending=0))),
                )

    def _gc(self, state: State) -> Iterator[Step]:
        uid = 0 if state.jobset is None else state.jobset.uid
        if state.jobset is not None and state.jobset.deleting == "orphan":
            own = [one for one in state.objects if one.owner == uid]
            for one in own:
                freed = put(state.objects, one._replace(owner=ORPHAN))
                yield f"gc.orphan {one.kind} {one.name}", state._replace(objects=freed)
            if not own:
                yield "gc.orphaned", state._replace(jobset=None)
        foreground = state.jobset is not None and state.jobset.deleting == "foreground"
        gone = {ORPHAN, FOREIGN, uid}
        if foreground or any(one.owner not in gone for one in state.objects) or _has_stranger(state.jobs, uid):
            new = apiserver.collect(state)
            if new != state:
                yield "gc.collect", new
        for one in apiserver.released(state):
            yield f"gc.release {one.name}", state._replace(objects=drop(state.objects, one))

    def _scheduler(self, state: State) -> Iterator[Step]:
        groups = {job.group for job in state.jobs if job is not None and job.waiting}
        for group in sorted(groups):
            if not group or scheduler.is_ready(state.objects, state.jobs, group, self.world.devices):
                yield f"scheduler.bind {group or 'alone'}", scheduler.bind(state, group)

    def _watch(self, state: State) -> Iterator[Step]:
        if state.seen_jobset != state.jobset:
            triggered = self.gangctl.triggered_by_jobset(state.seen_jobset, state.jobset)
            yield (
                "watch.jobset",
                state._replace(seen_jobset=state.jobset, due=state.due | NOW if triggered else state.due),
            )
        now = self._numbers(state)
        if state.seen_jobs != now:
            triggered = self.gangctl.triggered_by_jobs(state.seen_jobset, state.seen_jobs, now)
            yield "watch.jobs", state._replace(seen_jobs=now, due=state.due | NOW if triggered else state.due)
        if state.seen_objects != state.objects or (self._can_fail_over and state.watched != state.objects):
            triggered = self.gangctl.triggered_by_objects(state.seen_objects, state.objects)
            yield "watch.objects", self._with_objects(state)._replace(due=state.due | NOW if triggered else state.due)

    def _with_objects(self, state: State) -> State:
        """The caches of Workloads and groups are up to date."""
        watched = state.objects if self._can_fail_over else ()
        return state._replace(seen_objects=state.objects, watched=watched)

    def _numbers(self, state: State) -> tuple[int, ...]:
        number = self.views.number
        return tuple(number(state.jobset, slot, job) for slot, job in enumerate(state.jobs))

    def decision(self, state: State) -> Decision:
        """What a reconcile would do now."""
        unfinished = any(job is not None and job.waiting + job.bound + job.ending for job in state.jobs)
        return self.gangctl.reconcile(state.seen_jobset, state.seen_jobs, state.seen_objects, unfinished=unfinished)

    def _gangctl(self, state: State) -> Iterator[Step]:
        if state.writes:
            yield f"gangctl.write {_shown(state)}", self._write(state)
        elif state.due & (NOW | SOON):
            decision = self.decision(state)
            yield "gangctl.reconcile", state._replace(due=decision.due, writes=decision.writes)

    def _write(self, state: State) -> State:
        write = state.writes[0]
        answer = apiserver.receive(self.world, state, write)
        if answer.refused:
            return self._after_error(state, ends=write.ends_refused)
        seen = state.seen_objects if answer.given is None else put(state.seen_objects, answer.given)
        return state._replace(objects=answer.objects, seen_objects=seen, writes=state.writes[1:])

    def _after_error(self, state: State, *, ends: bool) -> State:
        """The rest of the batch is sent, and nothing after it; the reconcile is repeated later, or goes on."""
        write = state.writes[0]
        rest = tuple(
            each
            for each in state.writes[1:]
            if (each.call == write.call and each.batch == write.batch) or (not ends and each.call > write.call)
        )
        return state._replace(writes=rest, due=state.due | SOON if ends else state.due)

    def _arrives(self, state: State) -> Iterator[Step]:
        if state.late is not None:
            answer = apiserver.receive(self.world, state, state.late)
            yield "fault.late-write-arrives", state._replace(objects=answer.objects, late=None)

    # What has a budget.

    def _pay(self, state: State, step: str) -> State | None:
        number = NUMBER[step]
        left = state.budget[number]
        if not left:
            return None
        budget = state.budget
        return state._replace(budget=(*budget[:number], left - 1, *budget[number + 1 :]))

    def _pod(self, state: State) -> Iterator[Step]:
        for slot, job in enumerate(state.jobs):
            if job is None or not job.bound:
                continue
            key = slot, job
            steps = self._pods.get(key)
            if steps is None:
                steps = self._pods[key] = tuple(jobs.pods(self._specs[slot], job))
            for step, new in steps:
                paid = None if step == "pod.ends" else self._pay(state, step)
                if paid is not None:
                    yield f"{step} {self._labels[slot]}", paid._replace(jobs=_with(state.jobs, slot, new))

    def _user(self, state: State) -> Iterator[Step]:
        jobset = state.jobset
        if jobset is None:
            yield from self._create(state)
            return
        if jobset.deleting:
            return
        if not jobset.ended:
            if jobset.suspended:
                yield "user.resume", state._replace(jobset=jobset._replace(suspended=False))
            elif paid := self._pay(state, "user.suspend"):
                yield "user.suspend", paid._replace(jobset=jobset._replace(suspended=True))
            if paid := self._pay(state, "user.resize"):
                yield "user.resize", paid._replace(jobset=jobset._replace(resized=jobset.resized + 1))
        if paid := self._pay(state, "user.delete"):
            yield "user.delete", paid._replace(jobset=jobset._replace(deleting="held") if self.world.held else None)
        if paid := self._pay(state, "user.delete-foreground"):
            yield "user.delete-foreground", paid._replace(jobset=jobset._replace(deleting="foreground"))
        if paid := self._pay(state, "user.delete-orphan"):
            none: tuple[Job | None, ...] = (None,) * len(state.jobs)
            yield "user.delete-orphan", paid._replace(jobset=jobset._replace(deleting="orphan"), jobs=none)
        yield from self._by_hand(state, jobset)

    def _create(self, state: State) -> Iterator[Step]:
        paid = self._pay(state, "user.create")
        if paid is None:
            return
        owners = [job.owner for job in state.jobs if job is not None]
        owners += [one.owner for one in state.objects]
        seen = state.seen_jobset.uid if state.seen_jobset is not None else 0
        number = self.world.budget[NUMBER["user.create"]] - paid.budget[NUMBER["user.create"]]
        stamped = not self.gangctl.claimed(state.seen_objects)
        own = (0,) * len(state.jobs)
        jobset = JobSet(max(number, seen, *owners, 0), stamped, own, suspended=self.world.suspended)
        yield "user.create", paid._replace(jobset=jobset)

    def _by_hand(self, state: State, jobset: JobSet) -> Iterator[Step]:
        for one in state.objects:
            if one.owner == FOREIGN or one.deleting:
                continue
            step = {"PodGroup": "user.delete-group", "Workload": "user.delete-workload"}.get(one.kind)
            if step is not None and (paid := self._pay(state, step)):
                left = drop(state.objects, one)
                if one.kind == "PodGroup":
                    left = put(left, one._replace(deleting=True))
                yield f"{step} {one.name}", paid._replace(objects=left)
            if one.kind == "PodGroup" and (paid := self._pay(state, "user.edit-group")):
                edited = one._replace(counts=(("", one.counts[0][1] + 1),))
                yield f"user.edit-group {one.name}", paid._replace(objects=put(state.objects, edited))
        yield from self._foreign(state, jobset)

    def _foreign(self, state: State, jobset: JobSet) -> Iterator[Step]:
        name = next((group for slot in range(len(state.jobs)) if (group := self.views.group(jobset, slot))), "")
        one = find(state.objects, "PodGroup", name)
        if name and one is None and (paid := self._pay(state, "foreign.create")):
            uid = 1 + max((seen.uid for seen in state.seen_objects if seen.name == name), default=0)
            foreign = Object("PodGroup", name, uid, FOREIGN, (("", 1),))
            yield "foreign.create", paid._replace(objects=put(state.objects, foreign))
        if (
            one is not None
            and one.owner == FOREIGN
            and not one.deleting
            and (paid := self._pay(state, "foreign.delete"))
        ):
            yield "foreign.delete", paid._replace(objects=put(state.objects, one._replace(deleting=True)))

    def _faults(self, state: State) -> Iterator[Step]:
        yield from self._arrives(state)
        if paid := self._pay(state, "fault.crash"):
            fresh = self._with_objects(paid)
            yield (
                "fault.crash",
                fresh._replace(seen_jobset=state.jobset, seen_jobs=self._numbers(state), due=NOW, writes=()),
            )
        if paid := self._pay(state, "fault.failover"):
            yield "fault.failover", paid._replace(seen_objects=state.watched, due=NOW, writes=())
        if state.due & KNOWN and not state.due & NOW and (paid := self._pay(state, "fault.lose-trigger")):
            for name, new in self._watch(paid):
                if name != "watch.jobset" and new.due & NOW:
                    yield f"fault.lose-trigger {name}", new._replace(due=state.due)
        if state.writes and (paid := self._pay(state, "fault.refuse")):
            yield "fault.refuse", self._after_error(paid, ends=paid.writes[0].ends_failed)
        if state.writes and state.late is None and (paid := self._pay(state, "fault.late")):
            failed = self._after_error(paid, ends=paid.writes[0].ends_failed)
            yield "fault.late", failed._replace(late=state.writes[0])
        if not state.due & NOW and not state.writes and (paid := self._pay(state, "gangctl.resync")):
            yield "gangctl.resync", paid._replace(due=state.due | NOW)


def _with(all_jobs: tuple[Job | None, ...], slot: int, job: Job | None) -> tuple[Job | None, ...]:
    return (*all_jobs[:slot], job, *all_jobs[slot + 1 :])


def _has_stranger(all_jobs: tuple[Job | None, ...], uid: int) -> bool:
    return any(job is not None and job.owner not in {ORPHAN, uid} and not job.deleting for job in all_jobs)


def _shown(state: State) -> str:
    write = state.writes[0]
    counts = ",".join(str(count) for _, count in write.counts)
    return f"{write.verb} {write.kind} {write.name}{' ' if counts else ''}{counts}"

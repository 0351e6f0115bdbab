"""``gangctl wait`` and ``gangctl get --watch``: changes are reported, and nothing is listed twice."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import Feature
from gangctl.cli.gangs.cluster import JobSetScope, ScopeReader, jobset_source, take
from gangctl.cli.gangs.files import read_files
from gangctl.cli.gangs.watching import GangWatch, NotReachedError, Wait, _until_over
from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.transport import Transport
from gangctl.cluster.stock import Stock
from gangctl.errors import UnauthorizedError
from gangctl.kueue.queues import Never
from gangctl.readiness.result import Counts, GangPhase, GroupReadiness, Readiness
from tests.cli.gangs import dump
from tests.cli.gangs.dump import NAMESPACE, RUNS, WAITS, Object
from tests.cli.gangs.place import ALL, USER, Place, place
from tests.cli.kueueobjects import CONFIGURATION, cluster_queue, condition, kueue, local_queue, workload
from tests.cli.kueueserver import config_map
from tests.cli.manifests import write
from tests.cli.publishedschemas import schema_of
from tests.cli.run import BIN, gangctl
from tests.cli.schema import violations
from tests.controlplane.wait import HUNG_SECONDS, wait_for
from tests.credentials import StaticCredentials
from tests.gang.pipeline import stored
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.sandbox import faults
from tests.sandbox.faults import Match

TITLE = f"{NAMESPACE}/{WAITS}"


def let_run(here: Place, count: int) -> None:
    """So many pods of the gang that waits are ready now."""
    for pod in dump.pods_of(dump.objects(), WAITS)[:count]:
        dump.ready(pod)
        here.put([pod])


class TestWait:
    async def test_wait_until_ready(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects()) as here, here.running("wait", WAITS) as waiting:
            assert await waiting.until(f"{TITLE}: Unschedulable, 0 of 6 pods ready: ", err=True)

            async def followed() -> bool:
                """Each collection is listed twice, by the reader and by its informer, and then watched."""
                return len(here.requests("list")) <= 2 * len(here.requests("watch"))

            await wait_for(followed, what="a watch of each collection")
            let_run(here, 5)
            assert await waiting.until("5 of 6 pods ready", err=True)
            lists = here.requests("list")
            let_run(here, 6)
            answer = await waiting.end()
            assert (answer.code, answer.out) == (0, f"{TITLE}: Ready, 6 of 6 pods ready\n")
            assert here.requests("list") == lists

    async def test_wait_until_scheduled_and_finished(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects()) as here:
            scheduled = await here.ask("wait", RUNS, "--for", "scheduled", "-o", "json")
            assert (scheduled.code, scheduled.json["status"]["phase"]) == (0, "Ready")
            assert violations(scheduled.json, schema_of("gang")) == []
            async with here.running("wait", RUNS, "--for", "finished", "-o", "name") as waiting:
                await waiting.until("Ready", err=True)
                (jobset,) = [each for each in dump.objects("JobSet") if each["metadata"]["name"] == RUNS]
                dump.finish(jobset, "Completed")
                here.put([jobset])
                answer = await waiting.end()
            assert (answer.code, answer.out) == (0, f"gang.gangctl.dev/{RUNS}\n")

    async def test_wait_until_suspended(self, tmp_path: Path) -> None:
        """A suspended JobSet whose pods still exist holds nodes."""
        async with place(tmp_path, dump.objects()) as here, here.running("wait", RUNS, "--for", "Suspended") as waiting:
            await waiting.until("Ready", err=True)
            (jobset,) = [each for each in dump.objects("JobSet") if each["metadata"]["name"] == RUNS]
            jobset["spec"]["suspend"] = True
            here.put([jobset])
            await waiting.until("Suspended", err=True)
            for pod in dump.pods_of(dump.objects(), RUNS):
                here.remove("Pod", pod["metadata"]["name"])
            answer = await waiting.end()
        assert (answer.code, answer.out.startswith(f"{NAMESPACE}/{RUNS}: Suspended, 0 of ")) == (0, True)

    async def test_a_gang_that_has_finished_is_never_suspended(self, tmp_path: Path) -> None:
        found = dump.changed("JobSet", RUNS, lambda each: dump.finish(each, "Completed"))
        async with place(tmp_path, found) as here:
            answer = await here.ask("wait", RUNS, "--for", "suspended")
        assert answer.code == 1
        assert f"gang {NAMESPACE}/{RUNS} will not be suspended: Succeeded" in answer.err

    async def test_on_a_terminal_wait_prints_each_line_once(self, tmp_path: Path) -> None:
        terminal, end = pty.openpty()
        async with place(tmp_path, dump.objects()) as here:
            command = ("wait", RUNS, "--kubeconfig", str(here.kubeconfig))
            environment = {"PATH": str(BIN), "LANG": "C.UTF-8", "HOME": "/nonexistent"}
            child = await asyncio.create_subprocess_exec(
                BIN / "gangctl", *command, stdout=end, stderr=end, env=environment
            )
            assert await asyncio.wait_for(child.wait(), HUNG_SECONDS) == 0
        os.close(end)
        printed = os.read(terminal, 65536).decode()
        os.close(terminal)
        assert printed.splitlines() == [f"{NAMESPACE}/{RUNS}: Ready, 5 of 5 pods ready"]

    async def test_wait_ends_at_its_timeout(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects()) as here:
            answer = await here.ask("wait", WAITS, RUNS, "--timeout", "0")
        assert answer.code == 1
        assert f"error: gang {TITLE} is not ready after 0s: Unschedulable: the scheduler finds no nodes" in answer.err
        assert re.search(rf"gangctl why {WAITS} -n {NAMESPACE} --kubeconfig \S+ says more", answer.err)
        assert answer.out.splitlines()[1] == f"{NAMESPACE}/{RUNS}: Ready, 5 of 5 pods ready"

    async def test_old_facts_of_a_cluster_that_does_not_answer_any_more_are_no_result(self, tmp_path: Path) -> None:
        """Exit code 3, not 1: watches only try again."""
        async with place(tmp_path, dump.objects()) as here, reading(here) as reader:
            state = await reader.read()
            waiting = Wait("ready", 0.0, fail_fast=False, state=state, keys=[(NAMESPACE, WAITS)])
            with pytest.raises(NotReachedError):
                await _until_over(waiting, reader)
            here.sandbox.faults.add(Match(USER), faults.error(401, "Unauthorized", "expired"), times=ALL)
            with pytest.raises(UnauthorizedError, match="expired"):
                await _until_over(waiting, reader)

    async def test_wait_ends_if_the_gang_has_failed(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects()) as here, here.running("wait", WAITS) as waiting:
            await waiting.until("Unschedulable", err=True)
            (jobset,) = [each for each in dump.objects("JobSet") if each["metadata"]["name"] == WAITS]
            dump.finish(jobset, "Failed", "it is over")
            here.put([jobset])
            answer = await waiting.end()
        assert answer.code == 1
        assert f"gang {TITLE} will not be ready: Failed: FailedJobs: it is over" in answer.err

    async def test_wait_ends_if_the_gang_is_deleted(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects()) as here, here.running("wait", WAITS) as waiting:
            await waiting.until("Unschedulable", err=True)
            here.remove("JobSet", WAITS)
            answer = await waiting.end()
        assert answer.code == 1
        assert f"JobSet {TITLE} was deleted" in answer.err

    def test_a_gang_that_is_deleted_as_soon_as_it_finishes_has_finished(self) -> None:
        """With ttlSecondsAfterFinished 0 JobSet deletes it at once: both are seen together."""
        state = read_files([str(dump.STUCK)])
        key = (NAMESPACE, WAITS)
        client = Client(Transport(StaticCredentials("http://127.0.0.1:1", token="none")))
        reader = ScopeReader(client, JobSetScope(None))
        reader.state = state
        watch = GangWatch(reader)
        waiting = Wait("finished", 1.0, fail_fast=False, state=state, keys=[key])
        waiting.learn(watch._evaluate())
        (raw,) = [each for each in dump.objects("JobSet") if each["metadata"]["name"] == WAITS]
        dump.finish(raw, "Completed", "it is done")
        source = jobset_source(state, reader.scope)
        take(state.jobsets, source.project, raw)
        for old, new in state.jobsets.discard(key):
            watch._on_change(source)(old, new)
        waiting.learn(watch._evaluate())
        assert (waiting.over, waiting.last[key].phase) == (True, GangPhase.SUCCEEDED)
        assert watch._evaluate() == []

    def test_a_gang_that_has_reached_the_goal_may_be_deleted(self) -> None:
        """As one that has finished is, after its ttlSecondsAfterFinished, while the others still run."""
        state = read_files([str(dump.STUCK)])
        ready, waits = (NAMESPACE, RUNS), (NAMESPACE, WAITS)
        gangs = {key: state.readiness(key, 0.0) for key in (ready, waits)}
        waiting = Wait("ready", 1.0, fail_fast=False, state=state, keys=[ready, waits])
        waiting.learn([(key, None, gang) for key, gang in gangs.items()])
        waiting.learn([(ready, gangs[ready], None)])
        assert (list(waiting.there), waiting.over) == ([ready], False)
        with pytest.raises(NotReachedError, match=f"JobSet {TITLE} was deleted"):
            waiting.learn([(waits, gangs[waits], None)])

    def test_a_gang_is_suspended_once_no_pod_of_it_terminates(self, tmp_path: Path) -> None:
        """Pods hold their nodes for as long as they may take to end."""
        end = {"deletionTimestamp": "2026-11-21T15:20:00Z", "deletionGracePeriodSeconds": 300}
        objects = dump.changed("JobSet", RUNS, lambda raw: raw["spec"].update(suspend=True))
        pods = dump.pods_of(objects, RUNS)
        for pod in pods:
            pod["metadata"] |= end
        state, key = read_files([str(write(tmp_path / "dump.yaml", *objects))]), (NAMESPACE, RUNS)
        waiting = Wait("suspended", 1.0, fail_fast=False, state=state, keys=[key])
        for pod in pods:
            waiting.learn([(key, None, state.readiness(key, 0.0))])
            assert not waiting.over
            state.pods.discard((NAMESPACE, pod["metadata"]["name"]))
        waiting.learn([(key, None, state.readiness(key, 0.0))])
        assert waiting.over

    def test_a_gang_in_a_queue_is_suspended_once_its_last_pod_without_a_node_is_gone(self, tmp_path: Path) -> None:
        """Its readiness is the same with and without that pod."""
        pod = dump.pods_of(dump.objects(), WAITS)[0]
        pod["metadata"] |= {"deletionTimestamp": "2026-11-21T15:20:00Z", "deletionGracePeriodSeconds": 0}
        objects = dump.queued(pod, dump.queued_workload(active=False))
        state, key = read_files([str(write(tmp_path / "dump.yaml", *objects))]), (NAMESPACE, WAITS)
        waiting = Wait("suspended", 1.0, fail_fast=False, state=state, keys=[key])
        gang = state.readiness(key, 0.0)
        waiting.learn([(key, None, gang)])
        assert not waiting.over
        state.pods.discard((NAMESPACE, pod["metadata"]["name"]))
        assert state.readiness(key, 0.0) == gang
        waiting.learn([])
        assert waiting.over

    def test_pods_of_an_earlier_jobset_of_the_name_do_not_keep_a_wait(self, tmp_path: Path) -> None:
        """On a lost node they terminate for days."""
        objects = dump.changed("JobSet", RUNS, lambda raw: raw["spec"].update(suspend=True))
        first, *others = dump.pods_of(objects, RUNS)
        first["metadata"] |= {"creationTimestamp": "2026-11-20T15:00:00Z", "deletionTimestamp": "2026-11-21T15:20:00Z"}
        kept = [raw for raw in objects if raw not in others]
        state, key = read_files([str(write(tmp_path / "dump.yaml", *kept))]), (NAMESPACE, RUNS)
        waiting = Wait("suspended", 1.0, fail_fast=False, state=state, keys=[key])
        waiting.learn([(key, None, state.readiness(key, 0.0))])
        assert (waiting.over, len(state.pods.by_index("jobset", key))) == (True, 1)

    @each(("placed", "over"), [(5, True), (4, False)])
    def test_a_gang_that_is_no_longer_ready_is_scheduled_by_its_nodes(self, placed: int, over: bool) -> None:
        counts = Counts(5, 5, 5, created=5, placed=placed, ready=3)
        group = GroupReadiness("g", "t", ("w",), GangPhase.DEGRADED, 0, counts)
        gang = Readiness(NAMESPACE, RUNS, "u", GangPhase.DEGRADED, 0, counts, (group,))
        key, state = (NAMESPACE, RUNS), read_files([str(dump.STUCK)])
        waiting = Wait("scheduled", 1.0, fail_fast=False, state=state, keys=[key])
        waiting.learn([(key, None, gang)])
        assert waiting.over is over

    @each(("later", "over"), [(GangPhase.PENDING, False), (GangPhase.STARTING, True)])
    def test_a_gang_whose_later_stage_has_no_pods_is_not_scheduled(self, later: GangPhase, over: bool) -> None:
        counts = Counts(1, 1, 1, created=1, placed=1)
        phases = {"a": GangPhase.STARTING, "b": later}
        groups = tuple(GroupReadiness(name, name, (name,), phase, 0, counts) for name, phase in phases.items())
        gang = Readiness(NAMESPACE, RUNS, "u", GangPhase.STARTING, 0, counts, groups)
        key, state = (NAMESPACE, RUNS), read_files([str(dump.STUCK)])
        waiting = Wait("scheduled", 1.0, fail_fast=False, state=state, keys=[key])
        waiting.learn([(key, None, gang)])
        assert waiting.over is over

    async def test_fail_fast_ends_at_a_blocking_cause(self, tmp_path: Path) -> None:
        """A minCount that its pods can never reach is for a person to repair."""

        def shrink(each: Object) -> None:
            each["spec"]["schedulingPolicy"]["gang"]["minCount"] = 60

        async with place(tmp_path, dump.changed("PodGroup", dump.GROUP_OF_SWEEP, shrink)) as here:
            answer = await here.ask("wait", WAITS, "--fail-fast", "--timeout", "1h")
        assert answer.code == 1
        assert f"gang {TITLE} will not be ready: " in answer.err

    @each("time", ["", "10", "5x", "-1s", "m", "1m ", "1h 5m"])
    def test_timeouts_are_parsed(self, time: str) -> None:
        answer = gangctl("wait", "x", "--timeout", time)
        assert answer.code == 2
        assert "90s, 10m or 1h30m" in answer.err


class TestWatch:
    async def test_changes_are_printed(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects()) as here, here.running("get", "--watch") as watching:
            assert (await watching.line()).split()[:4] == ["NAMESPACE", "NAME", "PHASE", "READY"]
            rows = [(await watching.line()).split()[1:4] for _ in range(2)]
            assert rows == [[WAITS, "Unschedulable", "0/6"], [RUNS, "Ready", "5/5"]]
            let_run(here, 6)
            assert (await watching.until("6/6")).split()[1:4] == [WAITS, "Ready", "6/6"]
            here.remove("JobSet", RUNS)
            assert (await watching.until("(deleted)")).split()[1] == RUNS

    async def test_a_gang_that_leaves_the_selected_phase_is_printed(self, tmp_path: Path) -> None:
        arguments = ("get", "-w", "--phase", "unschedulable", "-o", "name")
        async with place(tmp_path, dump.objects()) as here, here.running(*arguments) as watching:
            assert await watching.line() == f"gang.gangctl.dev/{WAITS}"
            let_run(here, 6)
            assert await watching.line() == f"gang.gangctl.dev/{WAITS}"

    async def test_yaml_is_a_stream(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects()) as here, here.running("get", "-w", "-o", "yaml") as watching:
            assert await watching.line() == "apiVersion: gangctl.dev/v1alpha1"
            assert await watching.until("---")
            assert await watching.until(f"name: {RUNS}")

    async def test_new_gangs_are_printed(self, tmp_path: Path) -> None:
        async with place(tmp_path, []) as here, here.running("get", "-w", "-o", "name") as watching:
            here.put(dump.objects())
            seen = {await watching.line(), await watching.line()}
        assert seen == {f"gang.gangctl.dev/{name}" for name in (RUNS, WAITS)}

    async def test_an_interrupt_ends_the_watch(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects()) as here, here.running("get", "-w") as watching:
            await watching.until(RUNS)
            watching.child.send_signal(signal.SIGINT)
            answer = await watching.end()
        assert (answer.code, answer.err) == (130, "")

    async def test_a_gang_deleted_after_the_list_is_reported(self, tmp_path: Path) -> None:
        """Nothing of it is in the informers' lists, nor in their watches."""
        async with place(tmp_path, dump.objects()) as here, reading(here) as reader:
            await reader.read()
            here.remove("JobSet", WAITS)
            seen = []
            async with asyncio.timeout(HUNG_SECONDS), aclosing(GangWatch(reader).turns()) as turns:
                async for changes in turns:
                    seen += [after and after.phase.value for (_, name), _, after in changes if name == WAITS]
                    if None in seen:
                        break
        assert seen == ["Unschedulable", None]

    async def test_what_an_admin_raises_fits_again(self, tmp_path: Path) -> None:
        """The quota is the cohort's, and a change of it changes no ClusterQueue."""

        def cohort(cpu: str) -> Object:
            return kueue("Cohort", "all", spec=cluster_queue("", {"f": {"cpu": cpu}})["spec"])

        found = dump.queued(dump.queued_workload(condition("QuotaReserved", False, "Pending")), cpu="0")
        (queue,) = (item for item in found if item["kind"] == "ClusterQueue")
        queue["spec"]["cohortName"] = "all"
        (flavor,) = (item for item in found if item["kind"] == "ResourceFlavor")
        async with (
            place(tmp_path, [*found, cohort("1"), config_map(CONFIGURATION)], kueue=True) as here,
            reading(here) as reader,
        ):
            await reader.read()
            # After the list, and before the watch.
            here.remove("ResourceFlavor", "f", "")
            changes = iter([[flavor], [cohort("99")]])
            seen = []
            async with asyncio.timeout(HUNG_SECONDS), aclosing(GangWatch(reader).turns()) as turns:
                async for turn in turns:
                    gangs = [after for (_, name), _, after in turn if name == WAITS and after is not None]
                    seen += [gang.causes[0].reason.value for gang in gangs]
                    if seen[1:] and gangs:
                        if (change := next(changes, None)) is None:
                            break
                        here.put(change)
        assert seen == ["NeverFits", "WaitingForQuota"] * 2

    async def test_a_head_in_another_namespace_is_followed(self, tmp_path: Path) -> None:
        refused = condition("QuotaReserved", False, "Pending")
        found = dump.queued(dump.queued_workload(refused), cpu="99")
        (queue,) = (item for item in found if item["kind"] == "ClusterQueue")
        queue["spec"]["queueingStrategy"] = "StrictFIFO"
        first = workload("first", "q", refused, namespace="u", priority=9)
        admitted = workload("first", "q", namespace="u", held={"f": {"cpu": "1"}})
        for each_one in (first, admitted):
            # Its JobSet is not there: the garbage collector would delete it.
            del each_one["metadata"]["ownerReferences"]
        elsewhere = local_queue("q", "cq", "u"), first
        async with place(tmp_path, [*found, *elsewhere], kueue=True) as here, reading(here) as reader:
            await reader.read()
            seen = []
            async with asyncio.timeout(HUNG_SECONDS), aclosing(GangWatch(reader).turns()) as turns:
                async for turn in turns:
                    gangs = [after for (_, name), _, after in turn if name == WAITS and after is not None]
                    seen += [gang.causes[0].reason.value for gang in gangs]
                    if seen[1:]:
                        break
                    here.put([admitted])
        assert seen == ["HeadBlocksQueue", "WaitingForQuota"]


async def test_a_verdict_is_computed_again_for_quotas_and_its_jobset_and_not_for_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workloads change all the time, and in a large cluster thousands of gangs wait."""
    found = dump.queued(dump.queued_workload(condition("QuotaReserved", False, "Pending")), cpu="0")
    (workload,) = (item for item in found if item["apiVersion"].startswith("kueue") and item["kind"] == "Workload")
    jobset = next(item for item in found if item["kind"] == "JobSet" and item["metadata"]["name"] == WAITS)
    async with place(tmp_path, found, kueue=True) as here, reading(here) as reader:
        state = await reader.read()
        computed: list[Object] = []
        never = state.queues.never

        def counted(_stock: Stock, raw: Object, namespace: str) -> Never | None:
            computed.append(raw)
            return never(raw, namespace)

        monkeypatch.setattr(Stock, "never", counted)
        async with asyncio.timeout(HUNG_SECONDS), aclosing(GangWatch(reader).turns()) as turns:
            await anext(turns)
            # The first turns are of what the informers list.
            for priority in range(5):
                workload["spec"]["priority"] = priority
                before = len(computed)
                here.put([workload])
                await anext(turns)
                if len(computed) == before:
                    break
            assert len(computed) == before
            jobset["spec"]["replicatedJobs"][0]["replicas"] = 2
            here.put([jobset])
            while len(computed) == before:
                await anext(turns)
    assert computed[-1]["spec"]["replicatedJobs"][0]["replicas"] == 2


@asynccontextmanager
async def reading(here: Place) -> AsyncIterator[ScopeReader]:
    """What commands that watch read with, in this process."""
    async with Transport(await load_cluster(kubeconfig=here.kubeconfig)) as transport:
        yield ScopeReader(Client(transport), JobSetScope(NAMESPACE), watching=True)


async def test_what_the_cluster_lacks_is_known_also_after_the_proof(tmp_path: Path) -> None:
    """The controller makes no CompositePodGroup there: each gang starts by itself."""
    raw = jobset(
        "slices",
        rj("w", 2, 1, 1, mode="ReplicatedGang"),
        options='{"composite": true}',
        namespace=NAMESPACE,
        uid="uid-of-slices",
    )
    found = read_jobset(stored(raw))[0]
    async with place(tmp_path, dump.objects()) as here, reading(here) as reader:
        for step in (reader.read, partial(reader.look_closely, [(NAMESPACE, RUNS)])):
            await step()
            assert reader.state.api.lacks == {Feature.COMPOSITE}
            plan = reader.state.assessment(found).plan
            assert plan is not None
            assert plan.composite is None
    assert here.requests("create") == [("create", "jobs.batch")]

"""What there is, by the flags, and how it is connected."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

import gangctl.manager.webhooks
import gangctl.webhooks.review
from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import GANG_REF
from gangctl.api.scheduling import Generation
from gangctl.api.store import Entry
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.controllers.namespaces import ServedNamespaces
from gangctl.controllers.readiness.events import ReadinessEvents
from gangctl.controllers.readiness.evictions import Evictions
from gangctl.controllers.readiness.gangobjects import GangObjects
from gangctl.errors import ConfigError
from gangctl.gang.desired import Lifecycle
from gangctl.gang.diff import Create, Difference
from gangctl.gang.plan import make_plan
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.kueue.objects import QueuedWorkload
from gangctl.manager.readinessmetrics import ReadinessMetrics
from gangctl.manager.settings import load_settings
from gangctl.manager.wiring import Wiring
from gangctl.policy.loaded import PolicySet
from gangctl.runtime.manager import Manager, Work
from gangctl.runtime.server import HttpRefusal
from gangctl.runtime.shards import Share, shard_of
from gangctl.webhooks.configurations import (
    MUTATE_DEFAULTS,
    MUTATE_JOBS,
    MUTATE_JOBSETS,
    VALIDATE_FAIL,
    VALIDATE_IGNORE,
    VALIDATE_JOBSETS,
    VALIDATE_KEYS,
)
from gangctl.webhooks.review import MAX_OBJECT_VALUES
from tests.credentials import StaticCredentials
from tests.jobsets import jobset, rj
from tests.webhooks.test_policies import loaded
from tests.webhooks.test_review import review


def wired(manager: Manager | None = None, **flags: Any) -> Wiring:
    return Wiring(manager or managed(**flags), load_settings(flags, None))


def managed(**flags: Any) -> Manager:
    client = Client(Transport(StaticCredentials("http://127.0.0.1:1", token="none")))
    share, standby = Share(flags.get("shards", 1)), flags.get("standby", False)
    return Manager(client, client, own_namespace="gangctl-system", share=share, standby=standby)


def suspended(*, queue: str) -> JobSet:
    raw = jobset("js", rj("w", 1, 1, 1, mode="Gang"), suspend=True, uid="u")
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    return read_jobset(raw)[0]


async def test_kueue_is_followed_by_default() -> None:
    manager = managed()
    queues = wired(manager).queues
    assert queues is not None
    assert manager.watching["queues"] == queues.sources.run
    assert "verdicts" in manager.leading
    assert manager.checks["queues"]() == "waiting for kueue"


async def test_kueue_can_be_switched_off() -> None:
    manager = managed()
    wiring = wired(manager, kueue="off")
    assert wiring.queues is None
    assert "queues" not in manager.checks
    assert set(manager.watching) == {"caches", "discovery", "policy-sources", "exported-policies", "policies"}
    assert (set(manager.leading), set(manager.leading_first)) == (
        {"gangs", "readiness"},
        {"policies", "registrations"},
    )
    assert wiring.policies is not None
    assert wiring.policies.fit(jobset("js", rj("w")), "t")["verdict"] == "unknown"


async def test_a_suspended_jobset_keeps_its_groups_if_kueue_is_present() -> None:
    wiring = wired()
    queues, kept = wiring.queues, wiring.gangs.assessments.suspended
    assert queues is not None
    jobset = suspended(queue="q")
    assert kept(jobset) is Lifecycle.UNDECIDED
    queues.sources.presence.present = False
    assert kept(jobset) is Lifecycle.RETIRED
    queues.sources.presence.present = True
    assert kept(jobset) is Lifecycle.KEPT
    assert kept(suspended(queue="")) is Lifecycle.RETIRED
    queues.early = lambda _: True
    assert kept(jobset) is Lifecycle.PRESENT


async def test_a_policy_whose_parameters_cannot_be_read_counts_as_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = managed()
    policies = wired(manager).policies
    assert policies is not None

    def states() -> list[float | None]:
        registry = manager.metrics.registry
        return [registry.get_sample_value("gangctl_policies", {"state": state}) for state in ("loaded", "broken")]

    reference = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
    with_params = loaded("p", paramKind={"apiVersion": "example.com/v1", "kind": "Limit"}, paramRef=reference)
    policies.keeper.current = PolicySet(1, (with_params, loaded("q")))
    policies.keeper.synced.set()
    for call in policies.keeper.on_swap:
        call()
    assert states() == [1, 1]
    monkeypatch.setattr(policies.catalogue, "trouble", lambda _: "")
    policies.catalogue._on_change()
    assert states() == [2, 0]


async def test_ages_are_by_the_clock_of_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """With this machine's clock ahead, a gang would be evicted before its delay, and a new JobSet count as old."""
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    monkeypatch.setattr(Client, "server_time", lambda _: moment)
    wiring = wired(evict_stranded=True, kueue_check=True)
    readiness, reporter = wiring.readiness, wiring.gangs._reporter
    assert readiness is not None
    assert wiring.queues is not None
    assert wiring.checks is not None
    assert wiring.policies is not None
    metrics, events, evictions = readiness._observers
    assert isinstance(metrics, ReadinessMetrics)
    assert isinstance(events, ReadinessEvents)
    assert isinstance(evictions, Evictions)
    assert [one._clock.wall() for one in (readiness, reporter, events, evictions)] == [moment] * 4
    assert (metrics._wall(), wiring.queues.view.now()) == (moment.timestamp(), moment)
    policies = wiring.policies
    assert [now() for now in (wiring.checks._loop._now, policies.now, policies.keeper._now)] == [moment] * 3
    # Durations stay on the clock of the event loop.
    assert readiness._clock.now() == pytest.approx(asyncio.get_running_loop().time(), abs=60)
    for age, new in ((119, True), (120, False)):
        assert (
            reporter._is_new(replace(suspended(queue=""), created=(moment - timedelta(seconds=age)).isoformat())) is new
        )


async def test_readiness_is_followed_by_default() -> None:
    manager = managed()
    assert wired(manager).readiness is not None
    assert "readiness" in manager.leading
    assert wired(readiness="off").readiness is None


async def test_jobsets_without_a_gang_are_left_alone_where_gangctl_does_not_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No webhook is asked about them: each would count as a lost guarantee, which nothing could end."""
    manager = managed()
    wiring = wired(manager, namespace_selector="gangctl.dev/managed=true")
    gangs, queues, readiness = wiring.gangs, wiring.queues, wiring.readiness
    assert queues is not None
    assert readiness is not None
    assert "namespaces" in manager.watching
    assert manager.checks["namespaces"]() == "waiting for namespaces"
    informer, jobsets = gangs.namespaces.informer, gangs.caches.jobsets
    assert informer is not None
    queues.sources.presence.present = readiness._active = True
    reported: list[str] = []
    monkeypatch.setattr(manager.recorder, "record", lambda event: reported.append(event.regarding.name))
    (stamp,) = resolve(suspended(queue="q"), ClusterRules()).stamps
    assert stamp is not None
    raw = jobset("stamped", rj("w", 1, 1, 1, annotations={GANG_REF: stamp.encode()}), mode="Gang", uid="s")
    for stored in (suspended(queue="q"), read_jobset(raw)[0]):
        jobsets._notify(jobsets.store.put(stored.key, Entry(stored.uid, "1", stored)))
    keys = [("t", "js"), ("t", "stamped")]

    async def looked_after() -> tuple[list[str], list[str], list[str]]:
        """Names of JobSets with events, of those with a readiness, and of those that wait for quota."""
        reported.clear()
        for key in keys:
            await gangs.controller._reconcile(key)
            readiness._check(key, 0.0)
        followed = [key[1] for key in keys if readiness.readiness(key) is not None]
        return sorted({*reported}), followed, [name for _, name in queues.verdicts.waiting()]

    async def labelled(**labels: str) -> set[str]:
        """Names of the JobSets that are marked once the namespace has these labels."""
        marked: set[str] = set()
        gangs.followers[:] = [lambda key: marked.add(key[1])]
        own = {f"gangctl.dev/{key}": value for key, value in labels.items()}
        namespace = {"kubernetes.io/metadata.name": "t", **own}
        informer._notify(informer.store.put(("", "t"), Entry("t", str(labels), namespace)))
        await asyncio.sleep(0)
        return marked

    assert await looked_after() == (["stamped"], ["stamped"], [])
    assert await labelled(managed="true") == {"js", "stamped"}
    assert await looked_after() == (["js", "stamped"], ["js", "stamped"], ["js"])
    assert await labelled(managed="true", skip="true") == set(), "for a while: what is created meanwhile is reported"
    assert await labelled() == {"js", "stamped"}
    assert await looked_after() == (["stamped"], ["stamped"], [])


async def test_gang_objects_are_written_once_the_labels_of_namespaces_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before that no JobSet without a stamp is followed, and its object would be deleted."""
    began = asyncio.Event()

    async def run(_: GangObjects) -> None:
        began.set()

    monkeypatch.setattr(GangObjects, "run", run)
    flags = {"gang_objects": True, "namespace_selector": "gangctl.dev/managed=true"}
    manager = managed()
    gangs = wired(manager, **flags).gangs
    informer = gangs.namespaces.informer
    assert informer is not None
    writing = asyncio.create_task(manager.leading["gangobjects"]())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not began.is_set()
    informer.synced.set()
    await writing
    assert began.is_set()
    # Where names decide, there is nothing to wait for.
    await ServedNamespaces(manager.reader, []).known()


async def test_pathwaysjobs_are_followed_by_the_leader_if_switched_on() -> None:
    assert wired().pathways is None
    manager = managed()
    assert wired(manager, pathways=True).pathways is not None
    assert "pathways" in manager.leading


def test_gang_objects_need_readiness() -> None:
    with pytest.raises(ConfigError, match=r"gang-objects has no effect with readiness off"):
        load_settings({"readiness": "off", "gang_objects": True}, None)


def test_settings_that_need_kueue_are_refused_without_it() -> None:
    with pytest.raises(ConfigError, match=r"kueue-check has no effect with kueue off"):
        load_settings({"kueue": "off", "kueue_check": True}, None)


async def test_what_is_waited_for_at_the_start_is_named() -> None:
    manager = managed()
    gangs = wired(manager).gangs
    check = manager.checks["caches"]
    assert check() == "waiting for jobsets, jobs"
    for informer in gangs.caches.informers.values():
        informer.synced.set()
    assert check() == "discovery has not finished"
    following = asyncio.create_task(gangs.caches.follow(Generation.V1BETA1))
    await asyncio.sleep(0)
    assert check() == "waiting for workloads, podgroups"
    following.cancel()
    await gangs.caches.follow(None)
    gangs.discovery.settled.set()
    assert check() is None


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
async def test_before_discovery_a_failure_policy_decides_about_jobsets_alone(
    failure_policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = wired(webhook_failure_policy=failure_policy).webhooks._endpoints
    create = orjson.dumps(review())
    update = orjson.dumps(review(operation="UPDATE", oldObject=review()["request"]["object"]))
    assert orjson.loads(await ask[VALIDATE_KEYS](update))["response"]["allowed"], "it needs nothing of the cluster"
    monkeypatch.setattr(gangctl.webhooks.review, "WAIT_SECONDS", 0)
    assert orjson.loads(await ask[MUTATE_JOBS](create))["response"]["status"]["code"] == 503
    for path in (MUTATE_JOBSETS, VALIDATE_JOBSETS):
        if failure_policy == "Ignore":
            with pytest.raises(HttpRefusal, match="just started"):
                await ask[path](create)
        else:
            assert orjson.loads(await ask[path](create))["response"]["status"]["code"] == 503


async def test_a_new_leader_checks_the_registrations_at_once() -> None:
    manager = managed()
    webhooks = wired(manager).webhooks
    registrars = (webhooks._registrar, webhooks._policy_registrar)
    assert not any(registrar._woken.is_set() for registrar in registrars)
    await manager.leading_first["registrations"]()
    assert all(registrar._woken.is_set() for registrar in registrars)


async def test_policies_are_withdrawn_when_certificates_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    webhooks = wired(policies="off").webhooks
    registrar, answers = webhooks._policy_registrar, [ConfigError("certificate and key do not match"), None]

    async def check() -> bool:
        if (error := answers.pop(0)) is not None:
            raise error
        registrar.problem = None
        return False

    monkeypatch.setattr(registrar, "check", check)
    monkeypatch.setattr(gangctl.manager.webhooks, "RETRY_SECONDS", 0)
    await webhooks._withdraw_policies()
    assert not answers


async def test_a_replica_without_policies_answers_what_is_registered_for_them() -> None:
    """While ``--policies off`` is rolled out, webhooks with Fail are registered for a Service that leads here, too."""
    ask = wired(policies="off").webhooks._endpoints
    assert ask.keys() == wired().webhooks._endpoints.keys()
    large = {**jobset("js", rj("w")), "values": [0] * (MAX_OBJECT_VALUES + 1)}
    for path in (VALIDATE_FAIL, VALIDATE_IGNORE, MUTATE_DEFAULTS):
        for changes in ({}, {"object": large}):
            answer = orjson.loads(await ask[path](orjson.dumps(review(**changes))))["response"]
            warning = "gangctl does not evaluate GangPolicies here (--policies off)"
            assert answer == {"uid": "0d1f", "allowed": True, "warnings": [warning]}, path


async def test_a_standby_keeps_no_keys_of_objects_that_it_has_seen() -> None:
    """A new leader enqueues all that exists, and a standby may see a million JobSets that are deleted again."""
    manager = managed(standby=True)
    wiring = wired(manager, kueue_check=True)
    assert wiring.queues is not None
    assert wiring.checks is not None
    wiring.queues.sources.presence.present = True
    queues = [
        controller.queue
        for controller in (wiring.gangs.controller, wiring.queues._controller, wiring.checks._workloads)
    ]
    jobsets, workloads = wiring.gangs.caches.jobsets, wiring.queues.sources.workloads.informer

    def come_and_go() -> None:
        jobsets._notify(jobsets.store.put(("t", "js"), Entry("u", "1", suspended(queue="q"))))
        workloads._notify(workloads.store.put(("t", "wl"), Entry("w", "1", QueuedWorkload("t", "wl", "w"))))
        workloads._notify(workloads.store.discard(("t", "wl")))
        jobsets._notify(jobsets.store.discard(("t", "js")))

    come_and_go()
    assert [(*queue._parked, *queue._delayed) for queue in queues] == [(), (), ()]

    async def work() -> None:
        come_and_go()

    manager.leading, manager.leading_first = {"work": work}, {}
    await manager.lead()
    assert [(*queue._parked, *queue._delayed) for queue in queues] == [(("t", "js"),), (("t", "js"),), (("t", "wl"),)]
    jobsets._notify(jobsets.store.put(("t", "other"), Entry("u", "1", suspended(queue="q"))))
    assert [*queues[0]._parked] == [("t", "js")]


async def test_what_another_leader_deleted_is_not_recreated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica leads, then another one, which retires the objects of a suspended JobSet, then the first one again."""
    gangs = wired().gangs
    raw = jobset("js", rj("w", 1, 1, 1, mode="Gang"), uid="u")
    running, generation = read_jobset(raw)[0], ClusterRules().generation
    plan = make_plan(running, resolve(running, ClusterRules()).stamps, resolve(running, ClusterRules()).config)
    assert plan is not None
    gangs._reporter.present(running, plan, Difference(), generation, suspended=Lifecycle.RETIRED, interrupted=False)
    monkeypatch.setattr(gangs, "known", lambda: asyncio.sleep(0))
    monkeypatch.setattr(gangs.controller, "run", lambda: asyncio.sleep(0))
    await gangs._lead()
    changes = (Create("Workload", plan.workload), *(Create("PodGroup", group) for group in plan.groups))
    gangs._reporter.applied(running, plan, changes, generation, interrupted=False, prepared=False)
    gangs._reporter.present(
        running, plan, Difference(changes), generation, suspended=Lifecycle.RETIRED, interrupted=False
    )
    registry = gangs._manager.metrics.registry
    results = {
        sample.labels["result"]: sample.value
        for family in registry.collect()
        if family.name == "gangctl_translations"
        for sample in family.samples
    }
    repairs = [family.samples for family in registry.collect() if family.name == "gangctl_drift_repairs"]
    assert (results, repairs) == ({"created": 1.0}, [[]])


@pytest.mark.parametrize("number", [0, 1])
async def test_each_shard_has_its_keys_and_the_first_the_cluster_scoped_ones(number: int) -> None:
    manager = managed(shards=2)
    wiring = wired(manager, shards=2, kueue_check=True)
    manager.share.take(number)
    mine, others = (next(n for n in map(str, range(99)) if shard_of(n, 2) == each) for each in (number, 1 - number))
    active: list[str] = []

    def noting(name: str) -> Work:
        async def work() -> None:
            active.append(name)

        return work

    first = {"policies", "admission-checks", "registrations"}
    assert set(manager.leading_first) == first, "statuses and scans, activity of checks, configurations"
    for works in (manager.leading, manager.leading_first):
        works |= {name: noting(name) for name in works}
    queue = wiring.gangs.controller.queue
    await queue.resume()
    for namespace in (mine, others):
        wiring.gangs.controller.enqueue((namespace, "js"))
    assert (len(queue), await queue.get()) == (1, (mine, "js"))
    await manager.lead()
    assert set(active) == set(manager.leading) | set(manager.leading_first if number == 0 else ())


def test_shards_need_leases() -> None:
    with pytest.raises(ConfigError, match=r"shards has no effect without leader-elect"):
        load_settings({"shards": 2, "leader_elect": False}, None)

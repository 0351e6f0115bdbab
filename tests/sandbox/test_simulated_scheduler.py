"""The simulated scheduler: plain pods block each other, gangs start whole or not at all, on every minor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gangctl.sandbox.api import SYSTEM, Api
from gangctl.sandbox.objects import Object
from gangctl.sandbox.simulated import Outcome, add_nodes
from gangctl.sandbox.simulated.binder import FreeCapacity, requests_of
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.sandbox.asking import create
from tests.sandbox.stage import NAMESPACE, Referring, Stage, stage

MINORS = ("1.35", "1.36", "1.37")
JOBSETS, PODS = 4, 5
VERSIONS = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1"}
NAME = "jobset.sigs.k8s.io/jobset-name"


def pod(name: str, cpu: str = "1", **spec: Any) -> Object:
    """A plain pod."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def affinity(*terms: Object) -> Object:
    """A required node affinity with these expressions."""
    required = {"nodeSelectorTerms": [{"matchExpressions": list(terms)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def reference(minor: str, group: str) -> Object:
    """How a pod names a group that :func:`create_group` makes."""
    if minor == "1.35":
        return {"workloadRef": {"name": group, "podGroup": "w"}}
    return {"schedulingGroup": {"podGroupName": group}}


async def create_group(on: Stage, minor: str, group: str, min_count: int, **spec: Any) -> None:
    """A gang by hand, in the form of the minor."""
    version = f"scheduling.k8s.io/{VERSIONS[minor]}"
    metadata = {"name": group, "namespace": NAMESPACE}
    policy = {"gang": {"minCount": min_count}}
    if minor == "1.35":
        entries = [{"name": "w", "policy": policy}]
        workload = {"apiVersion": version, "kind": "Workload", "metadata": metadata, "spec": {"podGroups": entries}}
        await on.create("workloads.scheduling.k8s.io", workload)
        return
    body = {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"schedulingPolicy": policy, **spec},
    }
    await on.create("podgroups.scheduling.k8s.io", body)


def ganged(minor: str, name: str, cpu: str = "1") -> Object:
    """A JobSet of five pods that all name the group called like it; on 1.35 its CRD has no room for that."""
    link = reference(minor, name) if minor != "1.35" else {}
    return jobset(
        name, rj("driver", 1, 1, 1, cpu=cpu, pod=link), rj("workers", 1, PODS - 1, PODS - 1, cpu=cpu, pod=link)
    )


def condition(obj: Object, kind: str) -> Object:
    found = [c for c in obj.get("status", {}).get("conditions") or [] if c["type"] == kind]
    return dict(found[0]) if found else {}


def _when_all_are_bound(_pod: Object, jobset: Sequence[Object]) -> Outcome | None:
    """As training jobs do, pods wait for their peers: half-started JobSets hold their nodes for ever."""
    return "Succeeded" if len(jobset) >= PODS else None


async def test_without_gangs_jobsets_block_each_other_half_started() -> None:
    """Each JobSet gets some of the capacity and none gets enough: nothing ever finishes."""
    async with stage(policy=_when_all_are_bound, pause_seconds=0.01) as on:
        await add_nodes(on.api, 2)
        for i in range(JOBSETS):
            await on.create_jobset(
                jobset(f"train-{i}", rj("driver", 1, 1, 1, cpu="1"), rj("workers", 1, PODS - 1, PODS - 1, cpu="1"))
            )

        async def all_there() -> bool:
            return len(await on.pods()) == JOBSETS * PODS

        await on.until(all_there, "all pods")
        await on.until_phase("Running", 8)
        await on.idle()
        held = Counter(p["metadata"]["labels"][NAME] for p in await on.bound())
    assert sum(held.values()) == 8
    assert max(held.values()) < PODS


@each("minor", MINORS)
async def test_gangs_run_one_after_the_other(minor: str) -> None:
    api = Api(minor, admission=Referring() if minor == "1.35" else None)
    async with stage(api=api, policy=_when_all_are_bound, pause_seconds=0.01) as on:
        await add_nodes(on.api, 2)
        for i in range(JOBSETS):
            await create_group(on, minor, f"train-{i}", PODS)
            await on.create_jobset(ganged(minor, f"train-{i}"))
        for i in range(JOBSETS):
            await on.until_condition("jobsets.jobset.x-k8s.io", f"train-{i}", "Completed")


@each("minor", MINORS)
async def test_a_gang_waits_for_its_group_then_its_pods_then_capacity(minor: str) -> None:
    async with stage(minor) as on:
        await add_nodes(on.api, 1, cpu="1")
        link = reference(minor, "g")
        await on.create("pods", pod("p-0", **link))
        await on.idle()
        assert await on.bound() == [], "there is no group"
        await create_group(on, minor, "g", 2)
        await on.idle()
        assert await on.bound() == [], "there is one pod of two"
        assert condition((await on.pods())[0], "PodScheduled") == {}, "it has not even been looked at"
        await on.create("pods", pod("p-1", **link))
        await on.idle()
        assert await on.bound() == [], "there is room for one"
        refused = condition((await on.pods())[0], "PodScheduled")
        assert (refused["status"], refused["reason"]) == ("False", "Unschedulable")
        assert "0/1 nodes are available: 1 Insufficient cpu." in refused["message"]
        await add_nodes(on.api, 1, cpu="1")
        await on.until_bound(2)


@each(("minor", "kind"), [("1.36", "PodGroupScheduled"), ("1.37", "PodGroupInitiallyScheduled")])
async def test_a_podgroup_has_a_scheduling_condition(minor: str, kind: str) -> None:
    async with stage(minor) as on:
        await create_group(on, minor, "g", 1)
        await on.create("pods", pod("p-0", **reference(minor, "g")))
        await on.idle()
        waiting = condition(await on.get("podgroups.scheduling.k8s.io", "g"), kind)
        assert (waiting["status"], waiting["reason"]) == ("False", "Unschedulable")
        await add_nodes(on.api, 1)
        await on.until_bound(1)
        await on.idle()
        scheduled = condition(await on.get("podgroups.scheduling.k8s.io", "g"), kind)
        assert (scheduled["status"], scheduled["reason"]) == ("True", "Scheduled")
        await on.create("pods", pod("p-1", cpu="99", **reference(minor, "g")))
        await on.idle()
        after = condition(await on.get("podgroups.scheduling.k8s.io", "g"), kind)
        assert after["status"] == "True", "it never goes back"


async def test_a_group_with_a_gated_pod_waits_and_others_do_not() -> None:
    async with stage("1.37") as on:
        await add_nodes(on.api, 1)
        await create_group(on, "1.37", "g", 2)
        await on.create("pods", pod("p-0", schedulingGates=[{"name": "example.com/hold"}], **reference("1.37", "g")))
        await on.create("pods", pod("p-1", **reference("1.37", "g")))
        await on.idle()
        refused = condition(await on.get("pods", "p-1"), "PodScheduled")
        assert "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining" in refused["message"]
        await on.create("pods", pod("alone"))
        await on.until_bound(1)


@each("minor", MINORS)
async def test_a_replacement_pod_joins_its_running_gang(minor: str) -> None:
    async with stage(minor) as on:
        await add_nodes(on.api, 1, cpu="2")
        await create_group(on, minor, "g", 2)
        for i in range(2):
            await on.create("pods", pod(f"p-{i}", **reference(minor, "g")))
        await on.until_phase("Running", 2)
        await on.delete("pods", "p-0")
        await on.create("pods", pod("p-2", **reference(minor, "g")))
        await on.until_bound(2)


async def test_a_replacement_waits_for_a_quorum_that_succeeded_pods_no_longer_make() -> None:
    """The tail of 1.37: a lower minCount lets it in."""
    async with stage("1.37") as on:
        await add_nodes(on.api, 1)
        await create_group(on, "1.37", "g", 2)
        for i in range(2):
            await on.create("pods", pod(f"p-{i}", restartPolicy="Never", **reference("1.37", "g")))
        first, second = await on.until_phase("Running", 2)
        await on.simulated.kubelet.finish(first)
        await on.simulated.kubelet.fail(second)
        await on.create("pods", pod("p-2", **reference("1.37", "g")))
        await on.idle()
        assert not (await on.get("pods", "p-2"))["spec"].get("nodeName")
        patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
        await on.patch("podgroups.scheduling.k8s.io", "g", patch)
        await on.idle()
        assert (await on.get("pods", "p-2"))["spec"]["nodeName"] == "node-0"


@each(("minor", "bound"), [("1.36", 1), ("1.37", 0)])
async def test_a_group_of_1_37_takes_only_pods_of_its_own_priority(minor: str, bound: int) -> None:
    async with stage(minor) as on:
        await add_nodes(on.api, 1)
        await create(on.api, "priorityclasses.scheduling.k8s.io", "high", value=1000)
        await create_group(on, minor, "g", 1)
        await on.create("pods", pod("p-0", priorityClassName="high", **reference(minor, "g")))
        await on.idle()
        assert len(await on.bound()) == bound
        if not bound:
            refused = condition(await on.get("pods", "p-0"), "PodScheduled")
            assert refused["reason"] == "SchedulerError"
            assert refused["message"].endswith("got 1000 and 0")


async def test_replica_keys_of_1_35_are_separate_groups() -> None:
    async with stage("1.35") as on:
        await add_nodes(on.api, 1)
        await create_group(on, "1.35", "g", 2)
        for name, key in (("p-0", "0"), ("p-1", "0"), ("p-2", "1")):
            link: dict[str, Any] = {"workloadRef": {"name": "g", "podGroup": "w", "podGroupReplicaKey": key}}
            await on.create("pods", pod(name, **link))
        await on.idle()
        assert [p["metadata"]["name"] for p in await on.bound()] == ["p-0", "p-1"]


async def test_a_gang_of_higher_priority_is_scheduled_first() -> None:
    async with stage() as on:
        await create(on.api, "priorityclasses.scheduling.k8s.io", "high", value=1000)
        await on.create("pods", pod("low"))
        await on.create("pods", pod("high", priorityClassName="high"))
        await on.idle()
        await add_nodes(on.api, 1, cpu="1")
        (bound,) = await on.until_bound(1)
    assert bound["metadata"]["name"] == "high"


@each(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"pool": "gpu"}}, True),
        ({"nodeSelector": {"pool": "cpu"}}, False),
        ({"nodeSelector": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}}, True),
        (affinity({"key": "pool", "operator": "In", "values": ["cpu", "gpu"]}), True),
        (
            affinity(
                {"key": "pool", "operator": "In", "values": ["gpu"]}, {"key": "pool", "operator": "Gt", "values": ["1"]}
            ),
            False,
        ),
        (affinity({"key": "spot", "operator": "Exists"}), False),
        (affinity(), False),
        ({"schedulingGates": [{"name": "later"}]}, False),
        ({"schedulerName": "volcano"}, False),
        ({"tolerations": []}, False),
    ],
    ids=[
        *("selected", "not-selected", "of-a-kubelet", "affine", "one-of-two", "not-affine", "affine-to-none"),
        *("gated", "another-scheduler", "tainted"),
    ],
)
async def test_a_pod_is_bound_only_to_a_node_that_it_fits(spec: Object, fits: bool) -> None:
    tolerated = {"tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]}
    async with stage() as on:
        taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
        await add_nodes(on.api, 1, labels={"pool": "gpu"}, taints=[taint])
        await on.create("pods", pod("p", **{**tolerated, **spec}))
        await on.idle()
        assert bool(await on.bound()) is fits


async def test_pods_spread_over_the_emptiest_nodes_and_extended_resources_count() -> None:
    async with stage() as on:
        await add_nodes(on.api, 2, extended={"example.com/tpu": "1"})
        for i in range(3):
            wanted = pod(f"p-{i}")
            wanted["spec"]["containers"][0]["resources"] = {"limits": {"example.com/tpu": "1"}}
            await on.create("pods", wanted)
            await on.idle()
        placed = {p["metadata"]["name"]: p["spec"].get("nodeName") for p in await on.pods()}
        refused = condition(await on.get("pods", "p-2"), "PodScheduled")
    assert placed == {"p-0": "node-0", "p-1": "node-1", "p-2": None}
    assert refused["message"] == "0/2 nodes are available: 2 Insufficient example.com/tpu."


async def test_pods_with_the_same_host_port_are_not_on_one_node() -> None:
    async with stage() as on:
        await add_nodes(on.api, 2)
        for name in ("p", "q", "r"):
            wanted = pod(name, hostNetwork=True)
            wanted["spec"]["containers"][0]["ports"] = [{"containerPort": 8471}]
            await on.create("pods", wanted)
        await on.idle()
        placed = sorted(p["spec"]["nodeName"] for p in await on.bound())
        (waiting,) = [p for p in await on.pods() if not p["spec"].get("nodeName")]
    assert placed == ["node-0", "node-1"]
    why = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
    assert condition(waiting, "PodScheduled")["message"] == why


async def test_a_cordoned_node_takes_no_pod_and_is_counted_as_kube_scheduler_counts_it() -> None:
    async with stage() as on:
        await add_nodes(on.api, 2, cpu="1")
        await on.api.patch(on.api.kind("nodes"), "", "node-0", {"spec": {"unschedulable": True}}, "merge", SYSTEM)
        for name in ("p", "q"):
            await on.create("pods", pod(name))
            await on.idle()
        placed = {p["metadata"]["name"]: p["spec"].get("nodeName") for p in await on.pods()}
        refused = condition(await on.get("pods", "q"), "PodScheduled")
    assert placed == {"p": "node-1", "q": None}
    assert refused["message"] == "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."


def test_the_first_filter_of_kube_scheduler_that_refuses_a_node_is_named() -> None:
    def node(name: str, **spec: object) -> Object:
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "1", "pods": "9"}}
        return {"metadata": {"name": name}, "spec": spec, "status": ready}

    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    free = FreeCapacity([node("a", unschedulable=True, taints=[taint]), node("b", taints=[taint]), node("c")])
    wanted = pod("p", nodeSelector={"pool": "none"})
    tainted, unselected = (
        "node(s) had untolerated taint {gpu: yes}",
        "node(s) didn't match Pod's node affinity/selector",
    )
    words = f"0/3 nodes are available: 1 {unselected}, 1 {tainted}, 1 node(s) were unschedulable."
    assert free.why_not(wanted, requests_of(wanted)) == words

    # Who tolerates the taint of cordoned nodes is placed on one.
    cordoned = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    tolerant = pod("q", tolerations=[cordoned, {"key": "gpu", "operator": "Exists"}])
    assert free.place(tolerant, requests_of(tolerant)) == "a"


def test_pod_level_resources_replace_those_of_containers() -> None:
    wanted = pod("p", cpu="1", resources={"requests": {"cpu": "3"}, "limits": {"cpu": "4", "memory": "2"}})
    assert requests_of(wanted) == {"cpu": 3, "memory": 2, "pods": 1}
    # Of a limit alone the containers' requests stay.
    assert requests_of(pod("p", cpu="1", resources={"limits": {"cpu": "4"}})) == {"cpu": 1, "pods": 1}

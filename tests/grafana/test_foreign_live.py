"""The list of others' metrics against the real scheduler: what it exports after a pod group has been scheduled."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.grafana.foreign import FAMILIES
from tests.live.gangctl import create_namespaces

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("1.37")]

OURS = {family.name: family for family in FAMILIES if family.name.startswith("scheduler_")}
SEEN = {
    "scheduler_pending_pods",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_podgroup_schedule_attempts_total",
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "scheduler_queued_entities",
    "scheduler_unschedulable_pods",
    "scheduler_workload_preemption_attempts_total",
    "scheduler_workload_preemption_victims",
}
"""Others have their first series only when something is preempted for, or placed in a topology domain."""


def group_of_two(name: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }


def pod(name: str, group: str, node: str, cpu: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulingGroup": {"podGroupName": group},
            "nodeSelector": {"test": node},
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        },
    }


async def exported(plane: ControlPlane) -> dict[str, tuple[str, set[str]]]:
    """What the scheduler exports of it: the type, and the labels of the first series."""
    command = plane.process("kube-scheduler").command
    (port,) = (flag.partition("=")[2] for flag in command if flag.startswith("--secure-port="))
    user = plane.site.user("scraper", ["system:masters"])
    scraper = ApiClient(f"https://127.0.0.1:{port}", ca=plane.ca, user=user)
    try:
        text = await scraper.text("/metrics")
    finally:
        await scraper.close()
    found = {}
    for metric in text_string_to_metric_families(text):
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        if name in OURS and metric.samples:
            found[name] = (metric.type, set(metric.samples[0].labels) - {"le"})
    return found


async def test_the_scheduler_exports_the_listed_metrics(plane_1_37: ControlPlane, namespace: str) -> None:
    """One gang that is placed, and one that is too large for its node."""
    api = plane_1_37.api
    await create_namespaces(plane_1_37, [namespace])
    await add_nodes(api, 1, cpu="4", labels={"test": namespace})
    for group, cpu in (("fits", "1"), ("never", "3")):
        groups = path_of("scheduling.k8s.io/v1beta1", "podgroups", namespace=namespace)
        await api.create(groups, group_of_two(group))
        for number in range(2):
            body = pod(f"{group}-{number}", group, namespace, cpu)
            await api.create(path_of("v1", "pods", namespace=namespace), body)

    async def all_seen() -> dict[str, tuple[str, set[str]]]:
        found = await exported(plane_1_37)
        if missing := SEEN - found.keys():
            raise NotYet(f"not exported: {missing}")
        return found

    found = await wait_for(all_seen, "metrics of pod groups")
    assert found == {name: (OURS[name].type, set(OURS[name].labels)) for name in found}

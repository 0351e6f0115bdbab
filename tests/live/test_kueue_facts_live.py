"""What gangctl computes of Kueue's own objects, beside what Kueue makes: names, podsets, requests, the golden table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from gangctl.api.requests import times
from gangctl.fit.requests import Surroundings, podsets_of, requests_of
from gangctl.kueue.objects import QueuedWorkload
from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.kueue.workloadname import workload_name
from tests.live.cluster import JOBSETS, Cluster
from tests.live.gangctl import Gangctl, prepare, shared, shared_gangctl
from tests.live.queued import QUEUE, Queued

pytestmark = [pytest.mark.controlplane]

SHAPES: Final = ((1, None, None, 1), (3, 4, None, 12), (3, 4, 2, 6), (3, 4, 8, 12), (0, 4, None, 0), (2, 0, None, 0))
"""Replicas, parallelism, completions, and pods that are reserved."""


def main(requests: Object, **more: Any) -> Object:
    return {"name": "main", "image": "none", "resources": {"requests": requests, **more}}


PODS: Final[dict[str, tuple[Object, int]]] = {
    "sum": ({"containers": [main({"cpu": "1", "memory": "1Gi"}), main({"cpu": "500m"}) | {"name": "b"}]}, 3),
    "init": ({"initContainers": [main({"cpu": "4"}) | {"name": "i"}], "containers": [main({"cpu": "1"})]}, 2),
    "sidecar": (
        {
            "initContainers": [
                main({"cpu": "1"}) | {"name": "s", "restartPolicy": "Always"},
                main({"cpu": "2"}) | {"name": "i"},
            ],
            "containers": [main({"cpu": "1"})],
        },
        1,
    ),
    "limits": ({"containers": [{**main({}), "resources": {"limits": {"example.com/gpu": 8, "cpu": 2}}}]}, 2),
    "pod-level": (
        {
            "containers": [main({"cpu": "1", "example.com/gpu": "1"}, limits={"example.com/gpu": "1"})],
            "resources": {"requests": {"cpu": "3"}},
        },
        2,
    ),
    "rounded": ({"containers": [main({"cpu": "0.1001", "memory": "1500m"})]}, 3),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(minor, marks=[pytest.mark.xdist_group(f"kueue-{minor}"), pytest.mark.minor(minor)])
        for minor in ("1.37", "1.36")
    ],
)
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    async def start() -> ControlPlane:
        started = await ControlPlane.start(request.param, ("jobset", "kueue"), scheduler=False)
        await prepare(started)
        return started

    yield from shared(start)


@pytest.fixture(scope="module")
def _gangctl(plane: ControlPlane) -> Iterator[Gangctl]:
    yield from shared_gangctl(Gangctl(plane))


async def room(plane: ControlPlane, slug: str) -> Queued:
    """A namespace whose queue has more than anybody here asks for, of everything."""
    queued = await Queued.make(plane, slug)
    resources = ["cpu", "memory", "example.com/gpu"]
    quotas = [{"name": name, "nominalQuota": "1000Gi"} for name in resources]
    groups = [{"coveredResources": resources, "flavors": [{"name": queued.namespace, "resources": quotas}]}]
    await queued.queue(resourceGroups=groups)
    return queued


async def reserved(queued: Queued, name: str) -> QueuedWorkload:
    """The Workload of a JobSet once it has quota."""
    return await read_until(
        lambda: queued.workload(name), lambda workload: workload.assignments, f"{name} to have quota"
    )


async def test_names_and_podsets_of_workloads_are_as_computed(plane: ControlPlane) -> None:
    """K1 and K2: the name of the Workload is predicted, and its podsets in order with their counts."""
    queued = await room(plane, "podsets")
    entries = [rj(f"shape{n}", *shape[:3]) for n, shape in enumerate(SHAPES)]
    body = jobset("shapes", *entries, namespace=queued.namespace)
    await queued.submit("shapes", body=body)
    workload = await reserved(queued, "shapes")
    assert workload.name == workload_name("JobSet", "jobset.x-k8s.io", "shapes", queued.uids["shapes"])
    assert list(workload.pods.items()) == [(f"shape{n}", shape[3]) for n, shape in enumerate(SHAPES)]
    assert {each.name: each.pods for each in podsets_of(body)} == dict(workload.pods)


async def test_requests_of_podsets_are_as_computed(plane: ControlPlane) -> None:
    """K5: what a podset takes of the quota is what we count for it."""
    queued = await room(plane, "requests")
    bodies: dict[str, Object] = {}
    for name, (pod, pods) in PODS.items():
        bodies[name] = jobset(name, rj("w", 1, pods, pods, pod=pod), namespace=queued.namespace)
        await queued.submit(name, body=bodies[name])
    for name, (_, pods) in PODS.items():
        (assigned,) = (await reserved(queued, name)).assignments
        (podset,) = podsets_of(bodies[name])
        counted = requests_of(podset, Surroundings())
        assert counted.unknown == counted.problems == ()
        ours = {resource: amount for resource, amount in times(counted.requests, pods).items() if amount}
        assert (name, ours) == (name, dict(assigned.usage))


@pytest.mark.usefixtures("_gangctl")
async def test_templates_have_the_names_of_podsets(plane: ControlPlane) -> None:
    """K21: for ReplicatedJob gangs, so that a reader of both finds them by name."""
    queued = await room(plane, "templates")
    cluster = Cluster(plane, queued.namespace)
    body = jobset("named", rj("driver", mode="Gang"), rj("workers", 2, 2, 2, mode="Gang"), namespace=queued.namespace)
    await queued.submit("named", body=body)
    workload = await reserved(queued, "named")

    async def templates() -> list[str]:
        for each in (await cluster.gangs()).workloads.values():
            return [template["name"] for template in each["spec"]["podGroupTemplates"]]
        raise NotYet("no Workload of scheduling.k8s.io")

    assert await wait_for(templates, "the gang's Workload") == list(workload.pods)


@pytest.mark.usefixtures("_gangctl")
async def test_a_jobset_managed_by_multikueue_gets_no_gang(plane: ControlPlane) -> None:
    """K16: a JobSet that MultiKueue manages; one created after it has its gang, so gangctl has passed it by."""
    queued = await room(plane, "elsewhere")
    cluster = Cluster(plane, queued.namespace)
    managed = jobset("away", rj("w", 1, 2, 2), mode="Gang", namespace=queued.namespace)
    managed["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    managed["metadata"]["labels"] = {QUEUE: "main"}
    made = await plane.api.create(path_of(JOBSETS, "jobsets", namespace=queued.namespace), managed)
    await queued.submit("here", body=jobset("here", rj("w", 1, 2, 2), mode="Gang", namespace=queued.namespace))

    async def owners() -> set[str]:
        gangs = await cluster.gangs()
        found = {
            owner["uid"]
            for each in (*gangs.workloads.values(), *gangs.groups.values())
            for owner in each["metadata"]["ownerReferences"]
        }
        if queued.uids["here"] not in found:
            raise NotYet(str(found))
        return found

    assert made["metadata"]["uid"] not in await wait_for(owners, "the other's gang")

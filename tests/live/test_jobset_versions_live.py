"""The releases of JobSet before the newest, on every minor: lives of gangs, and contention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.controlplane.binaries import COMPONENTS
from tests.controlplane.binaries import JOBSETS as RELEASES
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.minors import MINORS
from tests.controlplane.plane import ControlPlane
from tests.live import test_lifecycle_live as lives
from tests.live.cluster import Cluster
from tests.live.contention import JOBSETS, contend
from tests.live.fixtures import alone
from tests.live.gangctl import Gangctl
from tests.live.transcript import BODIES, keeps_its_gang

pytestmark = pytest.mark.full("the newest JobSet is in the first tier")

TABLE: Final = [(COMPONENTS[name].version, minor) for name in RELEASES[1:] for minor in MINORS]
"""Each release beside each minor: the rows and cells of docs/compatibility.md."""
CREATES: Final = "jobset-controller: create jobs"
UPDATES: Final = "jobset-controller: update jobs"


def _param(name: str, minor: str) -> object:
    marks = [pytest.mark.components(name), pytest.mark.minor(minor), pytest.mark.xdist_group(f"{name}-{minor}")]
    return pytest.param((name, minor), marks=marks, id=f"{COMPONENTS[name].version}-{minor}")


@pytest.fixture(scope="module", params=[_param(name, minor) for name in RELEASES[1:] for minor in MINORS])
def running(request: pytest.FixtureRequest) -> Iterator[Gangctl]:
    """gangctl beside one of these releases, on a plane of one minor."""
    name, minor = request.param
    yield from alone(minor, jobset=name, audit_bodies=BODIES)


@pytest.fixture(scope="module")
def plane(running: Gangctl) -> ControlPlane:
    """The plane that gangctl runs on."""
    return running.plane


@pytest.mark.usefixtures("kubelet")
async def test_a_running_gang_is_suspended_and_resumed(cluster: Cluster) -> None:
    async with keeps_its_gang(cluster, CREATES, UPDATES):
        await lives.test_p20_a_running_gang_is_suspended_and_resumed(cluster)


async def test_a_restart_is_a_separate_gang(cluster: Cluster, kubelet: Kubelet, running: Gangctl) -> None:
    async with keeps_its_gang(cluster, CREATES):
        await lives.test_p21_a_restart_is_a_separate_gang(cluster, kubelet, running)


async def test_a_replacement_in_a_partly_succeeded_gang_runs(cluster: Cluster, kubelet: Kubelet) -> None:
    async with keeps_its_gang(cluster, CREATES):
        await lives.test_a_replacement_in_a_partly_succeeded_gang_runs(cluster, kubelet)


async def test_a_finished_jobset_leaves_nothing(cluster: Cluster, kubelet: Kubelet) -> None:
    async with keeps_its_gang(cluster, CREATES):
        await lives.test_finished_jobset_leaves_nothing(cluster, kubelet)


@pytest.mark.usefixtures("kubelet")
async def test_a_deleted_jobset_leaves_nothing(cluster: Cluster) -> None:
    async with keeps_its_gang(cluster, CREATES):
        await lives.test_deleted_jobset_leaves_nothing_and_its_name_can_be_used_again(cluster)


async def test_no_pod_is_stranded(cluster: Cluster) -> None:
    # The scheduler of 1.35 retries gangs after five minutes, and they can hold each other's nodes for another five.
    to_the_end = cluster.minor != "1.35"
    async with keeps_its_gang(cluster, CREATES):
        contended = await contend(cluster, gangs=True, to_the_end=to_the_end)
    assert (contended.stranded, contended.finished) == (0, JOBSETS if to_the_end else 0), contended

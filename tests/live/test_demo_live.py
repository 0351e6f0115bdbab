"""``gangctl demo`` on a real cluster: it shows what it describes, and leaves nothing behind, however it ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.cli.run import Answer
from tests.controlplane.api import Object, list_items, path_of
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.live.gangctl import shared

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("demo"), pytest.mark.timeout(900)]

LABEL = "gangctl.dev/demo"


@pytest.fixture
async def empty_plane() -> AsyncIterator[ControlPlane]:
    """A plane of the test's own: the demo looks at the whole cluster's nodes and webhooks."""
    async with ControlPlane.start("1.37", ("jobset",)) as plane:
        yield plane


@pytest.fixture(scope="module")
def clean_plane() -> Iterator[ControlPlane]:
    """One for tests that leave nothing on it, and look."""

    async def start() -> ControlPlane:
        return await ControlPlane.start("1.37", ("jobset",))

    yield from shared(start)


def arguments(plane: ControlPlane, *more: str) -> list[str]:
    return ["demo", "--kubeconfig", str(plane.kubeconfig), *more]


async def left_over(plane: ControlPlane) -> list[str]:
    """What the demo made and is still there, by name."""
    found: list[Object] = []
    for kind in ("namespaces", "nodes"):
        answer = await plane.api.get(path_of("v1", kind), labelSelector=LABEL)
        found += list_items(answer)
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        answer = await plane.api.get(path_of("admissionregistration.k8s.io/v1", kind))
        found += [each for each in list_items(answer) if each["metadata"]["name"].startswith("gangctl")]
    return [each["metadata"]["name"] for each in found]


async def nothing_left(plane: ControlPlane) -> None:
    async def gone() -> bool:
        if names := await left_over(plane):
            raise NotYet(", ".join(names))
        return True

    await wait_for(gone, what="everything of the demo to go")


async def start(plane: ControlPlane, *more: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gangctl", *arguments(plane, *more)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(demo: asyncio.subprocess.Process) -> Answer:
    out, err = await demo.communicate()
    assert demo.returncode is not None
    return Answer(demo.returncode, out.decode(), err.decode())


async def run(plane: ControlPlane, *more: str) -> Answer:
    return await ended(await start(plane, *more))


@pytest.mark.full("minutes; the contest itself is in test_contention_live, and the demo in the sandbox in tests/cli")
async def test_the_demo_runs_on_its_own_nodes_with_a_local_controller(empty_plane: ControlPlane) -> None:
    answer = await run(empty_plane, "--nodes", "--start-controller", "--yes", "-o", "json")
    assert answer.code == 0, answer.err
    assert answer.json["simulated"] is False
    without, with_gangs = answer.json["acts"]
    assert without["strandedPods"] > 0
    assert (with_gangs["strandedPods"], with_gangs["finishedJobSets"]) == (0, 4)
    assert with_gangs["events"]["WorkloadCreated"] == 4
    assert "two Node objects" in answer.err
    await nothing_left(empty_plane)


@pytest.mark.full("minutes; the contest itself is in test_contention_live, and the demo in the sandbox in tests/cli")
async def test_the_demo_on_existing_nodes_ends_whole_jobsets(empty_plane: ControlPlane) -> None:
    """As on a cluster of a user's, where containers of the pause image never end."""
    await add_nodes(empty_plane.api, 2, cpu="3")
    async with Kubelet(empty_plane.api):
        answer = await run(empty_plane, "--start-controller", "--yes", "-o", "json")
    assert answer.code == 0, answer.err
    assert "750 milli-CPUs each" in answer.err
    assert answer.json["scenario"]["places"] == 8
    without, with_gangs = answer.json["acts"]
    assert without["strandedPods"] > 0
    assert (with_gangs["strandedPods"], with_gangs["finishedJobSets"]) == (0, 4)
    await nothing_left(empty_plane)


async def test_without_gangctl_the_demo_is_an_error_and_creates_nothing(clean_plane: ControlPlane) -> None:
    answer = await run(clean_plane, "--nodes", "--yes")
    assert answer.code == 3
    assert "gangctl does not run on" in answer.err
    assert "--start-controller" in answer.err
    answer = await run(clean_plane, "--start-controller", "--yes")
    assert answer.code == 3
    assert "milli-CPUs free" in answer.err
    assert "--nodes" in answer.err
    assert await left_over(clean_plane) == []


async def test_an_interrupted_demo_cleans_up(clean_plane: ControlPlane) -> None:
    demo = await start(clean_plane, "--nodes", "--start-controller", "--yes")

    await read_until(
        lambda: clean_plane.api.list(path_of("v1", "pods")),
        lambda pods: any(pod["spec"].get("nodeName") for pod in pods),
        "the first act",
    )
    demo.send_signal(signal.SIGINT)
    answer = await ended(demo)
    assert answer.code == 130, answer.err
    assert "Traceback" not in answer.err
    await nothing_left(clean_plane)


@pytest.mark.full("said as where gangctl is missing")
async def test_a_plane_without_jobset_is_refused() -> None:
    async with ControlPlane.start("1.37", ()) as plane:
        answer = await run(plane, "--nodes", "--start-controller", "--yes")
    assert answer.code == 3
    assert "has no JobSets" in answer.err

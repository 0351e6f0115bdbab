"""Each cause in a situation of a real control plane: ``gangctl why`` names it first, and what it suggests works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
import yaml

from tests.controlplane.container_logs import container_logs
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.plane import ControlPlane
from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.live import broken_situations as broken
from tests.live import kueue
from tests.live.broken_situations import OLDER
from tests.live.causes import Explanation, Situation, Situations, Theatre, ends, status_of
from tests.live.gang_situations import RUNS
from tests.live.gangctl import Gangctl
from tests.live.queue_situations import SITUATIONS
from tests.suggestions import subject_of

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800), pytest.mark.xdist_group("causes")]

TOPOLOGY = {"TopologyAwareWorkloadScheduling": True}


def reported_by(situations: Situations) -> list[object]:
    """Parameters: one for each situation."""
    return [pytest.param(each, id=each.id) for each in situations.known]


@pytest.fixture(scope="module")
def reported() -> Mapping[str, Explanation]:
    """The causes of all situations on the newest minor."""
    return asyncio.run(_play_newest())


@pytest.fixture(scope="module")
def reported_on_1_36() -> Mapping[str, Explanation]:
    """The causes of all situations of an older minor."""
    return asyncio.run(_play_older())


@pytest.mark.parametrize("situation", reported_by(SITUATIONS))
def test_the_cause_of_a_situation_is_found_first(situation: Situation, reported: Mapping[str, Explanation]) -> None:
    check(situation, reported[situation.id])


@pytest.mark.full("what gangctl says does not differ there; minCounts that are immutable do, in the lifecycle tests")
@pytest.mark.parametrize("situation", reported_by(OLDER))
def test_the_cause_of_a_situation_is_found_first_on_1_36(
    situation: Situation, reported_on_1_36: Mapping[str, Explanation]
) -> None:
    check(situation, reported_on_1_36[situation.id])


def check(situation: Situation, reported: Explanation) -> None:
    assert reported.trouble == ""
    assert situation.is_reported(reported), reported
    assert reported.code == int(reported.blocking), reported


@pytest.mark.parametrize("situation", reported_by(SITUATIONS))
def test_what_a_cause_suggests_works_in_its_situation(
    situation: Situation, reported: Mapping[str, Explanation]
) -> None:
    check_suggestion(situation, reported[situation.id])


@pytest.mark.full("what is suggested does not differ there, but for minCounts that are immutable")
@pytest.mark.parametrize("situation", reported_by(OLDER))
def test_what_a_cause_suggests_works_in_its_situation_on_1_36(
    situation: Situation, reported_on_1_36: Mapping[str, Explanation]
) -> None:
    check_suggestion(situation, reported_on_1_36[situation.id])


def check_suggestion(situation: Situation, reported: Explanation) -> None:
    """It ends with the code that is documented, and shows what it is about."""
    assert reported.answer is not None, reported
    shown = situation.shows.format(namespace=situation.namespace) or subject_of(reported.suggestion)
    assert shown
    assert reported.answer.code == situation.code, reported
    assert shown in reported.answer.out, reported


async def _play_newest() -> Mapping[str, Explanation]:
    schedulers = [f"--gang-scheduler={each}" for each in ("default-scheduler", broken.NOBODY, broken.BRITTLE)]
    planes = ControlPlane.start("1.37", ("jobset", "kueue"), gates=TOPOLOGY)
    async with (
        planes as plane,
        Gangctl(plane, *schedulers) as gangctl,
        _kubelet(plane) as kubelet,
        brittle(plane),
        container_logs(plane) as logs,
    ):
        await kueue.configure(plane)
        await _keep_lost_pods(plane)
        theatre = Theatre(plane, gangctl, kubelet, logs)
        await theatre.prepare(SITUATIONS.known)
        slow = SITUATIONS.at(broken.SLOW)
        await theatre.make([*SITUATIONS.at(RUNS), *slow])
        await theatre.ask(SITUATIONS.at(RUNS))
        await _impatient(plane)
        await theatre.make(SITUATIONS.at(broken.IMPATIENT))
        plane.pause("kube-scheduler")
        await _act(theatre, SITUATIONS.at(broken.HANGS))
        plane.resume("kube-scheduler")
        plane.pause("kube-controller-manager")
        await _act(theatre, SITUATIONS.at(broken.STOPPED))
        plane.resume("kube-controller-manager")
        await gangctl.process.kill()
        await _act(theatre, SITUATIONS.at(broken.AWAY))
        await theatre.ask([*SITUATIONS.at(broken.IMPATIENT), *slow])
        await gangctl.process.start()
        await _blind(plane)
        await _act(theatre, SITUATIONS.at(broken.BLIND))
        server = plane.process("kube-apiserver")
        server.command = [part.replace("v1beta1=true", "v1beta1=false") for part in server.command]
        await plane.restart("kube-apiserver")
        await _act(theatre, SITUATIONS.at(broken.OFF))
        return theatre.reported


async def _play_older() -> Mapping[str, Explanation]:
    async with ControlPlane.start("1.36") as plane, Gangctl(plane) as gangctl, _kubelet(plane) as kubelet:
        theatre = Theatre(plane, gangctl, kubelet)
        await theatre.prepare(OLDER.known)
        await _act(theatre, OLDER.at(RUNS))
        await _blind(plane)
        await _act(theatre, OLDER.at(broken.BLIND))
        return theatre.reported


def _kubelet(plane: ControlPlane) -> Kubelet:
    return Kubelet(plane.api, start=status_of, stop=ends)


async def _act(theatre: Theatre, situations: Sequence[Situation]) -> None:
    await theatre.make(situations)
    await theatre.ask(situations)


async def _keep_lost_pods(plane: ControlPlane) -> None:
    """Restart the controllers without the one that ends pods of nodes that are gone, 40 s after the node went."""
    manager = plane.process("kube-controller-manager")
    manager.command = [
        f"{part},-pod-garbage-collector-controller" if part.startswith("--controllers=") else part
        for part in manager.command
    ]
    await plane.restart("kube-controller-manager")


async def _blind(plane: ControlPlane) -> None:
    """Restart the scheduler with the gates for groups off, which the API server has on."""
    scheduler = plane.process("kube-scheduler")
    gates = next(part for part in scheduler.command if part.startswith("--feature-gates="))
    off = gates.replace("=true", "=false")
    scheduler.command = [off if part == gates else part for part in scheduler.command]
    await plane.restart("kube-scheduler")


async def _impatient(plane: ControlPlane) -> None:
    """Restart Kueue so that it evicts, soon, what has no ready pods, and tries it again much later."""
    config = plane.directory / "kueue.yaml"
    text = yaml.safe_load(config.read_text())
    text["featureGates"]["DisableWaitForPodsReady"] = False
    again = {"timestamp": "Eviction", "backoffBaseSeconds": 36_000, "backoffMaxSeconds": 36_000}
    text["waitForPodsReady"] = {"timeout": "5s", "requeuingStrategy": again}
    config.write_text(yaml.safe_dump(text))
    await plane.restart("kueue")


@asynccontextmanager
async def brittle(plane: ControlPlane) -> AsyncIterator[None]:
    """A second scheduler, with an extender that does not answer."""
    kubeconfig = plane.kubeconfig_for("system:kube-scheduler")
    config = plane.site.write(
        "brittle.yaml",
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "profiles": [{"schedulerName": broken.BRITTLE}],
            "extenders": [{"urlPrefix": "http://127.0.0.1:9/", "filterVerb": "filter", "httpTimeout": "1s"}],
        },
    )
    main = plane.process("kube-scheduler")
    kept = ("--kubeconfig", "--leader-elect", "--secure-port", "--kube-api")
    port = plane.site.ports.take()
    command = [part for part in main.command if not part.startswith(kept)]
    command += [f"--config={config}", f"--secure-port={port}"]
    healthy = f"https://127.0.0.1:{port}/healthz"
    process = Process("brittle", command, plane.site.log("brittle"), ready=lambda: answers(healthy, ca=plane.ca))
    plane.add_guest(process)
    await process.start()
    try:
        yield
    finally:
        await process.stop()

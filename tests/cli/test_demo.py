"""``gangctl demo`` on the sandbox: what it shows, how it ends, and what it leaves behind."""

from __future__ import annotations

import asyncio
import io
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from rich.console import Console

from gangctl.client.client import Client
from gangctl.client.resources import NAMESPACES, NODES
from gangctl.client.transport import Transport
from gangctl.demo import acts, child, real
from gangctl.demo.child import ChildFailedError, reserved_ports, wait_ready
from gangctl.demo.display import ActResult, DemoVerdict, JobSetSight, Lines, LiveTable, Sight, see
from gangctl.demo.scenario import PODS, PodNeeds, jobset, size
from gangctl.errors import ClusterUnavailableError, ForbiddenError
from gangctl.runtime.server import Listener
from gangctl.sandbox.server import SandboxOptions
from tests.cli.run import Answer, gangctl
from tests.controlplane.process import children_of
from tests.controlplane.wait import NotYet, wait_for
from tests.credentials import StaticCredentials
from tests.sandbox.faults import FaultySandbox, Match, error


def demo(*args: str) -> Answer:
    done = subprocess.run(
        [sys.executable, "-m", "gangctl", "demo", *args], capture_output=True, text=True, timeout=600, check=False
    )
    return Answer(done.returncode, done.stdout, done.stderr)


class TestSimulated:
    def test_the_demo_prints_one_json_document(self) -> None:
        answer = demo("-o", "json")
        assert answer.code == 0, answer.err
        found = answer.json
        assert (found["kubernetes"], found["simulated"], found["passed"]) == ("1.37", True, True)
        without, with_gangs = found["acts"]
        assert without["strandedPods"] > 0
        assert without["finishedJobSets"] < 4
        assert without["events"] == {}
        assert (with_gangs["strandedPods"], with_gangs["finishedJobSets"]) == (0, 4)
        assert with_gangs["events"]["WorkloadCreated"] == 4
        assert "simulated" in answer.err

    @pytest.mark.parametrize("minor", ["1.35", pytest.param("1.36", marks=pytest.mark.full("groups as on 1.37"))])
    def test_the_demo_prints_lines_and_writes_a_record(self, tmp_path: Path, minor: str) -> None:
        record = tmp_path / "demo.log"
        answer = demo("--kube", minor, "--record", str(record))
        assert answer.code == 0, answer.err
        lines = answer.out.splitlines()
        assert lines[0].startswith(f"A simulated cluster: Kubernetes {minor}")
        assert "The cluster was simulated" in lines[-1]
        assert any(re.fullmatch(r"  \S+ of 4 JobSets finished, \d pods stranded\.", line) for line in lines)
        assert "  all 4 JobSets finished, no pod stranded." in lines
        assert "gangctl: train-0: WorkloadCreated" in answer.out
        assert "\x1b" not in answer.out
        recorded = record.read_text(encoding="utf-8").splitlines()
        assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3}Z", line) for line in recorded)
        assert [line[14:] for line in recorded] == lines

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    async def test_an_interrupted_demo_ends_its_controller(self, number: signal.Signals) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gangctl", "demo"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        children: list[int] = []

        async def controller_runs() -> bool:
            children[:] = children_of(process.pid)
            if not children:
                raise NotYet("it has no child")
            return True

        await wait_for(controller_runs, what="the second act")
        process.send_signal(number)
        out, err = await asyncio.wait_for(process.communicate(), 300)
        assert process.returncode == 130, err
        assert b"Traceback" not in out + err
        assert [child for child in children if runs(child)] == []


class StandingStill:
    """A cluster without changes, on a machine that is suspended for a minute at each look."""

    def __init__(self) -> None:
        self.now, self.looks = 0.0, 0

    async def create_jobsets(self, *, gangs: bool) -> None:
        assert not gangs

    async def look(self) -> Sight:
        self.now += 60
        self.looks += 1
        return SIGHT

    async def events(self) -> dict[str, int]:
        return {}


async def test_time_during_a_suspension_of_the_machine_does_not_count_as_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = StandingStill()
    monkeypatch.setattr(acts, "_now", lambda: stage.now)
    monkeypatch.setattr(acts, "_LOOK_SECONDS", 0)
    waits = acts.Patience(quiet=5, gangs=5)
    act = acts.Act(stage, Lines(lambda _: None), waits, lambda _: asyncio.sleep(0))  # type: ignore[arg-type]
    result = await act.play(gangs=False)
    assert result.stranded == SIGHT.stranded
    assert stage.looks == 2 * (1 + 5), "a second for each look after the first, twice"


async def test_ports_of_the_controller_are_reserved_before_it_listens() -> None:
    with reserved_ports() as ports:
        for port in ports:
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
            listener = Listener("controller", answer_nothing, ("127.0.0.1", port))
            async with listener:
                assert listener.address == ("127.0.0.1", port)


async def test_a_controller_that_accepts_and_never_answers_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_READY_SECONDS", 0.05)
    log = tmp_path / "log"
    log.write_text("a line\n", encoding="utf-8")
    process: Any = SimpleNamespace(returncode=None)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ChildFailedError, match=r"not ready.*\na line"),
    ):
        await wait_ready(process, f"http://127.0.0.1:{silent.getsockname()[1]}/readyz", log)


async def answer_nothing(_: web.BaseRequest) -> web.Response:
    return web.Response()


@pytest.fixture
async def cluster() -> AsyncIterator[tuple[FaultySandbox, Client]]:
    async with (
        FaultySandbox(SandboxOptions(tls=False)) as sandbox,
        Transport(StaticCredentials(sandbox.url, token=sandbox.token())) as transport,
    ):
        client = Client(transport)
        await client.create(NAMESPACES, {"metadata": {"name": "kube-node-lease"}})
        yield sandbox, client


REFUSED = error(403, "Forbidden")


async def test_a_node_of_the_demo_is_deleted_where_another_one_cannot_be(cluster: tuple[FaultySandbox, Client]) -> None:
    sandbox, client = cluster
    sandbox.faults.add(Match("admin", frozenset({"delete"}), "nodes"), REFUSED)
    with pytest.raises(ForbiddenError):
        async with real.added_nodes(client, "demo"):
            pass
    assert len((await client.list(NODES)).items) == 1


async def test_the_nodes_of_the_demo_are_renewed_after_an_error(
    cluster: tuple[FaultySandbox, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox, client = cluster
    monkeypatch.setattr(real, "_BEAT_SECONDS", 0.01)
    renewals = sandbox.faults.add(
        Match("admin", frozenset({"create", "patch"}), "leases.coordination.k8s.io"), REFUSED, first=3
    )

    async def renewed() -> bool:
        if renewals.seen < 5:
            raise NotYet(f"{renewals.seen} renewals")
        return True

    async with real.added_nodes(client, "demo"):
        await wait_for(renewed, what="renewals after one that failed")
    assert not (await client.list(NODES)).items


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


class TestUsage:
    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (("--nodes",), "need --kubeconfig"),
            (("--start-controller",), "need --kubeconfig"),
            (("--yes",), "need --kubeconfig"),
            (("--kube", "1.37", "--context", "x"), "--kube is for the simulated cluster"),
            (("--record", "/nonexistent/file"), "--record"),
            (("--kubeconfig", "/nonexistent/file"), "/nonexistent/file"),
        ],
    )
    def test_bad_usage_is_one_error(self, args: tuple[str, ...], words: str) -> None:
        answer = gangctl("demo", *args)
        assert answer.code == 2
        assert answer.out == ""
        assert words in answer.err
        assert "Traceback" not in answer.err


def pod(jobset_name: str, node: str | None, phase: str = "Running", cpu: str = "1") -> dict[str, Any]:
    return {
        "metadata": {"labels": {"jobset.sigs.k8s.io/jobset-name": jobset_name}},
        "spec": {**({"nodeName": node} if node else {}), "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": phase},
    }


class TestSight:
    def test_running_and_waiting_pods_are_counted(self) -> None:
        pods = [
            *(pod("train-0", "a") for _ in range(PODS)),
            *(pod("train-1", "b") for _ in range(2)),
            *(pod("train-1", None, "Pending") for _ in range(3)),
            *(pod("train-2", "b", "Succeeded") for _ in range(PODS)),
        ]
        sight = see(pods, ["train-2"], {"a": 5, "b": 4}, [])
        assert [each.state for each in sight.jobsets] == ["running", "half-started", "finished", "waiting"]
        assert sight.stranded == 2
        assert sight.finished == 1
        assert not sight.arrived, "train-3 has no pods yet"
        assert sight.nodes == (("a", 5, 5), ("b", 2, 4))


class TestVerdict:
    @pytest.mark.parametrize(
        ("stranded", "with_stranded", "finished", "passed"),
        [(8, 0, 4, True), (0, 0, 4, False), (8, 1, 4, False), (8, 0, 3, False)],
        ids=["as-it-should-be", "nothing-stranded-without", "stranded-with", "one-unfinished"],
    )
    def test_the_demo_passes_only_if_gangs_made_the_difference(
        self, stranded: int, with_stranded: int, finished: int, passed: bool
    ) -> None:
        without = ActResult(gangs=False, stranded=stranded, finished=0, seconds=1)
        with_gangs = ActResult(gangs=True, stranded=with_stranded, finished=finished, seconds=1)
        verdict = DemoVerdict("1.37", simulated=True, without=without, with_gangs=with_gangs)
        assert verdict.passed is passed
        assert verdict.as_json()["passed"] is passed
        assert ("something is wrong" in verdict.lines[-1]) is not passed

    def test_the_result_is_described(self) -> None:
        assert str(ActResult(False, 8, 0, 1.0)) == "none of 4 JobSets finished, 8 pods stranded"
        assert str(ActResult(True, 0, 4, 1.0)) == "all 4 JobSets finished, no pod stranded"
        assert str(ActResult(False, 1, 2, 1.0)) == "2 of 4 JobSets finished, 1 pod stranded"


SIGHT = Sight(
    (
        JobSetSight("train-0", 5, 0, finished=False),
        JobSetSight("train-1", 3, 2, finished=False),
        JobSetSight("train-2", 0, 5, finished=False),
        JobSetSight("train-3", 0, 0, finished=True),
    ),
    (("node-0", 4, 4), ("node-1", 3, 4)),
    ("train-0: WorkloadCreated: Created [bold]",),
)


class TestDisplay:
    def test_each_event_is_printed_once(self) -> None:
        lines: list[str] = []
        display = Lines(lines.append)
        display.begin("1. title")
        display.show(SIGHT, 0.5)
        display.show(SIGHT, 0.9)
        display.end("all well")
        assert lines == [
            "",
            "1. title",
            "    0.5 s   gangctl: train-0: WorkloadCreated: Created [bold]",
            "    0.5 s   train-0: 5/5 bound    train-1: 3/5 bound    train-2: 0/5 bound    train-3: finished",
            "  all well.",
        ]

    def test_an_event_that_arrives_late_is_printed(self) -> None:
        lines: list[str] = []
        display = Lines(lines.append)
        for said in (("b", "b"), ("a", "b", "b")):
            display.show(replace(SIGHT, said=said), 0)
        assert [line.rpartition(" ")[2] for line in lines if "gangctl:" in line] == ["b", "b", "a"]

    @pytest.fixture
    def screen(self) -> Iterator[tuple[LiveTable, io.StringIO]]:
        written = io.StringIO()
        table = LiveTable(Console(file=written, force_terminal=True, width=100))
        yield table, written
        table.close()

    def test_the_table_is_redrawn_and_the_cursor_is_restored(self, screen: tuple[LiveTable, io.StringIO]) -> None:
        table, written = screen
        table.begin("1. title")
        table.show(SIGHT, 0.5)
        table.end("all well")
        shown = written.getvalue()
        for words in ("half-started", "finished", "node-0 ####", "node-1 ###.", "Created [bold]", "all well."):
            assert words in shown
        assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h"), "every hidden cursor is shown again"


def node(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": more,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


class TestSizing:
    @pytest.mark.parametrize(
        ("nodes", "pods", "cpu", "places"),
        [
            ([node("a", "8")], [], 1000, {"a": 8}),
            ([node("a", "4"), node("b", "4")], [], 1000, {"a": 4, "b": 4}),
            ([node("a", "4"), node("b", "4")], [pod("x", "a", cpu="2")], 800, {"b": 5, "a": 2}),
            ([node("a", "16"), node("b", "16"), node("c", "1")], [], 4000, {"a": 4, "b": 4}),
            ([node("a", "9"), node("b", "8")], [pod("x", "b", cpu="9")], 1125, {"a": 8}),
            ([node("a", "8"), node("b", "8", unschedulable=True)], [], 1000, {"a": 8}),
            ([node("a", "8"), node("b", "8", taints=[{"key": "k", "effect": "NoSchedule"}])], [], 1000, {"a": 8}),
        ],
        ids=["one", "two", "used", "emptiest-two", "overcommitted", "cordoned", "tainted"],
    )
    def test_the_jobsets_are_sized_for_about_eight_pods_on_two_nodes(
        self, nodes: list[dict[str, Any]], pods: list[dict[str, Any]], cpu: int, places: dict[str, int]
    ) -> None:
        found = size(nodes, pods)
        assert (found.cpu, dict(found.places)) == (cpu, places)
        assert PODS < sum(found.places.values()) < 2 * PODS

    @pytest.mark.parametrize("nodes", [[], [node("a", "50m")], [node("a", "8", unschedulable=True)]])
    def test_too_small_a_cluster_is_an_error(self, nodes: list[dict[str, Any]]) -> None:
        with pytest.raises(ClusterUnavailableError, match="milli-CPUs free"):
            size(nodes, [])


def test_only_the_annotation_differs() -> None:
    without = jobset("train-0", PodNeeds(), gangs=False)
    with_gangs = jobset("train-0", PodNeeds(), gangs=True)
    assert with_gangs["metadata"].pop("annotations") == {"gangctl.dev/gang-mode": "Gang"}
    assert with_gangs == without

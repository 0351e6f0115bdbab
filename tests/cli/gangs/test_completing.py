"""Completion of the names of JobSets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gangctl.cli import cluster
from gangctl.cli.completion import candidates
from gangctl.readiness.result import GangPhase
from tests.cli.gangs import dump
from tests.cli.gangs.dump import RUNS, WAITS
from tests.cli.gangs.place import place
from tests.cli.run import process
from tests.client import kubeconfigs
from tests.rows import each


@each("verb", ["get", "describe", "why", "wait"])
async def test_names_of_jobsets_are_completed_from_the_cluster(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cluster is in this process, and a busy machine may keep it from answering within two seconds.
    monkeypatch.setattr(cluster, "COMPLETION_SECONDS", 60.0)
    async with place(tmp_path, dump.objects()) as here:
        monkeypatch.setenv("KUBECONFIG", str(here.kubeconfig))
        answer = await asyncio.to_thread(candidates, [verb, ""])
        narrow = await asyncio.to_thread(candidates, [verb, RUNS[:2]])
    assert answer == ([WAITS, RUNS], 4)
    assert narrow == ([RUNS], 4)


async def test_names_of_nodes_are_completed_from_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "COMPLETION_SECONDS", 60.0)
    async with place(tmp_path, dump.objects()) as here:
        monkeypatch.setenv("KUBECONFIG", str(here.kubeconfig))
        answer = await asyncio.to_thread(candidates, ["drain", "node-"])
    assert answer == (["node-0", "node-1", "node-2", "node-3"], 4)


def test_without_a_reachable_server_no_names_are_completed() -> None:
    answer = process("describe", "", program_name="kubectl_complete-gang")
    assert (answer.code, answer.out) == (0, ":4\n")


def test_a_login_that_waits_for_a_person_completes_no_names(tmp_path: Path) -> None:
    """The plugin has 120 seconds otherwise."""
    config = kubeconfigs.write(
        tmp_path / "config", user=kubeconfigs.plugin(tmp_path, "{}", body="exec /bin/sleep 1000")
    )
    answer = process("describe", "", program_name="kubectl_complete-gang", seconds=60, KUBECONFIG=str(config))
    assert (answer.code, answer.out) == (0, ":4\n")


def test_phases_and_conditions_are_completed() -> None:
    assert candidates(["get", "--phase", "Un"]) == ([f"Unschedulable\t{GangPhase.UNSCHEDULABLE.sentence}"], 4)
    assert candidates(["wait", "x", "--for", ""]) == (["scheduled", "ready", "finished", "suspended"], 4)

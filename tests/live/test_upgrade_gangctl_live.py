"""gangctl is upgraded under load, from the version before: no request is refused, and no gang is recreated."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from release.source import export, previous
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import Cluster
from tests.live.gangctl import prepare
from tests.live.load import Load
from tests.live.replicas import UNTIL_TOLD_SECONDS, Replicas, two_replicas
from tests.manifests.files import ROOT

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.full("replicas are replaced in test_rolling_restart_live, gangs taken over in tests/release"),
]

# A script's directory comes first where Python looks for modules, before whatever is installed.
_LAUNCHER = """\
import sys
from pathlib import Path

import gangctl
from gangctl.cli import main

assert Path(gangctl.__file__).is_relative_to(Path(__file__).parent)
print(f"runs from {gangctl.__file__}", file=sys.stderr, flush=True)
main()
"""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The tree of the version before: the newest tag's, before any tag that of the commit before the last."""
    try:
        commit = previous(ROOT)
    except subprocess.CalledProcessError:
        pytest.skip("the history of this clone ends at its last commit: there is no version before")
    tree = tmp_path / "older"
    tree.mkdir()
    export(ROOT, commit, tree)
    (tree / "launch.py").write_text(_LAUNCHER, encoding="utf-8")
    return tree


async def test_an_upgrade_of_gangctl_refuses_no_request_and_loses_no_gang(bare: Cluster, older: Path) -> None:
    """As in docs/upgrades.md: definitions and rights first, then one replica after the other."""
    program = (str(older / "launch.py"),)
    made = two_replicas(bare.plane, program=program, manifests=older / "manifests", shutdown_delay=UNTIL_TOLD_SECONDS)
    async with made as replicas:
        newer = [_newer(each.process.command, program[0]) for each in replicas.both]
        async with Load(bare, pace=20) as load:
            await load.more()
            await whole(bare, load.kept)
            before = (await bare.gangs()).uids()
            for replica in replicas.both:
                await prepare(bare.plane, replica.user)
            await load.more()
            position = bare.plane.audit_position
            for replica, command in zip(replicas.both, newer, strict=True):
                assert f"runs from {older}" in replica.log
                await replicas.leave(replica, load)
                replica.process.command = command
                await replica.process.start()
                await replicas.balancer.settled(*replicas.both)
            await load.more()
        assert load.refusals == []
        await whole(bare, load.kept)
        after = (await bare.gangs()).uids()
        assert {name: after.get(name) for name in before} == before
        assert not touched(replicas, position) & before.keys()
        for replica in replicas.both:
            assert replica.log.count("runs from ") == 1
            assert "Traceback" not in replica.log


def _newer(command: list[str], launcher: str) -> list[str]:
    at = command.index(launcher)
    return [*command[:at], "-m", "gangctl", *command[at + 1 :]]


async def whole(cluster: Cluster, jobsets: list[str]) -> None:
    """Wait until each of these has a gang, and nobody more than one."""

    async def one_each() -> bool:
        gangs = await cluster.gangs()
        owners = Counter(each["metadata"]["ownerReferences"][0]["name"] for each in gangs.workloads.values())
        if set(jobsets) - owners.keys() or owners != Counter(owners.keys()):
            raise NotYet(f"{owners} instead of {jobsets}")
        return True

    await wait_for(one_each, what="one Workload for each JobSet that was kept")


def touched(replicas: Replicas, since: int) -> set[str]:
    """Names of Workloads and PodGroups that somebody of gangctl has changed or deleted."""
    return {
        entry["objectRef"]["name"]
        for replica in replicas.both
        for entry in replicas.writes(replica, since)
        if entry["verb"] in {"patch", "update", "delete"} and entry["objectRef"]["apiGroup"] == "scheduling.k8s.io"
    }

"""The quick start of the README, from ``git clone`` to a gang that runs, as typed by a user without any other help.

A shell takes the lines as they stand there. Their cluster is a real control plane with neither JobSet nor gangctl; what
a line says that it needs the internet for, JobSet, is started by the harness in the release that the line names. What
the commands print is compared with the page in the simulated cluster (tests/cli/test_quickstart.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.api import Object
from tests.controlplane.binaries import COMPONENTS
from tests.controlplane.build import ensure_binary
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.minors import NEWEST
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.docpages import ROOT
from tests.live.terminal import Terminal, terminal
from tests.quickstart import CLONE, FIRST, OWN, PLAYED, SANDBOX, SECOND, Step

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(1800),
    pytest.mark.full("minutes, as it installs what the page installs; tests/quickstart.py holds the page's lines"),
]

PODS: Final = 17
_NOT_THEIRS: Final = ("KUBECONFIG", "VIRTUAL_ENV", "MAKE", "MFLAGS", "GIT_", "PYTEST_", "PYTHONPATH")
_JOBSET: Final = "jobset.sigs.k8s.io/jobset-name"
_WEBHOOKS: Final = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o name"


@dataclass
class Reader:
    """A user with git, make, Python, curl and kubectl, who types what the page shows; ``said`` is the output."""

    terminal: Terminal
    said: dict[str, str] = field(default_factory=dict)

    async def follows(self, steps: list[Step]) -> None:
        """Type every line of a block."""
        for step in steps:
            self.said[" ".join(step.words[:2])] = await self.terminal.types(step.line)

    async def has_gangs(self) -> None:
        """Type what follows in any cluster, see each gang run, and that nothing is left of gangctl."""
        await self.follows(FIRST)
        assert f"ml/pytorch: Ready, {PODS} of {PODS} pods ready" in self.said["gangctl wait"]
        assert f"ml pytorch Ready {PODS}/{PODS}" in " ".join(self.said["gangctl get"].split())
        assert "Gang" in self.said["kubectl get"]
        await self._sees_a_gang("pytorch")
        assert "gangctl-gangs" in await self.terminal.types(_WEBHOOKS)
        await self.follows(SECOND)
        # The scheduler may not have said yet that there is no place for it.
        assert re.search(rf"ml +second +\w+ +0/{PODS} ", self.said["gangctl get"])
        assert f"ml/second: Ready, {PODS} of {PODS} pods ready" in self.said["gangctl wait"]
        await self._sees_a_gang("second")
        assert "gangctl" not in await self.terminal.types(_WEBHOOKS)

    async def _sees_a_gang(self, name: str) -> None:
        """The cluster's own word for it: all pods run, in one group; that of the next attempt may be there, too."""
        pods = [pod for pod in await self._gets("pods") if pod["metadata"]["labels"][_JOBSET] == name]
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        groups = [pod["spec"]["schedulingGroup"]["podGroupName"] for pod in running]
        assert groups == groups[:1] * PODS
        found = {each["metadata"]["name"]: each for each in await self._gets("podgroups")}
        assert found[groups[0]]["spec"]["schedulingPolicy"]["gang"]["minCount"] == PODS

    async def _gets(self, kind: str) -> list[Object]:
        items: list[Object] = json.loads(await self.terminal.types(f"kubectl get {kind} -n ml -o json"))["items"]
        return items


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Reader]:
    """In an empty home; git finds this repository, as it was committed, where the page has its address."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(ensure_binary("kubectl", NEWEST))
    own = Path(sys.executable).parent
    theirs = [place for place in os.environ["PATH"].split(os.pathsep) if Path(place) != own]
    path = os.pathsep.join([str(tmp_path / "bin"), *theirs])
    assert shutil.which("gangctl", path=path) is None, "gangctl must come from what the page installs"
    (address,) = [word for word in CLONE[0].words if word.startswith("https://")]
    # Downloaded wheels and built binaries are kept where the machine keeps them.
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_THEIRS)} | {
        "PATH": path,
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": cache,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{ROOT}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
    }
    async with terminal(tmp_path, environment) as opened:
        yield Reader(opened)
    # An environment of some hundred megabytes, which pytest would keep for days.
    if (clone := tmp_path / "gangctl").exists():
        shutil.rmtree(clone)


async def test_the_quick_start_leads_to_a_running_gang_in_each_cluster(reader: Reader, tmp_path: Path) -> None:
    """One after the other, because the page names ports."""
    async with ControlPlane.start(NEWEST, ()) as plane, Kubelet(plane.api):
        await add_nodes(plane.api, 3, cpu="64", memory="512Gi", extended={"nvidia.com/gpu": "8"})
        (tmp_path / ".kube").mkdir()
        shutil.copy(plane.kubeconfig, tmp_path / ".kube" / "config")
        await reader.follows(CLONE)
        await install_jobset(plane, OWN)
        await reader.has_gangs()
    for shell in (SANDBOX, PLAYED):
        await reader.follows(shell)
        await reader.has_gangs()
        await reader.terminal.types("exit")


async def install_jobset(plane: ControlPlane, steps: list[Step]) -> None:
    """In the place of those who have the internet, and nodes that run images."""
    download, wait = steps
    assert (download.needs, wait.needs) == ("the internet", "nodes")
    assert download.words[:3] == ["kubectl", "apply", "--server-side"]
    assert f"/kubernetes-sigs/jobset/releases/download/v{COMPONENTS['jobset'].version}/" in download.line
    await plane.add("jobset")

"""A real node leaves nothing behind, also when the run that started it is killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.controlplane.binaries import cache_root
from tests.controlplane.cluster import COMMANDS
from tests.controlplane.components.node import SANDBOX_IMAGE, left_cgroups, remove_left_cgroups
from tests.controlplane.images import pause_image
from tests.controlplane.machine import NoMachine, require_machine
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.files import ROOT

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.full("real nodes take minutes"),
    pytest.mark.xdist_group("real-node"),
]

RUN = f"""
import asyncio
from tests.controlplane.api import path_of
from tests.controlplane.images import pause_image
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import wait_for

async def main():
    async with ControlPlane.start(components=(), nodes=1, images=[pause_image()]) as plane:
        account = path_of("v1", "serviceaccounts", namespace="default", name="default")
        await wait_for(lambda: plane.api.get(account), tolerate=(Exception,))
        container = {{"name": "c", "image": "{SANDBOX_IMAGE}", "imagePullPolicy": "Never"}}
        pod = {{"metadata": {{"name": "p"}}, "spec": {{"containers": [container]}}}}
        await plane.api.create(path_of("v1", "pods", namespace="default"), pod)

        async def runs():
            pod = await plane.api.get(path_of("v1", "pods", namespace="default", name="p"))
            return pod["status"]["phase"] == "Running"

        await wait_for(runs)
        print(plane.directory, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_run_leaves_no_process_no_mount_and_no_cgroup() -> None:
    try:
        require_machine()
        pause_image()
    except NoMachine as missing:
        pytest.skip(f"no real node: {missing}")
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", RUN, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    directory = (await child.stdout.readline()).decode().strip()
    try:
        assert directory
        assert await asyncio.to_thread(processes_of, directory)
        child.kill()
        await child.wait()

        async def ended() -> bool:
            if left := await asyncio.to_thread(processes_of, directory):
                raise NotYet(str(left))
            return True

        await wait_for(ended, "the processes to end")
        assert directory not in await asyncio.to_thread(Path("/proc/self/mounts").read_text)
        # A cgroup has no owner that would end with it: the next run removes those without a process.
        remove_left_cgroups()
        assert [path for path in left_cgroups() if Path(directory).name in path] == []
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


async def test_make_cluster_has_gangctl_and_its_commands_work(tmp_path: Path) -> None:
    try:
        require_machine()
    except NoMachine as missing:
        pytest.skip(f"no real node: {missing}")
    trained = "kubectl wait jobset/allreduce --for=condition=Completed --timeout=300s"
    # Without -f, which would follow containers that may not have begun.
    tried = [line.partition(" #")[0].replace(" -f --tail=-1", " --tail=1").strip() for line in COMMANDS]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.controlplane", "cluster", "--nodes", "real", "--"),
        *("sh", "-ec", "\n".join([tried[0], trained, *tried[1:], "exit 7"])),
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(cache_root().parents[1])},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = (text.decode() for text in await child.communicate())
    assert child.returncode == 7, err
    assert all(line in err for line in COMMANDS)
    assert ["default", "allreduce", "Succeeded"] in [line.split()[:3] for line in out.splitlines()]
    assert out.splitlines()[-4:] == ["trained: y = 3.00 x + 2.00"] * 4


def processes_of(directory: str) -> list[str]:
    """Command lines that name a directory; all programs of a plane do."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if directory in command:
            found.append(command)
    return found

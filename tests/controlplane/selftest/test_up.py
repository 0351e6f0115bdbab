"""A plane by hand: what it runs is in it, and it ends with that."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.controlplane.__main__ import main
from tests.controlplane.build import ensure_component
from tests.controlplane.minors import NEWEST
from tests.docpages import ROOT


@pytest.mark.controlplane
async def test_a_program_runs_in_it_and_its_exit_code_is_the_answer() -> None:
    program = (
        "import os, sys, yaml, pathlib\n"
        "print(yaml.safe_load(pathlib.Path(os.environ['KUBECONFIG']).read_text())['clusters'][0]['cluster']['server'])\n"
        "sys.exit(7)"
    )
    # Skips where they cannot be built; the process could only fail.
    for component in ("etcd", f"kubernetes-{NEWEST}"):
        await asyncio.to_thread(ensure_component, component)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.controlplane", "up", "--kubelet", "--nodes", "1"),
        *("--capacity", "cpu=1,example.com/chip=2", "--", sys.executable, "-c", program),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 7, err.decode()
    address, port = out.decode().strip().removeprefix("https://").rsplit(":", 1)
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(address, int(port))


@pytest.mark.parametrize("flags", [["--capacity", "cpu"], ["--capacity", "=4"], ["--kwok", "--kubelet"]])
def test_values_that_it_cannot_have_are_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["up", *flags])
    assert flags[-1].lstrip("-") in capsys.readouterr().err

"""The quick start of the README in the simulated cluster: typed as it stands there, it prints what stands there.

tests/live types it from the clone on, and in real clusters. What no two runs have the same is not compared: ages, UIDs,
ports, and how wide a column is. Progress of ``gangctl wait`` goes to stderr, and is not shown.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import NEWEST
from tests.controlplane.ports import Ports
from tests.controlplane.wait import NotYet, wait_for
from tests.docpages import ROOT
from tests.live.terminal import Terminal, terminal
from tests.quickstart import EITHER, SANDBOX, Step

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

READS = ("gangctl get", "kubectl get")
"""What may be typed again: a moment later there is more to see."""


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Terminal]:
    """A shell that finds this gangctl and kubectl, in a directory with the examples; its stderr goes to a file."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(ensure_binary("kubectl", NEWEST))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    async with terminal(tmp_path, {"PATH": path, "HOME": str(tmp_path)}) as shell:
        await shell.types("exec 2> stderr.log")
        yield shell


@pytest.fixture
def ports() -> Iterator[Ports]:
    taken = Ports()
    yield taken
    taken.release()


def masked(text: str) -> list[str]:
    """The lines, without what no two runs have the same."""
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    text = re.sub(r"-[0-9a-f]{8}-[0-9a-f]{4}", "-UID", text)
    text = re.sub(r"\b(\d+[smh]){1,2}(?=\s|$)", "AGE", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


async def typed(shell: Terminal, step: Step, line: str) -> bool:
    """Type a step; NotYet if it prints something else."""
    printed = masked(await shell.types(line))
    if printed != masked("\n".join(step.output)):
        raise NotYet(f"{line}\n" + "\n".join(printed))
    return True


async def test_every_command_prints_what_the_page_shows(opened: Terminal, ports: Ports, tmp_path: Path) -> None:
    webhook, metrics = ports.take(), ports.take()
    for step in (*SANDBOX, *EITHER):
        line = step.line.replace(":9443", f":{webhook}").replace(":8080", f":{metrics}")
        if line.startswith(READS):
            await wait_for(partial(typed, opened, step, line), what=f"the output of {line}")
        else:
            await typed(opened, step, line)
    log = [json.loads(line) for line in (tmp_path / "gangctl.log").read_text(encoding="utf-8").splitlines()]
    stop = [line["event"] for line in log].index("ending")
    assert [line for line in log[stop:] if line["level"] != "info"] == []
    # What names the groups of Jobs stays: a gang that runs may restart.
    left = await opened.types("kubectl get mutatingwebhookconfigurations -o name")
    assert left.split() == ["mutatingwebhookconfiguration.admissionregistration.k8s.io/gangctl-jobs"]
    await opened.types("exit")

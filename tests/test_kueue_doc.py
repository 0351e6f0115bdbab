"""The commands of docs on queues and quota are run on the files shown there."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, get_args

import pytest

from gangctl.cli import queuefiles
from gangctl.cluster.stock import Stock
from gangctl.fit.report import Verdict
from gangctl.kueue.states import QueuePhase
from tests.cli.run import gangctl
from tests.docpages import ROOT, Page
from tests.kueue.workloads import STUCK
from tests.rows import each

PAGE: Final = Page("kueue.md", "fit.md", "fit-topology.md", "start-times.md")
TEXT, PROSE, FILES, COMMANDS = PAGE.text, PAGE.prose, PAGE.files, PAGE.commands
OURS: Final = re.compile(r"gangctl (fit|queue (?:list|describe))\b")
OFFLINE = [(line, code) for line, code in COMMANDS if OURS.match(line) and "--queues" in line]
FIT: Final = ROOT / "gangctl" / "fit"
REASONS: Final = frozenset(re.findall(r'"((?:Never\w|Fits|Queue|Not|Waits|Needs|Unknown)\w*)"', "".join(
    (FIT / name).read_text(encoding="utf-8") for name in ("verdict.py", "preemption.py", "nodecase.py", "minimum.py")
)))  # fmt: skip


def test_the_pages_have_commands() -> None:
    assert len(OFFLINE) >= 5


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time at which docs/start-times.md asks when a gang starts."""
    monkeypatch.setattr(queuefiles, "Stock", partial(Stock, lambda: datetime(2026, 11, 25, 12, tzinfo=UTC)))


@each(("command", "code"), OFFLINE)
def test_offline_commands_print_what_the_page_shows(command: str, code: int, tmp_path: Path) -> None:
    PAGE.keeps_its_word(command, code, tmp_path)


def test_the_page_describes_the_report_of_its_example(tmp_path: Path) -> None:
    PAGE.write_files(tmp_path)
    files = str(tmp_path / "train.yaml"), str(tmp_path / "kueue.yaml")
    report = gangctl("fit", "-f", files[0], "--queues", files[1], "-o", "json").json
    (gpu,) = [each for each in report["limits"] if each["resource"] == "nvidia.com/gpu"]
    section = PROSE.partition("## Before a JobSet exists")[2].partition("\n## ")[0]
    assert (report["verdict"], report["blocking"]) == ("never", True)
    assert f"asks for {gpu['requested']} GPUs" in section
    assert f"its own {gpu['nominal']} and {int(gpu['maximum']) - int(gpu['nominal'])} of" in section


def test_every_verdict_and_reason_is_named() -> None:
    assert {"Fits", "NeverExceedsQuota", "WaitsForQuota", "NeedsPreemption", "QueueBlocked", "WaitsForNodes"} <= REASONS
    words = (*REASONS, *get_args(Verdict), *map(str, QueuePhase), *map(str, STUCK))
    assert [word for word in words if f"`{word}`" not in PROSE] == []


FACTS: Final = [line for line in TEXT.splitlines() if re.match(r"\| K\d+ \|", line)]


def test_every_fact_has_its_tests() -> None:
    assert [int(fact.split("|")[1].strip()[1:]) for fact in FACTS] == list(range(1, len(FACTS) + 1))
    assert all("`tests/" in fact for fact in FACTS)

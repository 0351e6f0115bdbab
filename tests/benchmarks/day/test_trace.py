"""A reader's own trace: what is read, and which line is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.day.trace import PHILLY, Job, UnreadableTraceError, read_trace

HEAD = "submitted,seconds,gpus,queue\n"


def trace(directory: Path, text: str) -> Path:
    path = directory / "own.csv"
    path.write_text(text)
    return path


def test_rows_are_read_in_the_order_of_submission(tmp_path: Path) -> None:
    path = trace(tmp_path, f"{HEAD}2026-01-02T00:00:00Z,60,8,b\n2026-01-01T02:00:00+02:00,1.5,2,\n")
    assert read_trace(path) == [
        Job(datetime(2026, 1, 1, tzinfo=UTC), 1.5, 2, ""),
        Job(datetime(2026, 1, 2, tzinfo=UTC), 60, 8, "b"),
    ]


def test_the_published_trace_is_read() -> None:
    jobs = read_trace(PHILLY)
    assert len(jobs) == 12_260
    assert max(job.gpus for job in jobs) == 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("when,seconds,gpus,queue\n", ":1: the columns are 'when,seconds,gpus,queue'", id="columns"),
        pytest.param("", ":1: the columns are ''", id="empty"),
        pytest.param("x" * 200_000, ":1: field larger than field limit", id="too-long"),
        pytest.param(HEAD, ":1: there are no jobs", id="no-jobs"),
        pytest.param(f"{HEAD}2026-01-01,60,8\n", ":2: 3 columns, must be 4", id="too-few"),
        pytest.param(f"{HEAD}2026-01-01,60,8,q\nnoon,60,8,q\n", ":3: submitted: 'noon' is no time", id="time"),
        pytest.param(f"{HEAD}2026-01-01,-1,8,q\n", ":2: seconds: '-1' is no number above 0", id="seconds"),
        pytest.param(f"{HEAD}2026-01-01,nan,8,q\n", ":2: seconds: 'nan' is no number above 0", id="nan"),
        pytest.param(f"{HEAD}2026-01-01,60,2.5,q\n", ":2: gpus: '2.5' is no whole number", id="gpus"),
        pytest.param(f"{HEAD}2026-01-01,60,0,q\n", ":2: gpus: '0' is no whole number", id="no-gpus"),
        pytest.param(f"{HEAD}\n2026-01-01,60,0,q\n", ":3: gpus", id="blank-lines-count"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = trace(tmp_path, text)
    with pytest.raises(UnreadableTraceError) as raised:
        read_trace(path)
    assert f"{path}{message}" in str(raised.value)


def test_the_command_prints_one_line_for_a_bad_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path, f"{HEAD}2026-01-01,60,zero,q\n")
    assert main(["day", "--trace", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"error: {path}:2: gpus: 'zero' is no whole number of 1 or more\n"
    assert captured.out == ""


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTraceError, match=r"absent\.csv"):
        read_trace(tmp_path / "absent.csv")

"""``gangctl top``: from files, once; and on a terminal."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Golden
from tests.cli.gangs import dump
from tests.cli.gangs.dump import RUNS, WAITS, Object, ask, ask_about
from tests.cli.kueueobjects import QUEUE
from tests.cli.run import gangctl

GOLDEN = Path(__file__).parents[1] / "golden"


def test_table(golden: Golden) -> None:
    answer = ask("top")
    assert (answer.code, answer.err) == (0, "")
    golden(GOLDEN / "gangs-top.txt", answer.out)


def test_json() -> None:
    summary = ask("top", "-o", "json").json
    assert (summary["kind"], summary["gangs"], summary["blocked"]) == ("GangSummary", 2, 1)
    assert summary["phases"] == {"Unschedulable": 1, "Ready": 1}
    assert summary["pods"] == {"wanted": 11, "ready": 5, "stranded": 0}
    (queue,) = summary["queues"]
    assert queue["requests"] == {"cpu": 21_000}
    assert queue["oldest"] == "2026-11-21T15:05:55Z"
    assert [each["name"] for each in summary["waiting"]] == [WAITS]


def test_trouble_comes_first(tmp_path: Path) -> None:
    """Where pods hold nodes in vain comes before where others merely wait."""

    def enqueue(name: str) -> Object:
        return {"metadata": {"labels": {QUEUE: name}}}

    found = dump.objects()
    for each in found:
        if each["kind"] == "JobSet":
            each["metadata"] |= enqueue(f"of-{each['metadata']['name']}")["metadata"]
    stranded = dump.pods_of(found, RUNS)[0]
    del stranded["spec"]["nodeName"]
    stranded["status"] = dump.pods_of(found, WAITS)[0]["status"]
    summary = ask_about(tmp_path, found, "top", "-o", "json").json
    assert [each["localQueue"] for each in summary["queues"]] == [f"of-{RUNS}", f"of-{WAITS}"]
    assert [(each["name"], each["stranded"]) for each in summary["waiting"]] == [(RUNS, 4), (WAITS, 0)]
    assert "4 stranded pods" in ask_about(tmp_path, found, "top").out


def test_what_is_over_asks_for_nothing(tmp_path: Path) -> None:
    found = dump.changed("JobSet", WAITS, lambda each: dump.finish(each, "Completed"))
    summary = ask_about(tmp_path, found, "top", "-o", "json").json
    assert summary["queues"][0]["requests"] == {"cpu": 9000}
    assert summary["waiting"] == []


def test_nothing() -> None:
    answer = ask("top", "-n", "elsewhere")
    assert (answer.code, answer.out) == (0, "no gang\n")


def test_usage() -> None:
    assert gangctl("top", "-n", "t", "-A").code == 2
    assert gangctl("top", "NAME").code == 2

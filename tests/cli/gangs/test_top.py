"""``gangctl top``: from files, once; and on a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from pathlib import Path

from tests.cli.conftest import Golden
from tests.cli.gangs import dump
from tests.cli.gangs.dump import RUNS, WAITS, Object, ask, ask_about
from tests.cli.gangs.place import place
from tests.cli.kueueobjects import QUEUE
from tests.cli.publishedschemas import schema_of
from tests.cli.run import BIN, gangctl
from tests.cli.schema import violations

GOLDEN = Path(__file__).parents[1] / "golden"
SCHEMA = Path(__file__).parents[3] / "docs" / "top.schema.json"


def test_the_table_is_as_recorded(golden: Golden) -> None:
    answer = ask("top")
    assert (answer.code, answer.err) == (0, "")
    golden(GOLDEN / "gangs-top.txt", answer.out)


def test_the_summary_is_printed_as_json() -> None:
    summary = ask("top", "-o", "json").json
    assert (summary["kind"], summary["gangs"], summary["blocked"]) == ("GangSummary", 2, 1)
    assert summary["phases"] == {"Unschedulable": 1, "Ready": 1}
    assert summary["pods"] == {"wanted": 11, "ready": 5, "stranded": 0}
    (queue,) = summary["queues"]
    assert queue["requests"] == {"cpu": "21"}
    assert queue["oldest"] == "2026-11-21T15:05:55Z"
    assert [each["name"] for each in summary["waiting"]] == [WAITS]


def test_schema_is_published(golden: Golden) -> None:
    golden(SCHEMA, json.dumps(schema_of("top"), indent=2) + "\n")


def test_summaries_match_the_schema() -> None:
    some, none = (ask("top", *place, "-o", "json").json for place in ((), ("-n", "elsewhere")))
    assert violations(some, schema_of("top")) == violations(none, schema_of("top")) == []
    assert (len(some["queues"]), len(some["waiting"]), none["queues"]) == (1, 1, [])
    assert violations({**some, "gangs": "2"}, schema_of("top"))


def test_queues_with_stranded_pods_come_first(tmp_path: Path) -> None:
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
    assert ask_about(tmp_path, found, "top", "--no-headers").out.splitlines()[0].split()[5] == "4"


def test_finished_gangs_request_nothing(tmp_path: Path) -> None:
    found = dump.changed("JobSet", WAITS, lambda each: dump.finish(each, "Completed"))
    summary = ask_about(tmp_path, found, "top", "-o", "json").json
    assert summary["queues"][0]["requests"] == {"cpu": "9"}
    assert summary["waiting"] == []


def test_without_gangs_a_note_is_printed() -> None:
    answer = ask("top", "-n", "elsewhere")
    assert (answer.code, answer.out, answer.err) == (0, "", "No gangs found in namespace elsewhere.\n")


def test_bad_usage_is_exit_code_2() -> None:
    assert gangctl("top", "-n", "t", "-A").code == 2
    assert gangctl("top", "NAME").code == 2


async def test_on_a_terminal_the_table_follows_the_cluster(tmp_path: Path) -> None:
    """Until Ctrl-C, which is how it ends well."""
    async with place(tmp_path, dump.objects()) as here:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        child = await asyncio.create_subprocess_exec(
            BIN / "gangctl",
            *("top", "--kubeconfig", str(here.kubeconfig)),
            stdout=theirs,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": str(BIN), "LANG": "C.UTF-8", "HOME": "/nonexistent", "TERM": "xterm"},
        )
        os.close(theirs)
        try:
            await _seen(ours, "5 of 11 pods ready")
            for pod in dump.pods_of(dump.objects(), WAITS):
                dump.ready(pod)
                here.put([pod])
            await _seen(ours, "11 of 11 pods ready")
            child.send_signal(signal.SIGINT)
            await _seen(ours, "\x1b[?1049l")
            async with asyncio.timeout(300):
                _, complaints = await child.communicate()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
            os.close(ours)
    assert (child.returncode, complaints) == (0, b"")


async def _seen(terminal: int, text: str) -> None:
    """Read what is drawn until a text is on the screen."""
    drawn = b""
    async with asyncio.timeout(300):
        while text.encode() not in drawn:
            drawn += await asyncio.to_thread(os.read, terminal, 4096)


async def test_a_cluster_is_summarized_once(tmp_path: Path) -> None:
    async with place(tmp_path, dump.objects()) as here:
        answer = await here.ask("top", "-o", "json")
    assert (answer.code, answer.json["gangs"]) == (0, 2)

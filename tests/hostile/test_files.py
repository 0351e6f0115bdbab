"""Files: any argument of `-f` is read or refused with its place, in bounded time and memory."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from gangctl.api.documents import Document, parse_documents
from gangctl.api.documents_reader import SourceError
from gangctl.cli import inputs
from gangctl.cli.program import program
from gangctl.errors import InputError, escaped
from tests.cli.manifests import gang
from tests.hostile.commands import Ran, gangctl, is_refused
from tests.hostile.profiles import tries
from tests.hostile.words import ANSI, FORGED_LOG, LONG, json_values, words
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.strategies import hostile_jobsets

COMMANDS = (("plan",), ("translate",), ("convert", "--to", "gangconfig"))
GOOD = json.dumps(gang()) + "\n"
HEAD = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: js}\n"


def bomb(value: str, levels: int, width: int = 9) -> str:
    """Billion laughs: each level is the one before, several times."""
    lines = [f"a0: &a0 {value}"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return HEAD + "\n".join(lines) + "\n"


# Name: text, and where the error is ("" when the line is not the point).
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "laughs": (bomb("lol", 12), ""),
    "laughs-of-long-texts": (bomb("x" * 1_000_000, 2, width=5000), "5:"),
    "laughs-of-long-keys": (HEAD + "a: &a {? " + "k" * 1_000_000 + " : 1}\nb: [" + "*a, " * 5000 + "*a]\n", "5:"),
    "laughs-of-merges": (HEAD + "a: &a {x: 1}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(100_000)), ""),
    "a-circle": (HEAD + "a: &a [*a]\n", "4:"),
    "a-circle-of-merges": (HEAD + "a: &a\n  <<: *a\n", "5:"),
    "an-unknown-alias": (HEAD + "a: *nobody\n", "4:"),
    "merge-of-a-list": (HEAD + "<<: [1]\n", "4:"),
    "python-object": (HEAD + "a: !!python/object/apply:os.system ['touch /tmp/owned']\n", "4:"),
    "python-name": (HEAD + "a: !!python/name:os.system\n", "4:"),
    "python-module": ("!!python/module:os {}\n", "1:"),
    "own-tag": (HEAD + "a: !evil x\n", "4:"),
    "binary": (HEAD + "a: !!binary aGk=\n", "4:"),
    "timestamp-tag": (HEAD + "a: !!timestamp 2001-01-01\n", "4:"),
    "set": (HEAD + "a: !!set {x}\n", "4:"),
    "int-of-words": (HEAD + "a: !!int words\n", "4:"),
    "duplicate": (HEAD + "kind: JobSet\n", "4:"),
    "duplicate-json": ('{"kind": "JobSet", "kind": "JobSet"}', "1:20"),
    "deep-flow": (HEAD + "a: " + "[" * 1_000_000, "4:"),
    "deep-block": (HEAD + "".join(" " * n + "a:\n" for n in range(3000)), ""),
    "deep-json": ('{"a":' * 100_000, "1:"),
    "deep-sequences": ("- " * 100_000, "1:"),
    "tab": (HEAD + "spec:\n\ta: 1\n", "5:1"),
    "nul": (HEAD + "a: x\0y\n", "4:5"),
    "escape": (HEAD + f"a: {ANSI}\n", "4:"),
    "utf-16-without-a-mark": (GOOD.encode("utf-16-le"), "1:2"),
    "utf-32": (GOOD.encode("utf-32"), "1:1"),
    "latin-1": (HEAD.encode() + b"a: \xe9\n", "4:4"),
    "surrogates": (HEAD.encode() + b"a: \xed\xa0\x80\n", "4:4"),
    "half-a-pair": (json.dumps({"a": "\ud800"}), "1:"),
    "noncharacter": (HEAD + "a: \ufffe\n", "4:"),
    "nan": (HEAD + "a: .nan\n", "4:"),
    "infinity": (HEAD + "a: -.inf\n", "4:"),
    "null-key": (HEAD + "~: 1\n", "4:"),
    "list-key": (HEAD + "[a]: 1\n", "4:"),
    "broken-third": (GOOD + "---\n" + GOOD + "---\na: [\n", "6:"),
    "a-list-of-scalars": ('{"kind": "List", "items": [1]}', "1:"),
    "items-of-no-list": ('{"kind": "List", "items": {"a": 1}}', "1:"),
    "scalar": ("yes\n", "1:1"),
    "million-values": ("[" + "0," * 1_100_000 + "0]", "1:"),
    "million-documents": ("{}\n" * 1_100_000, ""),
    "backslashes": ('"' + "\\" * 1_000_000, "1:"),
    "quotes": ('{"a": "' + "x" * 5_000_000, "1:"),
    "directive": ("%YAML 9.9\n---\na: 1\n", ""),
    "only-anchors": ("&a " * 100_000, ""),
    "question-marks": ("? " * 100_000, "1:"),
    "numbers-of-mibs": (HEAD + "spec: {replicatedJobs: [{replicas: " + "9" * 5_000_000 + "}]}\n", "4:"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_texts_are_refused_at_their_place(case: str, tmp_path: Path) -> None:
    text, place = REFUSED[case]
    file = tmp_path / "a.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    # In this process, because fifty starts cost more than fifty texts; the process itself is tested below.
    result = CliRunner().invoke(program, ["plan", "-f", str(file)])
    printed = result.stderr
    is_refused(Ran(result.exit_code, result.stdout, printed), 2)
    assert printed.startswith((f"error: {file}:{place}", f"{file}:{place}")), printed[:300]
    assert len(printed) < 2000


READ: dict[str, str] = {
    "types": "x-yes: yes\nx-octal: 010\nx-time: 2001-12-14t21:59:43.10-05:00\nx-base: 190:20:30\nx-nan: NaN\n",
    "merged": "x-a: &a {b: 1}\nx-c: {<<: *a, d: 2}\n",
    "shared": "x-a: &a [1, 2]\nx-b: *a\nx-c: *a\n",
    "explicit": "? x-a\n: 1\n",
    "folded": "x-a: >\n  one\n\n  two\n",
    "long": f"x-{'k' * 900}: {'v' * 1_000_000}\n",
    "empty-documents": "---\n---\n---\n",
}
JOBS = (
    "spec: {replicatedJobs: [{name: w, template: {spec: {template: {spec: {containers: [{name: c, image: i}]}}}}}]}\n"
)


@each("command", COMMANDS)
@each("case", READ)
def test_unusual_texts_are_read(case: str, command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + JOBS + READ[case])
    result = CliRunner().invoke(program, [*command, "-f", str(tmp_path / "a.yaml"), "-o", "json"])
    assert result.exit_code == 0, result.stderr


def test_thousands_of_documents_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(GOOD * 1000)
    ran = gangctl("plan", "-f", str(tmp_path / "a.json"), "-o", "json")
    assert ran.code == 0, ran.err[:500]
    (tmp_path / "a.json").write_text(GOOD * 1000 + "{")
    is_refused(gangctl("plan", "-f", str(tmp_path / "a.json")), 2)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", ["laughs", "laughs-of-long-texts", "deep-flow"])
def test_expansion_bombs_are_refused_within_limited_memory(case: str, command: tuple[str, ...], tmp_path: Path) -> None:
    text, _ = REFUSED[case]
    assert isinstance(text, str)
    (tmp_path / "a.yaml").write_text(text)
    is_refused(gangctl(*command, "-f", str(tmp_path / "a.yaml")), 2)


def test_a_file_of_a_hundred_megabytes_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as file:
        file.truncate(100 * 2**20)
    assert "more than the limit of 8.0 MiB" in is_refused(gangctl("plan", "-f", str(tmp_path / "a.yaml")), 2)
    assert "more than the limit" in is_refused(gangctl("plan", "-f", "-", stdin=b"a: 1\n" * 20_000_000), 2)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/full"])
def test_endless_devices_are_refused(device: str) -> None:
    is_refused(gangctl("plan", "-f", device), 2)


@each("case", ["laughs", "deep-flow", "utf-16-without-a-mark", "latin-1", "nul", "python-object"])
def test_hostile_settings_of_the_controller_are_refused(case: str, tmp_path: Path) -> None:
    text, _ = REFUSED[case]
    (tmp_path / "gangctl.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    result = CliRunner().invoke(program, ["controller", "--config", str(tmp_path / "gangctl.yaml")])
    is_refused(Ran(result.exit_code, result.stdout, result.stderr), 2)


def test_settings_of_the_controller_from_a_device_are_refused() -> None:
    assert "more than the limit" in is_refused(gangctl("controller", "--config", "/dev/zero"), 2)


def test_broken_links_and_invalid_paths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nothing")
    for name in ("loop.yaml", "gone.yaml", "x" * 300, "a\nb", "loop.yaml/deeper", ""):
        is_refused(gangctl("plan", "-f", str(tmp_path / name) if name else ""), 2)
    is_refused(gangctl("plan", "-f", str(tmp_path)), 2)


def test_a_cycle_of_directory_links_ends(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    (tmp_path / "in" / "a.json").write_text(GOOD)
    assert gangctl("plan", "-f", str(tmp_path)).code == 0


def test_a_pipe_in_a_directory_of_manifests_is_skipped(tmp_path: Path) -> None:
    """It would have been waited for as long as the machine runs."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "a.json").write_text(GOOD)
    assert gangctl("plan", "-f", str(tmp_path)).code == 0


def test_a_pipe_without_a_writer_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(inputs, "_WRITER_SECONDS", 0.2)
    with pytest.raises(InputError, match=r"nothing was written to this pipe for 0\.2 s"):
        inputs.read_documents([str(tmp_path / "pipe")])


def test_a_pipe_with_a_slow_writer_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    looked, opened = threading.Event(), threading.Event()
    found: list[Document] = []

    def read() -> None:
        looked.set()
        found.extend(inputs.read_documents([str(tmp_path / "pipe")]))

    def write() -> None:
        looked.wait()
        with (tmp_path / "pipe").open("wb", buffering=0) as file:
            opened.set()
            for byte in GOOD.encode():
                file.write(bytes([byte]))

    threads = [threading.Thread(target=read), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [document.value for document in found] == [gang()]


NAMES = (ANSI, FORGED_LOG, "[red]x[/red]", "\u202e", LONG)


@each("command", COMMANDS)
@each("name", NAMES)
def test_control_characters_in_names_are_escaped(name: str, command: tuple[str, ...], tmp_path: Path) -> None:
    raw = jobset(
        name, rj(name, mode="Gang", pod={"schedulerName": name, "priorityClassName": name}), rj("b"), mode=name
    )
    (tmp_path / "a.json").write_text(json.dumps({**raw, "metadata": {**raw["metadata"], "namespace": name}}))
    for color in ((), ("--no-color",)):
        result = CliRunner().invoke(
            program, [*command, "-f", str(tmp_path / "a.json"), *(color if command[0] == "plan" else ())]
        )
        assert result.exit_code == 2
        assert all(escaped(line) == line for line in result.stderr.splitlines())
        assert len(result.stderr) < 20_000


@given(
    text=st.one_of(
        st.text(max_size=80),
        st.lists(st.sampled_from(list("{}[]:,-?&*!|>'\"%@`#\n\t \0ab01.~<=")), max_size=60).map("".join),
    )
)
@example("a: &a {<<: *a}")
@example("? - a\n")
@example("{? }")
@example("!<!> a")
@example("--- !!map\n")
@example("- &x\n- *x\n")
@tries(300)
def test_any_text_is_documents_or_one_error(text: str) -> None:
    printed: SourceError | None = None
    documents: list[Document] = []
    try:
        documents = parse_documents(text, "f")
    except SourceError as refused:
        printed = refused
    for document in documents:
        json.dumps(document.value)
    if printed is not None:
        assert printed.message.startswith(f"f:{printed.line}:{printed.column}: ")
        assert min(printed.line, printed.column) >= 1


@given(
    raw=st.one_of(hostile_jobsets(), st.dictionaries(words, json_values, max_size=3)), command=st.sampled_from(COMMANDS)
)
@tries(60)
def test_any_object_is_answered_or_refused(raw: dict[str, Any], command: tuple[str, ...]) -> None:
    text = json.dumps({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **raw})
    result = CliRunner().invoke(program, [*command, "-f", "-"], input=text)
    assert result.exit_code in {0, 2}, result.stderr
    assert all(escaped(line) == line for line in result.stderr.splitlines())

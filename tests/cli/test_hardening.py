"""Bad input: one clear error at its place, exit code 2, nothing on stdout; also as a process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.manifests import gang, write
from tests.cli.run import Answer, gangctl, process
from tests.jobsets import jobset, rj
from tests.rows import each

EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.provider.com/rack"}
MODE = "gangctl.dev/gang-mode"
RJ = "\n  replicatedJobs:\n  - name: a\n    template: {spec: {template: {spec: {containers: [{name: c, image: i}]}}}}\n"
LAUGHS = "".join(f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True))
POD = """
  replicatedJobs:
  - name: a
    template:
      spec:
        template:
          spec:
            containers:
            - name: c
              image: i
              resources:
                requests:
                  memory: 1gb
"""


def manifest(spec: str = "", metadata: str = "") -> str:
    """A JobSet whose spec begins in line 6, or 7 behind an annotation."""
    notes = f"  annotations:\n    {metadata}\n" if metadata else ""
    return f"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata:\n  name: js\n{notes}spec:{spec}"


def entry(text: str) -> str:
    return manifest(f"\n  replicatedJobs:\n  - name: a\n    {text}\n")


TEXTS: dict[str, tuple[str, str, str]] = {
    "malformed": (manifest("\n  replicatedJobs: [\n"), "7:1", ""),
    "tab": (manifest("\n\treplicatedJobs: []\n"), "6:1", ""),
    "duplicate-key": (manifest(" {}\nkind: JobSet\n"), "6:1", "kind"),
    "words": ("just words", "1:1", "not an object"),
    "list": ("- a\n- b\n", "1:1", "not an object"),
    "bomb": (f"a: &a [x,x,x,x,x,x,x,x,x]\n{LAUGHS}", "", "alias"),
    "deep": ("[" * 5000, "", "deep"),
    "wrong-type": (manifest("\n  replicatedJobs:\n    a: 1\n"), "6:3", "spec.replicatedJobs: must be a list"),
    "wrong-type-deep": (
        entry("replicas: many"),
        "8:5",
        'spec.replicatedJobs[0].replicas: must be an integer, got "many"',
    ),
    "huge-number": (entry(f"replicas: {'9' * 400}"), "8:5", "spec.replicatedJobs[0].replicas: must be"),
    "unknown-mode": (manifest(RJ, f"{MODE}: gang"), "6:5", f'metadata.annotations[{MODE}]: unsupported value "gang"'),
    "boolean-mode": (manifest(RJ, f"{MODE}: Off"), "6:5", f"metadata.annotations[{MODE}]: must be a string, got false"),
    "unknown-option": (manifest(RJ, "gangctl.dev/gang-options: '{\"typo\": 1}'"), "6:5", "typo: unknown option"),
    "disagreement": (manifest(f"\n  gangConfig: {{gangMode: 'Off'}}{RJ}", f"{MODE}: Gang"), "6:5", "write one of them"),
    "schedule-at-once": (
        manifest(f"\n  gangConfig:\n    scheduleAtOnce: true{RJ}"),
        "7:5",
        "spec.gangConfig.scheduleAtOnce: is not known",
    ),
    "quantity": (manifest(POD), "17:19", 'containers[0].resources.requests.memory: "1gb" is not a quantity'),
}


def refused(*args: str, stdin: bytes = b"", by: Callable[..., Answer] = gangctl) -> list[str]:
    answer = by(*args, stdin=stdin)
    assert (answer.code, answer.out) == (2, ""), answer.err
    assert "Traceback" not in answer.err
    assert "internal error" not in answer.err
    lines = answer.err.splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1
    return lines


@each("case", TEXTS)
def test_invalid_texts_are_one_error_with_its_place(case: str, tmp_path: Path) -> None:
    text, place, words = TEXTS[case]
    (tmp_path / "a.yaml").write_text(text)
    lines = refused("plan", "-f", str(tmp_path / "a.yaml"), "-o", "json")
    first = lines[0].removeprefix("error: ")
    assert first.startswith(f"{tmp_path}/a.yaml:{place}"), lines
    assert words in first
    assert len(first) < 500


OBJECTS: dict[str, tuple[dict[str, Any], str]] = {
    "nine-groups": (
        jobset("js", *(rj(f"r{i}", mode="Gang") for i in range(9))),
        "spec.replicatedJobs: 9 replicated jobs",
    ),
    "exclusive-topology": (
        jobset("js", rj("a", 1, 2, 2), mode="Gang", annotations=EXCLUSIVE),
        "metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]: deadlocks",
    ),
    "mixed-priorities": (
        jobset("js", rj("a"), rj("b", pod={"priorityClassName": "high"}), mode="Gang"),
        "spec.replicatedJobs[1].template.spec.template.spec.priorityClassName: all pods",
    ),
    "mixed-schedulers": (
        jobset("js", rj("a"), rj("b", pod={"schedulerName": "other"}), mode="Gang"),
        "spec.replicatedJobs[1].template.spec.template.spec.schedulerName: all pods",
    ),
    "both-levels": (
        jobset("js", rj("a", mode="Gang"), mode="Gang"),
        f"spec.replicatedJobs[0].template.metadata.annotations[{MODE}]: ",
    ),
    "own-group": (
        jobset("js", rj("a", pod={"schedulingGroup": {"podGroupName": "x"}}), mode="Gang"),
        "spec.replicatedJobs[0].template.spec.template.spec.schedulingGroup: ",
    ),
    "sequenced": (
        jobset("js", rj("a"), rj("b", depends_on="a"), mode="Gang", options='{"sequenced":"reject"}'),
        "metadata.annotations[gangctl.dev/gang-options].sequenced: ",
    ),
    "too-many-pods": (
        jobset("js", *(rj(name, 1, 2**30, 2**30, non_indexed=True) for name in "ab"), mode="Gang"),
        "spec.replicatedJobs: 2147483648 pods",
    ),
    "too-many-jobs": (jobset("js", rj("a", 2**31 - 1)), "spec.replicatedJobs: 2147483647 Jobs"),
}


@each("command", ["plan", "translate"])
@each("case", OBJECTS)
def test_invalid_objects_are_one_error_with_its_place(case: str, command: str, tmp_path: Path) -> None:
    raw, words = OBJECTS[case]
    lines = refused(command, "-f", write(tmp_path / "a.yaml", raw), "-o", "json", "--kube", "1.37")
    assert lines[-1] == "error: 1 error in 1 JobSet"
    place, _, message = lines[0].partition(": ")
    assert place.startswith(f"{tmp_path}/a.yaml:")
    assert [part.isdigit() for part in place.split(":")[1:]] == [True, True]
    assert message.startswith(words)


def test_a_bare_off_is_explained(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(manifest(RJ, f"{MODE}: Off"))
    assert 'in quotes: "Off"' in refused("plan", "-f", str(tmp_path / "a.yaml"), by=process)[-1]


@pytest.mark.parametrize("filler", ["x", "- y\n"])
def test_a_file_of_ten_megabytes_is_refused(filler: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(filler * (10 * 2**20 // len(filler)))
    (line, *_) = refused("plan", "-f", str(file))
    assert line.startswith(f"error: {file}:1:1: 10.0 MiB is more than the limit")


def test_an_endless_pipe_is_refused() -> None:
    assert "more than the limit" in refused("plan", "-f", "/dev/zero", by=process)[0]


def test_control_characters_in_names_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({**gang(), "metadata": {"name": "js\x1b[2J\n", "namespace": "t"}}))
    answer = process("plan", "-f", str(file))
    assert answer.code == 2
    assert "\x1b" not in answer.err


@pytest.mark.parametrize("command", [("plan",), ("translate",), ("convert", "--to", "annotations")])
def test_success_has_nothing_but_json_on_stdout(command: tuple[str, ...], tmp_path: Path) -> None:
    answer = process(*command, "-f", write(tmp_path / "a.yaml", gang()), "-o", "json")
    assert answer.code == 0
    json.loads(answer.out)

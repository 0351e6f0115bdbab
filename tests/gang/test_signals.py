"""Whether SIGTERM reaches the program of a container: what a shell does as process 1, tried with bash and dash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.gang.signals import unheard
from gangctl.pathways.flags.userpod import Shell, wrapped
from tests.cli.manifests import write
from tests.cli.run import gangctl
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY

PIPELINE, SHELL, HEARD = "a pipeline", "a shell without exec", ""


@each(
    ("script", "bash", "sh"),
    [
        ("python train.py", HEARD, SHELL),
        ("exec python train.py", HEARD, HEARD),
        ("python train.py 2>&1 | tee log", PIPELINE, PIPELINE),
        ("exec python train.py |& tee log", PIPELINE, PIPELINE),
        ("set -o pipefail; python train.py | tee log", PIPELINE, PIPELINE),
        ("cd /work && python train.py", SHELL, SHELL),
        ("cd /work && exec python train.py", HEARD, HEARD),
        ("pip install x\nexec python train.py --flag a\n", HEARD, HEARD),
        ("python train.py; echo done", SHELL, SHELL),
        ("while true; do python train.py; done", SHELL, SHELL),
        ("python train.py || exit 1", SHELL, SHELL),
        ("trap 'kill -TERM $pid' TERM; python train.py & pid=$!; wait", HEARD, HEARD),
        ("exec python train.py > >(tee log) 2>&1", HEARD, HEARD),
        ("exec python train.py --hosts $(nproc | head -1)", HEARD, HEARD),
        ("exec python -c 'print(1 | 2)'", HEARD, HEARD),
        ("exec python train.py > log 2>&1", HEARD, HEARD),
        ("exec torchrun \\\n  --nnodes 2 train.py\n", HEARD, HEARD),
        ("", HEARD, HEARD),
        ("echo 'a quote that is not closed", HEARD, HEARD),
    ],
)
def test_a_script_of_a_shell(script: str, bash: str, sh: str) -> None:
    for shell, what in (("bash", bash), ("/bin/bash", bash), ("sh", sh), ("/bin/dash", sh)):
        for container in ({"command": [shell, "-c", script]}, {"command": [shell], "args": ["-ec", script, "name"]}):
            assert unheard(container).startswith(what), shell
            assert bool(unheard(container)) is bool(what), (shell, unheard(container))


@pytest.mark.parametrize("shell", list(Shell))
@each(("command", "what"), [("python train.py", HEARD), ("cd /work; python t.py", HEARD), ("a | tee log", PIPELINE)])
def test_a_command_in_the_wrapper_of_gangctl(command: str, what: str, shell: Shell) -> None:
    found = unheard({"command": wrapped(command, shell)})
    assert found.startswith(what)
    assert bool(found) is bool(what)
    assert not unheard({"command": wrapped(f"{command.partition(' |')[0]}", shell)})


@each(
    "command", [["python", "train.py"], ["tini", "--", "bash", "-c", "a | b"], ["bash", "train.sh"], ["sh"], [], None]
)
def test_what_is_no_script_of_a_shell_is_not_known(command: list[str] | None) -> None:
    assert unheard({"command": command}) == ""


@each(("script", "what"), [("$" * 131_071, SHELL), ("a" * 2_000_000, HEARD)])
def test_no_script_takes_long_to_read(script: str, what: str) -> None:
    """They took ten seconds and more."""
    assert unheard({"command": ["sh", "-c", script]}).startswith(what)


TEXTS = st.lists(
    st.one_of(st.text(max_size=20), st.sampled_from(["sh", "bash", "-c", "a | b", "'", "$(a", "gangctl-run"]))
)


@PROPERTY
@given(st.fixed_dictionaries({"command": st.one_of(TEXTS, st.none(), st.integers())}, optional={"args": TEXTS}))
def test_any_command_has_an_answer(container: dict[str, Any]) -> None:
    assert isinstance(unheard(container), str)


def test_a_plan_warns_of_a_gang_whose_program_loses_the_signal(tmp_path: Path) -> None:
    raw = jobset("js", rj("w"), mode="Gang")
    pod = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["command"] = ["sh", "-c", "python train.py 2>&1 | tee log"]
    answer = gangctl("plan", "-f", write(tmp_path / "a.yaml", raw), "-o", "json")
    path = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].command is a pipeline: "
    lost = [notice["message"] for notice in answer.json["warnings"] if notice["reason"] == "SignalLost"]
    assert [message.startswith(path) for message in lost] == [True]
    del raw["metadata"]["annotations"]
    answer = gangctl("plan", "-f", write(tmp_path / "b.yaml", raw), "-o", "json")
    assert "SignalLost" not in answer.out


def test_a_render_warns_of_a_pipeline() -> None:
    flags = (
        "--workload",
        "a",
        "--tpu-type",
        "v5p-8",
        "--docker-image",
        "r.example/t:1",
        "--pathways-gcs-location",
        "gs://b/d",
    )
    answer = gangctl("pathways", "render", *flags, "--command", "python t.py 2>&1 | tee log")
    assert "SignalLost" in answer.err
    assert "trap '' TERM; exec tee FILE" in answer.err
    assert "SignalLost" not in gangctl("pathways", "render", *flags, "--command", "python t.py").err

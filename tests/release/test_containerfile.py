"""The image is not built here: the Containerfile is checked as in a security review."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from gangctl import __version__
from tests.release.containerfile import PATH, commands, instructions, stages, values, variables
from tests.rows import each

ROOT = Path(__file__).parents[2]
HEAD, BUILD, FINAL = stages(PATH.read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
POD = yaml.safe_load((ROOT / "manifests/base/deployment.yaml").read_text(encoding="utf-8"))["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
IGNORED = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()


def test_both_stages_use_one_base_that_can_be_pinned() -> None:
    (base,) = variables(HEAD, "ARG").values()
    least = PROJECT["requires-python"].removeprefix(">=").partition(",")[0]
    assert re.fullmatch(rf"docker\.io/library/python:{re.escape(least)}-slim(@sha256:[0-9a-f]{{64}})?", base)
    assert [values(stage, "FROM") for stage in (BUILD, FINAL)] == [["${PYTHON} AS build"], ["${PYTHON}"]]


def test_the_image_is_labelled_with_this_version() -> None:
    assert variables(FINAL, "ARG") == {"VERSION": __version__, "REVISION": "unknown"}
    labels = variables(FINAL, "LABEL")
    assert labels["org.opencontainers.image.version"] == "${VERSION}"
    assert labels["org.opencontainers.image.revision"] == "${REVISION}"
    assert labels["org.opencontainers.image.licenses"] == PROJECT["license"]


def test_the_image_runs_as_the_user_of_the_pod_and_not_as_root() -> None:
    security = POD["securityContext"]
    assert values(FINAL, "USER") == [f"{security['runAsUser']}:{security['runAsGroup']}"]
    assert security["runAsUser"] > 0
    after = [each.word for each in FINAL[[each.word for each in FINAL].index("USER") + 1 :]]
    assert not {"RUN", "COPY", "ADD", "USER"} & {*after}


def test_the_user_of_the_image_owns_no_files() -> None:
    assert values(FINAL, "COPY") == ["--from=build /opt/gangctl /opt/gangctl"]
    assert not any(re.search(r"--chown|--chmod|chown|chmod|useradd", each.rest) for each in (*BUILD, *FINAL))


def test_the_image_needs_no_writable_file_system() -> None:
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True
    assert variables(FINAL, "ENV")["PYTHONDONTWRITEBYTECODE"] == "1"
    assert values(FINAL, "WORKDIR") == [mount["mountPath"] for mount in CONTAINER["volumeMounts"]][-1:]
    assert variables(FINAL, "ENV")["PYTHONSAFEPATH"] == "1"


def test_the_image_has_no_installer() -> None:
    uninstall, remove = commands(FINAL)
    assert re.search(r"pip uninstall .*--yes pip setuptools wheel$", uninstall)
    assert remove.startswith("rm -r ")
    assert "ensurepip" in remove
    (venv,) = [command for command in commands(BUILD) if "-m venv" in command]
    assert venv == "python -m venv --without-pip /opt/gangctl"


def test_only_what_is_locked_is_installed_and_nothing_is_fetched_beside_it() -> None:
    for command in commands(BUILD):
        locked = "--require-hashes --only-binary :all: -r locks/" in command
        assert locked or "--no-deps" in command or "-m venv" in command
    assert not any(re.search(r"\b(curl|wget|apt|apt-get|git|ssh)\b|://", each.rest) for each in (*BUILD, *FINAL))
    assert "ADD" not in {each.word for each in (*BUILD, *FINAL)}


def test_the_image_has_no_secret() -> None:
    names = {name for stage in (HEAD, BUILD, FINAL) for word in ("ARG", "ENV") for name in variables(stage, word)}
    assert not [name for name in names if re.search("TOKEN|PASSWORD|SECRET|KEY", name)]


def test_copied_files_exist_and_are_all_that_the_builder_gets() -> None:
    copied = {word.rstrip("/") for rest in values(BUILD, "COPY") for word in rest.split()[:-1]}
    assert IGNORED[1] == "*"
    assert {line[1:] for line in IGNORED if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_starts_the_program_without_a_shell() -> None:
    (entrypoint,) = values(FINAL, "ENTRYPOINT")
    (name,) = yaml.safe_load(entrypoint)
    assert name in PROJECT["scripts"]
    assert variables(FINAL, "ENV")["PATH"].startswith("/opt/gangctl/bin:")
    assert values(FINAL, "CMD") == ['["--help"]']
    assert "command" not in CONTAINER


def test_the_image_exposes_the_unprivileged_ports_of_the_pod() -> None:
    (ports,) = values(FINAL, "EXPOSE")
    assert [int(port) for port in ports.split()] == [port["containerPort"] for port in CONTAINER["ports"]]
    assert all(int(port) >= 1024 for port in ports.split())


def test_the_image_has_no_health_check_beside_the_probes() -> None:
    assert "HEALTHCHECK" not in {each.word for each in (*BUILD, *FINAL)}
    assert {"livenessProbe", "readinessProbe"} <= {*CONTAINER}


@each(
    ("text", "rest"),
    [
        ("RUN a \\\n    # why\n    && b\n", "a && b"),
        ("# syntax\nRUN a  \\\n  && b # not a comment\n", "a && b # not a comment"),
    ],
)
def test_an_instruction_is_read(text: str, rest: str) -> None:
    assert [(each.word, each.rest) for each in instructions(text)] == [("RUN", rest)]

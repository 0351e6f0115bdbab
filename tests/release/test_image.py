"""`make image`: which engine builds it, from what, and its messages; tests/node builds it with buildah."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangctl import __version__
from release import image

ENGINE = """\
#!/bin/sh
echo "$0 $*" >> {log}
[ "$1" = {works} ] || exit {code}
"""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with git alone, and the file in which engines write how they were called."""
    for name in ("git", "sh"):
        (program,) = [found for place in ("/usr/bin", "/bin") if (found := Path(place, name)).exists()][:1]
        (tmp_path / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "said"


def engine(said: Path, name: str, code: int = 0, works: str = "none") -> None:
    """An engine with an exit code, but for the command that ``works``."""
    program = said.parent / name
    program.write_text(ENGINE.format(log=said, code=code, works=works))
    program.chmod(0o755)


def test_without_an_engine_the_error_lists_the_supported_ones(said: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert image.main([]) == 2
    assert capsys.readouterr().err == "error: no container engine in PATH: install podman, docker or buildah\n"
    assert not said.exists()


def test_an_engine_that_does_not_work_is_skipped(said: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine(said, "docker", code=1)
    assert image.main([]) == 2
    assert capsys.readouterr().err == "error: docker in PATH, but not at work: see what `docker info` says\n"
    engine(said, "buildah")
    assert image.main([]) == 0
    assert "docker build" not in said.read_text()


@pytest.mark.parametrize(
    ("name", "writes"),
    [
        ("podman", "save --format=oci-archive --output=FILE gangctl"),
        ("docker", "save --output=FILE gangctl"),
        ("buildah", "push gangctl"),
    ],
)
def test_the_first_engine_builds_and_writes_it(
    name: str, writes: str, said: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine(said, name)
    engine(said, "buildah")
    file = tmp_path / "image.tar"
    assert image.main(["--base", "example/python@sha256:00", "--archive", str(file)]) == 0
    _, build, write = said.read_text().splitlines()
    assert build.startswith(
        f"{tmp_path / name} build --build-arg=PYTHON=example/python@sha256:00 --build-arg=REVISION="
    )
    assert build.endswith(f"--tag=gangctl:{__version__} {image.ROOT}")
    assert write.startswith(f"{tmp_path / name} {writes.replace('FILE', str(file))}")
    assert str(file) in write
    assert capsys.readouterr().out.splitlines()[-1].endswith("based on example/python@sha256:00")


def test_the_image_is_pushed_by_the_name_that_install_takes(
    said: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine(said, "podman")
    assert image.main(["--push", "registry.example/gangctl:1"]) == 0
    called = [line.removeprefix(str(tmp_path / "podman ")) for line in said.read_text().splitlines()]
    assert called[2:] == [f"tag gangctl:{__version__} registry.example/gangctl:1", "push registry.example/gangctl:1"]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("gangctl install --image registry.example/gangctl:1 | kubectl apply -f -")


def test_a_failed_engine_is_named_with_its_exit_code(said: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine(said, "podman", code=125, works="info")
    assert image.main([]) == 125
    assert capsys.readouterr().err == "error: podman build failed; its reason is above\n"

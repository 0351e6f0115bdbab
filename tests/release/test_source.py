"""A release is what git has of a commit; an upgrade starts from the newest tag behind it, or from the commit before."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from release.__main__ import main, not_a_release
from release.source import Source, export, previous, source, tags_of
from tests.rows import each

Commit = Callable[[str, int], str]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    return place


@pytest.fixture
def commit(repository: Path) -> Commit:
    def make(version: str, day: int) -> str:
        package = repository / "gangctl"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text(f'"""Doc."""\n\n__version__ = "{version}"\n', encoding="utf-8")
        (repository / "day").write_text(str(day), encoding="utf-8")
        git(repository, "add", ".")
        git(repository, "commit", "-q", "-m", "one", day=day)
        return git(repository, "rev-parse", "HEAD").strip()

    return make


def git(place: Path, *arguments: str, day: int = 1) -> str:
    date = f"2026-11-{day:02}T12:00:00Z"
    people = {f"GIT_{who}_{what}": "somebody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    place_only = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(place), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "tag.gpgSign=false", "-c", "commit.gpgSign=false", *arguments]
    done = subprocess.run(
        command, cwd=place, env=people | dates | place_only, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_commit_has_its_version_and_time(repository: Path, commit: Commit) -> None:
    first = commit("0.1.0", 1)
    second = commit("0.2.0", 2)
    assert source(repository) == Source(second, 1_793_620_800, "0.2.0")
    assert source(repository, first) == Source(first, 1_793_534_400, "0.1.0")


def test_a_commit_without_a_version_is_an_error(repository: Path, commit: Commit) -> None:
    commit("", 1)
    with pytest.raises(ValueError, match="has no line __version__"):
        source(repository)


def test_only_what_is_committed_is_exported(repository: Path, commit: Commit, tmp_path: Path) -> None:
    commit("0.1.0", 1)
    (repository / "day").write_text("not committed", encoding="utf-8")
    (repository / "other").write_text("not committed", encoding="utf-8")
    export(repository, "HEAD", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["day", "gangctl"]
    assert (tmp_path / "out/day").read_text(encoding="utf-8") == "1"


def test_before_any_tag_the_previous_version_is_the_commit_before(repository: Path, commit: Commit) -> None:
    before = commit("0.1.0", 1)
    commit("0.1.0", 2)
    assert previous(repository) == before


def test_after_that_it_is_the_newest_tag_of_a_version_behind(repository: Path, commit: Commit) -> None:
    commit("0.1.0", 1)
    git(repository, "tag", "v0.1.0")
    commit("0.2.0", 2)
    git(repository, "tag", "-a", "v0.2.0", "-m", "two", day=2)
    commit("0.3.0", 3)
    git(repository, "tag", "very-good")
    commit("0.3.0", 4)
    git(repository, "tag", "v0.3.0")
    assert previous(repository) == "v0.2.0"
    assert tags_of(repository, "HEAD") == ["v0.3.0"]


def test_a_first_commit_has_no_previous_version(repository: Path, commit: Commit) -> None:
    commit("0.1.0", 1)
    with pytest.raises(subprocess.CalledProcessError):
        previous(repository)


@each(
    ("tags", "changelog", "why"),
    [
        (["v1.0.0"], "## [1.0.0] - 2027-01-01\n", []),
        ([], "## [1.0.0] - 2027-01-01\n", ["abc has not the tag v1.0.0: git tag -s v1.0.0"]),
        (["v1.0.0"], "## [0.9.0] - 2027-01-01\n", ["CHANGELOG.md has no section [1.0.0]"]),
        (
            ["v1.0.0"],
            "## [1.0.0] - Unreleased\n",
            ["the section [1.0.0] of CHANGELOG.md says Unreleased where the day of the release belongs"],
        ),
    ],
)
def test_obstacles_to_a_release_are_reported(tags: list[str], changelog: str, why: list[str]) -> None:
    assert list(not_a_release(Source("abc", 0, "1.0.0"), tags, changelog)) == why


def test_an_unknown_argument_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--tag"])
    assert "unrecognized arguments: --tag" in capsys.readouterr().err

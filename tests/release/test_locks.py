"""The lock files: whole, of one mind, and what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.lock import Locked, read_lock
from tests.rows import each

ROOT = Path(__file__).parents[2]
LOCKS = {name: read_lock(ROOT / "locks" / f"{name}.txt") for name in ("runtime", "dev")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ASKED = {
    "runtime": PROJECT["project"]["dependencies"],
    "dev": PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"],
}


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_locked_in_a_matching_version(name: str) -> None:
    versions = {package.name: package.version for package in LOCKS[name]}
    for requirement in map(Requirement, ASKED[name]):
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_is_required(name: str) -> None:
    direct = {package.name for package in LOCKS[name] if "gangctl" in package.needed_by}
    assert direct == {canonicalize_name(Requirement(text).name) for text in ASKED[name]}
    known = {package.name for package in LOCKS[name]} | {"gangctl"}
    for package in LOCKS[name]:
        assert package.needed_by
        assert set(package.needed_by) <= known


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_hashes_and_no_host(name: str) -> None:
    assert all(package.hashes for package in LOCKS[name])
    assert "://" not in (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")


def test_runtime_packages_are_locked_as_in_development() -> None:
    def pins(packages: list[Locked]) -> set[tuple[str, str, tuple[str, ...]]]:
        return {(package.name, package.version, package.hashes) for package in packages}

    assert pins(LOCKS["runtime"]) <= pins(LOCKS["dev"])


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files_have_the_options_of_make_lock(name: str) -> None:
    options = {"--universal", "--generate-hashes", "--no-emit-index-url", "--exclude-newer"}
    header = (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8").splitlines()[1]
    assert options <= set(header.split())


def test_a_package_is_read(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    digests = [letter * 64 for letter in "ab"]
    hashes = " \\\n".join(f"    --hash=sha256:{digest}" for digest in digests)
    marker = " ; python_version < '3.12'"
    via = "    # via\n    #   -c old.txt\n    #   gangctl (p.toml)\n"
    lock.write_text(f"# head\nzlib-ng==1.0{marker} \\\n{hashes}\n{via}")
    assert read_lock(lock) == [Locked("zlib-ng", "1.0", tuple(digests), ("gangctl",))]


@each("line", ["--index-url elsewhere", "rich>=14", "    --hash=md5:00", "-e ."])
def test_an_invalid_lock_file_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(f"rich==14\n{line}\n")
    with pytest.raises(ValueError, match=re.escape(f"{lock}:2: expected NAME==VERSION, a sha256 hash or a comment")):
        read_lock(lock)

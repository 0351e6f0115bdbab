"""Where binaries come from, without building any."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.__main__ import wanted
from tests.controlplane.binaries import BIN_VARIABLE, COMPONENTS, MissingBinary, find_binary, find_manifests, owner
from tests.controlplane.build import MARKED_VARIABLE, ensure_binary
from tests.controlplane.minors import MINORS, NEWEST
from tests.controlplane.promtool2 import ensure_promtool_2
from tests.rows import each


@pytest.fixture(autouse=True)
def empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No binaries, an empty cache and no Go."""
    monkeypatch.delenv(BIN_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))


def put(directory: Path, name: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.touch(mode=0o755)
    return path


@pytest.mark.parametrize("minor", MINORS)
def test_each_minor_pins_a_release_of_its_own(minor: str) -> None:
    assert owner("kube-apiserver", minor).version.startswith(f"{minor}.")


def test_what_one_tier_or_a_real_node_needs_is_built_on_request() -> None:
    assert {*wanted(MINORS, node=True, full=True)} == {*COMPONENTS}
    assert {*wanted([NEWEST])}.isdisjoint({"node", "jobset-0.10", "kubernetes-1.35"})
    assert "jobset-0.10" in wanted([NEWEST], full=True)
    assert "node" in wanted([NEWEST], node=True)


def test_a_named_directory_comes_before_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    etcd = COMPONENTS["etcd"]
    cached = put(etcd.cache_directory, f"etcd-{etcd.version}")
    assert find_binary(etcd, "etcd") == cached
    given = put(tmp_path / "given", f"etcd-{etcd.version}")
    monkeypatch.setenv(BIN_VARIABLE, str(tmp_path / "given"))
    assert find_binary(etcd, "etcd") == given


def test_another_version_in_the_named_directory_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(tmp_path / "given", "etcd-3.0.0")
    monkeypatch.setenv(BIN_VARIABLE, str(tmp_path / "given"))
    assert find_binary(COMPONENTS["etcd"], "etcd") is None


def test_changed_pins_change_the_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jobset = COMPONENTS["jobset"]
    before = jobset.cache_directory
    (jobset.cache_directory / jobset.manifest_directory_name).mkdir(parents=True)
    assert find_manifests(jobset) is not None
    copy = tmp_path / "gomod" / "jobset"
    copy.mkdir(parents=True)
    (copy / "go.mod").write_bytes((jobset.directory / "go.mod").read_bytes())
    (copy / "go.sum").write_bytes((jobset.directory / "go.sum").read_bytes() + b"\n")
    monkeypatch.setattr(binaries, "GOMOD", tmp_path / "gomod")
    assert jobset.cache_directory != before
    assert find_manifests(jobset) is None


def test_a_changed_program_changes_the_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = COMPONENTS["workloadbuilder"]
    copy = shutil.copytree(program.directory, tmp_path / "gomod" / program.name)
    monkeypatch.setattr(binaries, "GOMOD", tmp_path / "gomod")
    before = program.cache_directory
    (copy / "main.go").write_text("package main\n")
    assert program.cache_directory != before


def test_without_go_the_error_names_the_binary_and_the_place() -> None:
    with pytest.raises(
        MissingBinary, match=r"kube-scheduler 1\.36\.\d+ is missing: install Go .* or put it at"
    ) as caught:
        ensure_binary("kube-scheduler", "1.36")
    assert f"${BIN_VARIABLE}/kube-scheduler-1.36." in str(caught.value)


def test_promtool_2_is_found_or_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MissingBinary, match=rf"apt-get and dpkg-deb would fetch .*\${BIN_VARIABLE}/promtool-2"):
        ensure_promtool_2()
    monkeypatch.setenv(BIN_VARIABLE, str(tmp_path / "given"))
    given = put(tmp_path / "given", "promtool-2")
    assert ensure_promtool_2() == given


@each("marked", ["", "1"])
def test_a_test_builds_nothing_although_there_is_go(
    marked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "go")
    if marked:
        monkeypatch.setenv(MARKED_VARIABLE, marked)
    with pytest.raises(MissingBinary, match="`make controlplane` builds it"):
        ensure_binary("promtool", NEWEST)


def test_a_process_of_a_test_without_the_marker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pytest")
    with pytest.raises(RuntimeError, match=r"test_binaries\.py::.*give it the marker controlplane"):
        ensure_binary("etcd", NEWEST)

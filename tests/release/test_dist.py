"""The files that ``make dist`` writes to dist/, and their checksums."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from gangctl import __version__
from gangctl.cli.install.rendering import InstallationOptions, render
from release.__main__ import main, write
from release.build import sha256
from release.cluster import chart_package
from release.lock import read_lock
from release.source import Source
from tests.controlplane.api import Object
from tests.manifests.chart import CHART
from tests.manifests.helm import Helm, as_flags
from tests.release.conftest import TIME, Built

pytestmark = pytest.mark.xdist_group("release")

COMMIT = "ab" * 20
DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def dist(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist") / "dist"
    of, lock = Source(COMMIT, TIME, __version__), read_lock(built.tree / "locks" / "runtime.txt")
    written = write(of, built.tree, directory, lock)
    assert {*written} == {*directory.iterdir()}
    return directory


def test_there_are_six_files(dist: Path) -> None:
    stem = f"gangctl-{__version__}"
    assert {path.name for path in dist.iterdir()} == {
        f"{stem}-py3-none-any.whl",
        f"{stem}.tar.gz",
        f"{stem}.tgz",
        f"{stem}-krew.tar.gz",
        f"{stem}.cdx.json",
        "SHA256SUMS",
    }


def test_with_a_base_the_image_is_among_them(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is a script, so that no image is built; tests/node has the real one."""
    engine = tmp_path / "buildah"
    engine.write_text(
        '#!/bin/sh\n[ "$1" = push ] || exit 0\nfile=${3#oci-archive:}\necho "$2" > "${file%%:gangctl:*}"\n'
    )
    engine.chmod(0o755)
    monkeypatch.setattr("release.image.ENGINES", ("buildah",))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    dist, lock = tmp_path / "dist", read_lock(built.tree / "locks" / "runtime.txt")
    written = write(Source(COMMIT, TIME, __version__), built.tree, dist, lock, base="python@sha256:00")
    archive = dist / f"gangctl-{__version__}.oci.tar"
    assert archive in written
    assert archive.read_text() == f"gangctl:{__version__}\n"
    assert f"{sha256(archive)}  {archive.name}\n" in (dist / "SHA256SUMS").read_text()
    assert sha256(archive) in (dist / f"gangctl-{__version__}.cdx.json").read_text()


def test_the_address_of_the_project_is_in_package_chart_and_plugin(built: Built, tmp_path: Path) -> None:
    tree, dist, page = tmp_path / "tree", tmp_path / "dist", "https://code.example/team/gangctl"
    shutil.copytree(built.tree, tree)
    of, lock = Source(COMMIT, TIME, __version__), read_lock(tree / "locks" / "runtime.txt")
    write(of, tree, dist, lock, url="https://files.example", homepage=page)
    with zipfile.ZipFile(dist / f"gangctl-{__version__}-py3-none-any.whl") as wheel:
        about = wheel.read(f"gangctl-{__version__}.dist-info/METADATA").decode()
    assert f"\nProject-URL: Homepage, {page}\n" in about
    with tarfile.open(dist / f"gangctl-{__version__}.tgz") as archive:
        described = archive.extractfile("gangctl/Chart.yaml")
        assert described is not None
        assert yaml.safe_load(described)["home"] == page
        values = archive.extractfile("gangctl/values.yaml")
        assert values is not None
        assert yaml.safe_load(values)["metrics"]["runbookBaseUrl"] == f"{page}/blob/main/docs"
    with tarfile.open(dist / f"gangctl-{__version__}.tar.gz") as archive:
        rules = archive.extractfile(f"gangctl-{__version__}/manifests/monitoring/rules/process.yaml")
        assert rules is not None
        assert f"{page}/blob/main/docs/runbooks/GangctlDown.md" in rules.read().decode()
    assert yaml.safe_load((dist / "gang.yaml").read_text())["spec"]["homepage"] == page


@pytest.mark.parametrize("given", ["http://git.example/x", "git.example/x", "https://", 'https://git.example/"'])
def test_an_invalid_project_url_is_an_error(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--homepage", given])
    assert f"argument --homepage: {given!r} is not https://HOST/PATH" in capsys.readouterr().err


def test_checksums_cover_all_other_files(dist: Path) -> None:
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    said = subprocess.run(command, cwd=dist, capture_output=True, text=True, check=True).stdout
    assert said.count(": OK\n") == len(said.splitlines()) == 5


def test_a_changed_file_is_detected(dist: Path, tmp_path: Path) -> None:
    for path in dist.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes() + (b"x" if path.suffix == ".whl" else b""))
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_the_bill_of_materials_names_the_files_and_the_commit(dist: Path) -> None:
    bill = dist / f"gangctl-{__version__}.cdx.json"
    about = json.loads(bill.read_text(encoding="utf-8"))["metadata"]
    files = {each["url"]: each["hashes"][0]["content"] for each in about["component"]["externalReferences"]}
    assert files == {path.name: sha256(path) for path in dist.iterdir() if path.name not in {bill.name, "SHA256SUMS"}}
    assert about["properties"] == [{"name": "gangctl:commit", "value": COMMIT}]


@pytest.mark.parametrize(
    ("image", "values"),
    [
        ("registry.example:5000/team/gangctl:1.2", {"repository": "registry.example:5000/team/gangctl", "tag": "1.2"}),
        (f"a.example/gangctl@{DIGEST}", {"repository": "a.example/gangctl", "digest": DIGEST}),
    ],
    ids=["tag", "digest"],
)
def test_manifests_wheel_and_chart_carry_the_image(
    image: str, values: dict[str, str], built: Built, tmp_path: Path
) -> None:
    tree, dist = tmp_path / "tree", tmp_path / "dist"
    shutil.copytree(built.tree, tree)
    of, lock = Source(COMMIT, TIME, __version__), read_lock(tree / "locks" / "runtime.txt")
    write(of, tree, dist, lock, image=image)
    expected = render(InstallationOptions(image=image))
    assert list(yaml.safe_load_all((dist / "install.yaml").read_text(encoding="utf-8"))) == expected
    with zipfile.ZipFile(dist / f"gangctl-{__version__}-py3-none-any.whl") as wheel:
        shipped = json.loads(wheel.read("gangctl/cli/install/manifests.json"))
    images = [item["spec"]["template"]["spec"]["containers"][0]["image"] for item in of_kind(shipped["base"])]
    assert images == [image]
    with tarfile.open(dist / f"gangctl-{__version__}.tgz") as archive:
        text = archive.extractfile("gangctl/values.yaml")
        assert text is not None
        given = yaml.safe_load(text)["image"]
    assert {key: value for key, value in given.items() if value and key != "pullPolicy"} == values


def of_kind(objects: list[Object], kind: str = "Deployment") -> list[Object]:
    return [item for item in objects if item["kind"] == kind]


@pytest.mark.parametrize("given", ["gangctl:0.1.0", "registry.example/gangctl", "a b/c:1", "a/b@sha256:0"])
def test_an_image_without_registry_or_version_is_an_error(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--image", given])
    assert f"argument --image: {given!r} is not REGISTRY/NAME:TAG" in capsys.readouterr().err


def test_the_chart_is_packed_whole_and_with_the_same_bytes(dist: Path, built: Built, tmp_path: Path) -> None:
    package = dist / f"gangctl-{__version__}.tgz"
    with tarfile.open(package) as archive:
        names = [each.name for each in archive.getmembers()]
    assert names[0] == "gangctl/Chart.yaml"
    assert {f"charts/{name}" for name in names} == {name for name in built.files if name.startswith("charts/gangctl/")}
    chart_package(built.tree, tmp_path / "again.tgz", TIME)
    assert sha256(tmp_path / "again.tgz") == sha256(package)


@pytest.mark.controlplane
def test_helm_accepts_the_package(dist: Path, tmp_path: Path) -> None:
    helm = Helm(tmp_path)
    package = str(dist / f"gangctl-{__version__}.tgz")
    assert helm.run("show", "chart", package).count(f"version: {__version__}") == 1
    values = as_flags({"image": {"repository": "registry.example/gangctl"}})
    printed = [helm.run("template", "any", chart, "-n", "gangctl-system", *values) for chart in (package, str(CHART))]
    assert printed[0] == printed[1]

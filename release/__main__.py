"""``python -m release``: the last commit as people get it, in dist/."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from release.build import build, checksums, sha256
from release.changelog import UNRELEASED, sections
from release.cluster import chart_package, install_yaml
from release.image import NoEngine, build_image
from release.licences import refused
from release.lock import Locked, read_lock
from release.sbom import Release, bill_of_materials
from release.source import Source, export, source, tags_of

ROOT: Final = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Exit code: 1 where there is something to put right first; wrong arguments exit with 2."""
    parser = argparse.ArgumentParser(prog="python -m release", description="Build the last commit.", allow_abbrev=False)
    parser.add_argument("--tagged", action="store_true", help="fail where the commit is not the release of its version")
    parser.add_argument("--base", metavar="IMAGE", help="build the image, too, on this one; name it by digest")
    given = parser.parse_args(arguments)
    of = source(ROOT)
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        export(ROOT, of.commit, tree)
        packages = read_lock(tree / "locks" / "runtime.txt")
        wrong = refused(packages)
        if given.tagged:
            wrong += not_a_release(of, tags_of(ROOT, of.commit), (tree / "CHANGELOG.md").read_text(encoding="utf-8"))
        if wrong:
            sys.stderr.writelines(f"error: {message}\n" for message in wrong)
            return 1
        try:
            written = write(of, tree, Path(name) / "dist", packages, base=given.base)
        except (NoEngine, subprocess.CalledProcessError) as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(Path(name) / "dist", ROOT / "dist")
    sys.stdout.write(f"gangctl {of.version}, commit {of.commit}\n")
    sys.stdout.writelines(f"dist/{path.name}\n" for path in written)
    if given.base is None:
        sys.stdout.write("no image: BASE=IMAGE@sha256:DIGEST names what it is based on\n")
    return 0


def not_a_release(of: Source, tags: list[str], changelog: str) -> Iterator[str]:
    """What keeps a commit from being the release of its version."""
    days = sections(changelog)
    if of.version not in days:
        yield f"CHANGELOG.md has no section [{of.version}]"
    elif days[of.version] is None:
        yield f"the section [{of.version}] of CHANGELOG.md says {UNRELEASED} where the day of the release belongs"
    if f"v{of.version}" not in tags:
        yield f"{of.commit} has not the tag v{of.version}: git tag -s v{of.version}"


def write(of: Source, tree: Path, directory: Path, packages: list[Locked], *, base: str | None = None) -> list[Path]:
    """Wheel, source distribution, manifests, chart, bill of materials and their checksums; with ``base`` the image."""
    manifests, chart = directory / "install.yaml", directory / f"gangctl-{of.version}.tgz"
    built = [*build(tree, directory, of.time), manifests, chart]
    install_yaml(tree, manifests)
    chart_package(tree, chart, of.time)
    if base is not None:
        image = directory / f"gangctl-{of.version}.oci.tar"
        build_image(tree, base, of.commit, image)
        built.append(image)
    bill = directory / f"gangctl-{of.version}.cdx.json"
    release = Release(of.version, of.commit, of.time, {path.name: sha256(path) for path in built})
    bill.write_text(bill_of_materials(release, packages), encoding="utf-8")
    sums = directory / "SHA256SUMS"
    sums.write_text(checksums([*built, bill]), encoding="utf-8")
    return [*built, bill, sums]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

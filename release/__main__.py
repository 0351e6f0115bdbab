"""``python -m release``: the last commit as people get it, in dist/; with ``--tagged`` only where it is a release."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from release.build import build, checksums, sha256
from release.changelog import UNRELEASED, sections
from release.cluster import chart_package, install_yaml
from release.licences import refused
from release.lock import Locked, read_lock
from release.sbom import Release, bill_of_materials
from release.source import Source, export, source, tags_of

ROOT: Final = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Exit code: 1 where there is something to put right first, 2 for anything else that was asked."""
    if arguments not in ([], ["--tagged"]):
        sys.stderr.write("usage: python -m release [--tagged]\n")
        return 2
    of = source(ROOT)
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        export(ROOT, of.commit, tree)
        packages = read_lock(tree / "locks" / "runtime.txt")
        wrong = refused(packages)
        if arguments:
            wrong += not_a_release(of, tags_of(ROOT, of.commit), (tree / "CHANGELOG.md").read_text(encoding="utf-8"))
        if wrong:
            sys.stderr.writelines(f"error: {message}\n" for message in wrong)
            return 1
        written = write(of, tree, Path(name) / "dist", packages)
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(Path(name) / "dist", ROOT / "dist")
    sys.stdout.write(f"gangctl {of.version}, commit {of.commit}\n")
    sys.stdout.writelines(f"dist/{path.name}\n" for path in written)
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


def write(of: Source, tree: Path, directory: Path, packages: list[Locked]) -> list[Path]:
    """Wheel, source distribution, manifests, chart, bill of materials and their checksums."""
    manifests, chart = directory / "install.yaml", directory / f"gangctl-{of.version}.tgz"
    built = [*build(tree, directory, of.time), manifests, chart]
    install_yaml(tree, manifests)
    chart_package(tree, chart, of.time)
    bill = directory / f"gangctl-{of.version}.cdx.json"
    release = Release(of.version, of.commit, of.time, {path.name: sha256(path) for path in built})
    bill.write_text(bill_of_materials(release, packages), encoding="utf-8")
    sums = directory / "SHA256SUMS"
    sums.write_text(checksums([*built, bill]), encoding="utf-8")
    return [*built, bill, sums]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

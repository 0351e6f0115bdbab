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
from release.cluster import chart_package, image_name, install_yaml, set_image
from release.homepage import https, set_homepage
from release.image import NoEngine, build_image
from release.krew import krew_archive, krew_manifest
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
    parser.add_argument(
        "--image", metavar="IMAGE", type=image_name, help="what nodes will pull; install.yaml, wheel and chart name it"
    )
    parser.add_argument("--url", metavar="URL", help="write a krew manifest, too: where these files will be")
    parser.add_argument("--homepage", metavar="URL", type=https, help="the project's address, for package and chart")
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
            place, image = Path(name) / "dist", given.image
            written = write(
                of, tree, place, packages, base=given.base, image=image, url=given.url, homepage=given.homepage
            )
        except (NoEngine, ValueError, subprocess.CalledProcessError) as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(Path(name) / "dist", ROOT / "dist")
    sys.stdout.write(f"gangctl {of.version}, commit {of.commit}\n")
    sys.stdout.writelines(f"dist/{path.name}\n" for path in written)
    if given.image is None:
        sys.stdout.write("no install.yaml: IMAGE=registry.example/gangctl:TAG is what nodes will pull\n")
    if given.url is None:
        sys.stdout.write("no krew manifest: URL=URL is where these files will be\n")
    if given.homepage is None:
        sys.stdout.write("no address of the project: HOMEPAGE=URL is for the metadata of package and chart\n")
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


def write(
    of: Source,
    tree: Path,
    directory: Path,
    packages: list[Locked],
    *,
    base: str | None = None,
    image: str | None = None,
    url: str | None = None,
    homepage: str | None = None,
) -> list[Path]:
    """Wheel, source distribution, chart, plugin, bill of materials and their checksums.

    With ``image`` the manifests, with ``base`` the image on it, with ``url`` the krew manifest of files that will be
    below it. ``homepage`` and ``image`` are written into the tree first, and so are in all of them.
    """
    if homepage is not None:
        set_homepage(tree, homepage)
    if image is not None:
        set_image(tree, image)
    stem = directory / f"gangctl-{of.version}"
    chart, plugin = Path(f"{stem}.tgz"), Path(f"{stem}-krew.tar.gz")
    python = build(tree, directory, of.time)
    chart_package(tree, chart, of.time)
    krew_archive(tree, next(each for each in python if each.suffix == ".whl"), plugin, of.time)
    built = [*python, chart, plugin]
    if image is not None:
        built.append(directory / "install.yaml")
        install_yaml(tree, built[-1])
    if url is not None:
        built.append(directory / "gang.yaml")
        built[-1].write_text(krew_manifest(of.version, plugin, url, homepage or url), encoding="utf-8")
    if base is not None:
        built.append(Path(f"{stem}.oci.tar"))
        build_image(tree, base, of.commit, built[-1])
    bill = Path(f"{stem}.cdx.json")
    release = Release(of.version, of.commit, of.time, {path.name: sha256(path) for path in built})
    bill.write_text(bill_of_materials(release, packages), encoding="utf-8")
    sums = directory / "SHA256SUMS"
    sums.write_text(checksums([*built, bill]), encoding="utf-8")
    return [*built, bill, sums]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

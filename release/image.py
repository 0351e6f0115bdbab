"""gangctl's image, built from the Containerfile by the engine that is there: ``python -m release.image``."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gangctl import __version__

ROOT: Final = Path(__file__).parents[1]
ENGINES: Final = ("podman", "docker", "buildah")
BASE: Final = "docker.io/library/python:3.11-slim"
NAME: Final = f"gangctl:{__version__}"


class NoEngine(Exception):  # noqa: N818 -- it states what is the matter
    """There is no container engine that works."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 2 without an engine, the engine's own if it fails."""
    parser = argparse.ArgumentParser(prog="python -m release.image", description="Build the image of this directory.")
    parser.add_argument("--base", default=BASE, metavar="IMAGE", help="what it is based on (default: %(default)s)")
    parser.add_argument("--archive", type=Path, metavar="FILE", help="write it to an OCI archive, too")
    parser.add_argument("--push", metavar="IMAGE", help="push it by this name, too: registry.example/gangctl:TAG")
    given = parser.parse_args(arguments)
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    try:
        build_image(ROOT, given.base, revision.stdout.strip(), given.archive, given.push)
    except NoEngine as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"error: {' '.join(map(str, error.cmd[:2]))} failed; its reason is above\n")
        return error.returncode
    return 0


def build_image(tree: Path, base: str, revision: str, archive: Path | None = None, pushed: str | None = None) -> None:
    """Build the image of a directory, write it to an archive and push it; says with which engine and on what.

    Raises :class:`NoEngine`, or ``subprocess.CalledProcessError`` after the engine has said why.
    """
    engine = find_engine()
    sys.stdout.write(f"{engine} builds {NAME} on {base}\n")
    sys.stdout.flush()
    arguments = [f"--build-arg=PYTHON={base}", f"--build-arg=REVISION={revision}", f"--file={tree / 'Containerfile'}"]
    subprocess.run([engine, "build", *arguments, f"--tag={NAME}", str(tree)], check=True)
    if archive is not None:
        subprocess.run(archive_command(engine, NAME, archive), check=True)
    if pushed is not None:
        subprocess.run([engine, "tag", NAME, pushed], check=True)
        subprocess.run([engine, "push", pushed], check=True)
    sys.stdout.write(f"{NAME}, commit {revision}, based on {base}\n")
    if pushed is not None:
        sys.stdout.write(f"pushed as {pushed}: gangctl install --image {pushed} | kubectl apply -f -\n")


def find_engine() -> str:
    """The first engine that works: a docker without its daemon does not. Raises :class:`NoEngine`."""
    there = [each for each in ENGINES if shutil.which(each)]
    if not there:
        raise NoEngine("no container engine in PATH: install podman, docker or buildah")
    for each in there:
        if subprocess.run([each, "info"], capture_output=True, check=False).returncode == 0:
            return each
    raise NoEngine(f"{' and '.join(there)} in PATH, but not at work: see what `{there[0]} info` says")


def archive_command(engine: str, name: str, file: Path) -> list[str]:
    """The command that writes an image to an OCI archive."""
    match engine:
        case "buildah":
            return [engine, "push", name, f"oci-archive:{file}:{name}"]
        case "podman":
            return [engine, "save", "--format=oci-archive", f"--output={file}", name]
        case _:
            # Since Docker 25 this is an OCI layout.
            return [engine, "save", f"--output={file}", name]


if __name__ == "__main__":
    sys.exit(main())

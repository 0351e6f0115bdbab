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


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 2 without an engine, the engine's own if it fails."""
    parser = argparse.ArgumentParser(prog="python -m release.image", description="Build the image of this directory.")
    parser.add_argument("--base", default=BASE, metavar="IMAGE", help="what it is based on (default: %(default)s)")
    parser.add_argument("--archive", type=Path, metavar="FILE", help="write it to an OCI archive, too")
    given = parser.parse_args(arguments)
    engine = next((each for each in ENGINES if shutil.which(each)), None)
    if engine is None:
        sys.stderr.write(f"error: no container engine in PATH: install one of {', '.join(ENGINES)}\n")
        return 2
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    sys.stdout.write(f"{engine} builds {NAME} on {given.base}\n")
    sys.stdout.flush()
    try:
        subprocess.run(build_command([engine], given.base, NAME, revision=revision.stdout.strip()), check=True)
        if given.archive is not None:
            subprocess.run(archive_command([engine], NAME, given.archive), check=True)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"error: {' '.join(map(str, error.cmd[:2]))} failed; its reason is above\n")
        return error.returncode
    sys.stdout.write(f"{NAME}, commit {revision.stdout.strip()}, based on {given.base}\n")
    return 0


def build_command(
    engine: Sequence[str], base: str, name: str, *, revision: str = "unknown", options: Sequence[str] = ()
) -> list[str]:
    """The command that builds the image of this directory; ``engine`` may have options of its own."""
    arguments = [f"--build-arg=PYTHON={base}", f"--build-arg=REVISION={revision}", *options]
    return [*engine, "build", *arguments, f"--file={ROOT / 'Containerfile'}", f"--tag={name}", str(ROOT)]


def archive_command(engine: Sequence[str], name: str, file: Path) -> list[str]:
    """The command that writes an image to an OCI archive."""
    match engine[0]:
        case "buildah":
            return [*engine, "push", name, f"oci-archive:{file}:{name}"]
        case "podman":
            return [*engine, "save", "--format=oci-archive", f"--output={file}", name]
        case _:
            # Since Docker 25 this is an OCI layout.
            return [*engine, "save", f"--output={file}", name]


if __name__ == "__main__":
    sys.exit(main())

"""
Container images for real nodes, from Debian packages and the Containerfile: nothing is pulled from a registry.

Each is an archive in the cache, as containerd imports it. mmdebstrap makes the base, and `make image` with buildah
gangctl's image on it; both are Debian packages.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.controlplane.binaries import cache_root
from tests.controlplane.build import say
from tests.controlplane.components.node import SANDBOX_IMAGE
from tests.controlplane.machine import NoMachine
from tests.pathways.wrapper.busybox import ensure_busybox

ROOT = Path(__file__).parents[2]
PYTHON_IMAGE = "docker.io/library/python:3.11-slim"
"""What the examples name; here it is Debian's Python and not the one of Docker Hub."""
GANGCTL_IMAGE = "docker.io/library/gangctl:0.1.0"
"""As manifests/base and the chart name it."""

_SUITE = "bookworm"
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def pause_image() -> Path:
    """A sandbox for pods: busybox, asleep."""
    with _locked("pause") as path:
        if not path.exists():
            busybox = ensure_busybox().read_bytes()
            layer = io.BytesIO()
            with tarfile.open(fileobj=layer, mode="w") as tar:
                entry = tarfile.TarInfo("bin/busybox")
                entry.size, entry.mode = len(busybox), 0o755
                tar.addfile(entry, io.BytesIO(busybox))
            _write(path, layer.getvalue(), SANDBOX_IMAGE, {"Entrypoint": ["/bin/busybox", "sleep", "infinity"]})
        return path


def python_image() -> Path:
    """Debian's Python, in place of the image that the Containerfile names."""
    with _locked(f"python-{_SUITE}") as path:
        if not path.exists():
            _require("mmdebstrap")
            hook = 'ln -s python3 "$1/usr/bin/python"; rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED'
            with tempfile.TemporaryDirectory() as directory:
                layer = Path(directory) / "layer.tar"
                options = ("--variant=minbase", f"--include={_PACKAGES}", f"--customize-hook={hook}")
                _run("mmdebstrap", *options, _SUITE, str(layer), what="making the base image of Debian packages")
                _write(path, layer.read_bytes(), PYTHON_IMAGE, {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]})
        return path


def gangctl_image() -> Path:
    """gangctl's image, from the Containerfile of this working tree."""
    with _locked(f"gangctl-{_source_key()}") as path:
        if not path.exists():
            _require("buildah")
            base = python_image()
            for old in path.parent.glob("gangctl-*.tar"):
                old.unlink()
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
                directory = Path(name)
                archive = directory / "image.oci.tar"
                build = (sys.executable, "-m", "release.image")
                options = (f"--base=docker-archive:{base}", f"--archive={archive}")
                _run(
                    *build, *options, what="building gangctl's image from the Containerfile", engine=_engine(directory)
                )
                _write_named(archive, path, GANGCTL_IMAGE)
        return path


def _engine(directory: Path) -> dict[str, str]:
    """Variables of a container engine that keeps everything in a directory, and uses the network of the machine."""
    storage, settings = directory / "storage.conf", directory / "containers.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{directory}/root"\nrunroot = "{directory}/run"\n')
    # A machine behind a proxy of its own trusts that proxy's authority; the image does not.
    volumes = [f"{_AUTHORITIES}:{_AUTHORITIES}:ro"] if Path(_AUTHORITIES).exists() else []
    settings.write_text(f'[containers]\nnetns = "host"\nvolumes = {json.dumps(volumes)}\n')
    return {
        "CONTAINERS_STORAGE_CONF": str(storage),
        "CONTAINERS_CONF": str(settings),
        "BUILDAH_ISOLATION": "chroot",
        "STORAGE_DRIVER": "vfs",
    }


def _write_named(archive: Path, path: Path, name: str) -> None:
    """A copy of an OCI archive whose image has the name that kubelets look for."""
    partial = path.with_suffix(".partial")
    with tarfile.open(archive) as source, tarfile.open(partial, "w") as target:
        for entry in source:
            content = source.extractfile(entry)
            if content is not None and entry.name == "index.json":
                index = json.load(content)
                index["manifests"][0].setdefault("annotations", {})["io.containerd.image.name"] = name
                changed = json.dumps(index).encode()
                entry.size, content = len(changed), io.BytesIO(changed)
            target.addfile(entry, content)
    partial.replace(path)


def _source_key() -> str:
    """A hash of everything that gets into the image."""
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-co",
            "--exclude-standard",
            "gangctl",
            "locks",
            "release",
            "Containerfile",
            "pyproject.toml",
            "README.md",
            "LICENSE",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [ROOT / name for name in sorted(listed.stdout.splitlines())]
    key = hashlib.sha256()
    for file in files:
        if file.is_file():
            key.update(f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return key.hexdigest()[:12]


def _write(path: Path, layer: bytes, name: str, config: Mapping[str, Any]) -> None:
    """A docker-archive of one layer (a tar file)."""
    described = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            "history": [{"created_by": "tests/controlplane/images.py"}],
        }
    ).encode()
    config_name = f"{hashlib.sha256(described).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    partial = path.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        for member, content in ((config_name, described), ("layer.tar", layer), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    partial.replace(path)


@contextlib.contextmanager
def _locked(name: str) -> Iterator[Path]:
    """The path of an archive in the cache, for one process at a time."""
    directory = cache_root() / "images"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        yield directory / f"{name}.tar"


def _require(program: str) -> None:
    if shutil.which(program) is None:
        raise NoMachine(f"{program} is missing, which makes container images: apt-get install {program}")


def _run(*command: str, what: str, engine: Mapping[str, str] | None = None) -> None:
    say(what)
    environment = {**os.environ, **(engine or {})}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        tail = "\n".join((finished.stdout + finished.stderr).splitlines()[-20:])
        raise NoMachine(f"{what} failed: {command[0]} exited with {finished.returncode}\n{tail}")

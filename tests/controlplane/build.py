"""
Builds the pinned components with the ordinary Go client, into the cache.

A cold build of one Kubernetes minor takes minutes: tests never build, `make controlplane` does, and prints what it is
doing. Of two processes that build the same, one waits for the result of the other.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.controlplane.binaries import (
    BIN_VARIABLE,
    COMPONENTS,
    Component,
    MissingBinary,
    find_binary,
    find_manifests,
    owner,
)

PROGRESS_SECONDS = 10.0

MARKED_VARIABLE = "GANGCTL_CONTROLPLANE_TEST"
"""Set while a test with the marker controlplane runs, for its child processes."""


def say(message: str) -> None:
    print(f"controlplane: {message}", file=sys.stderr, flush=True)


def ensure_binary(binary: str, minor: str) -> Path:
    """The binary for this minor, built first if need be."""
    _require_marker()
    component = owner(binary, minor)
    if found := find_binary(component, binary):
        return found
    what = f"{binary} {component.version}"
    _require_go(what, f"{component.file_name(binary)}")
    with _build_lock(component, what):
        # Another process may have built it while this one waited for the lock.
        return find_binary(component, binary) or _build(component, binary)


def ensure_manifests(name: str) -> Path:
    """The directory with a component's manifests: one sub-directory per kind, only YAML in it."""
    _require_marker()
    component = COMPONENTS[name]
    if found := find_manifests(component):
        return found
    what = f"the manifests of {name} {component.version}"
    _require_go(what, f"{component.manifest_directory_name}/")
    with _build_lock(component, what):
        return find_manifests(component) or _copy_manifests(component)


def ensure_component(name: str) -> list[Path]:
    """Everything of one component: its binaries and its manifests."""
    component = COMPONENTS[name]
    minor = name.removeprefix("kubernetes-")
    paths = [ensure_binary(binary, minor) for binary in component.packages]
    if component.manifests:
        paths.append(ensure_manifests(name))
    return paths


def not_built(names: Iterable[str]) -> list[str]:
    """The binaries of these components that are not there yet."""
    components = [COMPONENTS[name] for name in names]
    return [binary for each in components for binary in each.packages if find_binary(each, binary) is None]


def _unmarked_test() -> str:
    """The name of the test that runs, if it lacks the marker controlplane; a child process of a test knows it, too."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    return "" if MARKED_VARIABLE in os.environ else test


def _require_marker() -> None:
    """Refuse a child process of a test without the marker: it would fail, and not skip, where there is no Go."""
    if "pytest" not in sys.modules and (test := _unmarked_test()):
        raise RuntimeError(f"{test} starts a process that needs the control plane: give it the marker controlplane")


def _require_go(what: str, entry: str) -> None:
    if shutil.which("go") is None:
        raise MissingBinary(
            f"{what} is missing: install Go (1.26 or newer) so that it can be built, or put it at "
            f"${BIN_VARIABLE}/{entry} (now {os.environ.get(BIN_VARIABLE, 'unset')})"
        )
    if "PYTEST_CURRENT_TEST" in os.environ:
        # A build takes minutes, and who runs a test has not asked for it.
        raise MissingBinary(f"{what} is missing: `make controlplane` builds it, with Go")


@contextlib.contextmanager
def _build_lock(component: Component, what: str) -> Iterator[None]:
    component.cache_directory.mkdir(parents=True, exist_ok=True)
    with (component.cache_directory / ".lock").open("w") as lock:
        progress = _Progress(f"waiting for another process that builds {what}")
        while not _try_lock(lock.fileno()):
            progress.tick()
            time.sleep(0.2)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Progress:
    """One line at the start and one every ten seconds, with the time gone by."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = time.monotonic()
        self._next = self._started

    def tick(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PROGRESS_SECONDS
            say(f"{self._what} ({now - self._started:.0f} s)")

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started


def _go(component: Component, *arguments: str, what: str) -> str:
    """Run go inside the component's module; its error output becomes the error message."""
    # A program of the tests' own lies in the repository, whose commit go would write into it.
    flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": flags}
    progress = _Progress(what)
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        subprocess.Popen(
            ["go", *arguments], cwd=component.directory, env=environment, stdout=out, stderr=err
        ) as process,
    ):
        try:
            while process.poll() is None:
                progress.tick()
                time.sleep(0.1)
        except BaseException:
            process.terminate()
            raise
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            tail = "\n".join(err.read().splitlines()[-30:])
            raise MissingBinary(f"{what} failed: go {arguments[0]} exited with {process.returncode}\n{tail}")
        say(f"{what}: done ({progress.elapsed:.0f} s)")
        return out.read()


def _build(component: Component, binary: str) -> Path:
    target = component.cache_directory / component.file_name(binary)
    # The name shows up only when the file is whole: a build that was killed leaves nothing that looks like a binary.
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    what = f"building {binary} {component.version}"
    try:
        _go(component, "build", *component.build_flags, "-o", str(partial), component.packages[binary], what=what)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _copy_manifests(component: Component) -> Path:
    what = f"reading the manifests of {component.name} {component.version}"
    answer = json.loads(_go(component, "mod", "download", "-json", component.module, what=what))
    source = Path(answer["Dir"])
    target = component.cache_directory / component.manifest_directory_name
    partial = Path(tempfile.mkdtemp(dir=component.cache_directory))
    for kind, directory in component.manifests.items():
        (partial / kind).mkdir()
        for path in sorted((source / directory).glob("*.yaml")):
            # Copied by content: the module cache is read-only, and modes would come along.
            (partial / kind / path.name).write_bytes(path.read_bytes())
    partial.replace(target)
    return target

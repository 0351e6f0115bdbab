"""
The planes as pytest fixtures.

One plane per minor is shared by all tests of a worker: it starts when the first test asks for it and stops with the
session. tests/order.py says which worker runs what.

    plane_1_37, plane_1_36, plane_1_35   the shared plane of one minor
    plane                                the test runs once on each minor
    namespace                            a namespace of the test's own on its plane
    shared_planes                        for fixtures of a wider scope, or other components: `shared_planes.get("1.37")`
    promtool, promtool_2                 the path of promtool, the newest and that of Prometheus 2
    prometheus_binary                    the path of Prometheus, for tests that start one
    workloadbuilder_binary               the path of the program with that library, for tests that need no plane

Capacity is the whole plane's: a test that counts on it adds nodes with a label of its own and selects them.
"""

import asyncio
import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.binaries import MissingBinary
from tests.controlplane.build import MARKED_VARIABLE, ensure_binary, not_built, say
from tests.controlplane.components.addon import create_namespace, remove_namespace
from tests.controlplane.minors import MINORS, NEWEST
from tests.controlplane.plane import ControlPlane
from tests.controlplane.promtool2 import ensure_promtool_2

PROMETHEUS = {"promtool", "promtool_2", "prometheus_binary"}
_WORKLOADBUILDER = {"workloadbuilder_binary"}
_MINOR_OF = {f"plane_{minor.replace('.', '_')}": minor for minor in MINORS}
_MARKING = {"plane", "bare_plane", "own_plane", *_MINOR_OF, *PROMETHEUS, *_WORKLOADBUILDER}


class SharedPlanes:
    """Planes by minor and components, started at the first request and kept."""

    def __init__(self) -> None:
        self._planes: dict[tuple[str, tuple[str, ...]], ControlPlane] = {}
        self._failures: dict[tuple[str, tuple[str, ...]], Exception] = {}
        # A plane is bound to no event loop, but starting one needs a loop, and here another may be running.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="shared-planes")

    def get(self, minor: str, components: Sequence[str] = ("jobset",)) -> ControlPlane:
        key = (minor, tuple(components))
        if key in self._failures:
            raise self._failures[key]
        if key not in self._planes:
            try:
                self._planes[key] = self._executor.submit(asyncio.run, _start(minor, components)).result()
            except Exception as error:
                # The next test would wait as long for the same answer.
                self._failures[key] = error
                raise
        return self._planes[key]

    def close(self) -> None:
        async def close_all() -> None:
            await asyncio.gather(*(plane.close() for plane in self._planes.values()))

        self._executor.submit(asyncio.run, close_all()).result()
        self._executor.shutdown()


async def _start(minor: str, components: Sequence[str]) -> ControlPlane:
    return await ControlPlane.start(minor, components)


@pytest.fixture(scope="session")
def shared_planes() -> Iterator[SharedPlanes]:
    planes = SharedPlanes()
    yield planes
    planes.close()


@pytest.fixture(scope="session")
def plane_1_37(shared_planes: SharedPlanes) -> ControlPlane:
    return shared_planes.get("1.37")


@pytest.fixture(scope="session")
def plane_1_36(shared_planes: SharedPlanes) -> ControlPlane:
    return shared_planes.get("1.36")


@pytest.fixture(scope="session")
def plane_1_35(shared_planes: SharedPlanes) -> ControlPlane:
    return shared_planes.get("1.35")


@pytest.fixture(
    scope="session", params=[pytest.param(minor, marks=pytest.mark.minor(minor), id=minor) for minor in MINORS]
)
def plane(request: pytest.FixtureRequest, shared_planes: SharedPlanes) -> ControlPlane:
    return shared_planes.get(request.param)


@pytest.fixture(scope="session")
def promtool() -> Path:
    return ensure_binary("promtool", NEWEST)


@pytest.fixture(scope="session")
def promtool_2(promtool: Path) -> Path:
    """Only beside the newest: a machine without Go skips both, and fetches nothing."""
    assert promtool.exists()
    return ensure_promtool_2()


@pytest.fixture(scope="session")
def prometheus_binary() -> Path:
    return ensure_binary("prometheus", NEWEST)


@pytest.fixture(scope="session")
def workloadbuilder_binary() -> Path:
    return ensure_binary("workloadbuilder", NEWEST)


@pytest.fixture
def _plane_of_test(request: pytest.FixtureRequest) -> ControlPlane:
    named = [name for name in ("plane", *_MINOR_OF) if name in request.fixturenames]
    if len(named) != 1:
        raise pytest.UsageError(f"the namespace fixture needs exactly one plane in the test, found {named}")
    found: ControlPlane = request.getfixturevalue(named[0])
    return found


@pytest.fixture
async def namespace(request: pytest.FixtureRequest, _plane_of_test: ControlPlane) -> AsyncIterator[str]:
    api = _plane_of_test.api
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].strip("-")
    name = f"{slug}-{secrets.token_hex(3)}"
    await create_namespace(api, name)
    yield name
    await remove_namespace(api, name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they use."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & _MARKING:
            item.add_marker(pytest.mark.controlplane)
        for name in fixtures & _MINOR_OF.keys():
            item.add_marker(pytest.mark.minor(_MINOR_OF[name]))


def needs_only(item: pytest.Item, binaries: set[str]) -> bool:
    """Whether a marked test uses some of these fixtures, and has the marker for no other reason."""
    used = set(getattr(item, "fixturenames", ())) & _MARKING
    # A test that starts a plane in another way has the marker from its file as well.
    return bool(used) and used <= binaries and len([*item.iter_markers("controlplane")]) == 1


def pytest_collection_finish(session: pytest.Session) -> None:
    """Say once what the collected tests lack: each that needs it is skipped, or fails in CI."""
    marked = [item for item in session.items if item.get_closest_marker("controlplane")]
    missing = not_built(sorted({component for item in marked for component in _components(item)}))
    capture = session.config.pluginmanager.getplugin("capturemanager")
    if session.config.option.collectonly or not missing or capture is None:
        return
    with capture.global_and_fixture_disabled():
        say(f"{', '.join(missing)} not built: `make controlplane` builds what is missing, with Go")


def _components(item: pytest.Item) -> set[str]:
    """What a marked test needs; one that starts a plane of its own most likely starts the newest."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if fixtures & PROMETHEUS:
        return {"prometheus"}
    if fixtures & _WORKLOADBUILDER:
        return {"workloadbuilder"}
    minors = {str(minor) for mark in item.iter_markers("minor") for minor in mark.args} or {NEWEST}
    named = {str(name) for mark in item.iter_markers("components") for name in mark.args}
    return {"etcd", "jobset", *(f"kubernetes-{minor}" for minor in minors), *named}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    os.environ.pop(MARKED_VARIABLE, None)
    if item.get_closest_marker("controlplane"):
        os.environ[MARKED_VARIABLE] = "1"
    with _skipped_without_binaries():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    with _skipped_without_binaries():
        return (yield)


@contextlib.contextmanager
def _skipped_without_binaries() -> Iterator[None]:
    """A machine without Go skips, loudly; in CI a missing binary means that nothing was proved."""
    missing: MissingBinary | None = None
    try:
        yield
    except MissingBinary as error:
        missing = error
    except ExceptionGroup as group:
        # Of a task group, or of a test's rows.
        if not group.subgroup(MissingBinary):
            raise
        missing = MissingBinary(str(_first(group)))
    if missing is not None:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have a control plane: {missing}", pytrace=False)
        pytest.skip(f"no control plane: {missing}")


def _first(group: ExceptionGroup[Exception]) -> Exception:
    found = group.subgroup(MissingBinary) or group
    while isinstance(found.exceptions[0], ExceptionGroup):
        found = found.exceptions[0]
    return found.exceptions[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, ControlPlane):
                report.sections.append((f"control plane {value.minor.name}", value.tails()))
    return report

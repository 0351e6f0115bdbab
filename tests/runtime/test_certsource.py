"""Sources of certificates: replicas agree on one Secret, and an error keeps the served certificate."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gangctl.client.client import Client
from gangctl.client.resources import SECRETS, Resource
from gangctl.errors import AlreadyExistsError, ConfigError, ConflictError, NotFoundError, ServerError, UnavailableError
from gangctl.runtime.certs import CertificateBundle, Rotation
from gangctl.runtime.certsource import (
    CertificateSource,
    DirectoryCertificates,
    SecretCertificates,
    Secrets,
    Serving,
)
from gangctl.runtime.tls import KeyPair, covered
from tests.client.clock import VirtualClock
from tests.rows import each
from tests.runtime.authority import bundle, pair

HOSTS = ("localhost", "127.0.0.1")
LABELS = {"app.kubernetes.io/managed-by": "gangctl"}
ROTATION = Rotation(timedelta(seconds=600), timedelta(seconds=300), timedelta(seconds=30))


class FakeSecrets:
    """One Secret of an API server that lets others run between any two calls."""

    def __init__(self) -> None:
        self.secret: dict[str, Any] | None = None
        self.version = 0
        self.writes: list[str] = []
        self.trouble: Exception | None = None

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        await self._arrive()
        assert (resource, name, namespace) == (SECRETS, "certs", "ns")
        if self.secret is None:
            raise NotFoundError(404, "NotFound", "no such Secret")
        return copy.deepcopy(self.secret)

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> dict[str, Any]:
        await self._arrive()
        assert (resource, namespace) == (SECRETS, "ns")
        if self.secret is not None:
            raise AlreadyExistsError(409, "AlreadyExists", "there is one")
        return self._write("create", body)

    async def update(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> dict[str, Any]:
        await self._arrive()
        assert (resource, namespace) == (SECRETS, "ns")
        if self.secret is None:
            raise NotFoundError(404, "NotFound", "no such Secret")
        if body["metadata"]["resourceVersion"] != self.secret["metadata"]["resourceVersion"]:
            raise ConflictError(409, "Conflict", "it was changed")
        return self._write("update", body)

    async def _arrive(self) -> None:
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble

    def _write(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.writes.append(verb)
        self.version += 1
        self.secret = copy.deepcopy(dict(body))
        self.secret["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.secret)


@pytest.fixture
def api() -> FakeSecrets:
    return FakeSecrets()


def replica(api: Secrets, clock: VirtualClock, **changes: Any) -> SecretCertificates:
    options: dict[str, Any] = {"rotation": ROTATION, "labels": LABELS, "clock": clock, "poll_seconds": 5.0, **changes}
    return SecretCertificates(api, "certs", "ns", options.pop("hosts", HOSTS), **options)


@asynccontextmanager
async def running(source: CertificateSource) -> AsyncIterator[list[Serving]]:
    """What the source delivers while it runs."""
    delivered: list[Serving] = []
    task = asyncio.create_task(source.run(delivered.append))
    yield delivered
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_the_client_satisfies_the_secrets_protocol() -> None:
    fits: Callable[[Client], Secrets] = lambda client: client  # noqa: E731 - a check for mypy
    assert callable(fits)


async def test_the_first_replica_creates_the_secret(api: FakeSecrets, clock: VirtualClock) -> None:
    serving = await replica(api, clock).load()
    assert api.writes == ["create"]
    assert api.secret is not None
    assert api.secret["metadata"]["labels"] == LABELS
    assert CertificateBundle.from_secret(api.secret).pair == serving.pair
    assert covered(serving.pair.chain) == set(HOSTS)


async def test_replicas_that_start_together_agree_on_one_secret(api: FakeSecrets, clock: VirtualClock) -> None:
    replicas = [replica(api, clock) for _ in range(10)]
    servings = await asyncio.gather(*(each.load() for each in replicas))
    assert len(set(servings)) == 1
    assert api.writes == ["create"]
    clock.tick(250)
    renewed = await asyncio.gather(*(each.load() for each in replicas))
    assert len({*renewed, *servings}) == 2
    assert api.writes == ["create", "update"]


async def test_the_secret_is_not_written_while_no_renewal_is_due(api: FakeSecrets, clock: VirtualClock) -> None:
    source = replica(api, clock)
    first = await source.load()
    for _ in range(20):
        clock.tick(5)
        assert await source.load() == first
    assert api.writes == ["create"]


async def test_replicas_with_different_hosts_share_one_certificate(api: FakeSecrets, clock: VirtualClock) -> None:
    one, two = replica(api, clock, hosts=["one.example"]), replica(api, clock, hosts=["two.example"])
    await one.load()
    serving = await two.load()
    assert covered(serving.pair.chain) == {"one.example", "two.example"}
    assert await one.load() == serving
    assert api.writes == ["create", "update"]


async def test_each_change_is_delivered_once(api: FakeSecrets, clock: VirtualClock) -> None:
    async with running(replica(api, clock)) as delivered:
        await clock.advance(100)
        assert len(delivered) == 1
        await clock.advance(2000)
    assert len(delivered) > 10
    assert all(before != now for before, now in pairwise(delivered))
    assert len({serving.authorities for serving in delivered}) > 6


async def test_a_deleted_secret_is_recreated_with_the_same_content(api: FakeSecrets, clock: VirtualClock) -> None:
    source = replica(api, clock)
    first = await source.load()
    api.secret = None
    assert await source.load() == first


async def test_a_broken_secret_is_replaced_by_the_last_good_one(api: FakeSecrets, clock: VirtualClock) -> None:
    source = replica(api, clock)
    first = await source.load()
    assert api.secret is not None
    api.secret["data"]["tls.key"] = "AAAA"
    api.secret["metadata"]["annotations"] = {"kept": "yes"}
    assert await source.load() == first
    assert api.secret["metadata"]["annotations"] == {"kept": "yes"}


@pytest.mark.parametrize("data", [{}, None])
async def test_an_empty_secret_is_filled(api: FakeSecrets, clock: VirtualClock, data: dict[str, str] | None) -> None:
    api.secret = {"metadata": {"name": "certs", "resourceVersion": "0"}, "type": "Opaque", "data": data}
    serving = await replica(api, clock).load()
    assert api.writes == ["update"]
    assert CertificateBundle.from_secret(api.secret).pair == serving.pair


async def test_a_foreign_secret_is_left_alone(api: FakeSecrets, clock: VirtualClock) -> None:
    api.secret = {"metadata": {"name": "certs", "resourceVersion": "0"}, "data": {"password": "AAAA"}}
    with pytest.raises(ConfigError, match="Secret ns/certs is not gangctl's"):
        await replica(api, clock).load()
    assert api.writes == []


async def test_an_error_is_logged_once_and_the_old_certificate_is_kept(api: FakeSecrets, clock: VirtualClock) -> None:
    seen: list[bool] = []
    async with running(replica(api, clock, observe=seen.append)) as delivered:
        await clock.advance(1)
        api.trouble = ServerError(500, "InternalError", "etcd is away")
        with capture_logs() as logs:
            await clock.advance(20)
        assert [log["error"] for log in logs] == ["etcd is away"]
        api.trouble = None
        await clock.advance(5)
    assert len(delivered) == 1
    assert seen == [True, False, False, False, False, True]


async def test_a_failed_delivery_is_repeated(api: FakeSecrets, clock: VirtualClock) -> None:
    deliveries: list[Serving] = []

    def refuse(serving: Serving) -> None:
        deliveries.append(serving)
        if len(deliveries) < 3:
            raise ConfigError("cannot be served")

    task = asyncio.create_task(replica(api, clock).run(refuse))
    await clock.advance(60)
    task.cancel()
    assert len(deliveries) == 3


async def test_repeated_conflicts_end_with_an_error(clock: VirtualClock) -> None:
    class Contested(FakeSecrets):
        async def update(
            self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None
        ) -> dict[str, Any]:
            raise ConflictError(409, "Conflict", f"{resource.plural} {namespace} {len(body)}")

    api = Contested()
    source = replica(api, clock)
    await source.load()
    clock.tick(250)
    with pytest.raises(UnavailableError, match="kept changing"):
        await source.load()


async def test_private_keys_are_not_logged(api: FakeSecrets, clock: VirtualClock) -> None:
    with capture_logs() as logs:
        source = replica(api, clock)
        for _ in range(50):
            assert "PRIVATE" not in repr(await source.load())
            clock.tick(20)
    assert {"certificates created", "certificates changed"} <= {log["event"] for log in logs}
    assert "PRIVATE" not in repr(logs)


# Directories


def fill(directory: Path, files: KeyPair, authorities: bytes = b"") -> None:
    directory.mkdir(exist_ok=True)
    (directory / "tls.crt").write_bytes(files.chain)
    (directory / "tls.key").write_bytes(files.key)
    if authorities:
        (directory / "ca.crt").write_bytes(authorities)


async def test_certificates_are_read_from_a_directory(tmp_path: Path) -> None:
    fill(tmp_path, pair("ca"))
    assert await DirectoryCertificates(tmp_path).load() == Serving(pair("ca"), b"")
    fill(tmp_path, pair("ca"), bundle("ca"))
    assert await DirectoryCertificates(tmp_path).load() == Serving(pair("ca"), bundle("ca"))


async def test_a_mounted_secret_is_read_as_one_version(tmp_path: Path) -> None:
    fill(tmp_path / "..1", pair("ca", "one"))
    fill(tmp_path / "..2", pair("ca", "two"))
    (tmp_path / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    source = DirectoryCertificates(tmp_path)
    assert (await source.load()).pair == pair("ca", "one")
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert (await source.load()).pair == pair("ca", "two")


@each("name", ["tls.crt", "tls.key", "ca.crt"])
@each("fault", ["empty", "garbage", "other-key", "missing"])
async def test_a_directory_with_invalid_files_is_refused(tmp_path: Path, name: str, fault: str) -> None:
    content = {"empty": b"", "garbage": b"garbage", "other-key": pair("ca", "other").key}.get(fault)
    fill(tmp_path, pair("ca"), bundle("ca"))
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    source = DirectoryCertificates(tmp_path)
    if name == "ca.crt" and not content:
        assert (await source.load()).authorities == b""
    else:
        with pytest.raises(ConfigError):
            await source.load()


async def until(condition: Any, clock: VirtualClock) -> None:
    """Files are read in a thread, so the clock goes on until the effect is there."""
    async with asyncio.timeout(300):
        while not condition():
            await clock.advance(5)


async def test_a_mismatched_pair_on_disk_keeps_the_old_certificate(tmp_path: Path, clock: VirtualClock) -> None:
    seen: list[bool] = []
    fill(tmp_path, pair("ca", "one"))
    source = DirectoryCertificates(tmp_path, clock=clock, observe=seen.append)
    async with running(source) as delivered:
        await until(lambda: delivered, clock)
        (tmp_path / "tls.crt").write_bytes(pair("ca", "two").chain)
        await until(lambda: False in seen, clock)
        assert len(delivered) == 1
        (tmp_path / "tls.key").write_bytes(pair("ca", "two").key)
        await until(lambda: len(delivered) == 2, clock)
    assert [serving.pair for serving in delivered] == [pair("ca", "one"), pair("ca", "two")]

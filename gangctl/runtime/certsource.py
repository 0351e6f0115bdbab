"""Sources of certificates: gangctl's own Secret, a directory that others fill, a file of client authorities.

All are polled, and changes are passed on. After any failure, the served certificate stays in use.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import structlog

from gangctl.client.kubeconfig import MATERIAL_BYTES, read_file
from gangctl.client.pacing import Clock
from gangctl.client.resources import SECRETS, Resource
from gangctl.errors import AlreadyExistsError, ApiError, ConfigError, ConflictError, NotFoundError, UnavailableError
from gangctl.runtime.certs import (
    CA_CERTIFICATE,
    CERTIFICATE,
    KEY,
    CertificateBundle,
    Due,
    Rotation,
    advance,
    create,
    due,
)
from gangctl.runtime.tls import KeyPair, check_pair, client_context, expires

_log = structlog.get_logger(__name__)

T = TypeVar("T")

POLL_SECONDS: Final = 10.0
# Conflicts with other replicas, and steps of a rotation, in one poll; more would be a loop with another writer.
_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class Serving:
    """What to serve, and what API servers should trust for it.

    PEM, empty when another component manages the caBundle.
    """

    pair: KeyPair
    authorities: bytes

    @property
    def expires(self) -> datetime:
        """When the served certificate expires."""
        return expires(self.pair.chain)


class Secrets(Protocol):
    """The part of a client that is needed here."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        """Read an object."""

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> dict[str, Any]:
        """Create an object."""

    async def update(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> dict[str, Any]:
        """Replace an object."""


class _Polled(ABC, Generic[T]):
    """Polls every ``seconds``; ``observe`` is called after each poll with its success."""

    failure: ClassVar[str]
    """The log message of a failed poll."""

    def __init__(self, seconds: float, clock: Clock | None, observe: Callable[[bool], None] | None = None) -> None:
        self._seconds = seconds
        self._clock = clock or Clock()
        self._observe = observe or (lambda _: None)

    @abstractmethod
    async def load(self) -> T:
        """The current value."""

    async def run(self, deliver: Callable[[T], None]) -> None:
        """Call ``deliver`` at once and on every change; a failed poll is logged, counted and repeated."""
        delivered: T | None = None
        trouble = ""
        while True:
            try:
                content = await self.load()
                if content != delivered:
                    deliver(content)
                    self._delivered(content)
                # After the delivery: one that fails is repeated by the next poll.
                delivered, trouble = content, ""
            except (ApiError, ConfigError, OSError) as error:
                # Log a repeated error only once.
                if str(error) != trouble:
                    _log.warning(self.failure, error=str(error))
                trouble = str(error)
            self._observe(not trouble)
            await self._clock.sleep(self._seconds)

    def _delivered(self, found: T) -> None:
        """Log what is in use now; nothing by default."""


class CertificateSource(_Polled[Serving]):
    """A source of the certificate to serve; ConfigError or ApiError when it cannot be read."""

    failure = "certificates not renewed, serving the old ones"

    def _delivered(self, found: Serving) -> None:
        _log.info("certificate in use", expires=found.expires.isoformat())


class SecretCertificates(CertificateSource):
    """Certificates from an authority of gangctl's own, in one Secret that all replicas share.

    The first replica that polls creates the Secret and performs the due steps; the others get a conflict, read again
    and use the result. An incomplete Secret is replaced by the last good one, or by a new one.
    """

    def __init__(
        self,
        client: Secrets,
        name: str,
        namespace: str,
        hosts: Collection[str],
        *,
        rotation: Rotation | None = None,
        labels: Mapping[str, str] | None = None,
        poll_seconds: float = POLL_SECONDS,
        clock: Clock | None = None,
        observe: Callable[[bool], None] | None = None,
    ) -> None:
        """Do nothing yet; ``hosts`` are the DNS names and addresses that API servers call."""
        super().__init__(poll_seconds, clock, observe)
        self._client = client
        self._name = name
        self._namespace = namespace
        self._hosts = frozenset(hosts)
        self._rotation = rotation or Rotation()
        self._labels = dict(labels or {})
        self._last: CertificateBundle | None = None

    async def load(self) -> Serving:
        """Read the Secret, and perform the steps that are due."""
        for _ in range(_ATTEMPTS):
            try:
                bundle = await self._step()
            except (AlreadyExistsError, ConflictError):
                continue
            if bundle is not None:
                self._last = bundle
                return Serving(bundle.pair, bundle.trusted)
        where = f"Secret {self._namespace}/{self._name}"
        raise UnavailableError(0, "Conflict", f"{where} kept changing while its certificates were renewed")

    async def _step(self) -> CertificateBundle | None:
        """Perform one due step, or return the bundle when none is."""
        now = self._clock.wall()
        try:
            secret = await self._client.get(SECRETS, self._name, self._namespace)
        except NotFoundError:
            # Deleted while running: a certificate that API servers trust already is better than a new one.
            await self._client.create(SECRETS, self._secret(self._last or self._create(now)), self._namespace)
            _log.info("certificates created", secret=self._name, namespace=self._namespace)
            return None
        try:
            bundle = CertificateBundle.from_secret(secret)
        except ConfigError as error:
            self._ensure_ours(secret, error)
            _log.warning("replacing a broken Secret", secret=self._name, error=str(error))
            await self._replace(secret, self._last or self._create(now))
            return None
        step = due(bundle, now, self._rotation, self._hosts)
        if step is Due.NOTHING:
            return bundle
        await self._replace(secret, advance(bundle, step, now, self._rotation, self._hosts))
        _log.info("certificates changed", step=str(step), secret=self._name, namespace=self._namespace)
        return None

    def _ensure_ours(self, secret: Mapping[str, Any], error: ConfigError) -> None:
        """Raise ConfigError for a Secret that has data and lacks our labels."""
        labels = (secret.get("metadata") or {}).get("labels") or {}
        if secret.get("data") and not self._labels.items() <= labels.items():
            where = f"Secret {self._namespace}/{self._name}"
            raise ConfigError(
                f"{where} is not gangctl's, and cannot be used: {error}", hint="delete it, or give gangctl another name"
            ) from error

    def _create(self, now: datetime) -> CertificateBundle:
        return create(now, self._rotation, self._hosts)

    def _secret(self, bundle: CertificateBundle) -> dict[str, Any]:
        return bundle.to_secret(self._name, self._namespace, self._labels)

    async def _replace(self, secret: Mapping[str, Any], bundle: CertificateBundle) -> None:
        """Write ``bundle`` over the Secret as it was read; foreign metadata stays."""
        # With the resourceVersion that was read: one replica performs the step, and the others get a conflict.
        metadata = {**(secret.get("metadata") or {}), "name": self._name, "namespace": self._namespace}
        body = {**secret, "metadata": metadata, "data": self._secret(bundle)["data"]}
        await self._client.update(SECRETS, body, self._namespace)


class DirectoryCertificates(CertificateSource):
    """``tls.crt``, ``tls.key`` and, if gangctl should write the caBundle, ``ca.crt`` in a directory.

    A mounted Secret changes by one swap of a link; files that are written one by one are used once they match.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock | None = None,
        observe: Callable[[bool], None] | None = None,
    ) -> None:
        """Read nothing yet."""
        super().__init__(POLL_SECONDS, clock, observe)
        self._directory = directory

    async def load(self) -> Serving:
        """Read the files; ConfigError when one is missing, or they do not match."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Serving:
        # The kubelet keeps the files of one version behind ``..data``: resolved once, they are all of that version.
        swapped = self._directory / "..data"
        directory = swapped.resolve() if swapped.exists() else self._directory
        try:
            pair = KeyPair((directory / CERTIFICATE).read_bytes(), (directory / KEY).read_bytes())
            authorities = (directory / CA_CERTIFICATE).read_bytes() if (directory / CA_CERTIFICATE).exists() else b""
        except OSError as error:
            raise ConfigError(f"cannot read certificates: {error}") from error
        check_pair(pair)
        if authorities:
            # Only to check it: with a caBundle that is not PEM, API servers could call no webhook.
            client_context(authorities)
        return Serving(pair, authorities)


class ClientAuthorities(_Polled[bytes]):
    """A PEM file of the authorities that the webhooks' listener accepts for the API server's client certificate."""

    failure = "client authorities not read, the old ones count"

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        """Read nothing yet."""
        super().__init__(POLL_SECONDS, clock)
        self._path = path

    async def load(self) -> bytes:
        """Read the file; ConfigError when it cannot be read or holds no certificates."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> bytes:
        try:
            authorities = read_file(self._path, MATERIAL_BYTES)
        except OSError as error:
            raise ConfigError(f"{self._path}: {error.strerror}") from error
        try:
            client_context(authorities)
        except ConfigError as error:
            raise ConfigError(f"{self._path}: holds no PEM certificates") from error
        return authorities

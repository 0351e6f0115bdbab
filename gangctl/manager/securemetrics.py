"""Metrics over TLS, for clients that the API server authenticates and authorizes (``--metrics-secure``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from gangctl.client.client import Client
from gangctl.manager.settings import ControllerSettings, split_address
from gangctl.manager.webhooks import listening, own_certificates
from gangctl.runtime.certsource import CertificateSource, DirectoryCertificates, Serving
from gangctl.runtime.metricsserver import PATH, AccessReviewer, MetricsServer, Registry
from gangctl.runtime.tls import ServerTls

READER: Final = "gangctl-metrics-reader"
"""The ClusterRole that grants the access."""


class SecureMetrics:
    """The listener and its certificate: gangctl's own, in the Secret of the webhooks, or one from a directory."""

    def __init__(
        self,
        client: Client,
        reviews: Client,
        settings: ControllerSettings,
        own_namespace: str,
        registry: Registry,
    ) -> None:
        """Do nothing yet; ``reviews`` asks the API server to authenticate a client."""
        self._settings = settings
        self._tls = ServerTls()
        self._source = self._certificates(client, own_namespace)
        reviewer = AccessReviewer(reviews, PATH, hint=f"bind ClusterRole {READER} to it")
        address = split_address(settings.metrics_secure_bind_address)
        self._server = MetricsServer(address, self._tls.context, reviewer, registry)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen for as long as the block runs; no client can connect before there is a certificate.

        ConfigError for files that cannot be served, and for an address that is not available.
        """
        if self._settings.metrics_cert_dir is not None:
            self._deliver(await self._source.load())
        flag = f"--metrics-secure-bind-address {self._settings.metrics_secure_bind_address}"
        async with listening(self._server, flag):
            # Not awaited: webhooks are served even without this certificate.
            renewed = asyncio.create_task(self._source.run(self._deliver), name="metrics-certificates")
            try:
                yield
            finally:
                renewed.cancel()
                await asyncio.gather(renewed, return_exceptions=True)

    def _deliver(self, serving: Serving) -> None:
        self._tls.load(serving.pair)

    def _certificates(self, client: Client, own_namespace: str) -> CertificateSource:
        if self._settings.metrics_cert_dir is not None:
            return DirectoryCertificates(Path(self._settings.metrics_cert_dir))
        return own_certificates(client, self._settings, own_namespace, metrics_hosts(self._settings, own_namespace))


def metrics_hosts(settings: ControllerSettings, own_namespace: str) -> tuple[str, ...]:
    """Names of the Service, and the listening address where clients can use it."""
    base = f"{settings.metrics_service}.{own_namespace}"
    names = (f"{base}.svc", f"{base}.svc.cluster.local", base)
    host, _ = split_address(settings.metrics_secure_bind_address)
    try:
        return names if ip_address(host).is_unspecified else (*names, host)
    except ValueError:
        return (*names, host)

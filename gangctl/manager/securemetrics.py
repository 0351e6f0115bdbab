"""Metrics over TLS, for clients that the API server authenticates and authorizes (``--metrics-secure``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from gangctl.client.client import Client
from gangctl.manager.settings import ControllerSettings, service_hosts, split_address
from gangctl.manager.webhooks import listening, own_certificates
from gangctl.runtime.certsource import CertificateSource, DirectoryCertificates, Serving
from gangctl.runtime.metricsserver import PATH, AccessReviewer, MetricsServer, Registry
from gangctl.runtime.tls import ServerTls

READER: Final = "gangctl-metrics-reader"
"""The ClusterRole that grants the access."""


@asynccontextmanager
async def serving_metrics(
    client: Client, reviews: Client, settings: ControllerSettings, own_namespace: str, registry: Registry
) -> AsyncIterator[None]:
    """Listen for as long as the block runs; no client can connect before there is a certificate.

    The certificate is gangctl's own, in the Secret of the webhooks, or one from a directory. ``reviews`` asks the API
    server to authenticate a client. ConfigError for files that cannot be served, and for an address that is not
    available.
    """
    tls = ServerTls()

    def deliver(serving: Serving) -> None:
        tls.load(serving.pair)

    source: CertificateSource
    if settings.metrics_cert_dir is not None:
        source = DirectoryCertificates(Path(settings.metrics_cert_dir))
        deliver(await source.load())
    else:
        source = own_certificates(client, settings, own_namespace, metrics_hosts(settings, own_namespace))
    reviewer = AccessReviewer(reviews, PATH, hint=f"bind ClusterRole {READER} to it")
    server = MetricsServer(split_address(settings.metrics_secure_bind_address), tls.context, reviewer, registry)
    async with listening(server, f"--metrics-secure-bind-address {settings.metrics_secure_bind_address}"):
        # Not awaited: webhooks are served even without this certificate.
        renewed = asyncio.create_task(source.run(deliver), name="metrics-certificates")
        try:
            yield
        finally:
            renewed.cancel()
            await asyncio.gather(renewed, return_exceptions=True)


def metrics_hosts(settings: ControllerSettings, own_namespace: str) -> tuple[str, ...]:
    """Names of the Service, and the listening address where clients can use it."""
    names = service_hosts(settings.metrics_service, own_namespace)
    host, _ = split_address(settings.metrics_secure_bind_address)
    try:
        return names if ip_address(host).is_unspecified else (*names, host)
    except ValueError:
        return (*names, host)

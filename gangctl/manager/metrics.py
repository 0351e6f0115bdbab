"""Metrics of the process itself, and the listener of all metrics over TLS (``--metrics-secure``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector

from gangctl import __version__
from gangctl.client.client import Client
from gangctl.client.pacing import Clock
from gangctl.manager.settings import ControllerSettings, service_hosts, split_address
from gangctl.manager.webhooks import listening, own_certificates
from gangctl.runtime.certsource import CertificateSource, DirectoryCertificates, Serving
from gangctl.runtime.metricsserver import PATH, AccessReviewer, MetricsServer
from gangctl.runtime.tls import ServerTls

PERIOD_SECONDS: Final = 0.25
_LAG_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
READER: Final = "gangctl-metrics-reader"
"""The ClusterRole that grants the access to the listener."""


async def measure_lag(
    observe: Callable[[float], None], *, period_seconds: float = PERIOD_SECONDS, clock: Clock | None = None
) -> None:
    """Sleep periodically, and call ``observe`` with the seconds by which it was woken too late, until cancelled."""
    clock = clock or Clock()
    while True:
        due = clock.now() + period_seconds
        await clock.sleep(period_seconds)
        observe(max(0.0, clock.now() - due))


def register_process_metrics(registry: CollectorRegistry, settings: ControllerSettings) -> Histogram:
    """Register version, features, CPU and memory; the result is for the lag of the event loop (:func:`measure_lag`)."""
    build = Gauge("gangctl_build_info", "Version of gangctl.", ["version"], registry=registry)
    build.labels(__version__).set(1)
    feature = Gauge(
        "gangctl_feature_enabled",
        "Whether the settings enable a feature, 1 or 0, by feature: policies, kueue, kueue-check, readiness, "
        "gang-objects, evict-stranded, pathways, leader-elect, metrics-secure.",
        ["feature"],
        registry=registry,
    )
    for name, enabled in (
        ("policies", settings.policies != "off"),
        ("kueue", settings.kueue != "off"),
        ("kueue-check", settings.kueue_check),
        ("readiness", settings.readiness != "off"),
        ("gang-objects", settings.gang_objects),
        ("evict-stranded", settings.evict_stranded),
        ("pathways", settings.pathways),
        ("leader-elect", settings.leader_elect),
        ("metrics-secure", settings.metrics_secure),
    ):
        feature.labels(name).set(enabled)
    lag = Histogram(
        "gangctl_event_loop_lag_seconds",
        "Seconds by which the event loop ran a timer too late, measured four times a second.",
        unit="seconds",
        buckets=_LAG_SECONDS,
        registry=registry,
    )
    # Their names are those of every Prometheus client.
    ProcessCollector(registry=registry)
    return lag


@asynccontextmanager
async def serving_metrics(
    client: Client, reviews: Client, settings: ControllerSettings, own_namespace: str, registry: CollectorRegistry
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
        return names if not host or ip_address(host).is_unspecified else (*names, host)
    except ValueError:
        return (*names, host)

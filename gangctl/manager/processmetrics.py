"""Metrics of the process itself: its version, enabled features, CPU, memory, and the lag of its event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector

from gangctl import __version__
from gangctl.client.pacing import Clock
from gangctl.manager.settings import ControllerSettings

PERIOD_SECONDS: Final = 0.25


_LAG_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


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
    """Register every family at once; the result is for the lag of the event loop (:func:`measure_lag`)."""
    build = Gauge("gangctl_build_info", "Version of gangctl.", ["version"], registry=registry)
    build.labels(__version__).set(1)
    feature = Gauge(
        "gangctl_feature_enabled",
        "What the settings switch on, 1 or 0, by feature: policies, kueue, kueue-check, readiness, gang-objects, "
        " pathways, leader-elect, metrics-secure.",
        ["feature"],
        registry=registry,
    )
    for name, enabled in (
        ("policies", settings.policies != "off"),
        ("kueue", settings.kueue != "off"),
        ("kueue-check", settings.kueue_check),
        ("readiness", settings.readiness != "off"),
        ("gang-objects", settings.gang_objects),
        ("pathways", settings.pathways),
        ("leader-elect", settings.leader_elect),
        ("metrics-secure", settings.metrics_secure),
    ):
        feature.labels(name).set(enabled)
    lag = Histogram(
        "gangctl_event_loop_lag_seconds",
        "Seconds by which the event loop was late when it was looked at, four times a second.",
        unit="seconds",
        buckets=_LAG_SECONDS,
        registry=registry,
    )
    # Their names are those of every Prometheus client.
    ProcessCollector(registry=registry)
    return lag

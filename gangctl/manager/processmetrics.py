"""Metrics of the process itself: its version, enabled features, CPU, memory, and the lag of its event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector

from gangctl import __version__
from gangctl.client.pacing import Clock
from gangctl.manager.settings import ControllerSettings

PERIOD_SECONDS: Final = 0.25


class LoopLag:
    """Sleeps periodically, and reports how much later it was woken."""

    def __init__(
        self, observe: Callable[[float], None], *, period_seconds: float = PERIOD_SECONDS, clock: Clock | None = None
    ) -> None:
        """``observe`` is called after each sleep, with seconds."""
        self._observe = observe
        self._period = period_seconds
        self._clock = clock or Clock()

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = self._clock.now() + self._period
            await self._clock.sleep(self._period)
            self._observe(max(0.0, self._clock.now() - due))


_LAG_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class ProcessMetrics:
    """The collectors, in one registry; :attr:`lag` must run for as long as the process does."""

    def __init__(self, registry: CollectorRegistry, settings: ControllerSettings) -> None:
        """Register every family at once."""
        build = Gauge("gangctl_build_info", "Version of gangctl.", ["version"], registry=registry)
        build.labels(__version__).set(1)
        feature = Gauge(
            "gangctl_feature_enabled",
            "What the settings switch on, 1 or 0, by feature: policies, kueue, kueue-gate, kueue-check, readiness, "
            "gang-objects, pathways, leader-elect, metrics-secure.",
            ["feature"],
            registry=registry,
        )
        for name, enabled in (
            ("policies", settings.policies != "off"),
            ("kueue", settings.kueue != "off"),
            ("kueue-gate", settings.kueue_gate),
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
        self.lag = LoopLag(lag.observe)
        # Their names are those of every Prometheus client.
        ProcessCollector(registry=registry)

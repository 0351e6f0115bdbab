"""Metrics of a process: its version, its features and its resources."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gangctl import __version__
from gangctl.manager.processmetrics import register_process_metrics
from gangctl.manager.settings import load_settings


def test_version_features_and_process_metrics_are_exported() -> None:
    registry = CollectorRegistry()
    lag = register_process_metrics(registry, load_settings({"policies": "off", "kueue_check": True}, None))
    value = registry.get_sample_value
    assert value("gangctl_build_info", {"version": __version__}) == 1
    enabled = {"policies": 0, "kueue": 1, "kueue-check": 1, "pathways": 0, "readiness": 1, "gang-objects": 0}
    assert {name: value("gangctl_feature_enabled", {"feature": name}) for name in enabled} == enabled
    resident = value("process_resident_memory_bytes")
    assert resident is not None
    assert resident > 1_000_000
    lag.observe(0.3)
    assert value("gangctl_event_loop_lag_seconds_sum") == 0.3

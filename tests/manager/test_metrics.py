"""Metrics of a process, and secured ones: refused settings, the hosts of the certificate, and what cannot be served."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gangctl import __version__
from gangctl.errors import ConfigError
from gangctl.manager.metrics import metrics_hosts, register_process_metrics
from gangctl.manager.settings import ControllerSettings, load_settings
from tests.manager.test_process import controller, kubeconfig
from tests.rows import each

SERVICE = ("gangctl-metrics.home.svc", "gangctl-metrics.home.svc.cluster.local", "gangctl-metrics.home")


@each(
    ("address", "further"),
    [
        ("0.0.0.0:8443", ()),
        ("[::]:8443", ()),
        (":8443", ()),
        ("127.0.0.1:8443", ("127.0.0.1",)),
        ("localhost:1", ("localhost",)),
    ],
)
def test_the_certificate_is_for_the_service_and_the_address(address: str, further: tuple[str, ...]) -> None:
    settings = ControllerSettings(metrics_secure=True, metrics_secure_bind_address=address)
    assert metrics_hosts(settings, "home") == (*SERVICE, *further)


FLAGS = (
    "--own-namespace=home",
    "--webhook-registration=none",
    "--metrics-bind-address=127.0.0.1:0",
    "--metrics-secure",
)


def test_settings_that_have_no_effect_are_refused() -> None:
    with pytest.raises(ConfigError, match="metrics-cert-dir has no effect without metrics-secure"):
        load_settings({"metrics_cert_dir": "/certs"}, None)
    with pytest.raises(ConfigError, match=r"metrics-secure-bind-address: .*HOST:PORT"):
        load_settings({"metrics_secure_bind_address": "8443"}, None)
    assert not load_settings({}, None).metrics_secure


def test_files_that_cannot_be_served_end_the_process(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    done = controller("--kubeconfig", str(kubeconfig(tmp_path)), *FLAGS, f"--metrics-cert-dir={tmp_path}/certs")
    assert done.returncode == 2
    assert "cannot read certificates" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        where = f"--metrics-secure-bind-address={address}"
        done = controller("--kubeconfig", str(kubeconfig(tmp_path)), *FLAGS, where)
    assert done.returncode == 2
    assert f"--metrics-secure-bind-address {address}: cannot listen" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_features_and_process_metrics_are_exported() -> None:
    registry = CollectorRegistry()
    lag = register_process_metrics(registry, load_settings({"policies": "off", "kueue_check": True}, None))
    value = registry.get_sample_value
    assert value("gangctl_build_info", {"version": __version__}) == 1
    enabled = {
        "policies": 0,
        "kueue": 1,
        "kueue-check": 1,
        "pathways": 0,
        "readiness": 1,
        "gang-objects": 0,
        "evict-stranded": 0,
    }
    assert {name: value("gangctl_feature_enabled", {"feature": name}) for name in enabled} == enabled
    resident = value("process_resident_memory_bytes")
    assert resident is not None
    assert resident > 1_000_000
    lag.observe(0.3)
    assert value("gangctl_event_loop_lag_seconds_sum") == 0.3

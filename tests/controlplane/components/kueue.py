"""The unmodified Kueue manager, for Jobs and JobSets, with its webhooks on loopback."""

import fcntl
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from gangctl.kueue.configuration import STRATEGIES
from tests.controlplane import manifests
from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.build import ensure_manifests
from tests.controlplane.components.addon import Addon
from tests.controlplane.pki import KeyPair
from tests.controlplane.probe import answers
from tests.controlplane.process import ComponentFailed, Process
from tests.controlplane.site import Site

API_VERSION = "kueue.x-k8s.io/v1beta2"
NAMESPACE = "kueue-system"

# The visibility server needs a fixed port; waiting for ready pods evicts after half an hour unless it is tested.
DEFAULT_GATES: Mapping[str, bool] = {"VisibilityOnDemand": False, "DisableWaitForPodsReady": True}

_CONFIGURATION = "kueue.yaml"
_FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset")
_WEBHOOK_RESOURCES = frozenset(
    {"jobs", "jobsets", "workloads", "workloads/status", "clusterqueues", "cohorts", "resourceflavors"}
)

# Kueue opens this pair at start even with metrics off, and the path is compiled in.
_METRICS_CERTIFICATES = Path("/etc/kueue/metrics/certs")


def kueue(
    site: Site,
    gates: Mapping[str, bool],
    *,
    metrics: bool = False,
    fair_sharing: bool = False,
    configuration: Mapping[str, Any] = MappingProxyType({}),
) -> Addon:
    """With `metrics` it serves them, quotas included, over TLS to users who may get /metrics; :func:`metrics_address`.

    `configuration` has further fields of its Configuration.
    """
    directory = ensure_manifests("kueue")
    webhook_port, health_port = site.ports.take(), site.ports.take()
    serving = site.pki.cluster.server("kueue")
    _provide_metrics_certificates(serving)
    config = site.write(
        _CONFIGURATION,
        {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "leaderElection": {"leaderElect": False},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
            "metrics": _metrics(site) if metrics else {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(serving.certificate.parent)},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": list(_FRAMEWORKS)},
            "clientConnection": {"qps": 500, "burst": 1000},
            "featureGates": dict(gates),
            **({"fairSharing": {"preemptionStrategies": list(STRATEGIES)}} if fair_sharing else {}),
            **configuration,
        },
    )
    command = [
        site.binary("kueue"),
        f"--kubeconfig={site.kubeconfig('kueue-controller', ['system:masters'])}",
        f"--config={config}",
    ]
    ready = f"http://127.0.0.1:{health_port}/readyz"
    return Addon(
        process=Process("kueue", command, site.log("kueue"), ready=lambda: answers(ready)),
        crds=manifests.crds(directory / "crd"),
        namespaces=(NAMESPACE,),
        webhooks=manifests.webhooks(
            directory / "webhook",
            prefix="kueue-",
            address=f"https://127.0.0.1:{webhook_port}",
            ca=site.ca,
            keep=_WEBHOOK_RESOURCES,
        ),
        proof=_dry_run,
    )


def metrics_address(site: Site) -> str:
    """Where it serves metrics, as its configuration says: a host and a port."""
    address: str = yaml.safe_load((site.directory / _CONFIGURATION).read_text())["metrics"]["bindAddress"]
    return address


def _metrics(site: Site) -> Object:
    return {"bindAddress": f"127.0.0.1:{site.ports.take()}", "enableClusterQueueResources": True}


def _provide_metrics_certificates(serving: KeyPair) -> None:
    """Any pair does, and one that is there is left alone: it may be another plane's."""
    certificate, key = _METRICS_CERTIFICATES / "tls.crt", _METRICS_CERTIFICATES / "tls.key"
    try:
        with Path(tempfile.gettempdir(), f"gangctl-kueue-certs-{os.getuid()}.lock").open("w") as lock:
            # Planes may start at once, each in a process of its own: a certificate needs the key of the same pair.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if certificate.exists() and key.exists():
                return
            _METRICS_CERTIFICATES.mkdir(parents=True, exist_ok=True)
            key.write_bytes(serving.key.read_bytes())
            certificate.write_bytes(serving.certificate.read_bytes())
    except PermissionError as error:
        raise ComponentFailed(
            f"Kueue reads {_METRICS_CERTIFICATES}/tls.crt and tls.key at start; create them once as root ({error})"
        ) from error


async def _dry_run(api: ApiClient) -> Object:
    body: Object = {"apiVersion": API_VERSION, "kind": "ResourceFlavor", "metadata": {"name": "proof"}}
    return await api.create(path_of(API_VERSION, "resourceflavors"), body, dryRun="All")

"""kube-controller-manager and kube-scheduler: two binaries with the same common flags."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tests.controlplane.components.apiserver import gates_flag
from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site

# Nodes have no networks of their own here, and without kubelets no Lease is renewed; the rest is as in a cluster.
_CONTROLLERS = ("*", "-node-ipam-controller", "-bootstrap-signer-controller", "-token-cleaner-controller")

_QPS: Final = 1000
_BURST: Final = 2000


def controller_manager(site: Site, gates: Mapping[str, bool], *, nodes: bool = False) -> Process:
    flags = [
        f"--root-ca-file={site.ca}",
        f"--service-account-private-key-file={site.pki.service_account_key}",
        "--use-service-account-credentials",
        f"--controllers={','.join((*_CONTROLLERS, *(() if nodes else ('-node-lifecycle-controller',))))}",
    ]
    if nodes:
        # A lost node is missed after this, and not after a minute.
        flags.append("--node-monitor-grace-period=20s")
    return _process(site, "kube-controller-manager", gates, flags)


def scheduler(
    site: Site, gates: Mapping[str, bool], configuration: Mapping[str, Any] = MappingProxyType({})
) -> Process:
    """With fields of a KubeSchedulerConfiguration it has a file of them, and reads no flags for what the file says."""
    if not configuration:
        return _process(site, "kube-scheduler", gates, [])
    client = {"kubeconfig": str(site.kubeconfig("system:kube-scheduler")), "qps": _QPS, "burst": _BURST}
    file = site.write(
        "kube-scheduler.yaml",
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": client,
            "leaderElection": {"leaderElect": False},
            **configuration,
        },
    )
    return _process(site, "kube-scheduler", gates, [f"--config={file}"])


def _process(site: Site, name: str, gates: Mapping[str, bool], flags: list[str]) -> Process:
    port = site.ports.take()
    serving = site.pki.cluster.server(name)
    config = site.kubeconfig(f"system:{name}")
    command = [
        site.binary(name),
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--feature-gates={gates_flag(gates)}",
        f"--kube-api-qps={_QPS}",
        f"--kube-api-burst={_BURST}",
        *flags,
    ]
    healthy = f"https://127.0.0.1:{port}/healthz"
    return Process(name, command, site.log(name), ready=lambda: answers(healthy, ca=site.ca))

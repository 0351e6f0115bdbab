"""The unmodified LeaderWorkerSet manager, with its webhooks on loopback."""

from tests.controlplane import manifests
from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.build import ensure_manifests
from tests.controlplane.components.addon import Addon
from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site

API_VERSION = "leaderworkerset.x-k8s.io/v1"
SET_NAME = "leaderworkerset.sigs.k8s.io/name"


def lws(site: Site) -> Addon:
    directory = ensure_manifests("lws")
    webhook_port, health_port = site.ports.take(), site.ports.take()
    serving = site.pki.cluster.server("lws")
    config = site.write(
        "lws.yaml",
        {
            "apiVersion": "config.lws.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(serving.certificate.parent)},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
            "metrics": {"bindAddress": "0"},
            "clientConnection": {"qps": 500, "burst": 1000},
        },
    )
    command = [
        site.binary("lws"),
        f"--kubeconfig={site.kubeconfig('lws-controller', ['system:masters'])}",
        f"--config={config}",
    ]
    ready = f"http://127.0.0.1:{health_port}/readyz"
    webhooks = manifests.webhooks(
        directory / "webhook", prefix="lws-", address=f"https://127.0.0.1:{webhook_port}", ca=site.ca
    )
    manifests.limit_to_pods_with(SET_NAME, webhooks)
    return Addon(
        process=Process("lws", command, site.log("lws"), ready=lambda: answers(ready)),
        crds=manifests.crds(directory / "crd"),
        webhooks=webhooks,
        proof=_dry_run,
    )


async def _dry_run(api: ApiClient) -> Object:
    """A leader: the webhook of Pods is served after that of LeaderWorkerSets."""
    prefix = SET_NAME.partition("/")[0]
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "proof-0",
            "labels": {SET_NAME: "proof", f"{prefix}/worker-index": "0"},
            "annotations": {f"{prefix}/size": "1"},
        },
        "spec": {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]},
    }
    return await api.create(path_of("v1", "pods", namespace="default"), pod, dryRun="All")

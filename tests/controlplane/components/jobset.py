"""The unmodified JobSet controller, with its webhooks on loopback."""

from collections.abc import Mapping

from tests.controlplane import manifests
from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.binaries import JOBSETS
from tests.controlplane.build import ensure_manifests
from tests.controlplane.components.addon import Addon
from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site

API_VERSION = "jobset.x-k8s.io/v1alpha2"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"

# Off by default upstream; without it no test could resize a gang.
DEFAULT_GATES: Mapping[str, bool] = {"ElasticJobSet": True}


def jobset(site: Site, component: str, gates: Mapping[str, bool]) -> Addon:
    """One of the JOBSETS; the newest has the default gates, and 0.10 has no gates in its configuration."""
    directory = ensure_manifests(component)
    switched = {**(DEFAULT_GATES if component == JOBSETS[0] else {}), **gates}
    webhook_port, health_port = site.ports.take(), site.ports.take()
    serving = site.pki.cluster.server("jobset")
    config = site.write(
        "jobset.yaml",
        {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(serving.certificate.parent)},
            "clientConnection": {"qps": 500, "burst": 1000},
            **({"featureGates": switched} if switched else {}),
        },
    )
    command = [
        site.binary(component),
        f"--kubeconfig={site.kubeconfig('jobset-controller', ['system:masters'])}",
        f"--config={config}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{health_port}",
    ]
    ready = f"http://127.0.0.1:{health_port}/readyz"
    webhooks = manifests.webhooks(
        directory / "webhook", prefix="jobset-", address=f"https://127.0.0.1:{webhook_port}", ca=site.ca
    )
    manifests.limit_to_pods_with(JOBSET_NAME, webhooks)
    return Addon(
        process=Process("jobset", command, site.log("jobset"), ready=lambda: answers(ready)),
        crds=manifests.crds(directory / "crd"),
        webhooks=webhooks,
        proof=_dry_run,
    )


async def _dry_run(api: ApiClient) -> Object:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    body: Object = {
        "apiVersion": API_VERSION,
        "kind": "JobSet",
        "metadata": {"name": "proof"},
        "spec": {"replicatedJobs": [{"name": "r", "template": {"spec": {"template": pod}}}]},
    }
    return await api.create(path_of(API_VERSION, "jobsets", namespace="default"), body, dryRun="All")

"""The unmodified manager of Kubeflow Trainer, which creates a JobSet for a TrainJob, with its webhooks on loopback."""

from tests.controlplane import manifests
from tests.controlplane.api import ApiClient, ApiFailure, Object, path_of
from tests.controlplane.build import ensure_manifests
from tests.controlplane.components.addon import Addon
from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site
from tests.controlplane.wait import NotYet

API_VERSION = "trainer.kubeflow.org/v1alpha1"
USER = "trainer-controller"

# Of the temporary directory: no option names another place.
_CERTIFICATES = "k8s-webhook-server/serving-certs"


def trainer(site: Site) -> Addon:
    directory = ensure_manifests("trainer")
    webhook_port, health_port = site.ports.take(), site.ports.take()
    serving = site.pki.cluster.server("trainer")
    temporary = site.directory / "trainer"
    certificates = temporary / _CERTIFICATES
    certificates.mkdir(parents=True)
    (certificates / "tls.crt").symlink_to(serving.certificate)
    (certificates / "tls.key").symlink_to(serving.key)
    config = site.write(
        "trainer.yaml",
        {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "certManagement": {"enable": False},
            "webhook": {"host": "127.0.0.1", "port": webhook_port},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
            "metrics": {"bindAddress": "0"},
            "clientConnection": {"qps": 500, "burst": 1000},
        },
    )
    command = [
        *("/usr/bin/env", f"TMPDIR={temporary}", site.binary("trainer")),
        f"--kubeconfig={site.kubeconfig(USER, ['system:masters'])}",
        f"--config={config}",
    ]
    ready = f"http://127.0.0.1:{health_port}/readyz"
    return Addon(
        process=Process("trainer", command, site.log("trainer"), ready=lambda: answers(ready)),
        crds=manifests.crds(directory / "crd"),
        webhooks=manifests.webhooks(
            directory / "webhook", prefix="trainer-", address=f"https://127.0.0.1:{webhook_port}", ca=site.ca
        ),
        proof=_is_refused,
    )


async def _is_refused(api: ApiClient) -> bool:
    """A TrainJob whose runtime does not exist: the last of its webhooks to be served refuses it."""
    body: Object = {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": "proof"},
        "spec": {"runtimeRef": {"name": "proof"}},
    }
    try:
        await api.create(path_of(API_VERSION, "trainjobs", namespace="default"), body, dryRun="All")
    except ApiFailure as failure:
        if "must be created before the TrainJob" in failure.message:
            return True
        raise
    raise NotYet("the API server does not call the webhook yet")

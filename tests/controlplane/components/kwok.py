"""
KWOK, which plays the kubelet of every node: its `fast` stages run a pod and finish it at once.

It and the harness's own Kubelet want the same pods; a plane has one of them.
"""

from collections.abc import Sequence

from tests.controlplane import manifests
from tests.controlplane.api import Object
from tests.controlplane.build import ensure_manifests
from tests.controlplane.components.addon import Addon
from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site


def kwok(site: Site, stages: Sequence[Object] | None) -> Addon:
    """With stages of one's own, pods live as long as those say."""
    port = site.ports.take()
    config = site.write("kwok.yaml", *(fast_stages() if stages is None else stages))
    command = [
        site.binary("kwok"),
        f"--kubeconfig={site.kubeconfig('kwok-controller', ['system:masters'])}",
        "--manage-all-nodes=true",
        f"--config={config}",
        f"--server-address=127.0.0.1:{port}",
        "--node-ip=127.0.0.1",
    ]
    ready = f"http://127.0.0.1:{port}/healthz"
    return Addon(process=Process("kwok", command, site.log("kwok"), ready=lambda: answers(ready)))


def fast_stages() -> list[Object]:
    directory = ensure_manifests("kwok")
    return [stage for kind in ("node", "pod") for stage in manifests.documents(directory / kind, "Stage")]

"""etcd, the API server's store: one member, on loopback, without waiting for the disk."""

from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site


def etcd(site: Site, port: int) -> Process:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{site.ports.take()}"
    command = [
        site.binary("etcd"),
        f"--data-dir={site.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    return Process("etcd", command, site.log("etcd"), ready=lambda: answers(f"{client}/health"))

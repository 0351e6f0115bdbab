"""What pods of real nodes need beside their node: kube-proxy, which makes Services work, and CoreDNS."""

from tests.controlplane.components.node import DNS_DOMAIN
from tests.controlplane.machine import ADDRESS
from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site

_COREFILE = """\
.:53 {{
    bind {address}
    errors
    ready 127.0.0.1:{ready}
    kubernetes {domain} {{
        kubeconfig {kubeconfig}
        ttl 0
    }}
}}
"""


def kube_proxy(site: Site) -> Process:
    """One for all nodes: they share a network namespace."""
    health = site.ports.take()
    command = [
        site.binary("kube-proxy"),
        f"--kubeconfig={site.kubeconfig('kube-proxy', ['system:masters'])}",
        "--hostname-override=node-1",
        "--proxy-mode=nftables",
        # Pods of one bridge answer each other directly, past the rules that made the address of a Service theirs.
        "--masquerade-all",
        f"--healthz-bind-address=127.0.0.1:{health}",
        f"--metrics-bind-address=127.0.0.1:{site.ports.take()}",
        # These would be written to sysctls that belong to the whole machine.
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    ]
    ready = f"http://127.0.0.1:{health}/healthz"
    return Process("kube-proxy", command, site.log("kube-proxy"), ready=lambda: answers(ready))


def coredns(site: Site) -> Process:
    port = site.ports.take()
    corefile = site.directory / "Corefile"
    config = site.kubeconfig("coredns", ["system:masters"])
    corefile.write_text(_COREFILE.format(address=ADDRESS, ready=port, domain=DNS_DOMAIN, kubeconfig=config))
    ready = f"http://127.0.0.1:{port}/ready"
    command = [site.binary("coredns"), f"-conf={corefile}"]
    return Process("coredns", command, site.log("coredns"), ready=lambda: answers(ready))

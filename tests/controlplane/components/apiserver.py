"""kube-apiserver, with the gates and API versions that gang scheduling needs on each minor."""

from collections.abc import Mapping, Sequence

from tests.controlplane.machine import ADDRESS
from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site

AUDIT_LOG = "audit.log"


_SERVICE = "10.0.0.1"
"""The cluster address of Service kubernetes: the first of the range."""
_WITHOUT_NODES = [
    "--bind-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    "--authorization-mode=RBAC",
    # Without a node lifecycle controller nothing would ever take the not-ready taint off again.
    "--disable-admission-plugins=TaintNodesByCondition",
]


def gates_flag(gates: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())


def retargeted(
    command: Sequence[str], binary: str, *, gates: Mapping[str, bool], runtime_config: Mapping[str, bool]
) -> list[str]:
    """The command line of a Kubernetes component with another release's binary, gates and API versions."""
    changed = {"--feature-gates": gates_flag(gates), "--runtime-config": gates_flag(runtime_config)}
    flags = ((argument.partition("=")[0], argument) for argument in command[1:])
    return [binary, *(f"{name}={changed[name]}" if name in changed else argument for name, argument in flags)]


def apiserver(
    site: Site,
    etcd_port: int,
    *,
    gates: Mapping[str, bool],
    runtime_config: Mapping[str, bool],
    audit: bool,
    audit_bodies: Mapping[str, Sequence[str]],
    nodes: bool = False,
    further: Sequence[str] = (),
) -> Process:
    """With ``nodes``, pods and kubelets reach it at the machine's address, and pods at its Service, too."""
    serving = site.pki.cluster.server("kube-apiserver", [ADDRESS, _SERVICE] if nodes else [])
    command = [
        site.binary("kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={site.api_port}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={site.ca}",
        f"--requestheader-client-ca-file={site.pki.front_proxy.certificate}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={site.pki.service_account_key}",
        f"--service-account-signing-key-file={site.pki.service_account_key}",
        f"--feature-gates={gates_flag(gates)}",
        f"--runtime-config={gates_flag(runtime_config)}",
        "--allow-privileged",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        *(_for_nodes(site) if nodes else _WITHOUT_NODES),
        *further,
    ]
    if audit:
        command += _audit_flags(site, audit_bodies)
    ready = f"{site.url}/readyz"
    return Process("kube-apiserver", command, site.log("kube-apiserver"), ready=lambda: answers(ready, ca=site.ca))


def _for_nodes(site: Site) -> list[str]:
    client = site.user("kube-apiserver-kubelet-client", ["system:masters"])
    return [
        "--bind-address=0.0.0.0",
        f"--advertise-address={ADDRESS}",
        "--authorization-mode=Node,RBAC",
        f"--kubelet-client-certificate={client.certificate}",
        f"--kubelet-client-key={client.key}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def _audit_flags(site: Site, bodies: Mapping[str, Sequence[str]]) -> list[str]:
    whole = [{"group": group, "resources": [*resources]} for group, resources in bodies.items()]
    policy = site.write(
        "audit-policy.yaml",
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                *([{"level": "RequestResponse", "resources": whole}] if whole else []),
                {"level": "Metadata"},
            ],
        },
    )
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={site.directory / AUDIT_LOG}",
        # A rotated log would lose writes that a test counts.
        "--audit-log-maxsize=4096",
    ]

"""kube-apiserver, with the gates and API versions that gang scheduling needs on each minor."""

from collections.abc import Mapping, Sequence

from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site

AUDIT_LOG = "audit.log"

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


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
    further: Sequence[str] = (),
) -> Process:
    serving = site.pki.cluster.server("kube-apiserver")
    command = [
        site.binary("kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={site.api_port}",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={site.ca}",
        f"--requestheader-client-ca-file={site.pki.front_proxy.certificate}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={site.pki.service_account_key}",
        f"--service-account-signing-key-file={site.pki.service_account_key}",
        "--authorization-mode=RBAC",
        f"--feature-gates={gates_flag(gates)}",
        f"--runtime-config={gates_flag(runtime_config)}",
        "--allow-privileged",
        # Without a node lifecycle controller nothing would ever take the not-ready taint off again.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        *further,
    ]
    if audit:
        command += _audit_flags(site)
    ready = f"{site.url}/readyz"
    return Process("kube-apiserver", command, site.log("kube-apiserver"), ready=lambda: answers(ready, ca=site.ca))


def _audit_flags(site: Site) -> list[str]:
    policy = site.write("audit-policy.yaml", _AUDIT_POLICY)
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={site.directory / AUDIT_LOG}",
        # A rotated log would lose writes that a test counts.
        "--audit-log-maxsize=4096",
    ]

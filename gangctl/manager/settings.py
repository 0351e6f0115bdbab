"""Settings of the controller process: flags, or a YAML file with the same names; flags win."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic import ValidationError as PydanticError

from gangctl.api.documents import DEFAULT_LIMITS, parse_documents
from gangctl.api.labelselector import parse_labels
from gangctl.api.meta import DEFAULT_SCHEDULER
from gangctl.api.modelerrors import message_of
from gangctl.api.names import is_dns_label
from gangctl.api.objects import INT32_MAX
from gangctl.client.kubeconfig import is_server_url
from gangctl.errors import ConfigError
from gangctl.kueue.names import KUEUE_NAMESPACE
from gangctl.pathways.options import AUTO, PathwaysOptions
from gangctl.readiness.metrics import DEFAULT_JOBSETS
from gangctl.runtime.shards import MOST_SHARDS
from gangctl.webhooks.configurations import Endpoint, WebhookSettings

_DAY: Final = 86_400
_MOST: Final = INT32_MAX
"""The longest time, in seconds: a Lease holds no more."""


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class ControllerSettings(BaseModel):
    """Everything that can be chosen about one ``gangctl controller`` process; durations in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, populate_by_name=True)

    kubeconfig: str | None = Field(default=None, description="Kubeconfig file; in a cluster none is needed.")
    context: str | None = Field(default=None, description="Context in the kubeconfig.")
    own_namespace: str | None = Field(
        default=None, description="Namespace of gangctl's Lease, certificates and dry-run proof."
    )
    webhook_url: str | None = Field(
        default=None,
        description="https://HOST:PORT under which API servers reach this process; required outside a cluster.",
    )
    webhook_bind_address: str | None = Field(
        default=None,
        description="HOST:PORT of the webhook listener (that of --webhook-url, or :9443, which is every address).",
    )
    webhook_service: Annotated[str, Field(min_length=1)] = Field(
        default="gangctl-webhook", description="Service in front of the webhook listener."
    )
    webhook_service_port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=443, description="Port of that Service, for the webhooks that gangctl registers."
    )
    webhook_registration: Literal["manage", "ca-only", "none"] = Field(
        default="manage", description="Create and update the webhook configurations, only their caBundle, or neither."
    )
    webhook_timeout: Annotated[int, Field(ge=1, le=30)] = Field(
        default=10, description="Seconds the API server waits for an answer."
    )
    webhook_failure_policy: Literal["Fail", "Ignore"] = Field(
        default="Fail",
        description="While no gangctl answers, refuse JobSets that ask for a gang (Fail), or let them run without one "
        "(Ignore). Gangs that exist do not depend on it.",
    )
    unregister_on_exit: bool = Field(
        default=False,
        description="Delete the webhook configurations for JobSets and policies at the end, not what names the groups "
        "of Jobs, which gangs that exist need; not with leader-elect.",
    )
    cert_dir: str | None = Field(
        default=None, description="Directory with tls.crt, tls.key and ca.crt instead of an own certificate authority."
    )
    webhook_client_ca: str | None = Field(
        default=None,
        description="PEM file: answer webhooks only to API servers with a client certificate of this authority.",
    )
    cert_lifetime: float = Field(
        default=90 * _DAY,
        ge=3,
        le=_MOST,
        description="Seconds for which a certificate of gangctl's own authority is valid; it is replaced when a third "
        "is left.",
    )
    ca_lifetime: float = Field(
        default=365 * _DAY,
        ge=6,
        le=_MOST,
        description="Seconds for which gangctl's own authority is valid; it is replaced when a third is left.",
    )
    namespace_selector: str | None = Field(
        default=None, description="Label selector of the namespaces whose JobSets gangctl serves (default: all)."
    )
    metrics_bind_address: str = Field(
        default=":8080",
        description="HOST:PORT of /metrics, /healthz and /readyz.",
    )
    metrics_secure: bool = Field(
        default=False,
        description="Serve /metrics over TLS, at --metrics-secure-bind-address and nowhere else, to those whose bearer "
        "token the API server accepts and who may get /metrics (nonResourceURLs). It takes the rights of "
        "manifests/monitoring/secured.",
    )
    metrics_secure_bind_address: str = Field(
        default=":8443", description="HOST:PORT of /metrics with --metrics-secure."
    )
    metrics_service: Annotated[str, Field(min_length=1)] = Field(
        default="gangctl-metrics",
        description="Service in front of that listener: its certificate is for SERVICE.NAMESPACE.svc.",
    )
    metrics_cert_dir: str | None = Field(
        default=None,
        description="Directory with tls.crt and tls.key for that listener instead of a certificate of the own "
        "authority.",
    )
    metrics_jobset_limit: Annotated[int, Field(ge=0)] = Field(
        default=DEFAULT_JOBSETS,
        description="Unfinished JobSets that have series of their own, about six each. The series of one that finishes "
        "go to the next; sums count all JobSets.",
    )
    leader_elect: bool = Field(default=True, description="Let only the holder of Lease gangctl write.")
    shards: Annotated[int, Field(ge=1, le=MOST_SHARDS)] = Field(
        default=1,
        description="Divide the namespaces among so many shards, by a hash of their names: each has a Lease and a "
        "leader of its own, so that there must be as many replicas, better one more. The same number in all of them.",
    )
    lease_duration: Annotated[float, Field(ge=3, le=_MOST)] = Field(
        default=15.0, description="Seconds within which another replica writes in the place of a leader that died."
    )
    shutdown_delay: float | None = Field(
        default=None,
        ge=0,
        le=_MOST,
        description="Seconds to continue to answer after SIGTERM, with a failing readiness check, so that the Service "
        "sends no more requests (5 in a cluster, 0 outside one). A second signal stops at once.",
    )
    gang_scheduler: tuple[str, ...] = Field(
        default=(DEFAULT_SCHEDULER,), description="Scheduler name that honours groups; may be repeated."
    )
    unavailable: Literal["reject", "allow"] = Field(
        default="reject",
        description="What happens to an opted-in JobSet, or one of a PathwaysJob, where no gang can be made.",
    )
    policies: Literal["auto", "off"] = Field(
        default="auto",
        description="auto: evaluate JobSets by GangPolicies, also if their definition is installed later. off: do not "
        "read GangPolicies.",
    )
    policy_scan_period: Annotated[float, Field(ge=1, le=_MOST)] = Field(
        default=600.0,
        description="Seconds between two scans of the JobSets that exist; changes of policies are followed by one.",
    )
    kueue: Literal["auto", "off"] = Field(
        default="auto",
        description="auto: read Kueue's objects if the cluster serves them, also if it is installed later. off: do not "
        "read them; a JobSet that Kueue evicts then loses its groups, and gets new ones when it starts again.",
    )
    kueue_namespace: Annotated[str, Field(min_length=1)] = Field(
        default=KUEUE_NAMESPACE, description="Namespace in which Kueue has its ConfigMap kueue-manager-config."
    )
    kueue_check: bool = Field(
        default=False,
        description="Be the controller of AdmissionChecks named gangctl.dev/gang-ready. It takes the rights of "
        "manifests/kueue-check.",
    )
    readiness: Literal["on", "off"] = Field(
        default="on",
        description="Follow pods, nodes and refusals, and report in metrics and events which gangs are ready, and what "
        "keeps the others (on; only the leader does), or leave them alone.",
    )
    gang_objects: bool = Field(
        default=False,
        description="Write a Gang object beside each JobSet, with what is known of its readiness. It takes the "
        "definition and the rights of manifests/gang-objects.",
    )
    evict_stranded: bool = Field(
        default=False,
        description="Evict the remaining pods of a gang that runs below its minimum for longer than its annotation "
        "gangctl.dev/evict-stranded-after allows, so that it waits as a whole. It takes the rights of "
        "manifests/stranded.",
    )
    evict_stranded_after: Annotated[float, Field(gt=0, le=_MOST)] | None = Field(
        default=None,
        description="Seconds that a gang without that annotation may run below its minimum (without: it may).",
    )
    pathways: bool = Field(
        default=False,
        description="Be the controller of PathwaysJobs, unless the upstream one runs: create their JobSets, and keep "
        "their statuses. It takes the definition and the rights of manifests/pathways.",
    )
    pathways_options: PathwaysOptions | None = Field(
        default=None,
        description="Options of PathwaysJobs that do not say otherwise in annotation gangctl.dev/pathways-options: a "
        "JSON object like that, or a mapping in --config.",
    )
    discovery_period: Annotated[float, Field(ge=1, le=_MOST)] = Field(
        default=30.0, description="Seconds between checks of which APIs the cluster serves."
    )
    workers: Annotated[int, Field(ge=1, le=256)] = Field(default=16, description="JobSets reconciled at once.")
    api_qps: Annotated[float, Field(gt=0)] = Field(default=500.0, description="Requests a second to the API server.")
    api_burst: Annotated[int, Field(ge=1)] = Field(default=1000, description="Requests beyond --api-qps at once.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least severe level.")
    log_format: Literal["json", "text"] = Field(default="json", description="JSON lines, or text for people.")

    @field_validator("webhook_url")
    @classmethod
    def _https(cls, url: str | None) -> str | None:
        if url is not None and not (is_server_url(url) and urlsplit(url).scheme == "https"):
            raise ValueError("must look like https://HOST:PORT, the API server calls nothing else")
        return url

    @field_validator("policies", "kueue", "readiness", mode="before")
    @classmethod
    def _word(cls, value: object) -> object:
        """YAML 1.1 reads the words on and off as true and false."""
        return {True: "on", False: "off"}[value] if isinstance(value, bool) else value

    @field_validator("pathways_options", mode="before")
    @classmethod
    def _mapping(cls, value: object) -> object:
        """A flag is text."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f'must be a JSON object such as {{"startup": "DependsOn"}}: {error}') from None

    @field_validator("pathways_options")
    @classmethod
    def _subdomains(cls, options: PathwaysOptions | None) -> PathwaysOptions | None:
        """JobSet makes the Service of a subdomain once, for the pods of the JobSet that is the first to have it."""
        if options is not None and options.subdomain not in {None, AUTO}:
            raise ValueError(
                f'subdomain can be only "{AUTO}" as a default: with a name all JobSets of a namespace would have one '
                "Service, which finds the head of the first of them only"
            )
        return options

    @field_validator("metrics_bind_address", "metrics_secure_bind_address", "webhook_bind_address")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        if address is not None:
            split_address(address)
        return address

    @field_validator("own_namespace", "webhook_service", "metrics_service", "kueue_namespace")
    @classmethod
    def _name(cls, name: str | None) -> str | None:
        if name and not is_dns_label(name):
            raise ValueError(f'"{name}" is not a name: lower case letters, digits and -')
        return name

    @field_validator("namespace_selector")
    @classmethod
    def _selector(cls, selector: str | None) -> str | None:
        if selector is not None:
            parse_selector(selector)
        return selector

    @model_validator(mode="after")
    def _within_authority(self) -> Self:
        if self.cert_lifetime > self.ca_lifetime:
            raise ValueError(
                "cert-lifetime is longer than ca-lifetime: no certificate may outlive the authority that signs it"
            )
        return self

    @model_validator(mode="after")
    def _effective(self) -> Self:
        if self.webhook_failure_policy != "Fail" and self.webhook_registration != "manage":
            raise ValueError(
                f"webhook-failure-policy {self.webhook_failure_policy} has no effect with webhook-registration "
                f"{self.webhook_registration}: set failurePolicy in the webhook configurations (gangctl install "
                "--webhook-failure-policy, the chart's value webhook.failurePolicy, or a patch of the kustomization)"
            )
        if self.unregister_on_exit and self.leader_elect:
            raise ValueError(
                "unregister-on-exit with leader-elect: the replica that ends would delete the webhook configurations "
                "of all. Leave it out, or set leader-elect to false where this process is the only one"
            )
        if self.metrics_cert_dir is not None and not self.metrics_secure:
            raise ValueError("metrics-cert-dir has no effect without metrics-secure: set both, or neither")
        if self.shards > 1 and not self.leader_elect:
            raise ValueError("shards has no effect without leader-elect: who looks after which is settled by Leases")
        if self.kueue == "off" and self.kueue_check:
            raise ValueError("kueue-check has no effect with kueue off: leave one of them out")
        if self.readiness == "off" and self.gang_objects:
            raise ValueError("gang-objects has no effect with readiness off: leave one of them out")
        if self.readiness == "off" and self.evict_stranded:
            raise ValueError("evict-stranded has no effect with readiness off: leave one of them out")
        if self.evict_stranded_after is not None and not self.evict_stranded:
            raise ValueError("evict-stranded-after has no effect without evict-stranded: set both, or neither")
        if self.pathways_options is not None and not self.pathways:
            raise ValueError("pathways-options has no effect without pathways: set both, or neither")
        return self

    def webhook_listener(self) -> tuple[str, int]:
        """Host and port to listen on for webhooks."""
        if self.webhook_bind_address is not None:
            return split_address(self.webhook_bind_address)
        if self.webhook_url is not None:
            parts = urlsplit(self.webhook_url)
            return _listenable(parts.hostname or ""), parts.port or 443
        return "", 9443

    def certificate_hosts(self, own_namespace: str) -> tuple[str, ...]:
        """Names and addresses that the serving certificate must cover."""
        if self.webhook_url is not None:
            return (urlsplit(self.webhook_url).hostname or "",)
        return service_hosts(self.webhook_service, own_namespace)

    def webhooks(self, own_namespace: str) -> WebhookSettings:
        """What shapes the webhooks' configurations."""
        # What runs in gangctl's own namespace must not wait for gangctl. Outside a cluster that may be the namespace
        # ``default``, which all users share.
        excluded = {"kube-system", own_namespace} - {"default"}
        endpoint = Endpoint(
            url=self.webhook_url or "",
            service=self.webhook_service,
            namespace=own_namespace,
            port=self.webhook_service_port,
        )
        selector = parse_selector(self.namespace_selector) if self.namespace_selector else []
        return WebhookSettings(
            endpoint,
            sorted(excluded),
            selector,
            failure_policy=self.webhook_failure_policy,
            timeout_seconds=self.webhook_timeout,
        )


def service_hosts(service: str, namespace: str) -> tuple[str, ...]:
    """The DNS names of a Service that a certificate for it must cover."""
    base = f"{service}.{namespace}"
    # API servers verify the first one; the others are for clients in the cluster, such as Prometheus.
    return f"{base}.svc", f"{base}.svc.cluster.local", base


def _listenable(host: str) -> str:
    """The URL's host if it is an address, else all addresses: a name may be a load balancer's."""
    try:
        ip_address(host)
    except ValueError:
        return "127.0.0.1" if host == "localhost" else ""
    return host


def split_address(address: str) -> tuple[str, int]:
    """``HOST:PORT``, ``[IPv6]:PORT`` or ``:PORT`` as host and port; ValueError lists the allowed forms.

    Without a host it is "": every address, of IPv4 and of IPv6.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit()) or int(port) > 65535:  # noqa: PLR2004 - the largest TCP port
        raise ValueError(f'"{address}" must look like HOST:PORT')
    return host.strip("[]"), int(port)


def parse_selector(text: str) -> list[dict[str, Any]]:
    """``matchExpressions`` of a label selector such as ``team=ml,tier in (gold, silver),!legacy``."""
    terms = parse_labels(text)
    if any(term.operator in {"Gt", "Lt"} for term in terms):
        raise ValueError("> and < are not for namespaces: write key, !key, key=value, key!=value, or key in (a, b)")
    return [
        {"key": term.key, "operator": term.operator, **({"values": list(term.values)} if term.values else {})}
        for term in terms
    ]


def load_settings(flags: Mapping[str, Any], config: str | None) -> ControllerSettings:
    """Settings from a file and from flags; unset flags (None) leave the file's values. Raises :class:`ConfigError`."""
    values: dict[str, Any] = {}
    if config is not None:
        values = _read_file(config)
    # A flag that may be repeated is an empty tuple where it is not given.
    values |= {_kebab(name): value for name, value in flags.items() if value is not None and value != ()}
    try:
        # Not by the names of fields: two names of one setting have no order.
        return ControllerSettings.model_validate(values, by_name=False)
    except PydanticError as problem:
        lines = [
            f"{'.'.join(map(str, e['loc'])) or 'settings'}: "
            + (_unknown(e["loc"]) if e["type"] == "extra_forbidden" else message_of(e))
            for e in problem.errors(include_url=False)
        ]
        where = f" in {config} or flags" if config else ""
        raise ConfigError(f"invalid settings{where}: " + "; ".join(lines)) from None


def _unknown(path: tuple[int | str, ...]) -> str:
    names = map(_kebab, ControllerSettings.model_fields) if len(path) == 1 else ()
    near = get_close_matches(str(path[0]), names, n=1, cutoff=0.7)
    return "there is no such setting" + (f"; did you mean {near[0]}?" if near else "")


def _read_file(path: str) -> dict[str, Any]:
    try:
        # One byte more than is parsed shows a file that is too large, and an endless device.
        with Path(path).open("rb") as file:
            text = file.read(DEFAULT_LIMITS.max_bytes + 1)
    except OSError as error:
        raise ConfigError(f"--config {path}: {error}", hint="give a readable YAML file") from None
    documents = parse_documents(text, path)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise ConfigError(f"--config {path}: one YAML document with settings is wanted, found {len(documents)}")
    return dict(documents[0].value)

"""``gangctl install``: the objects of an installation, for ``kubectl apply``; and those to delete."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gangctl.api.meta import SYSTEM_NAMESPACE
from gangctl.cli import options
from gangctl.cli.install.components import NAMES
from gangctl.cli.messages import note
from gangctl.cli.output import print_answer
from gangctl.errors import InputError
from gangctl.runtime.shards import MOST_SHARDS

if TYPE_CHECKING:
    from gangctl.manager.settings import ControllerSettings

_SHARED: Final = re.compile(r"default|kube-.*")
_FLAG: Final = re.compile(r"(?:--)?(?P<name>[a-z][a-z-]*)=(?P<value>.*)", re.DOTALL)
_LEVELS: Final = ("debug", "info", "warning", "error")
_OF_COMPONENTS: Final = {
    "kueue-check": "kueue-check",
    "gang-objects": "gang-objects",
    "evict-stranded": "stranded",
    "pathways": "pathways",
    "metrics-secure": "monitoring/secured",
}
"""Flags whose rights, definitions and ports are those of a component."""


_check_image: Final = options.name_of("an image, such as registry.example/gangctl:TAG", r"[\w][\w.:/@-]*")


@click.command("install")
@click.option(
    "--component",
    "components",
    multiple=True,
    metavar="NAME",
    type=click.Choice(NAMES),
    help=f"Add one of: {', '.join(NAMES)}. Can be repeated. manifests/README.md says what each is and needs.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAMESPACE",
    default=SYSTEM_NAMESPACE,
    show_default=True,
    callback=options.check_namespace,
    help="Where gangctl runs.",
)
@click.option(
    "--image",
    metavar="IMAGE",
    callback=_check_image,
    help="The image, as nodes pull it. Required: there is no public one. make image PUSH=IMAGE builds and pushes it.",
)
@click.option(
    "--replicas", type=click.IntRange(min=1, max=MOST_SHARDS + 1), metavar="NUMBER", help="How many answer webhooks."
)
@click.option(
    "--shards",
    type=click.IntRange(min=1, max=MOST_SHARDS),
    metavar="NUMBER",
    help="Divide the namespaces among so many leaders, with one more replica on standby. --component shards is 2.",
)
@click.option(
    "--webhook-failure-policy",
    type=click.Choice(["Fail", "Ignore"]),
    help="While no replica answers: reject JobSets that ask for a gang (Fail, the default), or admit them without one "
    "(Ignore).",
)
@click.option("--log-level", type=click.Choice(_LEVELS), help="Least severe level of gangctl's log.")
@click.option(
    "--flag",
    "flags",
    multiple=True,
    metavar="NAME=VALUE",
    help="A flag of gangctl controller, see its --help. Can be repeated.",
)
@click.option(
    "--out-of-cluster", is_flag=True, help="Only the rights and definitions of a gangctl outside the cluster."
)
@click.option(
    "--uninstall",
    is_flag=True,
    help="Print what to delete instead, in the order in which to do it: webhooks first. Definitions and namespace are "
    "left out.",
)
@click.option(
    "--everything", is_flag=True, help="With --uninstall: definitions, with all their objects, and namespace, too."
)
@options.cluster
@options.output("yaml", "json", "name")
def command(
    *,
    components: tuple[str, ...],
    namespace: str,
    out_of_cluster: bool,
    uninstall: bool,
    everything: bool,
    shards: int | None,
    cluster: options.ClusterFlags,
    form: str,
    **changes: Any,
) -> None:
    """Print what makes gangctl run in a cluster, or what to delete.

    The objects are those of kubectl kustomize with manifests/base and the same components, in an
    order in which they can be applied. Neither kustomize nor a network is needed. Without
    --component it is gangctl with gangs, policies and the check of Kueue's quotas.

    Kubernetes 1.35 does not serve the policy for Jobs, which is among them. What else a cluster
    serves gangctl finds out by itself. With --kubeconfig or --context the cluster is asked: the
    policy is left out where it is not served, other objects that it would refuse are an error (exit
    code 3), and what else it has is printed on stderr. --uninstall leaves out what is not served.

    \b
    Examples:
      gangctl install --image registry.example/gangctl:0.1.0 | kubectl apply -f -
      gangctl install --image IMAGE --component monitoring --component kueue-check --context production
      gangctl install --uninstall | kubectl delete --ignore-not-found -f -
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    _agree(components, namespace, changes, out_of_cluster=out_of_cluster, uninstall=uninstall, everything=everything)
    _agree_on_shards(components, shards, changes)
    from gangctl.cli.install import rendering  # noqa: PLC0415 -- --help does without

    flags = _flags(changes)
    image, replicas, policy = (changes[name] for name in ("image", "replicas", "webhook_failure_policy"))
    chosen = frozenset(components)
    choice = rendering.InstallationOptions(chosen, out_of_cluster, namespace, image, replicas, flags, shards, policy)
    objects = rendering.render(choice)
    if not uninstall and image is None:
        _check_has_registry(objects)
    if flags:
        _check_flags(objects, chosen)
    if uninstall:
        objects = rendering.removal(objects, namespace, everything=everything)
    else:
        _print_notes(objects)
    if cluster.given:
        from gangctl.cli.install.cluster import check, look  # noqa: PLC0415 -- the client, only where it is asked

        served = look(cluster)
        if not uninstall:
            check(served, components)
        objects = [item for item in objects if served.may_have(item)]
    print_answer(form, objects)


def _agree(
    components: Sequence[str],
    namespace: str,
    changes: Mapping[str, Any],
    *,
    out_of_cluster: bool,
    uninstall: bool,
    everything: bool,
) -> None:
    """UsageError for conflicting options."""
    given = ["--flag" if name == "flags" else f"--{name.replace('_', '-')}" for name, value in changes.items() if value]
    if out_of_cluster and (components or given):
        raise click.UsageError(
            f"--out-of-cluster has no Deployment: leave {given[0] if given else '--component'} out, and give the "
            "process its flags yourself"
        )
    if "policies/native/deny" in components and "policies/native" not in components:
        raise click.UsageError(
            "--component policies/native/deny has no policies of its own, and nothing would be denied: "
            "give --component policies/native, too"
        )
    if everything and not uninstall:
        raise click.UsageError("--everything says what --uninstall deletes: give both, or neither")
    if uninstall and given:
        raise click.UsageError(f"{given[0]} changes nothing of what --uninstall deletes: leave it out")
    if not out_of_cluster and _SHARED.fullmatch(namespace):
        raise click.UsageError(
            f"namespace {namespace} is not gangctl's alone: the labels that it gets would refuse other people's pods, "
            "and gangctl's webhooks leave out its JobSets; choose one that is"
        )


def _agree_on_shards(components: Sequence[str], shards: int | None, changes: Mapping[str, Any]) -> None:
    """UsageError for a number of shards that is set twice, or exceeds the replicas."""
    if shards == 1 and "shards" in components:
        raise click.UsageError("--component shards is two shards: leave it out, or --shards 1")
    if any(re.match(r"(--)?shards=", text) for text in changes["flags"]):
        raise click.UsageError(
            "--flag shards would lack the rights to its Leases: give --shards NUMBER, which has them"
        )
    total = shards or (2 if "shards" in components else 1)
    if changes["replicas"] is not None and changes["replicas"] < total:
        raise click.UsageError(
            f"--replicas {changes['replicas']} cannot lead {total} shards, one each: give {total + 1} replicas or more"
        )


def _flags(changes: Mapping[str, Any]) -> tuple[str, ...]:
    """The flags of the controller, each as ``--NAME=VALUE``; UsageError for another format."""
    flags = []
    for text in changes["flags"]:
        flag = _FLAG.fullmatch(text)
        if flag is None:
            raise click.UsageError(f'--flag "{text}" must look like NAME=VALUE, for example kueue-namespace=kueue')
        flags.append(f"--{flag['name']}={flag['value']}")
    if changes["log_level"] is not None:
        flags.append(f"--log-level={changes['log_level']}")
    return tuple(flags)


def _check_flags(objects: Sequence[Mapping[str, Any]], components: Collection[str]) -> None:
    """InputError for flags that the controller would reject, or that the rest of the installation does not follow."""
    from gangctl.errors import ConfigError  # noqa: PLC0415
    from gangctl.manager.settings import load_settings  # noqa: PLC0415 -- pydantic, only where flags are given

    (deployment,) = (item for item in objects if item["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    values: dict[str, Any] = {}
    # The first is the name of the command.
    for argument in container["args"][1:]:
        name, _, value = argument.removeprefix("--").partition("=")
        # The only flag of the controller that may be repeated.
        if name == "gang-scheduler":
            values.setdefault(name, []).append(value)
        else:
            values[name] = value
    try:
        settings = load_settings(values, None)
    except ConfigError as error:
        raise InputError(
            f"the controller would not start: {error.message}", hint="see gangctl controller --help"
        ) from None
    _check_ports(settings, container)
    _check_webhooks(settings, objects)
    _check_surroundings(settings, deployment["metadata"]["namespace"], container)
    for flag, component in _OF_COMPONENTS.items():
        if getattr(settings, flag.replace("-", "_")) and component not in components:
            raise InputError(f"--flag {flag} would lack its rights: give --component {component}, which has them")
    replicas = deployment["spec"]["replicas"]
    if not settings.leader_elect and replicas > 1:
        raise InputError(f"--flag leader-elect: each of {replicas} replicas would write: give --replicas 1")


def _check_surroundings(settings: ControllerSettings, namespace: str, container: Mapping[str, Any]) -> None:
    """InputError for flags that name a namespace or a path that the pods do not have."""
    if settings.own_namespace not in {None, namespace}:
        raise InputError(
            f"--flag own-namespace: its Lease and its Secret are in {namespace}, and so are its rights: give "
            f"--namespace {settings.own_namespace} instead"
        )
    mounts = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
    for flag in ("cert-dir", "metrics-cert-dir", "webhook-client-ca"):
        path = getattr(settings, flag.replace("-", "_"))
        if path and not any(Path(path).is_relative_to(mount) for mount in mounts):
            raise InputError(
                f"--flag {flag}: the pods have nothing at {path}",
                hint="mount it in an overlay; --component cert-manager mounts a certificate for cert-dir",
            )


def _check_ports(settings: ControllerSettings, container: Mapping[str, Any]) -> None:
    """InputError for addresses with other ports than the pods have."""
    from gangctl.manager.settings import split_address  # noqa: PLC0415

    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for flag, name, address in (
        ("webhook-bind-address", "webhook", settings.webhook_listener()),
        ("metrics-bind-address", "metrics", split_address(settings.metrics_bind_address)),
        ("metrics-secure-bind-address", "metrics-tls", split_address(settings.metrics_secure_bind_address)),
    ):
        # Services and probes lead to the ports of the pods.
        if ports.get(name, address[1]) != address[1]:
            raise InputError(
                f"--flag {flag}: nothing would reach port {address[1]}: the pods have port {ports[name]} "
                f"for it ({name})",
                hint="patch the Deployment in an overlay, its ports, too",
            )


def _check_webhooks(settings: ControllerSettings, objects: Sequence[Mapping[str, Any]]) -> None:
    """InputError for flags that gangctl would follow only if it registered the webhooks itself."""
    if settings.webhook_registration == "manage":
        raise InputError(
            "--flag webhook-registration=manage would lack its rights, which no component has",
            hint="bind the ClusterRole of manifests/rbac/registration in an overlay",
        )
    from gangctl.webhooks.configurations import NAME  # noqa: PLC0415

    (webhook,) = (
        webhook
        for item in objects
        if item["kind"] == "MutatingWebhookConfiguration" and item["metadata"]["name"] == NAME
        for webhook in item["webhooks"]
    )
    service = webhook["clientConfig"]["service"]
    wanted = settings.webhooks(service["namespace"])
    # The first two are break-glass, and gangctl's own namespaces.
    selected = webhook["namespaceSelector"]["matchExpressions"][2:]
    for flag, given, there in (
        ("namespace-selector", list(wanted.namespace_selector), selected),
        ("webhook-timeout", wanted.timeout_seconds, webhook["timeoutSeconds"]),
        ("webhook-service", wanted.endpoint.service, service["name"]),
        ("webhook-service-port", wanted.endpoint.port, service["port"]),
        ("webhook-url", wanted.endpoint.url, ""),
    ):
        if given != there:
            raise InputError(
                f"--flag {flag}: the webhooks of the installation are others, and gangctl does not change them",
                hint="patch the webhook configurations and the Deployment in an overlay; --component tenants/managed "
                "is one for namespaces with a label",
            )


def _check_has_registry(objects: Sequence[Mapping[str, Any]]) -> None:
    """UsageError if the image of the manifests is the placeholder of the sources, which nodes cannot pull."""
    for item in objects:
        if item["kind"] == "Deployment":
            image = item["spec"]["template"]["spec"]["containers"][0]["image"]
            if "/" not in image:
                raise click.UsageError(
                    f"name the image: --image registry.example/{image}. There is no public image: make image "
                    f"PUSH=registry.example/{image}, in a clone, builds it and pushes it to your registry"
                )


def _print_notes(objects: Sequence[Mapping[str, Any]]) -> None:
    """Print notes about problems that would show only later."""
    replicas = [item["spec"]["replicas"] for item in objects if item["kind"] == "Deployment"]
    budgets = [item["spec"]["minAvailable"] for item in objects if item["kind"] == "PodDisruptionBudget"]
    for count, least in zip(replicas, budgets, strict=True):
        if count <= least:
            note(f"{least} of {count} replicas must always answer (PodDisruptionBudget): their nodes cannot be drained")

"""The flags of ``gangctl pathways``: those that describe a job in place of a file, and those that choose a rendering.

Flags of a job are those of XPK where XPK has one, by its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from gangctl.cli import options
from gangctl.cli.options import F
from gangctl.errors import InputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gangctl.cli.pathways.cluster import ClusterFacts
    from gangctl.cli.pathways.subjects import Wanted
    from gangctl.pathways.flags.texts import Flags
    from gangctl.pathways.options import PathwaysOptions


STARTUPS: Final = ("InOrder", "DependsOn", "AnyOrder")
SLICINGS: Final = ("None", "Sub", "Super", "Dynamic")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
"""Spelled out, because what has them as types takes a tenth of a second to import, and ``--help`` does without."""
MOST_SECONDS: Final = 2**31 - 1
"""What the API's fields for seconds hold."""
COMPONENTS: Final = ("resourceManager", "proxy")
_LISTS: Final = ("requests", "limits")
_RESOURCE: Final = "COMPONENT.requests.NAME=QUANTITY"
_CHOICES: Final = (
    click.option("--image-registry", metavar="REGISTRY", help="Where the images of Pathways are pulled from."),
    click.option(
        "--image-pull-policy",
        type=click.Choice(PULL_POLICIES),
        help="imagePullPolicy of the containers that gangctl adds. Default: the API's.",
    ),
    click.option("--startup", type=click.Choice(STARTUPS), help="Order in which head and workers are created."),
    click.option("--slicing", type=click.Choice(SLICINGS), help="How the cluster gets its slices."),
    click.option(
        "--subdomain",
        metavar="NAME|auto",
        help='Subdomain of the pods\' addresses, which allows longer names; "auto" makes a short one where needed.',
    ),
    click.option(
        "--head-node-selector",
        multiple=True,
        metavar="KEY=VALUE",
        help="Node label for the head where its template does not choose nodes itself. Can be repeated.",
    ),
    click.option(
        "--head-resources",
        multiple=True,
        metavar=f"{_RESOURCE}|JSON",
        help="Requests and limits of the resource manager and the proxy, such as proxy.limits.memory=50G; a request "
        "that is left out is the limit. Can be repeated.",
    ),
    click.option(
        "--unreachable-timeout-seconds",
        type=click.IntRange(1, MOST_SECONDS),
        metavar="SECONDS",
        help="After how long Pathways gives up a peer that does not answer.",
    ),
    click.option(
        "--ttl-seconds-after-finished",
        type=click.IntRange(0, MOST_SECONDS),
        metavar="SECONDS",
        help="After how long a finished JobSet is deleted. Default: never.",
    ),
    click.option("--shared-tmp/--no-shared-tmp", default=None, help="Whether workers share /tmp with their node."),
    click.option(
        "--drop-metadata",
        multiple=True,
        metavar="PREFIX",
        help="Beginning of labels and annotations that stay on the PathwaysJob. Can be repeated.",
    ),
)


def choices(command: F) -> F:
    """One flag for each entry of :class:`~gangctl.pathways.options.PathwaysOptions`, by its name in kebab case."""
    for option in reversed(_CHOICES):
        command = option(command)
    return command


def take_options(flags: dict[str, Any]) -> PathwaysOptions:
    """The options among the flags of a command, which are taken out; InputError when they are none."""
    from pydantic import ValidationError  # noqa: PLC0415 -- --help does without

    from gangctl.api.modelerrors import message_of  # noqa: PLC0415
    from gangctl.pathways.options import PathwaysOptions  # noqa: PLC0415

    given = {name: value for name in PathwaysOptions.model_fields if (value := flags.pop(name)) not in {None, ()}}
    if "head_node_selector" in given:
        given["head_node_selector"] = pairs("--head-node-selector", given["head_node_selector"])
    if "head_resources" in given:
        given["head_resources"] = _head_resources(given["head_resources"])
    try:
        return PathwaysOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name, *inner = (str(step) for step in first["loc"])
        flag = f"--{name.replace('_', '-')}"
        raise InputError(f"{flag}: {''.join(f'{step}: ' for step in inner)}{message_of(first)}") from error


def pairs(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """``KEY=VALUE`` each, where the value may hold more signs of equality; InputError for anything else."""
    found: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InputError(f'{flag}: "{text}" is not of the form KEY=VALUE')
        if key in found:
            raise InputError(f'{flag}: "{key}" is given twice')
        found[key] = value
    return found


def _head_resources(texts: Iterable[str]) -> dict[str, Any]:
    """Nested as the option has it, of JSON objects and of single quantities."""
    found: dict[str, Any] = {}
    for text in texts:
        if text.lstrip().startswith("{"):
            _merge(found, _json(text))
            continue
        path, sign, quantity = text.partition("=")
        component, list_of, resource = (*path.split(".", 2), "", "")[:3]
        if not sign or not resource or list_of not in _LISTS:
            example = "proxy.limits.memory=50G"
            raise InputError(
                f'--head-resources: "{text}" is not of the form {_RESOURCE}',
                hint=f"components: {', '.join(COMPONENTS)}; requests or limits: {example}",
            )
        _merge(found, {component: {list_of: {resource: quantity}}})
    for component in found:
        if component not in COMPONENTS:
            raise InputError(f'--head-resources: "{component}" is no component, known: {", ".join(COMPONENTS)}')
    return found


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--head-resources: this is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError("--head-resources: must be a JSON object")
    return value


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what is more, object by object; a later value wins over an earlier one."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


Flag = tuple[str, Callable[[Any], Any]]
"""Name without the dashes, and the option of click."""
SHELLS: Final = ("bash", "sh", "none")
GANG_MODES: Final = ("Off", "Gang")
WORKER_MODES: Final = ("Off", "Gang", "ReplicatedGang")
"""Spelled out for ``--help``, which imports no types."""
_MOST_BYTES: Final = 2**20
"""Of a file with environment variables."""
_REPEATED: Final = " Can be repeated."


def complete_accelerators(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of TPU types."""
    from gangctl.cli.pathways.accelerators import complete_name  # noqa: PLC0415 -- only while completing

    return complete_name(ctx, param, incomplete)


def _text(name: str, metavar: str, about: str, **more: Any) -> Flag:
    return name, click.option(f"--{name}", metavar=metavar, help=about, **more)


def _several(name: str, metavar: str, about: str) -> Flag:
    return name, click.option(f"--{name}", multiple=True, metavar=metavar, help=about + _REPEATED)


def _number(name: str, about: str) -> Flag:
    return name, click.option(f"--{name}", type=int, metavar="NUMBER", help=about)


def _switch(name: str, about: str) -> Flag:
    return name, click.option(f"--{name}", is_flag=True, default=None, help=about)


def _either(name: str, about: str) -> Flag:
    """On, off, or what the profile does."""
    help_text = f"{about} Default: what the profile does."
    return name, click.option(f"--{name}/--no-{name}", default=None, help=help_text)


def _choice(name: str, words: tuple[str, ...], about: str) -> Flag:
    return name, click.option(f"--{name}", type=click.Choice(words), help=about)


_JOB_FLAGS: Final = (
    _text("workload", "NAME", "Name of the JobSet."),
    _text(
        "tpu-type",
        "TYPE",
        'TPUs of a slice: v5p-128, v5p-4x4x4, a machine type, a label of GKE. "gangctl pathways accelerators" lists '
        "them.",
        shell_complete=complete_accelerators,
    ),
    _text("topology", "AxBxC", "Topology of a slice, where the type says none."),
    _number("num-slices", "Slices. Default: 1."),
    _switch("colocate", "The head beside the workers, on a node with TPUs."),
    _switch("headless", "Without a container of the user's: a client connects from outside."),
    _text("command", "COMMAND", "A line, or a script, for the user's container."),
    _choice(
        "wrapper",
        SHELLS,
        "Shell that hands SIGTERM on to the command and waits for it: sh where the image has no bash, but setsid; none "
        "starts the words of the command without a shell. Default: bash.",
    ),
    _text("docker-image", "IMAGE", "Image of the user's container."),
    _text("docker-name", "NAME", "Name of the user's container. Default: jax-tpu."),
    _choice("docker-image-pull-policy", PULL_POLICIES, "For the user's container. Default: the API's."),
    _several(
        "docker-resources",
        "requests.NAME=QUANTITY",
        "Requests, and limits.NAME=QUANTITY, of the user's container; without a quantity there is none. Default: "
        "requests of 2 cpu and 8Gi, limits of 24 cpu and 100G.",
    ),
    _either("privileged", "Whether the user's container is privileged."),
    _either("mount-tmp", "Whether the user's container shares /tmp with its node."),
    _text("service-account", "NAME", "ServiceAccount of the head's pod."),
    _several("image-pull-secret", "NAME", "Secret by which the images of the head's pod are pulled."),
    _several("env", "NAME=VALUE", "Environment of the user's container; wins over --env-file and gangctl's own."),
    _text(
        "env-file",
        "FILE",
        "Environment of the user's container: on each line NAME=VALUE, or NAME for the value that it has here.",
    ),
    _switch("enable-debug-logs", "Verbose logs of TPU and TensorFlow in the user's container."),
    _text("pathways-gcs-location", "gs://BUCKET/DIR", "Directory for what Pathways writes; it must exist."),
    _text("pathways-version", "TAG", "Tag of the images of Pathways that are not named. Default: latest."),
    _text("server-image", "IMAGE", "Image of the resource manager."),
    _text("proxy-server-image", "IMAGE", "Image of the proxy."),
    _text("worker-image", "IMAGE", "Image of the workers."),
    _text(
        "colocated-python-sidecar-image", "IMAGE", "Adds a sidecar to the workers, which runs Python for the client."
    ),
    _text("custom-pathways-server-args", "ARGUMENTS", "More arguments of the resource manager, as in a shell."),
    _text("custom-pathways-proxy-server-args", "ARGUMENTS", "More arguments of the proxy, as in a shell."),
    _text("custom-pathways-worker-args", "ARGUMENTS", "More arguments of the workers, as in a shell."),
    _several("pathways-server-env", "NAME=VALUE", "Environment of the resource manager."),
    _several("pathways-proxy-server-env", "NAME=VALUE", "Environment of the proxy."),
    _several("pathways-worker-env", "NAME=VALUE", "Environment of the workers."),
    _several("colocated-python-sidecar-env", "NAME=VALUE", "Environment of the sidecar."),
    _switch("enable-metrics-collection", "Let Pathways collect metrics."),
    _text("priority", "NAME", "PriorityClass of head and workers; empty for none. Default: medium in profile xpk."),
    _number("max-restarts", "How often the JobSet is started again after a failure. Default: 0."),
    _number("elastic-slices", "Slices that may be missing. Default: 0."),
    _number("max-slice-restarts", "How often workers are started again with --elastic-slices. Default: 1."),
    _number(
        "termination-grace-period-seconds", "Between SIGTERM and SIGKILL, for a checkpoint. Default: the API's, 30."
    ),
    _text("queue", "NAME", "LocalQueue of Kueue; empty for none. Default: multislice-queue in profile xpk."),
    _several("label", "KEY=VALUE", "Label of the JobSet and its pods."),
    _several("annotation", "KEY=VALUE", "Annotation of the JobSet and the head's pod."),
    _choice(
        "gang-mode",
        GANG_MODES,
        "Gang for head and workers together, or none. Default: what suits the job, Off in profile xpk.",
    ),
    _choice("worker-mode", WORKER_MODES, "A gang of the workers: one for each slice, or one for all of them."),
    _several("node-selector", "KEY=VALUE", "Label of the workers' nodes."),
    _switch("spot", "Workers on spot VMs."),
    _switch("flex", "Workers on VMs that were queued for (flex-start)."),
    _text("reservation", "NAME", "Workers on VMs of this reservation."),
    _text("head-pool", "NAME", "Node pool of the head. Default: cpu-np in profile xpk."),
)
NAMES: Final = tuple(name.replace("-", "_") for name, _ in _JOB_FLAGS)


def job_flags(command: F) -> F:
    """One flag for each field of :class:`~gangctl.pathways.flags.texts.Flags` that is about the job itself."""
    for _, option in reversed(_JOB_FLAGS):
        command = option(command)
    return command


def made_flags(given: dict[str, Any], namespace: str | None) -> Flags:
    """What the command line says, with the text of its file; InputError where that cannot be read."""
    from gangctl.pathways.flags.texts import Flags  # noqa: PLC0415 -- --help does without

    if "env_file" in given:
        given = {**given, "env_file": _text_of(given["env_file"]), "local_environment": dict(os.environ)}
    return Flags(**given, namespace=namespace or "")


def _text_of(file: str) -> str:
    from gangctl.cli.inputs import reason  # noqa: PLC0415 -- --help does without

    try:
        with open(file, "rb") as opened:  # noqa: PTH123 -- bounded, whatever the file is
            content = opened.read(_MOST_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise InputError(f"--env-file {file}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--env-file {file}: this is no text in UTF-8") from error
    if len(content) > _MOST_BYTES:
        raise InputError(f"--env-file {file}: larger than {_MOST_BYTES} bytes")
    return text


PROFILES: Final = ("gang", "xpk")
"""Spelled out for the same reason as the choices."""


def source(command: F) -> F:
    """``-f``, ``-n``, the flags of a job, ``--profile``, and the choices among renderings."""
    command = job_flags(choices(command))
    command = click.option(
        "--profile",
        type=click.Choice(PROFILES),
        help="Whose conventions flags follow: gangctl's, or those of AI-Hypercomputer/xpk without a gang. "
        f"Default: {PROFILES[0]}.",
    )(command)
    command = options.namespace(command)
    return options.paths(
        *options.FILENAMES,
        about="Read PathwaysJobs from a file, from all *.yaml, *.yml and *.json below a directory, or from stdin (-). "
        "Can be repeated. Their annotations win over the flags that choose among renderings.",
    )(command)


def target(command: F) -> F:
    """``--kube`` and ``--no-gangs``: what the cluster can do that a rendering is for."""
    return click.option(
        "--no-gangs",
        is_flag=True,
        help="Render for a cluster without gangs: workers keep exclusive placement. Default: what the cluster of "
        "--kubeconfig or --context has, offline with gangs.",
    )(options.kubernetes(command))


def fail_on_warnings(command: F) -> F:
    """``--fail-on-warnings``."""
    return click.option("--fail-on-warnings", is_flag=True, help="Exit with 1 when there is a warning.")(command)


def wanted(flags: dict[str, Any]) -> Wanted:
    """What the flags of :func:`source` and :func:`target` ask for; UsageError where they exclude each other."""
    filenames, profile, namespace = (flags.pop(name) for name in ("filenames", "profile", "namespace"))
    chosen = take_options(flags)
    job = {name: value for name in NAMES if (value := flags.pop(name)) is not None and value != ()}
    given = [f"--{name.replace('_', '-')}" for name in job] + (["--profile"] if profile is not None else [])
    if filenames and given:
        raise click.UsageError(f"-f translates what files say: leave it out, or {', '.join(given)}")
    if not filenames and not job:
        raise click.UsageError("give PathwaysJobs with -f, or --workload and the other flags of a job")
    from gangctl.cli.pathways.subjects import Wanted, pathways_jobs  # noqa: PLC0415 -- --help does without
    from gangctl.pathways.result import Profile  # noqa: PLC0415

    documents = pathways_jobs(filenames) if filenames else ()
    described = None if filenames else made_flags(job, namespace)
    kube, gangs = flags.pop("kube"), not flags.pop("no_gangs")
    return Wanted(documents, described, namespace, chosen, Profile(profile or PROFILES[0]), kube, gangs)


def facts_of(
    cluster: options.ClusterFlags, *, namespaces: Iterable[str] | None = None, kueue_namespace: str = ""
) -> ClusterFacts | None:
    """What the cluster says, where one is named; its queues only where ``namespaces`` are."""
    if not cluster.given:
        return None
    from gangctl.cli.pathways.cluster import cluster_facts  # noqa: PLC0415 -- half a second that files do without

    return cluster_facts(cluster, namespaces=namespaces, kueue_namespace=kueue_namespace)

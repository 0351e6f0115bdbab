"""The flags that describe a job in place of a file: those of XPK where XPK has one, by its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gangctl.cli.pathways.completing import complete_accelerators
from gangctl.errors import InputError

if TYPE_CHECKING:
    from gangctl.pathways.flags.commandline import Flags

F = TypeVar("F", bound=Callable[..., Any])
Flag = tuple[str, Callable[[Any], Any]]
"""Name without the dashes, and the option of click."""

SHELLS: Final = ("bash", "sh", "none")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
GANG_MODES: Final = ("Off", "Gang")
WORKER_MODES: Final = ("Off", "Gang", "ReplicatedGang")
"""Spelled out for ``--help``, which imports no types."""

_MOST_BYTES: Final = 2**20
"""Of a file with environment variables."""
_REPEATED: Final = " Can be repeated."


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


_FLAGS: Final = (
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

NAMES: Final = tuple(name.replace("-", "_") for name, _ in _FLAGS)


def job_flags(command: F) -> F:
    """One flag for each field of :class:`~gangctl.pathways.flags.commandline.Flags` that is about the job itself."""
    for _, option in reversed(_FLAGS):
        command = option(command)
    return command


def take_job_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """Those that were given, taken out of the flags of a command."""
    taken = {name: flags.pop(name) for name in NAMES}
    return {name: value for name, value in taken.items() if value is not None and value != ()}


def made_flags(given: dict[str, Any], namespace: str | None) -> Flags:
    """What the command line says, with the text of its file; InputError where that cannot be read."""
    from gangctl.pathways.flags.commandline import Flags  # noqa: PLC0415 -- --help does without

    if "env_file" in given:
        given = {**given, "env_file": _text_of(given["env_file"]), "local_environment": dict(os.environ)}
    return Flags(**given, namespace=namespace or "")


def _text_of(file: str) -> str:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 -- bounded, whatever the file is
            content = opened.read(_MOST_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise InputError(f"--env-file {file}: {(error.strerror or type(error).__name__).lower()}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--env-file {file}: this is no text in UTF-8") from error
    if len(content) > _MOST_BYTES:
        raise InputError(f"--env-file {file}: larger than {_MOST_BYTES} bytes")
    return text

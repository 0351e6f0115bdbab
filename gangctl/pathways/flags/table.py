"""The flags of ``gangctl pathways``: type, field of a PathwaysJob, and help of each, in one row.

Those of a job are the fields of :class:`Flags`; most have the names of ``xpk workload create-pathways``
(AI-Hypercomputer/xpk 1.13). :data:`CHOICES` are the entries of :class:`~gangctl.pathways.options.PathwaysOptions`.
``--help`` reads the rows, so that they have words in place of types, whose import takes a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from gangctl.pathways.words import GANG_MODE_PATH, POD, TEMPLATE, WORKER_MODE_PATH, WORKERS

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
SHELLS: Final = ("bash", "sh", "none")
GANG_MODES: Final = ("Off", "Gang")
WORKER_MODES: Final = ("Off", "Gang", "ReplicatedGang")
STARTUPS: Final = ("InOrder", "DependsOn", "AnyOrder")
SLICINGS: Final = ("None", "Sub", "Super", "Dynamic")
RESOURCE: Final = "COMPONENT.requests.NAME=QUANTITY"
CONTAINER: Final = f"{POD}.containers[0]"

_T = TypeVar("_T")
_CONTROLLER: Final = "spec.controller"
_PROFILED: Final = " Default: what the profile does."


@dataclass(frozen=True, slots=True)
class Flag:
    """One row; the ``default`` says what kind of flag it is: ``()`` can be repeated, False is a switch."""

    default: object
    value: str | tuple[str, ...]
    """Name of the value, or all values; ``NUMBER`` is an integer. Empty with default None is ``--x/--no-x``."""
    about: str
    path: str = ""
    """The field of a PathwaysJob that it stands for, where no other flag does."""
    least: int | None = None
    """Minimum of an integer that the API's fields for seconds must hold."""

    @property
    def of_container(self) -> bool:
        """Whether it has no effect without a container of the user's."""
        return self.path.startswith(POD)


def _flag(default: _T, value: str | tuple[str, ...], about: str, path: str = "") -> _T:
    return field(default=default, metadata={"row": Flag(default, value, about, path)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags, each under its own name with ``_`` for ``-``; None, or empty, is one that was not given."""

    namespace: str = ""
    workload: str = _flag("", "NAME", "Name of the JobSet.", "metadata.name")
    tpu_type: str = _flag(
        "",
        "TYPE",
        'TPUs of a slice: v5p-128, v5p-4x4x4, a machine type, a label of GKE. "gangctl pathways accelerators" lists '
        "them.",
        f"{WORKERS}.type",
    )
    topology: str = _flag("", "AxBxC", "Topology of a slice, where the type says none.")
    num_slices: int | None = _flag(None, "NUMBER", "Slices. Default: 1.", f"{WORKERS}.numSlices")
    colocate: bool = _flag(
        False, "", "The head beside the workers, on a node with TPUs.", f"{_CONTROLLER}.deploymentMode"
    )
    headless: bool = _flag(False, "", "Without a container of the user's: a client connects from outside.", TEMPLATE)
    command: str = _flag("", "COMMAND", "A line, or a script, for the user's container.", f"{CONTAINER}.command")
    wrapper: str = _flag(
        "bash",
        SHELLS,
        "Shell that forwards SIGTERM to the command and waits for it: sh where the image has no bash, but setsid; none "
        "starts the words of the command without a shell. Default: bash.",
    )
    docker_image: str = _flag("", "IMAGE", "Image of the user's container.", f"{CONTAINER}.image")
    docker_name: str = _flag("", "NAME", "Name of the user's container. Default: jax-tpu.", f"{CONTAINER}.name")
    docker_image_pull_policy: str = _flag(
        "", PULL_POLICIES, "For the user's container. Default: the API's.", f"{CONTAINER}.imagePullPolicy"
    )
    docker_resources: tuple[str, ...] = _flag(
        (),
        "requests.NAME=QUANTITY",
        "Requests, and limits.NAME=QUANTITY, of the user's container; without a quantity there is none. Default: "
        "requests of 2 cpu and 8Gi, limits of 24 cpu and 100G.",
        f"{CONTAINER}.resources",
    )
    privileged: bool | None = _flag(
        None, "", f"Whether the user's container is privileged.{_PROFILED}", f"{CONTAINER}.securityContext"
    )
    mount_tmp: bool | None = _flag(
        None, "", f"Whether the user's container shares /tmp with its node.{_PROFILED}", f"{CONTAINER}.volumeMounts"
    )
    service_account: str = _flag("", "NAME", "ServiceAccount of the head's pod.", f"{POD}.serviceAccountName")
    image_pull_secret: tuple[str, ...] = _flag(
        (), "NAME", "Secret by which the images of the head's pod are pulled.", f"{POD}.imagePullSecrets"
    )
    env: tuple[str, ...] = _flag(
        (),
        "NAME=VALUE",
        "Environment of the user's container; wins over --env-file and gangctl's own.",
        f"{CONTAINER}.env",
    )
    env_file: str = _flag(
        "",
        "FILE",
        "Environment of the user's container: on each line NAME=VALUE, or NAME for the value that it has here.",
        f"{CONTAINER}.env",
    )
    """Here the text of the file."""
    local_environment: Mapping[str, str] = field(default_factory=dict)
    """No flag: where a ``NAME`` alone in ``env_file`` gets its value."""
    enable_debug_logs: bool = _flag(
        False, "", "Verbose logs of TPU and TensorFlow in the user's container.", f"{CONTAINER}.env"
    )
    pathways_gcs_location: str = _flag(
        "", "gs://BUCKET/DIR", "Directory for what Pathways writes; it must exist.", "spec.pathwaysDir"
    )
    pathways_version: str = _flag(
        "", "TAG", "Tag of the images of Pathways that are not named. Default: latest.", "spec.pathwaysVersion"
    )
    server_image: str = _flag("", "IMAGE", "Image of the resource manager.")
    proxy_server_image: str = _flag("", "IMAGE", "Image of the proxy.")
    worker_image: str = _flag("", "IMAGE", "Image of the workers.")
    colocated_python_sidecar_image: str = _flag(
        "", "IMAGE", "Adds a sidecar to the workers, which runs Python for the client."
    )
    custom_pathways_server_args: str = _flag("", "ARGUMENTS", "More arguments of the resource manager, as in a shell.")
    custom_pathways_proxy_server_args: str = _flag("", "ARGUMENTS", "More arguments of the proxy, as in a shell.")
    custom_pathways_worker_args: str = _flag("", "ARGUMENTS", "More arguments of the workers, as in a shell.")
    pathways_server_env: tuple[str, ...] = _flag((), "NAME=VALUE", "Environment of the resource manager.")
    pathways_proxy_server_env: tuple[str, ...] = _flag((), "NAME=VALUE", "Environment of the proxy.")
    pathways_worker_env: tuple[str, ...] = _flag((), "NAME=VALUE", "Environment of the workers.")
    colocated_python_sidecar_env: tuple[str, ...] = _flag((), "NAME=VALUE", "Environment of the sidecar.")
    enable_metrics_collection: bool = _flag(
        False, "", "Let Pathways collect metrics.", f"{_CONTROLLER}.enableMetricsCollection"
    )
    priority: str | None = _flag(
        None, "NAME", "PriorityClass of head and workers; empty for none. Default: medium in profile xpk."
    )
    max_restarts: int | None = _flag(
        None, "NUMBER", "How often the JobSet is started again after a failure. Default: 0.", "spec.maxRestarts"
    )
    elastic_slices: int | None = _flag(
        None, "NUMBER", "Slices that may be missing. Default: 0.", f"{_CONTROLLER}.elasticSlices"
    )
    max_slice_restarts: int | None = _flag(
        None,
        "NUMBER",
        "How often workers are started again with --elastic-slices. Default: 1.",
        f"{WORKERS}.maxSliceRestarts",
    )
    termination_grace_period_seconds: int | None = _flag(
        None, "NUMBER", "Between SIGTERM and SIGKILL, for a checkpoint. Default: the API's, 30."
    )
    queue: str | None = _flag(
        None, "NAME", "LocalQueue of Kueue; empty for none. Default: multislice-queue in profile xpk."
    )
    label: tuple[str, ...] = _flag((), "KEY=VALUE", "Label of the JobSet and its pods.", "metadata.labels")
    annotation: tuple[str, ...] = _flag(
        (), "KEY=VALUE", "Annotation of the JobSet and the head's pod.", "metadata.annotations"
    )
    gang_mode: str = _flag(
        "",
        GANG_MODES,
        "Gang for head and workers together, or none. Default: what suits the job, Off in profile xpk.",
        GANG_MODE_PATH,
    )
    worker_mode: str = _flag(
        "", WORKER_MODES, "A gang of the workers: one for each slice, or one for all of them.", WORKER_MODE_PATH
    )
    node_selector: tuple[str, ...] = _flag((), "KEY=VALUE", "Label of the workers' nodes.", f"{WORKERS}.nodeSelector")
    spot: bool = _flag(False, "", "Workers on spot VMs.")
    flex: bool = _flag(False, "", "Workers on VMs that were queued for (flex-start).")
    reservation: str = _flag("", "NAME", "Workers on VMs of this reservation.")
    head_pool: str = _flag("", "NAME", "Node pool of the head. Default: cpu-np in profile xpk.")


JOB_FLAGS: Final[Mapping[str, Flag]] = {
    flag.name: flag.metadata["row"] for flag in fields(Flags) if "row" in flag.metadata
}
CHOICES: Final[Mapping[str, Flag]] = {
    "image_registry": Flag(None, "REGISTRY", "Where the images of Pathways are pulled from."),
    "image_pull_policy": Flag(
        None, PULL_POLICIES, "imagePullPolicy of the containers that gangctl adds. Default: the API's."
    ),
    "startup": Flag(None, STARTUPS, "Order in which head and workers are created."),
    "slicing": Flag(None, SLICINGS, "How the cluster gets its slices."),
    "subdomain": Flag(
        None,
        "NAME|auto",
        'Subdomain of the pods\' addresses, which allows longer names; "auto" makes a short one where needed.',
    ),
    "head_node_selector": Flag(
        (), "KEY=VALUE", "Node label for the head where its template does not choose nodes itself."
    ),
    "head_resources": Flag(
        (),
        f"{RESOURCE}|JSON",
        "Requests and limits of the resource manager and the proxy, such as proxy.limits.memory=50G; a request "
        "that is left out is the limit.",
    ),
    "unreachable_timeout_seconds": Flag(
        None, "SECONDS", "After how long Pathways gives up a peer that does not answer.", least=1
    ),
    "ttl_seconds_after_finished": Flag(
        None, "SECONDS", "After how long a finished JobSet is deleted. Default: never.", least=0
    ),
    "shared_tmp": Flag(None, "", "Whether workers share /tmp with their node."),
    "drop_metadata": Flag((), "PREFIX", "Beginning of labels and annotations that stay on the PathwaysJob."),
}


def kebab(name: str) -> str:
    """The flag of a row by its name."""
    return f"--{name.replace('_', '-')}"

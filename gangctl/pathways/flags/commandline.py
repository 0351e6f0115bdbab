"""Flags of a PathwaysJob on a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags, each under its own name with ``_`` for ``-``; None, or empty, is one that was not given.

    Most are those of ``xpk workload create-pathways`` (AI-Hypercomputer/xpk 1.13). A flag that can be repeated is a
    tuple with one text for each time.
    """

    workload: str = ""
    """Name of the JobSet; required."""
    namespace: str = ""
    tpu_type: str = ""
    """Device type (``v5p-128``), machine type, node label, family or key of Pathways; required."""
    topology: str = ""
    """``2x2x4``; required where ``--tpu-type`` does not say one."""
    num_slices: int | None = None
    """Default 1."""
    colocate: bool = False
    """The head runs beside the workers, on a node with TPUs, in place of a node of its own."""
    headless: bool = False
    """No container of the user's: a client connects from outside."""
    command: str = ""
    """A line, or a script, for the shell of ``--wrapper``; required unless ``--headless``."""
    wrapper: str = "bash"
    """Which shell hands SIGTERM to the command and waits for what it does then: ``bash``; ``sh``, which needs setsid in
    the image; or ``none``: the words of the command are started as they are, without any shell."""
    docker_image: str = ""
    """Image of the user's container; required unless ``--headless``."""
    docker_name: str = ""
    """Name of the user's container. Default ``jax-tpu``."""
    docker_image_pull_policy: str = ""
    """``Always``, ``IfNotPresent`` or ``Never`` for the user's container. Default: the API's."""
    docker_resources: tuple[str, ...] = ()
    """``requests.NAME=QUANTITY`` or ``limits.NAME=QUANTITY`` of the user's container, in place of 2 CPUs and 8Gi
    requested and a limit of 24 CPUs and 100G; without a quantity there is none of it."""
    privileged: bool | None = None
    """Whether the user's container is privileged. Default: in profile xpk."""
    mount_tmp: bool | None = None
    """Whether the user's container shares /tmp with its node. Default: in profile xpk."""
    service_account: str = ""
    """ServiceAccount of the head."""
    image_pull_secret: tuple[str, ...] = ()
    """Names of Secrets by which the head's images are pulled."""
    env: tuple[str, ...] = ()
    """``NAME=VALUE`` in the user's container; wins over everything that gangctl sets, and over ``--env-file``."""
    env_file: str = ""
    """Text of a file with a ``NAME=VALUE``, or a ``NAME`` for the local value, on each line."""
    local_environment: Mapping[str, str] = field(default_factory=dict)
    """No flag: where a ``NAME`` alone in ``env_file`` gets its value."""
    enable_debug_logs: bool = False
    """Verbose logs of TPU and TensorFlow in the user's container."""
    enable_metrics_collection: bool = False
    """``--enable_metrics_collection`` of resource manager, proxy and workers."""
    pathways_gcs_location: str = ""
    """Directory in Google Cloud Storage, ``gs://BUCKET/DIRECTORY``; required."""
    pathways_version: str = ""
    """Tag of the images of Pathways. Default ``latest``."""
    server_image: str = ""
    """Image of the resource manager, and in profile xpk of workers without an image of their own."""
    proxy_server_image: str = ""
    worker_image: str = ""
    colocated_python_sidecar_image: str = ""
    """Image of a container beside each worker that runs Python for the client."""
    custom_pathways_server_args: str = ""
    """Arguments for the resource manager after its own, in words as a shell parts them."""
    custom_pathways_proxy_server_args: str = ""
    custom_pathways_worker_args: str = ""
    pathways_server_env: tuple[str, ...] = ()
    """``NAME=VALUE`` for the resource manager."""
    pathways_proxy_server_env: tuple[str, ...] = ()
    pathways_worker_env: tuple[str, ...] = ()
    colocated_python_sidecar_env: tuple[str, ...] = ()
    priority: str | None = None
    """PriorityClass of head and workers, empty for none. Default: ``medium`` in profile xpk."""
    max_restarts: int | None = None
    """How often the JobSet is started again after a failure. Default 0."""
    elastic_slices: int | None = None
    """Slices that may be missing, fewer than ``--num-slices``. Default 0."""
    max_slice_restarts: int | None = None
    """How often the workers of a slice are started again with ``--elastic-slices``. Default 1."""
    termination_grace_period_seconds: int | None = None
    """Time between SIGTERM and SIGKILL for head and workers. Default: the API's, 30, written down in profile xpk."""
    queue: str | None = None
    """LocalQueue of Kueue, empty for none. Default: ``multislice-queue`` in profile xpk."""
    label: tuple[str, ...] = ()
    """``KEY=VALUE`` on the JobSet and its pods."""
    annotation: tuple[str, ...] = ()
    """``KEY=VALUE`` on the JobSet and the head's pod; options of gangs, too."""
    gang_mode: str = ""
    """``Gang`` for head and workers together, or ``Off``. Default: what suits the job, ``Off`` in profile xpk."""
    worker_mode: str = ""
    """``ReplicatedGang``, a gang for each slice, ``Gang`` for one of all, or ``Off``."""
    node_selector: tuple[str, ...] = ()
    """``KEY=VALUE``, label of the workers' nodes."""
    spot: bool = False
    """Workers run on spot VMs."""
    flex: bool = False
    """Workers run on VMs that were queued for (flex-start)."""
    reservation: str = ""
    """Workers run on VMs of this reservation."""
    head_pool: str = ""
    """Node pool of the head. Default: ``cpu-np`` in profile xpk."""

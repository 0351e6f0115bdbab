"""The containers that gangctl adds: resource manager, proxy, worker, its sidecar; their images and requests.

A custom image is used unchanged. The others come from one registry in one version: ``pathwaysVersion``, or
``latest`` by default. The resource manager and the workers are the same program; still, a worker without an image of
its own runs the ordinary server image and not the resource manager's custom one, as it does with the upstream
controller. XPK gives it the resource manager's, and so does its profile.

Resource manager and proxy are large, and a head that fits no node starts no slice. So the sizes are written as
requests, not only as limits, they can be chosen (``headResources``), and their sum is reported. Sizes are in units
of 1000 (``G``) as XPK's are: those of 1024 exceed a quota that was made for them.

Arguments are in the order of the upstream controller: required ones, enabled features, custom flags unchanged, one
argument each. In Pathways later flags win, so custom ones do. The environment follows
:mod:`gangctl.pathways.rendering.environment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from gangctl.api.meta import JOB_INDEX, JOBSET_NAME, REPLICATED_JOB_NAME
from gangctl.api.quantity import parse_quantity
from gangctl.api.requests import as_integers, pod_requests
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways import words
from gangctl.pathways.job import ComponentChanges, ComponentType, PathwaysJob
from gangctl.pathways.options import Quantities, Resources
from gangctl.pathways.rendering import environment
from gangctl.pathways.result import From, Origin, OriginKind, Profile, RenderingInputs, option, rule

VERSION_PATH: Final = "spec.pathwaysVersion"
_FLOATING: Final = "latest"


def images(job: PathwaysJob, setting: RenderingInputs) -> Mapping[str, From]:
    """Images by name of the container, of every container that gangctl adds; the sidecar only if it has one."""
    server = job.components.get(ComponentType.SERVER)
    worker = job.components.get(ComponentType.WORKER)
    if setting.profile is Profile.XPK and not (worker and worker.image):
        worker = server
    sidecar = job.components.get(ComponentType.SIDECAR)
    chosen = {
        words.RESOURCE_MANAGER_CONTAINER: _image(job, server, words.SERVER_IMAGE),
        words.PROXY_CONTAINER: _image(job, job.components.get(ComponentType.PROXY), words.PROXY_IMAGE),
        words.WORKER_CONTAINER: _image(job, worker, words.SERVER_IMAGE),
    }
    return chosen | ({words.SIDECAR_CONTAINER: _custom(job, sidecar)} if sidecar and sidecar.image else {})


def floating(job: PathwaysJob, setting: RenderingInputs) -> tuple[Notice, ...]:
    """One notice that names every container whose image may be another one after a restart."""
    names = []
    for container, image in images(job, setting).items():
        name, _, digest = image.value.partition("@")
        # A colon before the last slash is that of a port.
        _, _, tag = name.rpartition("/")[2].partition(":")
        if not digest and tag in {"", _FLOATING}:
            names.append(container)
    if not names:
        return ()
    message = (
        f"the image may change from one restart to the next, it has no version: {', '.join(names)}; "
        f"set {job.origin(VERSION_PATH).place} or an image with a tag or digest"
    )
    return (Notice(Reason.FLOATING_IMAGE, message),)


def _image(job: PathwaysJob, component: ComponentChanges | None, name: str) -> From:
    if component is not None and component.image:
        return _custom(job, component)
    registry = (job.options.image_registry or words.DEFAULT_REGISTRY).rstrip("/")
    image = f"{registry}/{name}:{job.pathways_version or _FLOATING}"
    origin = job.origin(VERSION_PATH)
    if job.pathways_version:
        return From(image, replace(origin, why=f"from {registry}"))
    return From(image, Origin(OriginKind.DEFAULT, origin.place, f"from {registry}, no version asked for"))


def _custom(job: PathwaysJob, component: ComponentChanges) -> From:
    return From(component.image, job.origin(f"{component.path}.image"))


RESOURCE_MANAGER_SIZE: Final[Mapping[str, str]] = {"cpu": "8", "memory": "32G"}
PROXY_SIZE: Final[Mapping[str, str]] = {"cpu": "16", "memory": "100G"}


def resource_manager_resources(job: PathwaysJob) -> dict[str, Any]:
    """Requests and limits of the resource manager."""
    head = job.options.head_resources
    return _resources(RESOURCE_MANAGER_SIZE, head.resource_manager if head else None, "headResources.resourceManager")


def proxy_resources(job: PathwaysJob) -> dict[str, Any]:
    """Requests and limits of the proxy."""
    head = job.options.head_resources
    return _resources(PROXY_SIZE, head.proxy if head else None, "headResources.proxy")


def head_requests(pod_spec: Mapping[str, Any]) -> dict[str, int]:
    """Requests of the head's pod: milli-CPU, bytes, counts."""
    requests, _ = pod_requests(pod_spec)
    return as_integers(requests)


def _resources(usual: Mapping[str, str], chosen: Resources | None, place: str) -> dict[str, Any]:
    """The default size with the chosen values; a default limit grows to the chosen request."""
    asked = _chosen(chosen.requests if chosen else None, f"{place}.requests")
    limited = _chosen(chosen.limits if chosen else None, f"{place}.limits")
    limits = {name: _at_least(amount, asked.get(name)) for name, amount in usual.items()} | limited
    why = "as much as the limit, said explicitly"
    requests = {name: From(limit.value, replace(limit.origin, why=why)) for name, limit in limits.items()} | asked
    return {"requests": requests, "limits": limits}


def _chosen(amounts: Quantities | None, place: str) -> dict[str, From]:
    return {name: option(amount, f"{place}.{name}") for name, amount in (amounts or {}).items()}


def _at_least(usual: str, asked: From | None) -> From:
    if asked is None or _amount(asked.value) <= _amount(usual):
        return rule(usual, "the size that Pathways is run with")
    return From(asked.value, replace(asked.origin, why="no limit below the request"))


def _amount(quantity: str | int) -> Fraction:
    return parse_quantity(quantity) if isinstance(quantity, str) else Fraction(quantity)


Tree = dict[str, Any]

SHARED_TMP: Final = "shared-tmp"
"""Name of the workers' volume that is /tmp of their node."""
TMP_VOLUME: Final = {"name": SHARED_TMP, "hostPath": {"path": "/tmp", "type": "DirectoryOrCreate"}}  # noqa: S108 -- the node's
TMP_MOUNT: Final = {"name": SHARED_TMP, "mountPath": "/tmp"}  # noqa: S108 -- the node's, shared on purpose

_COMPONENTS: Final = {
    words.RESOURCE_MANAGER_CONTAINER: ComponentType.SERVER,
    words.PROXY_CONTAINER: ComponentType.PROXY,
    words.WORKER_CONTAINER: ComponentType.WORKER,
    words.SIDECAR_CONTAINER: ComponentType.SIDECAR,
}
_ELASTIC_FLAG: Final = "num_elastic_slices"


def resource_manager(job: PathwaysJob, setting: RenderingInputs) -> Tree:
    """Serves the list of slices; a native sidecar of the head, or a plain container without a user pod."""
    arguments = [
        _argument("server_port", words.RESOURCE_MANAGER_PORT, "where proxy and workers look for it"),
        _scratch(job),
        _argument("node_type", "resource_manager", "its part"),
        From(f"--instance_count={job.slices}", job.origin("spec.workers[0].numSlices")),
        From(f"--instance_type={job.slice.instance_type}", _table(job, "what Pathways calls the slice")),
        *_metrics(job),
        *_flags(job, words.RESOURCE_MANAGER_CONTAINER),
    ]
    return {
        **_start(job, setting, words.RESOURCE_MANAGER_CONTAINER, native=not job.headless),
        "args": arguments,
        **_environment(job, setting, words.RESOURCE_MANAGER_CONTAINER),
        "ports": _ports(words.HEAD_PORTS[1:]),
        "resources": resource_manager_resources(job),
    }


def proxy(job: PathwaysJob, setting: RenderingInputs) -> Tree:
    """Where the client connects to; a native sidecar of the head, or a plain container without a user pod."""
    arguments = [
        _argument("server_port", words.PROXY_PORT, "where clients look for it"),
        _resource_manager_address(),
        _scratch(job),
        *_metrics(job),
        *_proxy_flags(job, setting),
    ]
    return {
        **_start(job, setting, words.PROXY_CONTAINER, native=not job.headless),
        "args": arguments,
        **_environment(job, setting, words.PROXY_CONTAINER),
        "ports": _ports((words.PROXY_PORT,)),
        "resources": proxy_resources(job),
    }


def worker(job: PathwaysJob, setting: RenderingInputs) -> Tree:
    """Runs on every VM of a slice, with all of its chips.

    It has no other requests, so that a queue needs no quota of CPU and memory for its exclusive nodes.
    """
    arguments = [
        _argument("server_port", words.WORKER_PORTS[0], "where the others look for it"),
        _resource_manager_address(),
        _scratch(job),
        *_metrics(job),
        *_flags(job, words.WORKER_CONTAINER),
    ]
    chips = From(str(job.slice.accelerator.chips_per_vm), _table(job, "chips of one VM"))
    return {
        **_start(job, setting, words.WORKER_CONTAINER, native=False),
        "args": arguments,
        **_environment(job, setting, words.WORKER_CONTAINER),
        "ports": _ports(words.WORKER_PORTS),
        "resources": {"limits": {words.TPU: chips}},
        **_mounts(job),
    }


def sidecar(job: PathwaysJob, setting: RenderingInputs) -> Tree:
    """Runs the client's Python beside the worker; only if :func:`has_sidecar`."""
    flags = _flags(job, words.SIDECAR_CONTAINER)
    return {
        **_start(job, setting, words.SIDECAR_CONTAINER, native=True),
        **({"args": list(flags)} if flags else {}),
        **_environment(job, setting, words.SIDECAR_CONTAINER),
        "ports": _ports((words.SIDECAR_PORT,)),
        **_mounts(job),
    }


def has_sidecar(job: PathwaysJob) -> bool:
    """Whether the workers get a sidecar: it has no default image, so the user has to set one."""
    component = job.components.get(ComponentType.SIDECAR)
    return component is not None and bool(component.image)


def component_notices(job: PathwaysJob, setting: RenderingInputs) -> tuple[Notice, ...]:
    """Notices about the containers that gangctl adds."""
    environments = (_composed(job, setting, container) for container in images(job, setting))
    return (
        *floating(job, setting),
        *(notice for variables in environments for notice in variables.notices),
        *_dropped_flags(job),
    )


def _start(job: PathwaysJob, setting: RenderingInputs, container: str, *, native: bool) -> Tree:
    """The fields that every container begins with; ``native`` for a sidecar that starts before the others."""
    start: Tree = {
        "name": rule(container, "the name that Pathways is known by"),
        "image": images(job, setting)[container],
    }
    if job.options.image_pull_policy is not None:
        start["imagePullPolicy"] = option(job.options.image_pull_policy, "imagePullPolicy")
    if native:
        start["restartPolicy"] = rule("Always", "a native sidecar: it starts before the others and outlives them")
    return start


def _argument(name: str, value: object, why: str) -> From:
    return rule(f"--{name}={value}", why)


def _resource_manager_address() -> From:
    address = f"{environment.HEAD_ADDRESS}:{words.RESOURCE_MANAGER_PORT}"
    return _argument("resource_manager_address", address, "the resource manager runs in the head")


def _scratch(job: PathwaysJob) -> From:
    return From(f"--gcs_scratch_location={job.pathways_dir}", job.origin("spec.pathwaysDir"))


def _table(job: PathwaysJob, why: str) -> Origin:
    return Origin(OriginKind.TABLE, job.slice.accelerator.machine_type, why)


def _metrics(job: PathwaysJob) -> Iterable[From]:
    if job.metrics:
        yield From("--enable_metrics_collection=true", job.origin("spec.controller.enableMetricsCollection"))


def _flags(job: PathwaysJob, container: str) -> tuple[From, ...]:
    component = job.components.get(_COMPONENTS[container])
    if component is None:
        return ()
    path = f"{component.path}.customFlags"
    return tuple(From(flag, job.origin(f"{path}[{index}]")) for index, flag in enumerate(component.flags))


def _proxy_flags(job: PathwaysJob, setting: RenderingInputs) -> tuple[From, ...]:
    """Custom flags and the number of elastic slices, which is set once: upstream it is last, and wins."""
    custom = _flags(job, words.PROXY_CONTAINER)
    if not job.elastic_slices:
        return custom
    elastic = From(f"--{_ELASTIC_FLAG}={job.elastic_slices}", job.origin("spec.controller.elasticSlices"))
    others = tuple(argument for argument in custom if not _is_elastic(argument.value))
    return (elastic, *others) if setting.profile is Profile.XPK else (*others, elastic)


def _is_elastic(flag: str) -> bool:
    # Flags of Abseil begin with one dash or with two.
    return flag.lstrip("-").startswith(f"{_ELASTIC_FLAG}=")


def _dropped_flags(job: PathwaysJob) -> tuple[Notice, ...]:
    flags = [
        flag.value for flag in _flags(job, words.PROXY_CONTAINER) if job.elastic_slices and _is_elastic(flag.value)
    ]
    if not flags:
        return ()
    message = (
        f"container {words.PROXY_CONTAINER}: elasticSlices is {job.elastic_slices}, {', '.join(flags)} is left out"
    )
    return (Notice(Reason.NO_EFFECT, message),)


def _environment(job: PathwaysJob, setting: RenderingInputs, container: str) -> Tree:
    return {"env": list(_composed(job, setting, container).variables)}


def _composed(job: PathwaysJob, setting: RenderingInputs, container: str) -> environment.ContainerEnv:
    defaults = _DEFAULTS[container]
    if container == words.SIDECAR_CONTAINER and setting.profile is Profile.XPK:
        defaults = (*defaults, environment.constant("PYTHONUNBUFFERED", "1", "as XPK has it"))
    return environment.component_environment(job, container, defaults, job.components.get(_COMPONENTS[container]))


def _ports(numbers: Iterable[int]) -> list[Tree]:
    return [
        {"containerPort": rule(number, "a port of Pathways"), "protocol": rule("TCP", "gRPC")} for number in numbers
    ]


def _mounts(job: PathwaysJob) -> Tree:
    if job.options.shared_tmp is False:
        return {}
    return {"volumeMounts": [rule(TMP_MOUNT, "worker and sidecar meet in the node's /tmp")]}


_REPLICATED_JOB: Final = environment.from_annotation(
    "REPLICATED_JOB_NAME", REPLICATED_JOB_NAME, "name of its ReplicatedJob"
)
_JOBSET: Final = environment.from_annotation("JOBSET_NAME", JOBSET_NAME, "name of the JobSet")

_DEFAULTS: Final = {
    words.RESOURCE_MANAGER_CONTAINER: (
        _REPLICATED_JOB,
        _JOBSET,
        environment.from_label("HOST_ADDRESS", words.COORDINATOR, "its own address"),
        environment.constant("TPU_SKIP_MDS_QUERY", "true", "the head's node has no TPU to ask for"),
    ),
    words.PROXY_CONTAINER: (environment.head_address(),),
    words.WORKER_CONTAINER: (
        environment.constant("TPU_MIN_LOG_LEVEL", "0", "everything is logged"),
        environment.constant("TF_CPP_MIN_LOG_LEVEL", "0", "everything is logged"),
        environment.constant("XCLOUD_ENVIRONMENT", "GCP", "Pathways runs on Google Cloud"),
        environment.constant("MEGASCALE_GRPC_ENABLE_XOR_TRACER", "false", "as Pathways is run"),
        environment.from_label("MEGASCALE_NUM_SLICES", words.REPLICATED_JOB_REPLICAS, "one replica is one slice"),
        _JOBSET,
        _REPLICATED_JOB,
        environment.from_label("MEGASCALE_SLICE_ID", JOB_INDEX, "one Job is one slice"),
        environment.head_address(),
        environment.from_label("MEGASCALE_COORDINATOR_ADDRESS", words.COORDINATOR, "address of the head"),
    ),
    words.SIDECAR_CONTAINER: (
        environment.constant(
            "GRPC_SERVER_ADDRESS", f"0.0.0.0:{words.SIDECAR_PORT}", "the worker connects from its own network"
        ),
    ),
}

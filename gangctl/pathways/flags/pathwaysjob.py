"""A PathwaysJob in the flags of a command line.

The flags become a PathwaysJob whose values have their flags as origins, so that problems are reported at flags.
The options of rendering are flags, too, but are read separately
(:mod:`gangctl.pathways.options`).
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Final

from pydantic.alias_generators import to_camel

from gangctl.api.meta import GANG_MODE, GANGS, QUEUE_NAME
from gangctl.errors import ErrorKind, shown
from gangctl.gang.config import GangMode
from gangctl.gang.reasons import Notice
from gangctl.pathways.accelerators import Slice, find, normalized, slice_of
from gangctl.pathways.checks import check, check_without_slice
from gangctl.pathways.flags.table import JOB_FLAGS, Flags, kebab
from gangctl.pathways.flags.userpod import OF_XPK, FlagTexts, build_pod, flag_origin, origin_of
from gangctl.pathways.job import DEFAULT_SLICE_RESTARTS, ComponentChanges, ComponentType, DeploymentMode, PathwaysJob
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.problems import MOST_PROBLEMS, InvalidReason, Problem, RefusedValueError
from gangctl.pathways.reading import ANY_SLICE, Reading, read_modes
from gangctl.pathways.result import Profile
from gangctl.pathways.words import GANG_MODE_PATH, GKE_NODEPOOL, OPTIONS, WORKER_MODE, WORKERS, annotation, option_path

XPK_QUEUE: Final = "multislice-queue"
XPK_PRIORITY: Final = "medium"
XPK_GRACE_SECONDS: Final = 30
"""Defaults of ``--queue``, ``--priority`` and ``--termination-grace-period-seconds`` in profile xpk."""

_SPOT: Final = ("cloud.google.com/gke-spot", "true")
_FLEX: Final = ("cloud.google.com/gke-queued", "true")
_RESERVATION: Final = "cloud.google.com/reservation-name"


def read_flags(flags: Flags, profile: Profile, defaults: PathwaysOptions) -> Reading:
    """The PathwaysJob that flags describe, or every problem with them at the flag's name; ``defaults`` are options."""
    texts = FlagTexts()
    for field in fields(flags):
        given = getattr(flags, field.name)
        for text in given if isinstance(given, tuple) else (given,):
            if isinstance(text, str):
                texts.text(kebab(field.name), text)
    if texts.problems:
        return Reading(None, tuple(texts.problems))
    pod = build_pod(flags, profile, defaults, texts)
    sources = {row.path: origin_of(name, getattr(flags, name)) for name, row in JOB_FLAGS.items() if row.path}
    sources["metadata.namespace"] = origin_of("namespace", flags.namespace)
    sources["spec.controller.mainContainerName"] = origin_of("docker_name", flags.docker_name)
    sources["spec.pathwaysDir"] = flag_origin("--pathways-gcs-location")
    sources |= {option_path(to_camel(name)): flag_origin(kebab(name)) for name, value in defaults if value is not None}
    sources |= pod.sources
    reason = InvalidReason.INVALID_RESTARTS
    restarts = texts.number(reason, "--max-restarts", flags.max_restarts)
    slice_restarts = texts.number(reason, "--max-slice-restarts", flags.max_slice_restarts)
    job = PathwaysJob(
        name=flags.workload,
        namespace=flags.namespace,
        slice=ANY_SLICE,
        slices=1 if flags.num_slices is None else flags.num_slices,
        mode=DeploymentMode.COLOCATE if flags.colocate else DeploymentMode.DEFAULT,
        max_restarts=restarts or 0,
        pathways_dir=flags.pathways_gcs_location,
        pathways_version=flags.pathways_version,
        template=pod.template,
        metrics=flags.enable_metrics_collection,
        elastic_slices=flags.elastic_slices or 0,
        max_slice_restarts=DEFAULT_SLICE_RESTARTS if slice_restarts is None else slice_restarts,
        options=defaults,
        user_env_wins=True,
        sources=sources,
    )
    if pod.template is not None:
        job = replace(job, main_container=pod.template["spec"]["containers"][0]["name"])
    for take in (_with_metadata, _with_nodes, _with_priority, _with_grace, _with_components):
        job = take(job, flags, profile, texts)
    return _checked(job, flags, texts)


def _checked(job: PathwaysJob, flags: Flags, texts: FlagTexts) -> Reading:
    """The slice last, because a job without one can still be checked otherwise."""
    if not flags.workload:
        texts.refuse(InvalidReason.INVALID_NAME, "--workload", "is required: the JobSet's name", ErrorKind.REQUIRED)
    tpu_slice, flag = _slice(flags, texts)
    notices: tuple[Notice, ...] = ()
    if tpu_slice is None:
        broken = check_without_slice(job)
    else:
        topology = {f"{WORKERS}.topology": flag_origin(flag), WORKERS: flag_origin("--tpu-type")}
        job = replace(job, slice=tpu_slice, sources={**job.sources, **topology})
        broken, notices = check(job)
    # An error in a flag is not reported again for its field.
    reported = {(problem.error.path, problem.reason) for problem in texts.problems}
    others = [problem for problem in broken if (problem.error.path, problem.reason) not in reported]
    problems = (*texts.problems, *others)[:MOST_PROBLEMS]
    return Reading(None, problems) if problems else Reading(job, (), notices)


def _slice(flags: Flags, texts: FlagTexts) -> tuple[Slice | None, str]:
    """The slice, and the flag with its topology."""
    flag = "--tpu-type"
    if not flags.tpu_type.strip():
        detail = "is required, such as v5p-128; gangctl pathways accelerators lists them"
        texts.refuse(InvalidReason.UNKNOWN_ACCELERATOR, flag, detail, ErrorKind.REQUIRED)
        return None, flag
    try:
        accelerator, said = find(flags.tpu_type)
        if flags.topology:
            flag = "--topology"
        elif not said:
            detail = f"is required, --tpu-type {shown(flags.tpu_type)} says none"
            texts.refuse(InvalidReason.INVALID_TOPOLOGY, "--topology", detail, ErrorKind.REQUIRED)
            return None, flag
        asked = normalized(flags.topology or said, accelerator)
        if said and asked != said:
            detail = f"is {asked}, but --tpu-type {shown(flags.tpu_type)} says {said}: leave one of them out"
            texts.refuse(InvalidReason.INVALID_TOPOLOGY, flag, detail)
            return None, flag
        return slice_of(accelerator, asked, strict=False), flag
    except RefusedValueError as refused:
        texts.refuse(refused.reason, flag, refused.detail)
        return None, flag


def _with_metadata(job: PathwaysJob, flags: Flags, profile: Profile, texts: FlagTexts) -> PathwaysJob:
    labels = texts.labels("--label", flags.label)
    job = _with_annotations(job, flags, profile, texts)
    if flags.queue and QUEUE_NAME in labels and labels[QUEUE_NAME] != flags.queue:
        detail = f"is {shown(flags.queue)}, but --label says {QUEUE_NAME}={labels[QUEUE_NAME]}: leave one of them out"
        texts.refuse(InvalidReason.MALFORMED, "--queue", detail)
    queue, origin = flags.queue, flag_origin("--queue")
    if queue is None and profile is Profile.XPK:
        queue, origin = XPK_QUEUE, OF_XPK
    if not queue or QUEUE_NAME in labels:
        return replace(job, labels=labels)
    texts.name("--queue", queue)
    source = {f"metadata.labels[{QUEUE_NAME}]": origin}
    return replace(job, labels={QUEUE_NAME: queue, **labels}, sources={**job.sources, **source})


def _with_annotations(job: PathwaysJob, flags: Flags, profile: Profile, texts: FlagTexts) -> PathwaysJob:
    """Annotations, and with them the gangs."""
    annotations = texts.annotations("--annotation", flags.annotation)
    sources = {annotation(key): flag_origin(f"--annotation {key}") for key in annotations}
    if OPTIONS in annotations:
        detail = "must not be given beside flags: each of its entries has a flag of its own"
        texts.refuse(InvalidReason.INVALID_OPTIONS, f"--annotation {OPTIONS}", detail, ErrorKind.FORBIDDEN)
    for key, flag, mode in (
        (GANG_MODE, "--gang-mode", flags.gang_mode),
        (WORKER_MODE, "--worker-mode", flags.worker_mode),
    ):
        if mode and annotations.get(key, mode) != mode:
            detail = f"is {shown(mode)}, but --annotation says {key}={annotations[key]}: leave one of them out"
            texts.refuse(InvalidReason.INVALID_GANG_MODE, flag, detail)
        elif mode:
            annotations[key], sources[annotation(key)] = mode, flag_origin(flag)
    job = replace(job, annotations=annotations, sources={**job.sources, **sources})
    wrong: list[Problem] = []
    gang_mode, worker_mode = read_modes(annotations, wrong)
    if profile is Profile.XPK and not {GANG_MODE, GANGS, WORKER_MODE} & set(annotations):
        gang_mode, job = GangMode.OFF, replace(job, sources={**job.sources, GANG_MODE_PATH: OF_XPK})
    for error in wrong:
        path, _, part = error.error.path.partition("].")
        detail = f"{part}: {error.error.detail}" if part else error.error.detail
        texts.refuse(error.reason, job.origin(f"{path}]" if part else path).place, detail, error.error.kind)
    return replace(job, gang_mode=gang_mode, worker_mode=worker_mode)


def _with_nodes(job: PathwaysJob, flags: Flags, _: Profile, texts: FlagTexts) -> PathwaysJob:
    """Nodes of the workers: what was asked for by labels, and by kind of capacity. And the head's pool."""
    selector = texts.labels("--node-selector", flags.node_selector)
    sources = dict(job.sources)
    kinds = {
        "--spot": _SPOT if flags.spot else None,
        "--flex": _FLEX if flags.flex else None,
        "--reservation": (_RESERVATION, flags.reservation) if flags.reservation else None,
    }
    asked = {flag: label for flag, label in kinds.items() if label is not None}
    if len(asked) > 1:
        first, second, *_rest = asked
        detail = f"must not be given with {first}: the workers' VMs are of one kind"
        texts.refuse(InvalidReason.MALFORMED, second, detail, ErrorKind.FORBIDDEN)
    for flag, (key, value) in asked.items():
        if selector.get(key, value) != value:
            detail = f"{key}={selector[key]} contradicts {flag}: leave one of them out"
            texts.refuse(InvalidReason.MALFORMED, "--node-selector", detail)
        selector |= texts.labels(flag, (f"{key}={value}",))
        sources[f"{WORKERS}.nodeSelector[{key}]"] = flag_origin(flag)
    return _with_head_pool(replace(job, worker_node_selector=selector, sources=sources), flags, texts)


def _with_head_pool(job: PathwaysJob, flags: Flags, texts: FlagTexts) -> PathwaysJob:
    if not flags.head_pool:
        return job
    if flags.colocate:
        detail = "must not be given with --colocate, where the head is on a node of the workers"
        texts.refuse(InvalidReason.INVALID_OPTIONS, "--head-pool", detail, ErrorKind.FORBIDDEN)
    pool = texts.labels("--head-pool", (f"{GKE_NODEPOOL}={flags.head_pool}",))
    selector = {**(job.options.head_node_selector or {}), **pool}
    source = {option_path("headNodeSelector"): flag_origin("--head-pool")}
    options = job.options.model_copy(update={"head_node_selector": selector})
    return replace(job, options=options, sources={**job.sources, **source})


def _with_priority(job: PathwaysJob, flags: Flags, profile: Profile, texts: FlagTexts) -> PathwaysJob:
    name, origin = flags.priority, flag_origin("--priority")
    if name is None and profile is Profile.XPK:
        name, origin = XPK_PRIORITY, OF_XPK
    if name:
        texts.name("--priority", name)
    sources = {**job.sources, f"{WORKERS}.priorityClassName": origin}
    return replace(job, worker_priority_class=name or "", sources=sources)


def _with_grace(job: PathwaysJob, flags: Flags, profile: Profile, texts: FlagTexts) -> PathwaysJob:
    flag = "--termination-grace-period-seconds"
    given = flags.termination_grace_period_seconds
    seconds, origin = texts.number(InvalidReason.INVALID_GRACE_PERIOD, flag, given), flag_origin(flag)
    if given is None and profile is Profile.XPK:
        seconds, origin = XPK_GRACE_SECONDS, OF_XPK
    sources = {**job.sources, f"{WORKERS}.terminationGracePeriodSeconds": origin}
    return replace(job, worker_grace_seconds=seconds, sources=sources)


def _with_components(job: PathwaysJob, flags: Flags, _: Profile, texts: FlagTexts) -> PathwaysJob:
    components: dict[ComponentType, ComponentChanges] = {}
    sources = dict(job.sources)
    for kind, image, arguments, env in (
        (ComponentType.SERVER, "server_image", "custom_pathways_server_args", "pathways_server_env"),
        (ComponentType.PROXY, "proxy_server_image", "custom_pathways_proxy_server_args", "pathways_proxy_server_env"),
        (ComponentType.WORKER, "worker_image", "custom_pathways_worker_args", "pathways_worker_env"),
        (ComponentType.SIDECAR, "colocated_python_sidecar_image", "", "colocated_python_sidecar_env"),
    ):
        path = f"spec.customComponents[{len(components)}]"
        names = {"image": image, "customFlags": arguments, "customEnv": env}
        given = {part: kebab(name) for part, name in names.items() if name and getattr(flags, name)}
        if not given:
            continue
        words = texts.words(given["customFlags"], getattr(flags, arguments)) if "customFlags" in given else ()
        variables = texts.variables(given["customEnv"], getattr(flags, env)) if "customEnv" in given else {}
        entries = tuple({"name": name, "value": value} for name, value in variables.items())
        components[kind] = ComponentChanges(path, image=getattr(flags, image), flags=words, env=entries)
        # A missing image is reported at its flag.
        sources |= {path: flag_origin(next(iter(given.values()))), f"{path}.image": flag_origin(kebab(image))}
        sources |= {f"{path}.{part}": flag_origin(flag) for part, flag in given.items()}
    return replace(job, components=components, sources=sources)

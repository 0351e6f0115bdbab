"""A PathwaysJob as a JobSet, pure and total: the ReplicatedJobs of head and workers, and the JobSet around them.

With a user's pod, resource manager and proxy are native sidecars after the user's own init containers: they run
before its containers start, restart separately, do not block the end of the Job, and outlive a client that saves its
state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.api.objects import INT32_MAX
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.job import PathwaysJob, startup, subdomain
from gangctl.pathways.options import Startup
from gangctl.pathways.rendering import placement
from gangctl.pathways.rendering.containers import (
    component_notices,
    has_sidecar,
    head_requests,
    proxy,
    resource_manager,
    sidecar,
    worker,
)
from gangctl.pathways.rendering.environment import ContainerEnv, main_environment, user_environment
from gangctl.pathways.rendering.metadata import (
    Choice,
    choose,
    head_job_metadata,
    head_pod_metadata,
    jobset_metadata,
    metadata_notices,
    worker_job_metadata,
    worker_pod_metadata,
)
from gangctl.pathways.result import From, Origin, OriginKind, Rendering, RenderingInputs, option, origins, plain, rule
from gangctl.pathways.words import HEAD, POD, WORKER

Tree = dict[str, Any]

_DECIDED: Final = frozenset(
    {"hostNetwork", "dnsPolicy", "restartPolicy", "terminationGracePeriodSeconds", "priorityClassName"}
    | {"nodeSelector", "tolerations", "affinity", "initContainers", "containers", "volumes"}
)
"""Fields of the user's pod that are not copied unchanged."""
_BEFORE_ENV: Final = ("name", "image", "imagePullPolicy", "restartPolicy", "command", "args", "workingDir")
_ONE_JOB: Final = "one Job with one pod"


def head(job: PathwaysJob, setting: RenderingInputs) -> Tree:
    """The entry of ``spec.replicatedJobs``."""
    spec = {
        "backoffLimit": rule(0, "a failed head is a failed run: the JobSet restarts as a whole"),
        "completionMode": rule("Indexed", "the coordinator's address is that of an index"),
        "completions": rule(1, _ONE_JOB),
        "parallelism": rule(1, _ONE_JOB),
        "template": {**_metadata(head_pod_metadata(job)), "spec": _head_pod(job, setting)},
    }
    return {
        "name": rule(HEAD, "the name that Pathways is known by"),
        "replicas": rule(1, _ONE_JOB),
        "template": {**_metadata(head_job_metadata(job)), "spec": spec},
    }


def head_notices(job: PathwaysJob) -> tuple[Notice, ...]:
    """Notices about the environments of the user's containers."""
    pod = placement.user_pod(job)
    environments = [
        _environment(job, kind, index, container)
        for kind in ("initContainers", "containers")
        for index, container in enumerate(pod.get(kind) or ())
    ]
    return tuple(notice for part in environments for notice in part.notices)


def _head_pod(job: PathwaysJob, setting: RenderingInputs) -> Tree:
    user = placement.user_pod(job)
    policy = user.get("restartPolicy")
    never = rule("Never", "a client that ended is not started again in the same pod")
    init = [
        _container(job, "initContainers", index, entry) for index, entry in enumerate(user.get("initContainers") or ())
    ]
    ours = [resource_manager(job, setting), proxy(job, setting)]
    containers = [
        _container(job, "containers", index, entry) for index, entry in enumerate(user.get("containers") or ())
    ]
    init, containers = (init, ours) if job.headless else ([*init, *ours], containers)
    declared = user.get("volumes") or []
    volumes = [From(entry, job.origin(f"{POD}.volumes[{index}]")) for index, entry in enumerate(declared)]
    fields: Tree = {
        "nodeSelector": placement.head_node_selector(job, setting),
        "tolerations": placement.head_tolerations(job),
        "affinity": placement.head_affinity(job),
        "initContainers": init,
        "containers": containers,
        "volumes": volumes,
    }
    return {
        **placement.host_network(),
        "restartPolicy": From(policy, job.origin(f"{POD}.restartPolicy")) if policy else never,
        **placement.head_grace_period(job),
        **placement.priority_classes(job)[0],
        **{key: From(value, job.origin(f"{POD}.{key}")) for key, value in user.items() if key not in _DECIDED},
        **{key: value for key, value in fields.items() if value},
    }


def _container(job: PathwaysJob, kind: str, index: int, container: Mapping[str, Any]) -> Tree:
    """A user container: unchanged, except for its environment."""
    path = f"{POD}.{kind}[{index}]"
    fields = {key: placement.given(job, value, f"{path}.{key}") for key, value in container.items() if key != "env"}
    variables = _environment(job, kind, index, container).variables
    first: Tree = {key: fields.pop(key) for key in _BEFORE_ENV if key in fields}
    return {**first, **({"env": list(variables)} if variables else {}), **fields}


def _environment(job: PathwaysJob, kind: str, index: int, container: Mapping[str, Any]) -> ContainerEnv:
    path = f"{POD}.{kind}[{index}]"
    if kind == "containers" and container.get("name") == job.main_container:
        return main_environment(job, container, path)
    return user_environment(job, container, path)


def _metadata(metadata: Tree) -> Tree:
    return {"metadata": metadata} if metadata else {}


RESTARTS_PER_VM: Final = 4
"""Restarts of a slice that is not elastic."""


def workers(job: PathwaysJob, setting: RenderingInputs, choice: Choice, startup: Startup) -> Tree:
    """The entry of ``spec.replicatedJobs``."""
    vms = From(job.slice.vms, Origin(OriginKind.TABLE, job.slice.accelerator.machine_type, "VMs of one slice"))
    metadata = worker_job_metadata(job, choice)
    spec = {
        "backoffLimit": _backoff_limit(job),
        "completionMode": rule("Indexed", "each VM of a slice has its number"),
        "completions": vms,
        "parallelism": vms,
        "template": {"metadata": worker_pod_metadata(job, setting), "spec": _worker_pod(job, setting, choice)},
    }
    return {
        "name": rule(WORKER, "the name that Pathways is known by"),
        "replicas": From(job.slices, job.origin("spec.workers[0].numSlices")),
        **(
            {"dependsOn": [option({"name": HEAD, "status": "Ready"}, "startup", "workers after the head")]}
            if startup is Startup.DEPENDS_ON
            else {}
        ),
        "template": {**({"metadata": metadata} if metadata else {}), "spec": spec},
    }


def _worker_pod(job: PathwaysJob, setting: RenderingInputs, choice: Choice) -> Tree:
    containers = [worker(job, setting)]
    init = [sidecar(job, setting)] if has_sidecar(job) else []
    fields: Tree = {
        "nodeSelector": placement.worker_node_selector(job),
        "tolerations": [rule(placement.TPU_TOLERATION, "TPU nodes are tainted")],
        "affinity": placement.worker_affinity(job, setting, choice),
        "initContainers": init,
        "containers": containers,
        "volumes": placement.shared_tmp([*init, *containers]),
    }
    return {
        **placement.host_network(),
        "restartPolicy": rule("OnFailure", "a worker that ended is started again in its pod"),
        **placement.worker_grace_period(job),
        **placement.priority_classes(job)[1],
        **{key: value for key, value in fields.items() if value},
    }


def _backoff_limit(job: PathwaysJob) -> From:
    """Failures of pods after which a slice is given up."""
    if job.elastic_slices and job.max_slice_restarts:
        origin = job.origin("spec.workers[0].maxSliceRestarts")
        limit = min(job.slice.vms * job.max_slice_restarts, INT32_MAX)
        return From(limit, Origin(origin.kind, origin.place, "restarts of a slice, for each of its VMs"))
    return rule(job.slice.vms * RESTARTS_PER_VM, f"{RESTARTS_PER_VM} for each VM of a slice")


def jobset(job: PathwaysJob, setting: RenderingInputs, choice: Choice) -> Tree:
    """The whole object. ``suspend`` is never set, because Kueue owns it."""
    why = "what JobSets are called"
    coordinated = "its address is what all pods call the head"
    order, seconds = startup(job), job.options.ttl_seconds_after_finished
    return {
        "apiVersion": rule(JOBSET_API_VERSION, why),
        "kind": rule("JobSet", why),
        "metadata": jobset_metadata(job, setting, choice),
        "spec": {
            **({} if seconds is None else {"ttlSecondsAfterFinished": option(seconds, "ttlSecondsAfterFinished")}),
            "network": _network(job),
            "coordinator": rule({"replicatedJob": HEAD, "jobIndex": 0, "podIndex": 0}, coordinated),
            **_startup_policy(job, order),
            **_success_policy(job),
            "failurePolicy": {
                "maxRestarts": From(job.max_restarts, job.origin("spec.maxRestarts")),
                "restartStrategy": rule("Recreate", "a restart begins with the Jobs that are gone"),
            },
            # In this order: InOrder starts the first one first, and Kueue takes the first priority class that it finds.
            "replicatedJobs": [head(job, setting), workers(job, setting, choice, order)],
        },
    }


def _network(job: PathwaysJob) -> Tree:
    network: Tree = {
        "enableDNSHostnames": rule(True, "the head is found by name"),
        "publishNotReadyAddresses": rule(True, "the head is looked for before it is ready"),
    }
    name = subdomain(job)
    if name:
        why = "a short one, the name needs the room" if name != job.options.subdomain else ""
        network["subdomain"] = option(name, "subdomain", why)
    return network


def _startup_policy(job: PathwaysJob, order: Startup) -> Tree:
    """Absent with ``dependsOn``: JobSet rejects both."""
    if order is Startup.DEPENDS_ON:
        return {}
    if job.options.startup is not None:
        return {"startupPolicy": {"startupPolicyOrder": option(str(order), "startup")}}
    together = order is Startup.ANY_ORDER
    why = "head and workers wait for each other's place" if together else "workers register with a head that is ready"
    return {"startupPolicy": {"startupPolicyOrder": rule(str(order), why)}}


def _success_policy(job: PathwaysJob) -> Tree:
    """Absent without a user pod: then no container ends by itself."""
    if job.headless:
        return {}
    policy = {"operator": "All", "targetReplicatedJobs": [HEAD]}
    return {"successPolicy": rule(policy, "workers serve until the client is done")}


_SETTING: Final = RenderingInputs()


def render(job: PathwaysJob, setting: RenderingInputs = _SETTING) -> Rendering:
    """The JobSet of a job that was read and checked; the job is not changed, and no values are shared."""
    choice = choose(job, setting)
    tree = jobset(job, setting, choice)
    rendered = plain(tree)
    head: dict[str, Any] = rendered["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return Rendering(
        jobset=rendered,
        origins=origins(tree),
        notices=(
            *choice.notices,
            *placement.placement_notices(job, choice),
            *metadata_notices(job),
            *head_notices(job),
            *component_notices(job, setting),
            *_privileged(head),
        ),
        head_requests=head_requests(head),
    )


def _privileged(head: dict[str, Any]) -> tuple[Notice, ...]:
    containers = [*head.get("initContainers", ()), *head["containers"]]
    names = [
        container["name"] for container in containers if (container.get("securityContext") or {}).get("privileged")
    ]
    if not names:
        return ()
    message = f"Privileged: {', '.join(names)}. The namespace must allow it (pod security level privileged)."
    return (Notice(Reason.PRIVILEGED_POD, message),)

"""The ReplicatedJob of the head: the user's pod with resource manager and proxy, or these two alone.

With a user's pod, resource manager and proxy are native sidecars after the user's own init containers: they run before
its containers start, restart separately, do not block the end of the Job, and outlive a client that saves its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.gang.reasons import Notice
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.origins import From, rule
from gangctl.pathways.rendering.containers import proxy, resource_manager
from gangctl.pathways.rendering.environment import Environment, main_environment, user_environment
from gangctl.pathways.rendering.metadata import head_job_metadata, head_pod_metadata
from gangctl.pathways.rendering.nodes import head_node_selector, head_tolerations
from gangctl.pathways.rendering.placement import head_affinity
from gangctl.pathways.rendering.pod import (
    given,
    head_grace_period,
    host_network,
    priority_classes,
    user_pod,
)
from gangctl.pathways.result import Setting
from gangctl.pathways.words import HEAD, POD

Tree = dict[str, Any]

_DECIDED: Final = frozenset(
    {"hostNetwork", "dnsPolicy", "restartPolicy", "terminationGracePeriodSeconds", "priorityClassName"}
    | {"nodeSelector", "tolerations", "affinity", "initContainers", "containers", "volumes"}
)
"""Fields of the user's pod that are not copied unchanged."""
_BEFORE_ENV: Final = ("name", "image", "imagePullPolicy", "restartPolicy", "command", "args", "workingDir")
_ONE_JOB: Final = "one Job with one pod"


def head(job: PathwaysJob, setting: Setting) -> Tree:
    """The entry of ``spec.replicatedJobs``."""
    spec = {
        "backoffLimit": rule(0, "a failed head is a failed run: the JobSet restarts as a whole"),
        "completionMode": rule("Indexed", "the coordinator's address is that of an index"),
        "completions": rule(1, _ONE_JOB),
        "parallelism": rule(1, _ONE_JOB),
        "template": {**_metadata(head_pod_metadata(job)), "spec": _pod(job, setting)},
    }
    return {
        "name": rule(HEAD, "the name that Pathways is known by"),
        "replicas": rule(1, _ONE_JOB),
        "template": {**_metadata(head_job_metadata(job)), "spec": spec},
    }


def head_notices(job: PathwaysJob) -> tuple[Notice, ...]:
    """Notices about the environments of the user's containers."""
    pod = user_pod(job)
    found = [
        _environment(job, kind, index, container)
        for kind in ("initContainers", "containers")
        for index, container in enumerate(pod.get(kind) or ())
    ]
    return tuple(notice for each in found for notice in each.notices)


def _pod(job: PathwaysJob, setting: Setting) -> Tree:
    user = user_pod(job)
    init = [
        _container(job, "initContainers", index, each) for index, each in enumerate(user.get("initContainers") or ())
    ]
    ours = [resource_manager(job, setting), proxy(job, setting)]
    containers = [_container(job, "containers", index, each) for index, each in enumerate(user.get("containers") or ())]
    init, containers = (init, ours) if job.headless else ([*init, *ours], containers)
    declared = user.get("volumes") or []
    volumes = [From(each, job.origin(f"{POD}.volumes[{index}]")) for index, each in enumerate(declared)]
    fields: Tree = {
        "nodeSelector": head_node_selector(job, setting),
        "tolerations": head_tolerations(job),
        "affinity": head_affinity(job),
        "initContainers": init,
        "containers": containers,
        "volumes": volumes,
    }
    return {
        **host_network(),
        **_restart_policy(job),
        **head_grace_period(job),
        **priority_classes(job)[0],
        **{key: From(value, job.origin(f"{POD}.{key}")) for key, value in user.items() if key not in _DECIDED},
        **{key: value for key, value in fields.items() if value},
    }


def _restart_policy(job: PathwaysJob) -> Tree:
    policy = user_pod(job).get("restartPolicy")
    if policy:
        return {"restartPolicy": From(policy, job.origin(f"{POD}.restartPolicy"))}
    return {"restartPolicy": rule("Never", "a client that ended is not started again in the same pod")}


def _container(job: PathwaysJob, kind: str, index: int, container: Mapping[str, Any]) -> Tree:
    """A user container: unchanged, except for its environment."""
    path = f"{POD}.{kind}[{index}]"
    fields = {key: given(job, value, f"{path}.{key}") for key, value in container.items() if key != "env"}
    variables = _environment(job, kind, index, container).variables
    first: Tree = {key: fields.pop(key) for key in _BEFORE_ENV if key in fields}
    return {**first, **({"env": list(variables)} if variables else {}), **fields}


def _environment(job: PathwaysJob, kind: str, index: int, container: Mapping[str, Any]) -> Environment:
    path = f"{POD}.{kind}[{index}]"
    if kind == "containers" and container.get("name") == job.main_container:
        return main_environment(job, container, path)
    return user_environment(job, container, path)


def _metadata(metadata: Tree) -> Tree:
    return {"metadata": metadata} if metadata else {}

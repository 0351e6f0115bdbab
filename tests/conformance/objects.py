"""The objects that behaviours are shown on, as small as each kind may be."""

from __future__ import annotations

from typing import Any

from tests.conformance.grounds import Server
from tests.controlplane.api import ApiClient, ApiFailure, Object, Objects, Parameter, path_of
from tests.controlplane.wait import NotYet, read_until, wait_for

JOBSET = "jobset.x-k8s.io/v1alpha2"
CRDS = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
NAMESPACES = path_of("v1", "namespaces")


def names_of(items: Objects) -> list[str]:
    """The names of objects, in their order."""
    return [item["metadata"]["name"] for item in items]


def configmaps(namespace: str, name: str | None = None) -> str:
    return path_of("v1", "configmaps", namespace=namespace, name=name)


def pods(namespace: str, name: str | None = None) -> str:
    return path_of("v1", "pods", namespace=namespace, name=name)


def jobs(namespace: str, name: str | None = None) -> str:
    return path_of("batch/v1", "jobs", namespace=namespace, name=name)


def jobsets(namespace: str, name: str | None = None) -> str:
    return path_of(JOBSET, "jobsets", namespace=namespace, name=name)


def leases(namespace: str, name: str | None = None) -> str:
    return path_of("coordination.k8s.io/v1", "leases", namespace=namespace, name=name)


def secrets(namespace: str, name: str | None = None) -> str:
    return path_of("v1", "secrets", namespace=namespace, name=name)


def workloads(server: Server, namespace: str, name: str | None = None) -> str:
    return path_of(server.gangs, "workloads", namespace=namespace, name=name)


def podgroups(server: Server, namespace: str, name: str | None = None) -> str:
    return path_of(server.gangs, "podgroups", namespace=namespace, name=name)


def configmap(name: str = "a", data: dict[str, str] | None = None, **metadata: Any) -> Object:
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return body if data is None else {**body, "data": data}


def lease(name: str = "a", **metadata: Any) -> Object:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, **metadata}}


def secret(name: str = "a", **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


def pod_spec(**fields: Any) -> Object:
    """A pod that no scheduler takes, for nothing here needs one to run."""
    return {
        "schedulerName": "nobody",
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}],
        **fields,
    }


def pod(name: str = "a", spec: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": pod_spec() if spec is None else spec,
    }


def job(name: str = "a", template_spec: Object | None = None, **spec: Any) -> Object:
    """A suspended Job: a controller leaves its pods uncreated."""
    template = {"spec": pod_spec() if template_spec is None else template_spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"suspend": True, "template": template, **spec},
    }


def jobset(name: str = "a", replicated_jobs: list[Object] | None = None, **spec: Any) -> Object:
    """A suspended JobSet of one ReplicatedJob."""
    return {
        "apiVersion": JOBSET,
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"suspend": True, "replicatedJobs": replicated_jobs or [replicated_job()], **spec},
    }


def replicated_job(name: str = "r", template_spec: Object | None = None, **fields: Any) -> Object:
    template = {"spec": {"template": {"spec": pod_spec() if template_spec is None else template_spec}}}
    return {"name": name, "template": template, **fields}


async def create_pod(server: Server, namespace: str, body: Object, **parameters: Parameter) -> Object:
    """Create a pod; a namespace that is new has no service account yet, and no pods until then."""

    async def created() -> Object:
        try:
            return await server.api.create(pods(namespace), body, **parameters)
        except ApiFailure as failure:
            if "error looking up service account" in failure.message:
                raise NotYet(str(failure)) from failure
            raise

    return await wait_for(created, "the namespace's service account")


async def gone(api: ApiClient, path: str) -> None:
    """Wait until an object is away: collectors take their time."""
    await read_until(lambda: api.found(path), lambda live: live is None, f"{path} to be gone")

"""JobSets for the harness's own tests."""

from tests.controlplane.api import Object, path_of

API_VERSION = "jobset.x-k8s.io/v1alpha2"


def path(namespace: str, name: str | None = None) -> str:
    return path_of(API_VERSION, "jobsets", namespace=namespace, name=name)


def jobset(name: str, *, pods: int, cpu: str = "1", node_label: str | None = None) -> Object:
    """One ReplicatedJob of one Job with this many pods, on the nodes labelled `test: <node_label>`."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod: Object = {"restartPolicy": "Never", "containers": [container]}
    if node_label is not None:
        pod["nodeSelector"] = {"test": node_label}
    job = {"parallelism": pods, "completions": pods, "template": {"spec": pod}}
    return {
        "apiVersion": API_VERSION,
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": job}}]},
    }

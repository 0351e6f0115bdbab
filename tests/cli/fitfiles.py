"""JobSets and queues in files for ``gangctl fit``."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.cli.kueueobjects import Object, cluster_queue, flavor, local_queue, queued
from tests.cli.manifests import write
from tests.cli.run import Answer, gangctl

KUEUE = "kueue.x-k8s.io/v1beta2"
RACK = "example.com/rack"


def configuration(**fields: Any) -> Object:
    """Kueue's, with JobSets."""
    frameworks = {"integrations": {"frameworks": ["jobset.x-k8s.io/jobset"]}}
    return {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **frameworks, **fields}


def kueue(kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, **fields}


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def fit(directory: Path, asked: Object, *objects: Object) -> Answer:
    files = write(directory / "jobset.yaml", asked), write(directory / "queues.yaml", *objects)
    answer = gangctl("fit", "-f", files[0], "--queues", files[1], "-o", "json")
    reason = answer.json["reason"]
    useless = reason == "PodsRefused" or (reason == "QueueBlocked" and not answer.json["clusterQueue"])
    assert answer.code == int(answer.json["verdict"] == "never" or useless)
    return answer


def gangs(queue: str = "q", *, pod: Object | None = None, labels: Object | None = None, **notes: str) -> Object:
    """Four pods of one CPU in namespace t; names of annotations of Kueue have ``_`` for each ``-``."""
    made = deepcopy(queued(queue=queue))
    made["metadata"].setdefault("labels", {}).update(labels or {})
    made["metadata"]["annotations"] |= {f"kueue.x-k8s.io/{key.replace('_', '-')}": text for key, text in notes.items()}
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].update(pod or {})
    return made


def queues(*more: Object, cpu: Any = 8, configured: Object | None = None, **spec: Any) -> list[Object]:
    there = [flavor(), cluster_queue("cq", {"f": {"cpu": cpu}}, **spec), local_queue("q", "cq")]
    return [*there, configured or configuration(), *more]


PRIORITY = "kueue.x-k8s.io/priority-class"
TEAM = {"matchLabels": {"team": "a"}}
BY_NAME = {"matchLabels": {"kubernetes.io/metadata.name": "t"}}
MANAGED = configuration(manageJobsWithoutQueueName=True)
PARTLY = configuration(manageJobsWithoutQueueName=True, managedJobsNamespaceSelector=TEAM)
CLAIMS = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}
MAPPED = configuration(resources={"deviceClassMappings": [{"name": "x/gpus", "deviceClassNames": ["gpu.x"]}]})
POD_CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": 1}
OWNED = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "a", "uid": "u", "controller": True}


def owned() -> Object:
    made = gangs("")
    made["metadata"]["ownerReferences"] = [OWNED]
    return made

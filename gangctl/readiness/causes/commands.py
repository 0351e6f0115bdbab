"""The commands that causes suggest: all of them, as templates.

Each suggestion of each cause is run by a test on a situation that produced it (``docs/causes.md``), so every one of
them works on the cluster that it is printed for: with the objects that exist there, with or without Kueue.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NewType

Suggestion = NewType("Suggestion", str)
"""A command, filled in: :meth:`gangctl.readiness.causes.context.Context.suggest` makes it."""

_MEMBERS: Final = "-l jobset.sigs.k8s.io/jobset-name={jobset}"


class Command(StrEnum):
    """Templates in the syntax of :meth:`str.format`; ``namespace`` and ``jobset`` are those of the JobSet."""

    DESCRIBE_JOBSET = "kubectl -n {namespace} describe jobset {jobset}"
    JOBSET_ANNOTATIONS = "kubectl -n {namespace} get jobset {jobset} -o jsonpath='{{.metadata.annotations}}'"
    JOBSET_STATUS = "kubectl -n {namespace} get jobset {jobset} -o jsonpath='{{.status}}'"
    PLAN = "kubectl -n {namespace} get jobset {jobset} -o json | gangctl plan -f -"
    RESUME = """kubectl -n {namespace} patch jobset {jobset} --type=merge -p '{{"spec":{{"suspend":false}}}}'"""
    SUSPEND = """kubectl -n {namespace} patch jobset {jobset} --type=merge -p '{{"spec":{{"suspend":true}}}}'"""

    DESCRIBE_JOB = "kubectl -n {namespace} describe job {job}"
    JOBS = f"kubectl -n {{namespace}} get jobs {_MEMBERS} -o yaml"

    DESCRIBE_POD = "kubectl -n {namespace} describe pod {pod}"
    POD_LOGS = "kubectl -n {namespace} logs {pod} --all-containers --previous --ignore-errors"
    """A container that has not ended before is an error of its own."""
    POD_GATES = "kubectl -n {namespace} get pod {pod} -o jsonpath='{{.spec.schedulingGates}}'"
    PODS = f"kubectl -n {{namespace}} get pods {_MEMBERS} -o wide"
    PRIORITIES = (
        f"kubectl -n {{namespace}} get pods {_MEMBERS} "
        "-o custom-columns=NAME:.metadata.name,PRIORITY:.spec.priority,CLASS:.spec.priorityClassName"
    )

    SHOW_GROUP = "kubectl -n {namespace} get {resource} {name} -o yaml"
    """With the API group in ``resource``, because Kueue has Workloads, too."""
    SHOW_WRITERS = "kubectl -n {namespace} get {resource} {name} -o yaml --show-managed-fields"
    LOWER_MIN_COUNT = (
        "kubectl -n {namespace} patch podgroups.scheduling.k8s.io {name} --type=merge "
        """-p '{{"spec":{{"schedulingPolicy":{{"gang":{{"minCount":{count}}}}}}}}}'"""
    )

    FIT_NODES = "gangctl fit {jobset} --fixed-nodes -n {namespace}"
    """It works without Kueue, unlike :attr:`FIT`."""
    NODE_LABELS = "kubectl get nodes -L {label}"
    DESCRIBE_NODE = "kubectl describe node {node}"
    SCHEDULER = "kubectl -n kube-system get pods,leases"
    SCHEDULER_FLAGS = "kubectl -n kube-system get pods -l component=kube-scheduler -o yaml"
    API_VERSIONS = "kubectl get --raw /apis/scheduling.k8s.io"

    FIT = "gangctl fit {jobset} -n {namespace}"
    FIT_WORKERS = "gangctl fit {jobset} -n {namespace} {workers}"
    """``workers`` are flags: one ``--worker`` for each worker cluster of MultiKueue."""
    WHY_WORKER = "gangctl why {jobset} -n {namespace} --context {cluster}"
    QUEUE = "gangctl queue describe {queue} -n {namespace}"
    LOCAL_QUEUES = "kubectl -n {namespace} get localqueues.kueue.x-k8s.io"
    QUEUED_WORKLOAD = "kubectl -n {namespace} describe workloads.kueue.x-k8s.io {name}"
    ADMISSION_CHECK = "kubectl describe admissionchecks.kueue.x-k8s.io {name}"

    OWN_PODS = "kubectl -n gangctl-system get pods,endpointslices"
    OWN_WEBHOOKS = "kubectl get mutatingwebhookconfigurations"
    WEBHOOKS = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
    ADMISSION_POLICY = "kubectl get validatingadmissionpolicy {name} -o yaml"
    RESOURCE_QUOTA = "kubectl -n {namespace} describe resourcequota {name}"
    LIMIT_RANGES = "kubectl -n {namespace} describe limitranges"
    NAMESPACE_LABELS = "kubectl label --list namespace {namespace}"
    SERVICE_ACCOUNTS = "kubectl -n {namespace} get serviceaccounts"
    PRIORITY_CLASSES = "kubectl get priorityclasses"

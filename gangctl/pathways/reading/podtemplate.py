"""Types of the user's pod: rendering relies on the API's types.

The schema of a PathwaysJob allows everything in ``spec.controller.template``, also in a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.objects import Reader
from gangctl.errors import ErrorKind
from gangctl.pathways.reading.fields import add, refuse_unknown, signed, texts, too_deep, without_nulls

MOST_VARIABLES: Final = 5_000
"""Maximum of entries of one list in a pod; objects in etcd do not have many more."""
_CONTAINER_WORDS: Final = ("name", "image", "imagePullPolicy", "restartPolicy", "workingDir")
_POD_WORDS: Final = (
    "restartPolicy",
    "dnsPolicy",
    "priorityClassName",
    "schedulerName",
    "serviceAccountName",
    "hostname",
    "subdomain",
    "nodeName",
    "runtimeClassName",
    "preemptionPolicy",
)
_WHILE_SCHEDULING: Final = "DuringSchedulingIgnoredDuringExecution"


def read_template(controller: Reader) -> dict[str, Any] | None:
    """The template, a copy without nulls; None if there is none."""
    value = controller.value.get("template")
    if value is None:
        return None
    template = controller.child("template")
    if too_deep(value):
        add(controller, template.path, ErrorKind.INVALID, "is nested deeper than any pod")
        return {}
    refuse_unknown(template, ("metadata", "spec"))
    metadata = template.child("metadata")
    metadata.strings("labels")
    metadata.strings("annotations")
    _read_pod(template.child("spec"))
    copied: dict[str, Any] = without_nulls(template.value)
    return copied


def _read_pod(pod: Reader) -> None:
    for key in _POD_WORDS:
        pod.optional_string(key)
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        pod.boolean(key)
    for key in ("terminationGracePeriodSeconds", "activeDeadlineSeconds"):
        signed(pod, key, 64)
    pod.strings("nodeSelector")
    for key in ("securityContext", "dnsConfig", "overhead"):
        pod.child(key)
    _read_resources(pod)
    _read_affinity(pod.child("affinity"))
    _read_lists(pod)
    for key in ("initContainers", "containers"):
        for container in pod.children(key, MOST_VARIABLES):
            _read_container(container)


def _read_lists(pod: Reader) -> None:
    for toleration in pod.children("tolerations", MOST_VARIABLES):
        for key in ("key", "operator", "value", "effect"):
            toleration.optional_string(key)
    for key in ("volumes", "imagePullSecrets"):
        for entry in pod.children(key, MOST_VARIABLES):
            entry.optional_string("name")
    for key in ("schedulingGates", "readinessGates", "topologySpreadConstraints", "hostAliases", "resourceClaims"):
        pod.children(key, MOST_VARIABLES)


def _read_container(container: Reader) -> None:
    for key in _CONTAINER_WORDS:
        container.optional_string(key)
    for key in ("command", "args"):
        texts(container, key)
    read_environment(container, "env")
    for key in ("securityContext", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        container.child(key)
    for port in container.children("ports", MOST_VARIABLES):
        for key in ("containerPort", "hostPort"):
            signed(port, key)
        for key in ("name", "protocol", "hostIP"):
            port.optional_string(key)
    for mount in container.children("volumeMounts", MOST_VARIABLES):
        for key in ("name", "mountPath", "subPath"):
            mount.optional_string(key)
    container.children("envFrom", MOST_VARIABLES)
    _read_resources(container)


def read_environment(holder: Reader, key: str) -> tuple[Mapping[str, Any], ...]:
    """The variables in a list, copies without nulls."""
    entries = holder.children(key, MOST_VARIABLES)
    for entry in entries:
        entry.optional_string("name")
        entry.optional_string("value")
        for source in entry.child("valueFrom").value:
            entry.child("valueFrom").child(source)
    return tuple(without_nulls(entry.value) for entry in entries)


def _read_resources(holder: Reader) -> None:
    """Check that both are maps; their contents are checked elsewhere."""
    resources = holder.child("resources")
    for key in ("requests", "limits"):
        resources.child(key)


def _read_affinity(affinity: Reader) -> None:
    for key in ("podAffinity", "podAntiAffinity"):
        for strength in ("required", "preferred"):
            affinity.child(key).children(f"{strength}{_WHILE_SCHEDULING}", MOST_VARIABLES)
    to_nodes = affinity.child("nodeAffinity")
    to_nodes.children(f"preferred{_WHILE_SCHEDULING}", MOST_VARIABLES)
    to_nodes.child(f"required{_WHILE_SCHEDULING}").children("nodeSelectorTerms", MOST_VARIABLES)

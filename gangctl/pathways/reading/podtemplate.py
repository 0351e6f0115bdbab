"""Reading fields of a PathwaysJob, unknown ones too, and types of the user's pod, on which rendering relies.

The schema of a PathwaysJob allows everything in ``spec.controller.template``, also in a cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, Final

from gangctl.api.objects import Reader, key_path
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.pathways.problems import MOST_PROBLEMS, listed, near

MOST_ENTRIES: Final = 100
"""Maximum of lists that the API limits far below."""
_MOST_DEPTH: Final = 64
"""Maximum depth of a pod template; the API's own types have less than half of it."""
_MOST_TEXTS: Final = 10_000


def add(reader: Reader, path: str, kind: ErrorKind, detail: str) -> None:
    """Report an error of a field."""
    if len(reader.errors) < MOST_PROBLEMS:
        reader.errors.append(FieldError(path, kind, detail))


def place(reader: Reader, key: str) -> str:
    """The path of a field."""
    return f"{reader.path}.{key}" if reader.path else key


def signed(reader: Reader, key: str, bits: int = 32) -> int | None:
    """The integer under ``key``, None when it is absent or null; its sign is checked later."""
    value = reader.value.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        add(reader, place(reader, key), ErrorKind.TYPE_INVALID, f"must be an integer, got {shown(value)}")
        return None
    if value.bit_length() >= bits:
        add(reader, place(reader, key), ErrorKind.INVALID, f"must be an integer of {bits} bits")
        return None
    return value


def texts(reader: Reader, key: str) -> tuple[str, ...]:
    """The strings in the list under ``key``; none when it is absent or null."""
    value = reader.value.get(key)
    if value is None:
        return ()
    path = place(reader, key)
    if not isinstance(value, list):
        add(reader, path, ErrorKind.TYPE_INVALID, f"must be a list of strings, got {shown(value)}")
        return ()
    if len(value) > _MOST_TEXTS:
        add(reader, path, ErrorKind.TOO_MANY, f"{len(value)} entries, at most {_MOST_TEXTS} are read")
        return ()
    for index, each in enumerate(value):
        if not isinstance(each, str):
            add(reader, f"{path}[{index}]", ErrorKind.TYPE_INVALID, f"must be a string, got {shown(each)}")
    return tuple(each for each in value if isinstance(each, str))


def refuse_unknown(reader: Reader, known: Collection[str]) -> None:
    """Report fields that the API does not have, with the nearest that it has."""
    unknown = (key for key in reader.value if key not in known)
    for key in islice(unknown, MOST_PROBLEMS):
        named = "" if key_path("", key) else f" {shown(key)}"
        path = place(reader, key) if not named else reader.path
        detail = f"unknown field{named}{near(key, known)}, allowed: {listed(known)}"
        add(reader, path, ErrorKind.FORBIDDEN, detail)


def too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than anything in a pod."""
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def without_nulls(value: Any) -> Any:
    """A deep copy of ``value`` without null fields, which Kubernetes treats as absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


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

"""Reading fields of a PathwaysJob, unknown ones too, and types of the user's pod, on which rendering relies.

The schema of a PathwaysJob allows everything in ``spec.controller.template``, also in a cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from gangctl.api.objects import Reader, key_path
from gangctl.api.pods import REQUIRED
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
    for index, text in enumerate(value):
        if not isinstance(text, str):
            add(reader, f"{path}[{index}]", ErrorKind.TYPE_INVALID, f"must be a string, got {shown(text)}")
    return tuple(item for item in value if isinstance(item, str))


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
            for entry in level
            if isinstance(entry, dict | list)
            for inner in (entry.values() if isinstance(entry, dict) else entry)
        ]
        if not level:
            return False
    return True


def without_nulls(value: Any) -> Any:
    """A deep copy of ``value`` without null fields, which Kubernetes treats as absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(field) for key, field in value.items() if field is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


MOST_VARIABLES: Final = 5_000
"""Maximum of entries of one list in a pod; objects in etcd do not have many more."""


def read_template(controller: Reader) -> dict[str, Any] | None:
    """The template, a copy without nulls; None if there is none."""
    value = controller.value.get("template")
    if value is None:
        return None
    template = controller.child("template")
    # Before the functions that recurse: too deep a template would raise RecursionError in them.
    if too_deep(value):
        add(controller, template.path, ErrorKind.INVALID, "is nested deeper than any pod")
        return {}
    refuse_unknown(template, ("metadata", "spec"))
    _read(template, _TEMPLATE)
    copied: dict[str, Any] = without_nulls(template.value)
    return copied


def read_environment(holder: Reader, key: str) -> tuple[Mapping[str, Any], ...]:
    """The variables in a list, copies without nulls."""
    entries = holder.children(key, MOST_VARIABLES)
    for entry in entries:
        entry.optional_string("name")
        entry.optional_string("value")
        for source in entry.child("valueFrom").value:
            entry.child("valueFrom").child(source)
    return tuple(without_nulls(entry.value) for entry in entries)


Shape = Mapping[str, Any]
"""How each field of an object is read: by a function, as an object of a shape, or (in a tuple) as a list of these."""

_TEXT: Final = Reader.optional_string
# Seconds of a pod are an int64 in the API, ports an int32.
_LONG: Final = partial(signed, bits=64)
_ANY: Final[Shape] = {}
_NAMED: Final[Shape] = {"name": _TEXT}
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TO_PODS: Final[Shape] = {REQUIRED: (_ANY,), _PREFERRED: (_ANY,)}
_RESOURCES: Final[Shape] = {"requests": _ANY, "limits": _ANY}
"""Their contents are checked elsewhere."""
_CONTAINER: Final[Shape] = {
    **dict.fromkeys(("name", "image", "imagePullPolicy", "restartPolicy", "workingDir"), _TEXT),
    **dict.fromkeys(("command", "args"), texts),
    "env": read_environment,
    **dict.fromkeys(("securityContext", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"), _ANY),
    "ports": ({"containerPort": signed, "hostPort": signed, "name": _TEXT, "protocol": _TEXT, "hostIP": _TEXT},),
    "volumeMounts": (dict.fromkeys(("name", "mountPath", "subPath"), _TEXT),),
    "envFrom": (_ANY,),
    "resources": _RESOURCES,
}
_POD: Final[Shape] = {
    **dict.fromkeys(("restartPolicy", "dnsPolicy", "priorityClassName", "schedulerName", "serviceAccountName"), _TEXT),
    **dict.fromkeys(("hostname", "subdomain", "nodeName", "runtimeClassName", "preemptionPolicy"), _TEXT),
    **dict.fromkeys(("hostNetwork", "hostPID", "hostIPC"), Reader.boolean),
    **dict.fromkeys(("terminationGracePeriodSeconds", "activeDeadlineSeconds"), _LONG),
    "nodeSelector": Reader.strings,
    **dict.fromkeys(("securityContext", "dnsConfig", "overhead"), _ANY),
    "resources": _RESOURCES,
    "affinity": {
        "podAffinity": _TO_PODS,
        "podAntiAffinity": _TO_PODS,
        "nodeAffinity": {_PREFERRED: (_ANY,), REQUIRED: {"nodeSelectorTerms": (_ANY,)}},
    },
    "tolerations": (dict.fromkeys(("key", "operator", "value", "effect"), _TEXT),),
    **dict.fromkeys(("volumes", "imagePullSecrets"), (_NAMED,)),
    **dict.fromkeys(("schedulingGates", "readinessGates", "topologySpreadConstraints", "hostAliases"), (_ANY,)),
    "resourceClaims": (_ANY,),
    **dict.fromkeys(("initContainers", "containers"), (_CONTAINER,)),
}
_TEMPLATE: Final[Shape] = {"metadata": {"labels": Reader.strings, "annotations": Reader.strings}, "spec": _POD}


def _read(reader: Reader, shape: Shape) -> None:
    """Report fields of another type than in the shape."""
    for key, kind in shape.items():
        if isinstance(kind, tuple):
            for entry in reader.children(key, MOST_VARIABLES):
                _read(entry, kind[0])
        elif isinstance(kind, Mapping):
            _read(reader.child(key), kind)
        else:
            kind(reader, key)

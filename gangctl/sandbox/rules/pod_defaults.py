"""What the server fills into pods and pod templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from gangctl.sandbox.objects import Object

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_SPEC_DEFAULTS: Final = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
_CONTAINER_STATUS: Final[Object] = {
    "state": {},
    "lastState": {},
    "ready": False,
    "restartCount": 0,
    "image": "",
    "imageID": "",
}
_FILE_MODE: Final = 0o644
_TOKEN_SECONDS: Final = 3600
_VOLUMES_WITH_MODE: Final = ("configMap", "secret", "downwardAPI", "projected")
# What the DefaultTolerationSeconds plugin adds: by default a pod tolerates a lost node for five minutes.
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300


def containers(spec: Object) -> Iterator[Object]:
    """Containers of a pod spec, then its init containers."""
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def default_template(template: Object) -> None:
    """Fill in a PodTemplateSpec, in place."""
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def default_spec(spec: Object) -> None:
    """Fill in what pods and templates have in common, in place."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name
    for field, value in _SPEC_DEFAULTS.items():
        spec.setdefault(field, value)
    spec.setdefault("securityContext", {})
    for container in containers(spec):
        _default_container(container)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    for constraint in spec.get("topologySpreadConstraints", ()):
        constraint.setdefault("whenUnsatisfiable", "DoNotSchedule")


def default_pod(pod: Object) -> None:
    """Fill in a pod, in place."""
    spec = pod.setdefault("spec", {})
    default_spec(spec)
    for container in containers(spec):
        resources = container.get("resources", {})
        for name, limit in resources.get("limits", {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort"))
    spec.setdefault("enableServiceLinks", True)
    default_conditions(pod, "lastProbeTime", "lastTransitionTime")
    for field in ("containerStatuses", "initContainerStatuses"):
        for status in pod.get("status", {}).get(field, ()):
            for name, value in _CONTAINER_STATUS.items():
                status.setdefault(name, dict(value) if isinstance(value, dict) else value)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1


def default_conditions(obj: Object, *times: str) -> None:
    """The times that Go writes of a condition, null where they are not known."""
    for condition in obj.get("status", {}).get("conditions", ()):
        for time in times:
            condition.setdefault(time, None)


def _default_container(container: Object) -> None:
    container.setdefault("name", "")
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for field in _PROBES:
        probe = container.get(field)
        if probe is not None:
            for name, value in _PROBE_DEFAULTS.items():
                probe.setdefault(name, value)
            _default_action(probe)
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict):
            _default_action(hook)
    for variable in container.get("env", ()):
        _default_source(variable.get("valueFrom", {}))


def _default_source(source: Object) -> None:
    """Defaults of a downward API reference."""
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "resourceFieldRef" in source:
        source["resourceFieldRef"].setdefault("divisor", "0")


def _default_action(action: Object) -> None:
    get = action.get("httpGet")
    if get is not None:
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")
    grpc = action.get("grpc")
    if grpc is not None:
        grpc.setdefault("service", "")


def _pull_policy(image: str) -> str:
    """Always for ``latest``, which is also what an image without tag and digest is."""
    if "@" in image:
        return "IfNotPresent"
    tag = re.search(r":([\w.-]+)$", image)
    return "Always" if tag is None or tag[1] == "latest" else "IfNotPresent"


def _default_volume(volume: Object) -> None:
    if len(volume) <= 1:
        # A volume of no kind is an emptyDir.
        volume["emptyDir"] = {}
    for field in _VOLUMES_WITH_MODE:
        if isinstance(volume.get(field), dict):
            volume[field].setdefault("defaultMode", _FILE_MODE)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    for source in volume.get("projected", {}).get("sources", ()):
        token = source.get("serviceAccountToken")
        if token is not None:
            token.setdefault("expirationSeconds", _TOKEN_SECONDS)
    items = [*volume.get("downwardAPI", {}).get("items", ())]
    for source in volume.get("projected", {}).get("sources", ()):
        items += source.get("downwardAPI", {}).get("items", ())
    for item in items:
        _default_source(item)
    claim = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if claim is not None:
        claim.setdefault("metadata", {})
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def add_default_tolerations(spec: Object) -> None:
    """Add the default tolerations of the admission plugin."""
    present: list[Any] = spec.get("tolerations", [])
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in _TOLERATED
        if not any(_bears(each, key) for each in present)
    ]
    if added:
        spec["tolerations"] = [*present, *added]


def _bears(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in {key, ""} and toleration.get("effect", "") in {"NoExecute", ""}


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from CPU and memory of all containers."""
    requested, limited, guaranteed = False, False, True
    for container in containers(spec):
        resources = container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        requested |= any(name in requests for name in ("cpu", "memory"))
        limited |= any(name in limits for name in ("cpu", "memory"))
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                guaranteed = False
    if not requested and not limited:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"

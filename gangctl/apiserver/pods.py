"""Pod templates: defaults, and the gang reference, which is kept or dropped by feature gate.

The defaults of probes, hooks and volumes are left out: what checks them knows what a missing field means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gangctl.api.names import dns_label, dns_subdomain, qualified_name
from gangctl.apiserver.metadata import Causes, Object
from gangctl.apiserver.resources import validate_limits_of_pod

SCHEDULING_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")
"""What may change in the pod templates of a suspended Job or JobSet."""
_SPEC_DEFAULTS: Final = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
UNQUALIFIED: Final = "must be a standard resource type or fully qualified"
NOT_OF_CONTAINERS: Final = "must be a standard resource for containers"
_OF_QUOTAS: Final = "requests."
_OF_CONTAINERS: Final = re.compile(r"cpu|memory|ephemeral-storage|hugepages-.*")
_STANDARD: Final = re.compile(
    r"((requests\.|limits\.)?(cpu|memory|ephemeral-storage)|(requests\.)?(storage|hugepages-.*)|pods|services|secrets"
    r"|configmaps|resourcequotas|replicationcontrollers|persistentvolumeclaims|services\.(nodeports|loadbalancers))"
)


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
        # The deprecated field is an alias, and both are written.
        spec["serviceAccountName"] = spec["serviceAccount"] = name
    for field, value in _SPEC_DEFAULTS.items():
        fill(spec, field, value)
    spec.setdefault("securityContext", {})
    for container in containers(spec):
        container.setdefault("name", "")
        container.setdefault("resources", {})
        fill(container, "terminationMessagePath", "/dev/termination-log")
        fill(container, "terminationMessagePolicy", "File")
        fill(container, "imagePullPolicy", _pull_policy(container.get("image", "")))
        for port in container.get("ports", ()):
            fill(port, "protocol", "TCP")
    for constraint in spec.get("topologySpreadConstraints", ()):
        constraint.setdefault("whenUnsatisfiable", "DoNotSchedule")


def fill(obj: Object, field: str, value: Any) -> None:
    """Fill in one field; to Go an empty text is a field that is not there."""
    if obj.get(field) in (None, ""):
        obj[field] = value


def default_conditions(obj: Object, *times: str) -> None:
    """The times that Go writes of a condition, null where they are not known."""
    for condition in obj.get("status", {}).get("conditions", ()):
        for time in times:
            condition.setdefault(time, None)


def _pull_policy(image: str) -> str:
    """Always for ``latest``, which is also what an image without tag and digest is (``ParseImageName``)."""
    name, _, digest = image.partition("@")
    match = re.search(r":([\w.-]+)$", name)
    tag = match[1] if match else "" if digest else "latest"
    return "Always" if tag == "latest" else "IfNotPresent"


def drop_reference(spec: Object, minor: str, gates: Mapping[str, bool]) -> None:
    """Drop the reference in a pod spec where its gate is off."""
    if not gates.get("GenericWorkload"):
        spec.pop(("workloadRef" if minor == "1.35" else "schedulingGroup"), None)
    # Off on every minor that has it, and not read here.
    spec.pop("evictionResponders", None)


def validate_resource_names(spec: Object, path: str, causes: Causes) -> None:
    """Check the resources of containers (``ValidateContainerResourceName``)."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            resources = container.get("resources") or {}
            for kind in ("limits", "requests"):
                for name in resources.get(kind) or ():
                    _resource_name(name, f"{path}.{field}[{index}].resources.{kind}[{name}]", causes)


def validate_only_of_pods(spec: Object, path: str, causes: Causes) -> None:
    """Check what an API server takes in a template and refuses of its pods.

    ``validateContainersOnlyForPod``, ``validateImageVolumeSource`` before 1.37, which refuses such a template, too, and
    what pods have by default: requests that are the limits, and in the node's network host ports.
    """
    validate_limits_of_pod(spec, path, causes)
    taken: set[str] = set()
    for index, container in enumerate(spec.get("containers") or () if spec.get("hostNetwork") else ()):
        for number, port in enumerate(container.get("ports") or ()):
            used = port.get("hostPort") or port.get("containerPort", 0)
            key = f"{port.get('protocol') or 'TCP'}/{port.get('hostIP', '')}/{used}"
            if key in taken:
                causes.duplicate(f"{path}.containers[{index}].ports[{number}].hostPort", key)
            taken.add(key)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            image = container.get("image", "")
            if image != image.strip():
                detail = "must not have leading or trailing whitespace"
                causes.invalid(f"{path}.{field}[{index}].image", image, detail)
    for index, volume in enumerate(spec.get("volumes") or ()):
        if "image" in volume and not (volume["image"] or {}).get("reference"):
            causes.required(f"{path}.volumes[{index}].image.reference")


def _resource_name(name: str, path: str, causes: Causes) -> None:
    if (wrong := qualified_name(name)) or "/" in name:
        causes.invalid_each(path, name, wrong)
    elif not _STANDARD.fullmatch(name):
        causes.invalid(path, name, UNQUALIFIED)
    if "/" not in name:
        if not _OF_CONTAINERS.fullmatch(name):
            causes.invalid(path, name, NOT_OF_CONTAINERS)
    elif "kubernetes.io/" not in name and (name.startswith(_OF_QUOTAS) or qualified_name(f"{_OF_QUOTAS}{name}")):
        causes.invalid(path, name, "doesn't follow extended resource name standard")


def validate_reference(spec: Object, path: str, causes: Causes) -> None:
    """Check the gang that a pod names."""
    group = spec.get("schedulingGroup")
    if group is not None:
        where = f"{path}.schedulingGroup.podGroupName"
        if "podGroupName" not in group:
            causes.invalid(where, None, "must specify one of: `podGroupName`")
        else:
            causes.invalid_each(where, group["podGroupName"], dns_subdomain(group["podGroupName"]))
    reference = spec.get("workloadRef")
    if reference is not None:
        for field, check in (("name", dns_subdomain), ("podGroup", dns_label)):
            value = reference.get(field, "")
            causes.invalid_each(f"{path}.workloadRef.{field}", value, check(value))
        key = reference.get("podGroupReplicaKey", "")
        if key:
            causes.invalid_each(f"{path}.workloadRef.podGroupReplicaKey", key, dns_label(key))

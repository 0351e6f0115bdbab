"""What is wrong with pods and pod templates, as far as gangs, controllers and people's usual mistakes go.

Volumes, probes and security contexts are taken as they come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.api.quantity import parse_quantity
from gangctl.sandbox.errors import Cause
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_annotations, validate_labels

_RESTART: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_STANDARD_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})
_PORTS: Final = range(1, 65536)


def validate_template(template: Object, path: str, causes: Causes) -> None:
    """Check a PodTemplateSpec at ``path``."""
    metadata = template.get("metadata", {})
    # Not metadata.labels: the server says it so.
    validate_labels(metadata.get("labels", {}), f"{path}.labels", causes)
    validate_annotations(metadata.get("annotations", {}), f"{path}.annotations", causes)
    validate_spec(template.get("spec", {}), f"{path}.spec", causes)
    for index, _ in enumerate(template.get("spec", {}).get("ephemeralContainers", ())):
        causes.forbidden(
            f"{path}.spec.ephemeralContainers[{index}]", "ephemeral containers not allowed in pod template"
        )
        break


def validate_spec(spec: Object, path: str, causes: Causes) -> None:
    """Check a pod spec at ``path``."""
    seen_volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes", ())):
        _volume(volume, f"{path}.volumes[{index}]", seen_volumes, causes)
    _containers(spec, "containers", path, seen_volumes, causes)
    _containers(spec, "initContainers", path, seen_volumes, causes)
    if spec.get("restartPolicy") not in _RESTART:
        causes.unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART)
    if spec.get("dnsPolicy") not in _DNS:
        causes.unsupported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        causes.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        causes.invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    validate_labels(spec.get("nodeSelector", {}), f"{path}.nodeSelector", causes)
    for field, check in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("priorityClassName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
    ):
        if spec.get(field):
            causes.invalid_each(f"{path}.{field}", spec[field], check(spec[field]))
    for index, toleration in enumerate(spec.get("tolerations", ())):
        _toleration(toleration, f"{path}.tolerations[{index}]", causes)
    _scheduling_gates(spec.get("schedulingGates", ()), f"{path}.schedulingGates", causes)
    validate_reference(spec, path, causes)


def validate_reference(spec: Object, path: str, causes: Causes) -> None:
    """Check the gang that a pod says it belongs to."""
    group = spec.get("schedulingGroup")
    if group is not None:
        where = f"{path}.schedulingGroup.podGroupName"
        if "podGroupName" not in group:
            causes.invalid(where, None, "must specify one of: `podGroupName`")
        else:
            causes.invalid_each(where, group["podGroupName"], names.dns_subdomain(group["podGroupName"]))
    reference = spec.get("workloadRef")
    if reference is not None:
        for field, check in (("name", names.dns_subdomain), ("podGroup", names.dns_label)):
            value = reference.get(field, "")
            causes.invalid_each(f"{path}.workloadRef.{field}", value, check(value))
        key = reference.get("podGroupReplicaKey", "")
        if key:
            causes.invalid_each(f"{path}.workloadRef.podGroupReplicaKey", key, names.dns_label(key))


def _volume(volume: Object, path: str, seen: set[str], causes: Causes) -> None:
    sources = [field for field in volume if field != "name"]
    for field in sources[1:]:
        causes.forbidden(f"{path}.{field}", "may not specify more than 1 volume type")
    name = volume.get("name", "")
    if not name:
        causes.required(f"{path}.name")
    else:
        causes.invalid_each(f"{path}.name", name, names.dns_label(name))
        if name in seen:
            causes.duplicate(f"{path}.name", name)
        seen.add(name)


def _containers(spec: Object, field: str, path: str, volumes: set[str], causes: Causes) -> None:
    listed = spec.get(field) or ()
    if not listed and field == "containers":
        causes.required(f"{path}.containers")
    seen = {each.get("name") for each in spec.get("containers") or ()} if field == "initContainers" else set()
    for index, container in enumerate(listed):
        where = f"{path}.{field}[{index}]"
        _container(container, where, volumes, causes)
        name = container.get("name", "")
        if name and name in seen:
            causes.duplicate(f"{where}.name", name)
        seen.add(name)


def _container(container: Object, path: str, volumes: set[str], causes: Causes) -> None:
    name = container.get("name", "")
    if not name:
        causes.required(f"{path}.name")
    else:
        causes.invalid_each(f"{path}.name", name, names.dns_label(name))
    image = container.get("image", "")
    if not image:
        causes.required(f"{path}.image")
    elif image != image.strip():
        causes.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    _ports(container.get("ports", ()), f"{path}.ports", causes)
    _environment(container.get("env", ()), f"{path}.env", causes)
    _mounts(container.get("volumeMounts", ()), f"{path}.volumeMounts", volumes, causes)
    if container.get("imagePullPolicy") not in _PULL:
        causes.unsupported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL)
    _resources(container.get("resources", {}), f"{path}.resources", causes)


def _environment(variables: Sequence[Object], path: str, causes: Causes) -> None:
    for index, variable in enumerate(variables):
        where = f"{path}[{index}].name"
        if not variable.get("name"):
            causes.required(where)
        else:
            causes.invalid_each(where, variable["name"], names.env_name(variable["name"]))


def _mounts(mounts: Sequence[Object], path: str, volumes: set[str], causes: Causes) -> None:
    for index, mount in enumerate(mounts):
        where = f"{path}[{index}]"
        if not mount.get("name"):
            causes.required(f"{where}.name")
        elif mount["name"] not in volumes:
            causes.append(Cause("FieldValueNotFound", f"{where}.name", f'Not found: "{mount["name"]}"'))
        if not mount.get("mountPath"):
            causes.required(f"{where}.mountPath")


def _ports(ports: Sequence[Object], path: str, causes: Causes) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            causes.invalid_each(f"{where}.name", name, names.port_name(name))
            if name in seen:
                causes.duplicate(f"{where}.name", name)
            seen.add(name)
        number = port.get("containerPort", 0)
        if not number:
            causes.required(f"{where}.containerPort")
        elif number not in _PORTS:
            causes.invalid(f"{where}.containerPort", number, "must be between 1 and 65535, inclusive")
        if port.get("protocol") not in _PROTOCOLS:
            causes.unsupported(f"{where}.protocol", port.get("protocol"), _PROTOCOLS)


def _resources(resources: Object, path: str, causes: Causes) -> None:
    limits: Mapping[str, str] = resources.get("limits", {})
    for name, text in limits.items():
        _quantity(name, text, f"{path}.limits[{name}]", causes)
    for name, text in resources.get("requests", {}).items():
        _quantity(name, text, f"{path}.requests[{name}]", causes)
        if name in limits and parse_quantity(text) > parse_quantity(limits[name]):
            causes.invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limits[name]}")
        elif name not in limits and "/" in name and "kubernetes.io/" not in name:
            causes.required(f"{path}.limits", "Limit must be set for non overcommitable resources")


def _quantity(name: str, text: str, path: str, causes: Causes) -> None:
    if "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
        causes.invalid(path, name, "must be a standard resource type or fully qualified")
        causes.invalid(path, name, "must be a standard resource for containers")
    if parse_quantity(text) < 0:
        causes.invalid(path, text, "must be greater than or equal to 0")


def _toleration(toleration: Object, path: str, causes: Causes) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    if key:
        causes.invalid_each(f"{path}.key", key, names.qualified_name(key))
    elif operator != "Exists":
        told = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.invalid(f"{path}.operator", operator, told)
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        causes.invalid(
            f"{path}.effect", toleration.get("effect", ""), "effect must be 'NoExecute' when `tolerationSeconds` is set"
        )
    if operator == "Exists" and toleration.get("value"):
        causes.invalid(f"{path}.operator", toleration, "value must be empty when `operator` is 'Exists'")
    if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
        causes.unsupported(f"{path}.effect", toleration["effect"], _EFFECTS)


def _scheduling_gates(gates: Sequence[Object], path: str, causes: Causes) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        causes.invalid_each(f"{path}[{index}]", name, names.qualified_name(name))
        if name in seen:
            causes.duplicate(f"{path}[{index}].name", name)
        seen.add(name)

"""What an API server refuses of the containers of a pod: ``validateContainers`` of ``pkg/apis/core/validation``.

Left out are variables of files (``fileKeyRef``) and what rules for restarts have in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.api.names import begins_subdomain, config_map_key, dns_subdomain, port_name, variable_name
from gangctl.apiserver.downwardapi import FIELDS_OF_VARIABLES, validate_field, validate_resource_field
from gangctl.apiserver.metadata import Causes, Object, validate_member
from gangctl.apiserver.mounts import validate_mounts
from gangctl.apiserver.probes import MOST_PORT, PROBES, validate_probes
from gangctl.apiserver.resources import validate_resources
from gangctl.apiserver.securitycontexts import validate_context

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_OF_SIDECARS: Final = ("lifecycle", *PROBES)


def validate_containers(spec: Object, volumes: Mapping[str, str], claims: set[str], path: str, causes: Causes) -> None:
    """Check containers and init containers; ``volumes`` (sources by name) and ``claims`` are those of the pod."""
    if not spec.get("containers"):
        causes.required(f"{path}.containers")
    grace = spec["terminationGracePeriodSeconds"]
    names: set[str] = set()
    ports: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        place = f"{path}.containers[{index}]"
        _container(container, names, volumes, claims, place, causes)
        _host_ports(container, ports, place, causes, host_network=bool(spec.get("hostNetwork")))
        _restarts(spec, container, place, causes)
        validate_probes(container, grace, place, causes)
    for index, container in enumerate(spec.get("initContainers") or ()):
        place = f"{path}.initContainers[{index}]"
        _container(container, names, volumes, claims, place, causes)
        # Each by itself: they run one after the other.
        _host_ports(container, set(), place, causes)
        _restarts(spec, container, place, causes)
        if container.get("restartPolicy") == "Always":
            validate_probes(container, grace, place, causes)
            continue
        for field in _OF_SIDECARS:
            if field in container:
                causes.forbidden(f"{place}.{field}", "may not be set for init containers without restartPolicy=Always")


def _container(  # noqa: PLR0917 -- what a container is checked against
    container: Object, names: set[str], volumes: Mapping[str, str], claims: set[str], path: str, causes: Causes
) -> None:
    validate_member(container["name"], names, f"{path}.name", causes)
    names.add(container["name"])
    if not container.get("image"):
        causes.required(f"{path}.image")
    for field, supported in (("terminationMessagePolicy", _MESSAGE_POLICIES), ("imagePullPolicy", _PULL_POLICIES)):
        if container[field] not in supported:
            causes.unsupported(f"{path}.{field}", container[field], supported)
    _ports(container.get("ports") or (), f"{path}.ports", causes)
    for index, variable in enumerate(container.get("env") or ()):
        _variable(variable, f"{path}.env[{index}]", causes)
    _environment(container.get("envFrom") or (), f"{path}.envFrom", causes)
    validate_mounts(container, volumes, path, causes)
    validate_resources(container["resources"], claims, f"{path}.resources", causes)
    validate_context(container, path, causes)


def _restarts(spec: Object, container: Object, path: str, causes: Causes) -> None:
    policy = container.get("restartPolicy")
    if policy is not None and policy not in _RESTART_POLICIES:
        causes.unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    elif policy is None and container.get("restartPolicyRules"):
        causes.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    for resize in container.get("resizePolicy") or ():
        how = resize.get("restartPolicy", "")
        if spec["restartPolicy"] == "Never" and how != "NotRequired":
            # Without an index, as ``validateResizePolicy`` reports it.
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            causes.invalid(f"{path}.resizePolicy", how, detail)


def _ports(ports: Sequence[Object], path: str, causes: Causes) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        place, name = f"{path}[{index}]", port.get("name", "")
        if name and (details := port_name(name)):
            causes.invalid_each(f"{place}.name", name, details)
        elif name in names:
            causes.duplicate(f"{place}.name", name)
        names |= {name} if name else set()
        number = port.get("containerPort", 0)
        if number == 0:
            causes.required(f"{place}.containerPort")
        for field in ("containerPort", "hostPort"):
            if port.get(field) and not 0 < port[field] <= MOST_PORT:
                causes.invalid(f"{place}.{field}", port[field], f"must be between 1 and {MOST_PORT}, inclusive")
        if port["protocol"] not in _PROTOCOLS:
            causes.unsupported(f"{place}.protocol", port["protocol"], _PROTOCOLS)


def _host_ports(container: Object, taken: set[str], path: str, causes: Causes, *, host_network: bool = False) -> None:
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("hostPort")
        if not number:
            continue
        key, place = f"{port['protocol']}/{port.get('hostIP', '')}/{number}", f"{path}.ports[{index}].hostPort"
        if key in taken:
            causes.duplicate(place, key)
        taken.add(key)
        if host_network and number != port.get("containerPort"):
            causes.invalid(place, number, "must match `containerPort` when `hostNetwork` is true")


def _variable(variable: Object, path: str, causes: Causes) -> None:
    name, source = variable.get("name", ""), variable.get("valueFrom")
    if not name:
        causes.required(f"{path}.name")
    else:
        causes.invalid_each(f"{path}.name", name, variable_name(name))
    if source is not None:
        _source(source, f"{path}.valueFrom", causes, has_value=bool(variable.get("value")))


def _source(source: Object, path: str, causes: Causes, *, has_value: bool) -> None:
    if "fieldRef" in source:
        validate_field(source["fieldRef"], FIELDS_OF_VARIABLES, f"{path}.fieldRef", causes)
    if "resourceFieldRef" in source:
        validate_resource_field(source["resourceFieldRef"], f"{path}.resourceFieldRef", causes)
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            _key(source[field], f"{path}.{field}", causes)
    if not source:
        sources = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        causes.invalid(path, "", f"must specify one of: {sources}")
    elif has_value:
        causes.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        causes.invalid(path, "", "may not have more than one field specified at a time")


def _key(reference: Object, path: str, causes: Causes) -> None:
    name, key = reference.get("name", ""), reference.get("key", "")
    causes.invalid_each(f"{path}.name", name, dns_subdomain(name))
    if not key:
        causes.required(f"{path}.key")
    else:
        causes.invalid_each(f"{path}.key", key, config_map_key(key))


def _environment(sources: Sequence[Object], path: str, causes: Causes) -> None:
    for index, source in enumerate(sources):
        given = [field for field in ("configMapRef", "secretRef") if field in source]
        for field in given:
            place, name = f"{path}[{index}].{field}.name", source[field].get("name", "")
            if not name:
                causes.required(place)
            else:
                causes.invalid_each(place, name, begins_subdomain(name))
        if len(given) != 1:
            detail = "may not have more than one field specified at a time"
            detail = detail if given else "must specify one of: `configMapRef` or `secretRef`"
            # Without an index, as ``validateEnvFrom`` reports it.
            causes.invalid(path, "", detail)

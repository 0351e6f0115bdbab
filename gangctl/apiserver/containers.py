"""What an API server refuses of the containers of a pod: ``validateContainers`` of ``pkg/apis/core/validation``.

Left out is how many rules for restarts there may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.api.names import begins_subdomain, config_map_key, dns_label, dns_subdomain, port_name, variable_name
from gangctl.apiserver.downwardapi import FIELDS_OF_VARIABLES, validate_field, validate_resource_field
from gangctl.apiserver.metadata import Causes, FieldCause, Object, validate_member
from gangctl.apiserver.mounts import validate_mounts
from gangctl.apiserver.paths import validate_no_backsteps
from gangctl.apiserver.pods import PULL_POLICIES
from gangctl.apiserver.probes import MOST_PORT, PROBES, validate_probes
from gangctl.apiserver.resources import validate_resources
from gangctl.apiserver.securitycontexts import validate_context

_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS: Final = ("Restart", "RestartAllContainers")
_AMONG: Final = ("In", "NotIn")
_RESIZED: Final = ("cpu", "memory")
_RESIZES: Final = ("NotRequired", "RestartContainer")
_OF_SIDECARS: Final = ("lifecycle", *PROBES)


def validate_containers(spec: Object, volumes: Mapping[str, str], claims: set[str], path: str, causes: Causes) -> None:
    """Check containers and init containers; ``volumes`` (sources by name) and ``claims`` are those of the pod."""
    if not spec.get("containers"):
        causes.required(f"{path}.containers")
    grace, host_users = spec["terminationGracePeriodSeconds"], spec.get("hostUsers") is not False
    names: set[str] = set()
    ports: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        place = f"{path}.containers[{index}]"
        _container(container, names, volumes, claims, place, causes)
        validate_context(container, place, causes, host_users=host_users)
        _host_ports(container, ports, place, causes, host_network=bool(spec.get("hostNetwork")))
        _restarts(spec, container, place, causes)
        validate_probes(container, grace, place, causes)
    for index, container in enumerate(spec.get("initContainers") or ()):
        place = f"{path}.initContainers[{index}]"
        _container(container, names, volumes, claims, place, causes)
        validate_context(container, place, causes, host_users=host_users)
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
    for field, supported in (("terminationMessagePolicy", _MESSAGE_POLICIES), ("imagePullPolicy", PULL_POLICIES)):
        if container[field] not in supported:
            causes.unsupported(f"{path}.{field}", container[field], supported)
    _ports(container.get("ports") or (), f"{path}.ports", causes)
    for index, variable in enumerate(container.get("env") or ()):
        _variable(variable, volumes, f"{path}.env[{index}]", causes)
    _environment(container.get("envFrom") or (), f"{path}.envFrom", causes)
    validate_mounts(container, volumes, path, causes)
    validate_resources(container["resources"], claims, f"{path}.resources", causes)


def _restarts(spec: Object, container: Object, path: str, causes: Causes) -> None:
    policy = container.get("restartPolicy")
    if policy is not None and policy not in _RESTART_POLICIES:
        causes.unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    elif policy is None and container.get("restartPolicyRules"):
        causes.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    rules, place = container.get("restartPolicyRules") or (), f"{path}.restartPolicyRules"
    for index, rule in enumerate(rules):
        _restart_rule(rule, f"{place}[{index}]", causes)
    _resizes(spec, container.get("resizePolicy") or (), f"{path}.resizePolicy", causes)


def _restart_rule(rule: Object, path: str, causes: Causes) -> None:
    # That of all containers depends on a feature gate that is off on 1.35.
    if (action := rule.get("action", "")) not in _RESTART_ACTIONS:
        causes.unsupported(f"{path}.action", action, _RESTART_ACTIONS)
    codes, path = rule.get("exitCodes"), f"{path}.exitCodes"
    if codes is None:
        causes.required(path, "must be specified")
        return
    if (operator := codes.get("operator", "")) not in _AMONG:
        causes.unsupported(f"{path}.operator", operator, _AMONG)


def _resizes(spec: Object, resizes: Sequence[Object], path: str, causes: Causes) -> None:
    names: set[str] = set()
    for index, resize in enumerate(resizes):
        name, how = resize.get("resourceName", ""), resize.get("restartPolicy", "")
        if name in names:
            causes.duplicate(f"{path}[{index}]", name)
        names.add(name)
        # Without an index, as ``validateResizePolicy`` reports them.
        for given, supported in ((name, _RESIZED), (how, _RESIZES)):
            if not given:
                causes.required(path)
            elif given not in supported:
                causes.unsupported(path, given, supported)
        if spec["restartPolicy"] == "Never" and how != "NotRequired":
            causes.invalid(path, how, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


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


def _variable(variable: Object, volumes: Mapping[str, str], path: str, causes: Causes) -> None:
    name, source = variable.get("name", ""), variable.get("valueFrom")
    if not name:
        causes.required(f"{path}.name")
    else:
        causes.invalid_each(f"{path}.name", name, variable_name(name))
    if source is not None:
        _source(source, volumes, f"{path}.valueFrom", causes, has_value=bool(variable.get("value")))


def _source(source: Object, volumes: Mapping[str, str], path: str, causes: Causes, *, has_value: bool) -> None:
    if "fieldRef" in source:
        validate_field(source["fieldRef"], FIELDS_OF_VARIABLES, f"{path}.fieldRef", causes)
    if "resourceFieldRef" in source:
        validate_resource_field(source["resourceFieldRef"], f"{path}.resourceFieldRef", causes)
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            _key(source[field], f"{path}.{field}", causes)
    if "fileKeyRef" in source:
        _file_key(source["fileKeyRef"], volumes, f"{path}.fileKeyRef", causes)
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


def _file_key(reference: Object, volumes: Mapping[str, str], path: str, causes: Causes) -> None:
    given = {field: reference.get(field, "") for field in ("key", "volumeName", "path")}
    for field, text in given.items():
        if not text:
            causes.required(f"{path}.{field}")
    causes.invalid_each(f"{path}.key", given["key"], variable_name(given["key"]))
    validate_no_backsteps(given["path"], f"{path}.path", causes)
    name = given["volumeName"]
    if name and (wrong := dns_label(name)):
        causes.invalid_each(f"{path}.volumeName", name, wrong)
    if name not in volumes:
        causes.append(FieldCause("FieldValueNotFound", f"{path}.volumeName", f'Not found: "{name}"'))
    elif volumes[name] != "emptyDir":
        causes.invalid(f"{path}.volumeName", name, "referenced volume must be of type emptyDir")


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

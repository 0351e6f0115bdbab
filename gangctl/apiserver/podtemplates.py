"""What an API server refuses of a pod template: ``ValidatePodTemplateSpec`` of ``pkg/apis/core/validation``.

A template with an error here can never become a pod, and a Job with it is refused. Left out are the fields of single
volume sources, probes, hooks, security contexts, affinity and Windows. ``pods.py`` checks the names of resources.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from gangctl.api.names import dns_label, dns_subdomain, label_value, qualified_name, variable_name
from gangctl.api.objects import INT32_MAX
from gangctl.api.quantity import parse_quantity
from gangctl.apiserver.metadata import Causes, FieldCause, Object, validate_annotations, validate_labels

_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_OF_SIDECARS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_OVERCOMMITTED: Final = re.compile(r"[^/]*|([^/]*\.)?kubernetes\.io/.*")
"""Resources whose requests may be below their limits: those without a prefix, and Kubernetes' own."""
_HUGE_PAGES: Final = "hugepages-"
_MOST_PORT: Final = 65_535
_PORT_NAME: Final = re.compile(r"(?=.{1,15}\Z)(?=.*[a-z])(?!-)(?!.*--)[a-z0-9-]+(?<!-)")


def validate_template(template: Object, path: str, causes: Causes) -> None:
    """Add the errors of a template that has the defaults of the API server."""
    metadata, spec = template["metadata"], template["spec"]
    validate_labels(metadata.get("labels", {}), f"{path}.labels", causes)
    validate_annotations(metadata.get("annotations", {}), f"{path}.annotations", causes)
    path = f"{path}.spec"
    volumes = _volumes(spec.get("volumes") or (), f"{path}.volumes", causes)
    claims = _claims(spec.get("resourceClaims") or (), f"{path}.resourceClaims", causes)
    _containers(spec, volumes, claims, path, causes)
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        causes.unsupported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    validate_labels(spec.get("nodeSelector", {}), f"{path}.nodeSelector", causes)
    _unique_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates", causes)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        _spread(constraint, f"{path}.topologySpreadConstraints[{index}]", causes)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        _toleration(toleration, f"{path}.tolerations[{index}]", causes)
    for field, check in (
        *(("serviceAccountName", dns_subdomain), ("nodeName", dns_subdomain), ("priorityClassName", dns_subdomain)),
        *(("runtimeClassName", dns_subdomain), ("hostname", dns_label), ("subdomain", dns_label)),
    ):
        if text := spec.get(field):
            causes.invalid_each(f"{path}.{field}", text, check(text))
    seconds = spec.get("activeDeadlineSeconds", 1)
    if not 1 <= seconds <= INT32_MAX:
        detail = f"must be between 1 and {INT32_MAX}, inclusive"
        causes.invalid(f"{path}.activeDeadlineSeconds", seconds, detail)
    if spec.get("ephemeralContainers"):
        causes.forbidden(f"{path}.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _name(name: str, known: set[str], path: str, causes: Causes) -> None:
    """Check a name among those of its list, to which it is added."""
    if not name:
        causes.required(path)
    else:
        causes.invalid_each(path, name, dns_label(name))
    if name in known:
        causes.duplicate(path, name)
    known.add(name)


def _volumes(volumes: Sequence[Object], path: str, causes: Causes) -> set[str]:
    """Names of the valid volumes: a mount of another one is refused as well."""
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        before, own = len(causes), set(names)
        _name(volume.get("name", ""), own, f"{path}[{index}].name", causes)
        for source in [field for field, value in volume.items() if field != "name" and value is not None][1:]:
            causes.forbidden(f"{path}[{index}].{source}", "may not specify more than 1 volume type")
        if len(causes) == before:
            names = own
    return names


def _claims(claims: Sequence[Object], path: str, causes: Causes) -> set[str]:
    names: set[str] = set()
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        _name(claim.get("name", ""), names, f"{place}.name", causes)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
        if not sources:
            causes.invalid(place, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        elif len(sources) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            causes.invalid(place, claim, detail)
        for field in sources:
            causes.invalid_each(f"{place}.{field}", claim[field], dns_subdomain(claim[field]))
    return names


def _containers(spec: Object, volumes: set[str], claims: set[str], path: str, causes: Causes) -> None:
    if not spec.get("containers"):
        causes.required(f"{path}.containers")
    names: set[str] = set()
    ports: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        place = f"{path}.containers[{index}]"
        _container(container, names, volumes, claims, place, causes)
        _host_ports(container, ports, place, causes, host_network=bool(spec.get("hostNetwork")))
    for index, container in enumerate(spec.get("initContainers") or ()):
        place = f"{path}.initContainers[{index}]"
        _container(container, names, volumes, claims, place, causes)
        # Each by itself: they run one after the other.
        _host_ports(container, set(), place, causes)
        policy = container.get("restartPolicy")
        if policy == "Always":
            continue
        for field in _OF_SIDECARS:
            if field in container:
                causes.forbidden(f"{place}.{field}", "may not be set for init containers without restartPolicy=Always")


def _container(  # noqa: PLR0917 -- what a container is checked against
    container: Object, names: set[str], volumes: set[str], claims: set[str], path: str, causes: Causes
) -> None:
    _name(container["name"], names, f"{path}.name", causes)
    if not container.get("image"):
        causes.required(f"{path}.image")
    for field, supported in (("terminationMessagePolicy", _MESSAGE_POLICIES), ("imagePullPolicy", _PULL_POLICIES)):
        if container[field] not in supported:
            causes.unsupported(f"{path}.{field}", container[field], supported)
    _ports(container.get("ports") or (), f"{path}.ports", causes)
    for index, variable in enumerate(container.get("env") or ()):
        _variable(variable, f"{path}.env[{index}]", causes)
    for source in container.get("envFrom") or ():
        given = [field for field in ("configMapRef", "secretRef") if field in source]
        if len(given) != 1:
            detail = "may not have more than one field specified at a time"
            detail = detail if given else "must specify one of: `configMapRef` or `secretRef`"
            # Without an index, as ``validateEnvFrom`` reports it.
            causes.invalid(f"{path}.envFrom", "", detail)
    _mounts(container.get("volumeMounts") or (), volumes, f"{path}.volumeMounts", causes)
    _resources(container["resources"], claims, f"{path}.resources", causes)


def _ports(ports: Sequence[Object], path: str, causes: Causes) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        place, name = f"{path}[{index}]", port.get("name", "")
        if name and _PORT_NAME.fullmatch(name) is None:
            detail = (
                "must have at most 15 lower case letters, digits and '-', one letter, and no '-' at an end or twice"
            )
            causes.invalid(f"{place}.name", name, detail)
        elif name in names:
            causes.duplicate(f"{place}.name", name)
        names |= {name} if name else set()
        number = port.get("containerPort", 0)
        if number == 0:
            causes.required(f"{place}.containerPort")
        for field in ("containerPort", "hostPort"):
            if port.get(field) and not 0 < port[field] <= _MOST_PORT:
                causes.invalid(f"{place}.{field}", port[field], f"must be between 1 and {_MOST_PORT}, inclusive")
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
    if source is None:
        return
    if not source:
        sources = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        causes.invalid(f"{path}.valueFrom", "", f"must specify one of: {sources}")
    elif variable.get("value"):
        causes.invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        causes.invalid(f"{path}.valueFrom", "", "may not have more than one field specified at a time")


def _mounts(mounts: Sequence[Object], volumes: set[str], path: str, causes: Causes) -> None:
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        place, name, directory = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.required(f"{place}.name")
        if name not in volumes:
            causes.append(FieldCause("FieldValueNotFound", f"{place}.name", f'Not found: "{name}"'))
        if not directory:
            causes.required(f"{place}.mountPath")
        if directory in places:
            causes.invalid(f"{place}.mountPath", directory, "must be unique")
        places.add(directory)
        if mount.get("subPath") and mount.get("subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            causes.invalid(f"{place}.subPathExpr", mount["subPathExpr"], detail)


def _resources(resources: Object, claims: set[str], path: str, causes: Causes) -> None:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            _amount(name, amount, f"{path}.{field}[{name}]", causes)
    for name, amount in requests.items():
        overcommitted = _OVERCOMMITTED.fullmatch(name) is not None and not name.startswith(_HUGE_PAGES)
        if name in limits:
            _request(name, amount, limits[name], f"{path}.requests", causes, exactly=not overcommitted)
        elif not overcommitted:
            causes.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    names = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        causes.forbidden(path, "HugePages require cpu or memory")
    for index, claim in enumerate(resources.get("claims") or ()):
        if claim.get("name") not in claims:
            name = claim.get("name", "")
            causes.append(FieldCause("FieldValueNotFound", f"{path}.claims[{index}]", f'Not found: "{name}"'))


def _amount(name: str, amount: object, path: str, causes: Causes) -> None:
    with suppress(ValueError):
        value = parse_quantity(str(amount))
        if value < 0:
            causes.invalid(path, str(amount), "must be greater than or equal to 0")
        elif not _OVERCOMMITTED.fullmatch(name) and value.denominator != 1:
            causes.invalid(path, str(amount), "must be an integer")


def _request(name: str, amount: object, limit: object, path: str, causes: Causes, *, exactly: bool) -> None:
    with suppress(ValueError):
        wanted, most = parse_quantity(str(amount)), parse_quantity(str(limit))
        if wanted > most or (exactly and wanted != most):
            relation = "equal to" if exactly else "less than or equal to"
            causes.invalid(path, str(amount), f"must be {relation} {name} limit of {limit}")


def _unique_gates(gates: Sequence[Object], path: str, causes: Causes) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name: Any = gate.get("name", "")
        causes.invalid_each(f"{path}[{index}]", name, qualified_name(name))
        if name in seen:
            causes.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _spread(constraint: Object, path: str, causes: Causes) -> None:
    if constraint.get("maxSkew", 0) <= 0:
        causes.invalid(f"{path}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
    if not constraint.get("topologyKey"):
        causes.required(f"{path}.topologyKey", "can not be empty")
    if constraint["whenUnsatisfiable"] not in _UNSATISFIABLE:
        causes.unsupported(f"{path}.whenUnsatisfiable", constraint["whenUnsatisfiable"], _UNSATISFIABLE)


def _toleration(toleration: Object, path: str, causes: Causes) -> None:
    key, operator, value = (toleration.get(field, "") for field in ("key", "operator", "value"))
    effect = toleration.get("effect", "")
    if key:
        causes.invalid_each(f"{path}.key", key, qualified_name(key))
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.invalid(f"{path}.operator", operator, detail)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        causes.invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    # At the operator, as ``ValidateTolerations`` reports wrong values.
    if operator in {"", "Equal"} and (details := label_value(value)):
        causes.invalid(f"{path}.operator", value, ";".join(details))
    elif operator == "Exists" and value:
        causes.invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    # Lt and Gt need TaintTolerationComparisonOperators, a feature gate of which nothing is known here.
    elif operator not in {"", "Equal", "Exists", "Lt", "Gt"}:
        causes.unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        causes.unsupported(f"{path}.effect", effect, _EFFECTS)

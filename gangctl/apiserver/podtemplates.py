"""What an API server refuses of a pod template: ``ValidatePodTemplateSpec`` of ``pkg/apis/core/validation``.

A template with an error here can never become a pod, and a Job with it is refused. Containers, volumes and the other
parts have modules of their own. Left out are what depends on a feature gate that differs by minor, and annotations
that stand for tolerations, costs of deletion and mirror pods.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final

from gangctl.api.names import dns_label, dns_subdomain, label_value, qualified_name, search_domain
from gangctl.api.objects import INT32_MAX
from gangctl.apiserver.affinity import validate_affinity, validate_label_keys
from gangctl.apiserver.containers import validate_containers
from gangctl.apiserver.metadata import (
    Causes,
    Object,
    selector_causes,
    spelled,
    validate_annotations,
    validate_labels,
    validate_member,
)
from gangctl.apiserver.pods import containers
from gangctl.apiserver.resources import validate_pod_resources, validate_resources
from gangctl.apiserver.securitycontexts import validate_os, validate_pod_context
from gangctl.apiserver.volumes import validate_volumes

_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_PROFILES: Final = ("", "runtime/default", "unconfined")
_LOCAL_PROFILE: Final = "localhost/"
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_MOST_NAMESERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_SEARCHES_LENGTH: Final = 2048
_HOSTNAME_LENGTH: Final = 64
_NODE_POLICIES: Final = ("Honor", "Ignore")
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9])")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")


def validate_template(template: Object, path: str, causes: Causes) -> None:
    """Add the errors of a template that has the defaults of the API server."""
    metadata, spec = template["metadata"], template["spec"]
    validate_labels(metadata.get("labels", {}), f"{path}.labels", causes)
    validate_annotations(metadata.get("annotations", {}), f"{path}.annotations", causes)
    _profiles(metadata.get("annotations", {}), spec, f"{path}.annotations", causes)
    path = f"{path}.spec"
    volumes = validate_volumes(spec.get("volumes") or (), f"{path}.volumes", causes)
    claims = _claims(spec.get("resourceClaims") or (), f"{path}.resourceClaims", causes)
    validate_containers(spec, volumes, claims, path, causes)
    validate_pod_resources(spec, claims, path, causes)
    validate_pod_context(spec, path, causes)
    validate_affinity(spec.get("affinity") or {}, f"{path}.affinity", causes)
    validate_os(spec, path, causes)
    _dns(spec, f"{path}.dnsConfig", causes)
    _aliases(spec.get("hostAliases") or (), f"{path}.hostAliases", causes)
    preemption = spec.get("preemptionPolicy")
    if preemption is not None and preemption not in _PREEMPTION_POLICIES:
        causes.unsupported(f"{path}.preemptionPolicy", preemption, _PREEMPTION_POLICIES)
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        causes.unsupported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    validate_labels(spec.get("nodeSelector", {}), f"{path}.nodeSelector", causes)
    validate_resources({"limits": spec.get("overhead") or {}}, set(), f"{path}.overhead", causes)
    _unique_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates", causes)
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        condition = gate.get("conditionType", "")
        causes.invalid_each(f"{path}.readinessGates[{index}].conditionType", condition, qualified_name(condition))
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        _spread(constraint, f"{path}.topologySpreadConstraints[{index}]", causes)
    _hostname(spec, f"{path}.hostnameOverride", causes)
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


def _profiles(annotations: Mapping[str, str], spec: Object, path: str, causes: Causes) -> None:
    """Check AppArmor's profiles by annotation, as of before it had a field (``ValidateAppArmorPodAnnotations``)."""
    names = {container["name"] for container in containers(spec)}
    for key, profile in sorted(annotations.items()):
        if not key.startswith(_APPARMOR):
            continue
        if (name := key.removeprefix(_APPARMOR)) not in names:
            causes.invalid(f"{path}[{key}]", name, "container not found")
        if profile not in _PROFILES and not profile.startswith(_LOCAL_PROFILE):
            causes.invalid(f"{path}[{key}]", profile, f"invalid AppArmor profile name: {spelled(profile)}")


def _dns(spec: Object, path: str, causes: Causes) -> None:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or ()
    if spec.get("dnsPolicy") == "None":
        if config is None:
            causes.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not servers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            causes.required(f"{path}.nameservers", detail)
    if len(servers) > _MOST_NAMESERVERS:
        detail = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        causes.invalid(f"{path}.nameservers", list(servers), detail)
    for index, server in enumerate(servers):
        _address(server, f"{path}.nameservers[{index}]", causes)
    _searches((config or {}).get("searches") or (), f"{path}.searches", causes)
    for index, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            causes.required(f"{path}.options[{index}]", "must not be empty")


def _searches(searches: Sequence[str], path: str, causes: Causes) -> None:
    if len(searches) > _MOST_SEARCHES:
        causes.invalid(path, list(searches), f"must not have more than {_MOST_SEARCHES} search paths")
    if len(" ".join(searches)) > _SEARCHES_LENGTH:
        detail = f"must not have more than {_SEARCHES_LENGTH} characters (including spaces) in the search list"
        causes.invalid(path, list(searches), detail)
    for index, search in enumerate(searches):
        causes.invalid_each(f"{path}[{index}]", search, search_domain(search))


def _hostname(spec: Object, path: str, causes: Causes) -> None:
    name = spec.get("hostnameOverride")
    if name is None:
        return
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            causes.forbidden(path, f"may not be specified when {field} is true")
    if len(name) > _HOSTNAME_LENGTH:
        causes.too_long(path, _HOSTNAME_LENGTH)
    causes.invalid_each(path, name, dns_subdomain(name))


def _aliases(aliases: Sequence[Object], path: str, causes: Causes) -> None:
    for index, alias in enumerate(aliases):
        _address(alias.get("ip", ""), f"{path}[{index}].ip", causes)
        for number, name in enumerate(alias.get("hostnames") or ()):
            causes.invalid_each(f"{path}[{index}].hostnames[{number}]", name, dns_subdomain(name))


def _address(text: str, path: str, causes: Causes) -> None:
    try:
        # Python reads no leading zeros. The API server of 1.35 does, and later ones without StrictIPCIDRValidation.
        ip_address(_LEADING_ZEROS.sub("", text))
    except ValueError:
        causes.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def _claims(claims: Sequence[Object], path: str, causes: Causes) -> set[str]:
    names: set[str] = set()
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        validate_member(claim.get("name", ""), names, f"{place}.name", causes)
        names.add(claim.get("name", ""))
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
        if not sources:
            causes.invalid(place, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        elif len(sources) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            causes.invalid(place, claim, detail)
        for field in sources:
            causes.invalid_each(f"{place}.{field}", claim[field], dns_subdomain(claim[field]))
    return names


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
    unsatisfiable = constraint["whenUnsatisfiable"]
    if unsatisfiable not in _UNSATISFIABLE:
        causes.unsupported(f"{path}.whenUnsatisfiable", unsatisfiable, _UNSATISFIABLE)
    domains = constraint.get("minDomains")
    if domains is not None and domains <= 0:
        causes.invalid(f"{path}.minDomains", domains, "must be greater than zero")
    if domains is not None and unsatisfiable != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {unsatisfiable}"
        causes.invalid(f"{path}.minDomains", domains, detail)
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if (policy := constraint.get(field)) is not None and policy not in _NODE_POLICIES:
            causes.unsupported(f"{path}.{field}", policy, _NODE_POLICIES)
    validate_label_keys(constraint, path, causes)
    causes += selector_causes(constraint.get("labelSelector") or {}, f"{path}.labelSelector")


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

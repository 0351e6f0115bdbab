"""What an API server refuses of the affinity of a pod: ``validateAffinity`` of ``pkg/apis/core/validation``.

Left out are keys that are in ``matchLabelKeys`` and in the selector, which depends on the labels of a pod.
"""

from __future__ import annotations

from typing import Final

from gangctl.api.names import dns_label, dns_subdomain, label_value, qualified_name
from gangctl.apiserver.metadata import Causes, Object, selector_causes

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MOST_WEIGHT: Final = 100
_AMONG: Final = ("In", "NotIn")
_PRESENT: Final = ("Exists", "DoesNotExist")
_COMPARED: Final = ("Gt", "Lt")
_NAME: Final = "metadata.name"


def validate_affinity(affinity: Object, path: str, causes: Causes) -> None:
    """Check the affinity to nodes, the affinity to pods and the anti-affinity."""
    if "nodeAffinity" in affinity:
        _nodes(affinity["nodeAffinity"], f"{path}.nodeAffinity", causes)
    for field in ("podAffinity", "podAntiAffinity"):
        if field in affinity:
            _pods(affinity[field], f"{path}.{field}", causes)


def validate_label_keys(term: Object, path: str, causes: Causes) -> None:
    """Check a pod's own labels by which it selects others (``ValidateMatchLabelKeysAndMismatchLabelKeys``)."""
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field) or ()
        if keys and term.get("labelSelector") is None:
            causes.forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            causes.invalid_each(f"{path}.{field}[{index}]", key, qualified_name(key))
    both = {*(term.get("mismatchLabelKeys") or ())}
    for index, key in enumerate(term.get("matchLabelKeys") or ()):
        if key in both:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.invalid(f"{path}.matchLabelKeys[{index}]", key, detail)


def _nodes(affinity: Object, path: str, causes: Causes) -> None:
    if _REQUIRED in affinity:
        terms, place = affinity[_REQUIRED].get("nodeSelectorTerms") or (), f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not terms:
            causes.required(place, "must have at least one node selector term")
        for index, term in enumerate(terms):
            _node_term(term, f"{place}[{index}]", causes, with_values=True)
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        place = f"{path}.{_PREFERRED}[{index}]"
        _weight(weighted, place, causes)
        # A preference may name values that no label can have.
        _node_term(weighted.get("preference") or {}, f"{place}.preference", causes, with_values=False)


def _weight(weighted: Object, path: str, causes: Causes) -> None:
    weight = weighted.get("weight", 0)
    if not 0 < weight <= _MOST_WEIGHT:
        causes.invalid(f"{path}.weight", weight, f"must be in the range 1-{_MOST_WEIGHT}")


def _node_term(term: Object, path: str, causes: Causes, *, with_values: bool) -> None:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        _labels(requirement, f"{path}.matchExpressions[{index}]", causes, with_values=with_values)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        _fields(requirement, f"{path}.matchFields[{index}]", causes)


def _labels(requirement: Object, path: str, causes: Causes, *, with_values: bool) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    key = requirement.get("key", "")
    if operator in _AMONG:
        if not values:
            causes.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _PRESENT:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.forbidden(f"{path}.values", detail)
    elif operator in _COMPARED:
        if len(values) != 1:
            causes.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        causes.invalid(f"{path}.operator", operator, "not a valid selector operator")
    causes.invalid_each(f"{path}.key", key, qualified_name(key))
    for index, value in enumerate(values if with_values else ()):
        causes.invalid_each(f"{path}.values[{index}]", value, label_value(value))


def _fields(requirement: Object, path: str, causes: Causes) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator not in _AMONG:
        causes.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.required(f"{path}.values", detail)
    if requirement.get("key", "") != _NAME:
        causes.invalid(f"{path}.key", requirement.get("key", ""), "not a valid field selector key")
        return
    for index, value in enumerate(values):
        causes.invalid_each(f"{path}.values[{index}]", value, dns_subdomain(value))


def _pods(affinity: Object, path: str, causes: Causes) -> None:
    for index, term in enumerate(affinity.get(_REQUIRED) or ()):
        _pod_term(term, f"{path}.{_REQUIRED}[{index}]", causes)
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        place = f"{path}.{_PREFERRED}[{index}]"
        _weight(weighted, place, causes)
        _pod_term(weighted.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm", causes)


def _pod_term(term: Object, path: str, causes: Causes) -> None:
    for field in ("labelSelector", "namespaceSelector"):
        causes += selector_causes(term.get(field) or {}, f"{path}.{field}")
    for namespace in term.get("namespaces") or ():
        # Without an index, as ``validatePodAffinityTerm`` reports it.
        causes.invalid_each(f"{path}.namespace", namespace, dns_label(namespace))
    validate_label_keys(term, path, causes)
    key = term.get("topologyKey", "")
    if not key:
        causes.required(f"{path}.topologyKey", "can not be empty")
    causes.invalid_each(f"{path}.topologyKey", key, qualified_name(key))

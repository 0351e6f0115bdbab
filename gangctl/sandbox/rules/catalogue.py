"""The rules of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from gangctl.sandbox.kinds import MINORS, ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import KindRules, cluster, gangs, jobs, jobsets, metadata, pods, quotas, registrations
from gangctl.sandbox.rules.fields import Decoder, fields_of
from gangctl.sandbox.rules.metadata import Causes, validate_metadata
from gangctl.sandbox.rules.pods import drop_reference
from gangctl.sandbox.store import Store

Gates = Mapping[str, bool]
Drop = Callable[[Object], list[str]]
Maker = Callable[[ResourceKind, str, Gates, Drop], KindRules]

_ACCESS: Final = "rbac.authorization.k8s.io"
_NAMES: Final[Mapping[str, metadata.Check]] = dict.fromkeys(("namespaces", "services"), metadata.dns_label)
_REGISTRATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_POLICIES: Final = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
_DEFAULTS: Final[Mapping[str, Callable[[Object], None]]] = {
    "namespaces": cluster.default_namespace,
    "nodes": cluster.default_node,
    "services": cluster.default_service,
    "secrets": cluster.default_secret,
    "leases": cluster.default_lease,
    "resourcequotas": quotas.default,
    "events": cluster.default,
    **dict.fromkeys(_REGISTRATIONS, registrations.default),
    **dict.fromkeys(_POLICIES, registrations.default_policy),
}
_VALIDATIONS: Final[Mapping[str, Callable[[Object, Object | None], Causes]]] = {
    "leases": cluster.validate_lease,
    "events": cluster.validate,
    **dict.fromkeys(_REGISTRATIONS, registrations.validate),
    "mutatingadmissionpolicies": registrations.validate_policy,
    "mutatingadmissionpolicybindings": registrations.validate_binding,
}
_PREPARATIONS: Final[Mapping[str, Callable[[Object], None]]] = {
    "namespaces": cluster.prepare_namespace,
    "services": cluster.prepare_service,
    "resourcequotas": quotas.prepare_create,
}


def rules_of(kind: ResourceKind, minor: str, gates: Gates) -> KindRules:
    """The rules of a kind; for one that is not in the catalogue only metadata is checked, if it is stored."""
    if kind.plural == "jobsets":
        return jobsets.rules(kind, gates)
    if "get" not in kind.verbs:
        return KindRules()
    return _MAKERS.get(kind.plural, _plain)(kind, MINORS[minor].rules, gates, _decode(kind, minor))


def _decode(kind: ResourceKind, minor: str) -> Drop:
    fields = fields_of(minor)
    root = fields.root(kind.api_version, kind.kind)
    if root is None:
        return KindRules().drop
    return Decoder(fields, kind, root).decode


def _plain(kind: ResourceKind, minor: str, gates: Gates, decode: Drop) -> KindRules:
    """Rules of a kind that are the same on every minor; for most kinds only the name is checked."""
    del minor, gates
    name = _NAMES.get(kind.plural, metadata.path_segment if kind.group == _ACCESS else metadata.dns_subdomain)
    validate = _VALIDATIONS.get(kind.plural, partial(validate_metadata, namespaced=kind.namespaced, name=name))
    return KindRules(
        drop=decode,
        default=_DEFAULTS.get(kind.plural, KindRules().default),
        prepare_create=_PREPARATIONS.get(kind.plural, KindRules().prepare_create),
        validate=lambda new, old, _subresource: validate(new, old),
    )


def _pods(kind: ResourceKind, minor: str, gates: Gates, decode: Drop) -> KindRules:
    def drop(new: Object) -> list[str]:
        unknown = decode(new)
        drop_reference(new.get("spec", {}), minor, gates)
        return unknown

    return KindRules(
        drop=drop,
        default=pods.default_pod,
        prepare_create=pods.prepare_create,
        prepare_update=pods.prepare_update,
        admit=lambda new, old, _subresource, store: None if old is not None else pods.admit(kind, new, store),
        validate=pods.validate,
    )


def _jobs(kind: ResourceKind, minor: str, gates: Gates, decode: Drop) -> KindRules:
    def drop(new: Object) -> list[str]:
        unknown = decode(new)
        spec = new.get("spec", {})
        drop_reference(spec.get("template", {}).get("spec", {}), minor, gates)
        # WorkloadWithJob is off.
        spec.pop("scheduling", None)
        return unknown

    def admit(new: Object, old: Object | None, subresource: str, store: Store) -> None:
        if old is not None and not subresource and minor == "1.36":
            jobs.admit(kind, new, old, store)

    return KindRules(
        drop=drop,
        default=jobs.default,
        prepare_create=jobs.prepare_create,
        admit=admit,
        validate=lambda new, old, subresource: jobs.validate(new, old, subresource, minor),
    )


def _workloads(kind: ResourceKind, minor: str, gates: Gates, decode: Drop) -> KindRules:
    del kind, gates

    def drop(new: Object) -> list[str]:
        unknown = decode(new)
        gangs.drop_workload(new, minor)
        return unknown

    return KindRules(
        drop=drop,
        default=lambda obj: gangs.default_workload(obj, minor),
        validate=lambda new, old, _subresource: gangs.validate_workload(new, old, minor),
    )


def _podgroups(kind: ResourceKind, minor: str, gates: Gates, decode: Drop) -> KindRules:
    del gates

    def drop(new: Object) -> list[str]:
        unknown = decode(new)
        gangs.drop_group(new, minor)
        return unknown

    return KindRules(
        drop=drop,
        default=lambda obj: gangs.default_group(obj, minor),
        prepare_create=gangs.prepare_group,
        admit=lambda new, old, _subresource, store: (
            None if old is not None else gangs.admit_group(kind, new, store, minor)
        ),
        validate=lambda new, old, subresource: gangs.validate_group(new, old, subresource, minor),
    )


_MAKERS: Mapping[str, Maker] = {"pods": _pods, "jobs": _jobs, "workloads": _workloads, "podgroups": _podgroups}

"""The kinds that a server serves at present, and the rules of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from gangctl.sandbox.admission.webhooks import WebhookAdmission
from gangctl.sandbox.kinds import GATES, MINORS, NEWEST, ResourceKind, kinds_of
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import KindRules, cluster, gangs, jobs, jobsets, metadata, pods, quotas
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
    "events": cluster.default_event,
    **dict.fromkeys(_REGISTRATIONS, cluster.default_registration),
    **dict.fromkeys(_POLICIES, cluster.default_policy),
}
_VALIDATIONS: Final[Mapping[str, Callable[[Object, Object | None], Causes]]] = {
    "leases": cluster.validate_lease,
    "events": cluster.validate_event,
    **dict.fromkeys(_REGISTRATIONS, cluster.validate_registration),
    "mutatingadmissionpolicies": cluster.validate_policy,
    "mutatingadmissionpolicybindings": cluster.validate_binding,
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


class Registry:
    """Kinds by group, version and plural."""

    def __init__(
        self,
        minor: str = NEWEST,
        gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
    ) -> None:
        """Begin with what ``minor`` serves; ``gates`` and ``runtime_config`` are laid over its defaults."""
        self.minor = minor
        self.gates = {**GATES, **(gates or {})}
        self._runtime_config = runtime_config or {}
        self._kinds: dict[tuple[str, str, str], ResourceKind] = {}
        self._rules: dict[ResourceKind, KindRules] = {}
        for kind in kinds_of(minor, self._runtime_config):
            self.add(kind)

    def __iter__(self) -> Iterator[ResourceKind]:
        return iter(tuple(self._kinds.values()))

    def add(self, kind: ResourceKind, rules: KindRules | None = None) -> None:
        """Serve ``kind``, with ``rules`` of its own if it is none of the built-in ones; replaces the same resource."""
        self._kinds[kind.group, kind.version, kind.plural] = kind
        self._rules[kind] = rules if rules is not None else rules_of(kind, self.minor, self.gates)

    def remove(self, kind: ResourceKind) -> None:
        """Stop serving ``kind``; stored objects stay."""
        self._kinds.pop((kind.group, kind.version, kind.plural), None)
        self._rules.pop(kind, None)

    def upgrade(self, minor: str) -> None:
        """Serve what ``minor`` serves; ValueError for one that cannot read the stored objects of gangs."""
        if minor not in MINORS or MINORS[minor].rules != MINORS[self.minor].rules:
            raise ValueError(f"{self.minor} cannot be upgraded to {minor}: no version has the stored objects of both")
        before, after = (kinds_of(each, self._runtime_config) for each in (self.minor, minor))
        self.minor = minor
        for kind in set(before) - set(after):
            self.remove(kind)
        for kind in after:
            if kind not in before:
                self.add(kind)

    def find(self, group: str, version: str, plural: str) -> ResourceKind | None:
        """The kind, or None when it is not served."""
        return self._kinds.get((group, version, plural))

    def named(self, qualified_name: str, version: str | None = None) -> ResourceKind:
        """The kind of ``jobs.batch``, in its first version served if none is named; KeyError when there is none."""
        for kind in self._kinds.values():
            if kind.qualified_name == qualified_name and version in {None, kind.version}:
                return kind
        raise KeyError(f"{qualified_name}{f' {version}' if version else ''} is not served")

    def rules(self, kind: ResourceKind) -> KindRules:
        """The rules of ``kind``."""
        found = self._rules.get(kind)
        return found if found is not None else KindRules()


@dataclass(slots=True)
class Backend:
    """What every verb works with."""

    store: Store
    registry: Registry
    admission: WebhookAdmission

"""The kinds that a server serves at present, and the rules of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from gangctl.api import names
from gangctl.api.objects import Key
from gangctl.apiserver import jobs as jobrules
from gangctl.apiserver.fields import Decoder, fields_of
from gangctl.apiserver.metadata import Causes, Check, validate_metadata
from gangctl.apiserver.minors import MINORS, NEWEST
from gangctl.apiserver.pods import drop_reference
from gangctl.sandbox.admission.webhooks import WebhookAdmission
from gangctl.sandbox.kinds import GATES, ResourceKind, kinds_of
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import Attributes, Caller, DeleteOptions, Operation, WriteOptions
from gangctl.sandbox.rules import KindRules, cluster, gangs, jobs, jobsets, pods, quotas
from gangctl.sandbox.store import ObjectStore

Gates = Mapping[str, bool]
Drop = Callable[[Object], list[str]]

_ACCESS: Final = "rbac.authorization.k8s.io"
_NAMES: Final[Mapping[str, Check]] = dict.fromkeys(("namespaces", "services"), names.dns_label)
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
    fields = fields_of(minor)
    root = fields.root(kind.api_version, kind.kind)
    decode = KindRules().drop if root is None else Decoder(fields, kind.kind, kind.version, root).decode
    return _built_in(kind, MINORS[minor].rules, gates, decode)


def _built_in(kind: ResourceKind, minor: str, gates: Gates, decode: Drop) -> KindRules:
    match kind.plural:
        case "pods":
            return KindRules(
                drop=_with(decode, lambda new: drop_reference(new.get("spec", {}), minor, gates)),
                default=pods.default_pod,
                prepare_create=pods.prepare_create,
                prepare_update=pods.prepare_update,
                plugins=lambda new, store: pods.admit(kind, new, store),
                validate=pods.validate,
            )
        case "jobs":
            return KindRules(
                drop=_with(decode, lambda new: jobrules.drop(new, minor, gates)),
                default=jobrules.default,
                prepare_create=jobrules.prepare_create,
                admit=lambda new, old, subresource, store: jobs.admit(kind, new, old, subresource, store, minor),
                validate=lambda new, old, subresource: jobrules.validate(new, old, subresource, minor),
            )
        case "workloads":
            return KindRules(
                drop=_with(decode, lambda new: gangs.drop_workload(new, minor)),
                default=lambda obj: gangs.default_workload(obj, minor),
                validate=lambda new, old, _subresource: gangs.validate_workload(new, old, minor),
            )
        case "podgroups":
            return KindRules(
                drop=_with(decode, lambda new: gangs.drop_group(new, minor)),
                default=lambda obj: gangs.default_group(obj, minor),
                prepare_create=gangs.prepare_group,
                plugins=lambda new, store: gangs.admit_group(kind, new, store, minor),
                validate=lambda new, old, subresource: gangs.validate_group(new, old, subresource, minor),
            )
    # The same on every minor; for most kinds only the name is checked.
    name = _NAMES.get(kind.plural, names.path_segment if kind.group == _ACCESS else names.dns_subdomain)
    validate = _VALIDATIONS.get(kind.plural, partial(validate_metadata, namespaced=kind.namespaced, name=name))
    return KindRules(
        drop=decode,
        default=_DEFAULTS.get(kind.plural, KindRules().default),
        prepare_create=_PREPARATIONS.get(kind.plural, KindRules().prepare_create),
        validate=lambda new, old, _subresource: validate(new, old),
    )


def _with(decode: Drop, drop: Callable[[Object], None]) -> Drop:
    """Decode an object, then drop the fields of disabled gates."""

    def decode_and_drop(new: Object) -> list[str]:
        unknown = decode(new)
        drop(new)
        return unknown

    return decode_and_drop


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
        before, after = (kinds_of(release, self._runtime_config) for release in (self.minor, minor))
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
        rules = self._rules.get(kind)
        # A kind may be removed while a request for it waits for webhooks.
        return rules if rules is not None else KindRules()


@dataclass(slots=True)
class Backend:
    """What every verb works with."""

    store: ObjectStore
    registry: Registry
    admission: WebhookAdmission


Options = TypeVar("Options", WriteOptions, DeleteOptions)


@dataclass(slots=True)
class ObjectRequest(Generic[Options]):
    """State of one request that changes an object: user, options and target; ``warnings`` are for the client."""

    backend: Backend
    kind: ResourceKind
    namespace: str
    caller: Caller
    options: Options
    warnings: list[str]
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """Where it is stored."""
        return self.namespace, self.name

    def attributes(self, operation: Operation, old: Object | None, options: Object) -> Attributes:
        """The attributes for admission; ``options`` are those of the request, as a client writes them."""
        place = (self.subresource, self.namespace, self.name)
        return Attributes(operation, self.kind, *place, old, options, self.options.dry_run, self.caller, self.warnings)

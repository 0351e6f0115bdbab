"""The kinds that a server serves at present, and their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gangctl.sandbox.admission.webhooks import WebhookAdmission
from gangctl.sandbox.kinds import GATES, MINORS, NEWEST, ResourceKind, kinds_of
from gangctl.sandbox.rules import KindRules
from gangctl.sandbox.rules.catalogue import rules_of
from gangctl.sandbox.store import Store


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

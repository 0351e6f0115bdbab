"""Keeps the policies in force equal to the cluster's: loads what changed, and swaps the whole set at once.

A policy that cannot be loaded is kept beside the set as broken, and its failurePolicy decides. No content of a policy
ends this loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from gangctl.api.objects import Object
from gangctl.controllers.parameters import Parameters, wanted_by
from gangctl.controllers.policy_sources import UNKNOWN_IDENTITY, Identity, PolicySources, identity
from gangctl.errors import ConfigError, ValidationError, one_line
from gangctl.policy.exemptions import LoadedException, load_exception
from gangctl.policy.loaded import BrokenPolicy, LoadedPolicy, PolicyError, Problem
from gangctl.policy.model import EXCEPTION_KIND, POLICY_KIND, GangPolicySpec
from gangctl.policy.snapshot import PolicySet
from gangctl.policy.verdict import Action

_log = structlog.get_logger(__name__)

Held = LoadedPolicy | PolicyError
HeldException = LoadedException | ValidationError
Key = tuple[str, str]
"""Kind and name."""

UNREADABLE: Final = "InternalError"
"""Kind of a problem that is an error of gangctl."""


class Evaluator(Protocol):
    """The part of a :class:`~gangctl.evaluation.evaluator.PolicyEvaluator` that is needed here."""

    async def load(self, document: Object) -> LoadedPolicy:
        """Load a policy without blocking the event loop; raises :class:`PolicyError`."""

    async def install(self, policies: PolicySet) -> None:
        """Evaluate with this set from now on."""


class PolicyKeeper:
    """Run :meth:`run` in a task; :attr:`current` is the set in force."""

    def __init__(
        self,
        sources: PolicySources,
        parameters: Parameters,
        evaluator: Evaluator,
        *,
        on_swap: Callable[[], None] = lambda: None,
        on_status_change: Callable[[Key], None] = lambda _: None,
    ) -> None:
        """``on_swap`` is called when another set is in force, ``on_status_change`` when a status may have changed."""
        self._sources = sources
        self._parameters = parameters
        self._evaluator = evaluator
        self._on_swap = on_swap
        self._on_status_change = on_status_change
        self._dirty = asyncio.Event()
        self._policies: dict[str, tuple[Identity, Held]] = {}
        self._exceptions: dict[str, tuple[Identity, HeldException]] = {}
        self.current = PolicySet()
        self.synced = asyncio.Event()
        """Set once the cluster's policies are in force."""

    def wake(self) -> None:
        """Check again: something changed."""
        self._dirty.set()

    def policy(self, name: str, generation: int) -> Held | None:
        """The result of loading this generation of a policy; None while it is not loaded."""
        known, held = self._policies.get(name, (UNKNOWN_IDENTITY, None))
        return held if generation == known.generation else None

    def exception(self, name: str, generation: int) -> HeldException | None:
        """The result of loading this generation of an exception; None while it is not loaded."""
        known, held = self._exceptions.get(name, (UNKNOWN_IDENTITY, None))
        return held if generation == known.generation else None

    async def run(self) -> None:
        """Keep :attr:`current` current until cancelled."""
        try:
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                if not self._sources.unsynced():
                    await self._rebuild()
        finally:
            await self._parameters.stop()

    async def _rebuild(self) -> None:
        """Load what changed, and put it in force once its parameters are known."""
        policies = {each["metadata"]["name"]: each for each in self._sources.policies()}
        exceptions = {each["metadata"]["name"]: each for each in self._sources.exceptions()}
        changed = await self._load(policies)
        changed |= self._read(exceptions)
        held = [held for _, (_, held) in sorted(self._policies.items())]
        loaded = tuple(each for each in held if isinstance(each, LoadedPolicy))
        wanted = (wanted_by(policy.spec) for policy in loaded)
        await self._parameters.follow(each for each in wanted if each is not None)
        if changed or not self.synced.is_set():
            broken = tuple(each.broken for each in held if isinstance(each, PolicyError))
            allowed = tuple(each for _, each in self._exceptions.values() if isinstance(each, LoadedException))
            await self._swap(PolicySet(self.current.generation + 1, loaded, exceptions=allowed, broken=broken))
        for kind, names in ((POLICY_KIND, policies), (EXCEPTION_KIND, exceptions)):
            for name in names:
                self._on_status_change((kind, name))

    async def _swap(self, policies: PolicySet) -> None:
        await self._evaluator.install(policies)
        self.current = policies
        counts = {"policies": len(policies.policies), "broken": len(policies.broken)}
        _log.info("policies in force", **counts, exceptions=len(policies.exceptions))
        self.synced.set()
        self._on_swap()

    async def _load(self, documents: Mapping[str, Object]) -> bool:
        """Load new or changed policies, drop deleted ones; return whether there were any."""
        gone = self._policies.keys() - documents.keys()
        for name in gone:
            del self._policies[name]
        changed = bool(gone)
        for name, document in documents.items():
            version = identity(document)
            if name in self._policies and self._policies[name][0] == version:
                continue
            changed = True
            self._policies[name] = version, await self._load_one(name, document)
        return changed

    async def _load_one(self, name: str, document: Object) -> Held:
        try:
            return await self._evaluator.load(document)
        except PolicyError as error:
            _log.warning("policy broken", policy=name, problem=one_line(str(error.problems[0])))
            return error
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 -- an unreadable policy must not block the others
            _log.exception("policy not understood", policy=name)
            return _unreadable(name, document, error)

    def _read(self, documents: Mapping[str, Object]) -> bool:
        """The same for exceptions."""
        gone = self._exceptions.keys() - documents.keys()
        for name in gone:
            del self._exceptions[name]
        changed = bool(gone)
        for name, document in documents.items():
            version = identity(document)
            if name in self._exceptions and self._exceptions[name][0] == version:
                continue
            changed = True
            try:
                self._exceptions[name] = version, load_exception(document)
            except ValidationError as error:
                _log.warning("exception broken", exception=name, problem=one_line(str(error.errors[0])))
                self._exceptions[name] = version, error
        return changed


def _unreadable(name: str, document: Object, error: Exception) -> PolicyError:
    """The placeholder for a policy that gangctl fails to load: its failurePolicy, for every JobSet."""
    problem = Problem("spec", f"gangctl failed to load it ({type(error).__name__}), its log says where", UNREADABLE)
    spec = document.get("spec")
    closed = not isinstance(spec, dict) or spec.get("failurePolicy") != "Ignore"
    reason, actions = f"the policy cannot be used: {problem}", frozenset({Action.DENY})
    return PolicyError(name, (problem,), BrokenPolicy(name, document, reason, GangPolicySpec(), closed, actions))

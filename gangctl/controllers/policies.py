"""Keeps the policies in force equal to the cluster's: loads what changed, and swaps the whole set at once.

A policy that cannot be loaded is kept beside the set as broken, and its failurePolicy decides. No content of a policy
ends this loop. The leader writes the status of policies and exceptions when it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

import structlog

from gangctl.api.objects import Object
from gangctl.client.client import Client
from gangctl.controllers.exported import ExportedPolicies, Standing
from gangctl.controllers.policy_sources import (
    GANG_POLICIES,
    GANG_POLICY_EXCEPTIONS,
    UNKNOWN_IDENTITY,
    Parameters,
    PolicySources,
    PolicyVersion,
    identity,
    wanted_by,
)
from gangctl.controllers.status import difference, write_status
from gangctl.errors import ConfigError, ErrorKind, FieldError, ValidationError, one_line
from gangctl.policy.load import fails_closed, refusal
from gangctl.policy.loaded import (
    BrokenPolicy,
    KnownRules,
    LoadedException,
    LoadedPolicy,
    PolicyError,
    PolicyProblem,
    PolicySet,
    has_effect,
    load_exception,
    refuses,
    unknown_names,
)
from gangctl.policy.model import EXCEPTION_KIND, POLICY_KIND, GangPolicySpec
from gangctl.runtime.controller import Action, await_change, requeue

_log = structlog.get_logger(__name__)

T = TypeVar("T")
Held = LoadedPolicy | PolicyError
HeldException = LoadedException | ValidationError
Key = tuple[str, str]
"""Kind and name."""

UNREADABLE: Final = "InternalError"
"""Kind of a problem that is an error of gangctl."""


class Evaluator(Protocol):
    """The part of a :class:`~gangctl.evaluation.evaluator.PolicyEvaluator` that is needed here."""

    @property
    def problem(self) -> str:
        """Why policies are not evaluated; empty where they are."""

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
        exported: ExportedPolicies,
        evaluator: Evaluator,
        *,
        now: Callable[[], datetime],
        on_status_change: Callable[[Key], None] = lambda _: None,
    ) -> None:
        """``on_status_change`` is called when a status may have changed."""
        self._sources = sources
        self._parameters = parameters
        self._exported = exported
        self._evaluator = evaluator
        self._now = now
        self.on_swap: list[Callable[[], None]] = []
        """Called when another set is in force."""
        self._on_status_change = on_status_change
        self._dirty = asyncio.Event()
        self._policies: dict[str, tuple[PolicyVersion, Held]] = {}
        self._exceptions: dict[str, tuple[PolicyVersion, HeldException]] = {}
        self.current = PolicySet()
        self.standing = Standing()
        """Which of them API servers evaluate."""
        self.synced = asyncio.Event()
        """Set once the cluster's policies are in force."""

    @property
    def problem(self) -> str:
        """Why the policies in force are not evaluated; empty where they are."""
        return self._evaluator.problem

    def unreadable(self, policy: LoadedPolicy) -> str:
        """Why the parameters of a policy cannot be read; empty where they can, or where it has none."""
        wanted = wanted_by(policy.spec)
        return "" if wanted is None else self._parameters.trouble(wanted)

    def absent(self, policy: LoadedPolicy) -> str:
        """Which parameters a policy has to do without, because there are none; empty without such."""
        wanted = wanted_by(policy.spec)
        if wanted is None or not self._parameters.missing(wanted):
            return ""
        name = "/".join(filter(None, (wanted.namespace, wanted.name)))
        return f"There is no {wanted.kind} {name}" if wanted.name else f"Its paramRef selects no {wanted.kind}"

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

    def rules(self) -> KnownRules | None:
        """The rules of every policy, as far as they are loaded; None before the first set is in force."""
        if not self.synced.is_set():
            return None
        known: dict[str, Collection[str] | None] = {}
        for document in self._sources.policies():
            held = self.policy(document["metadata"]["name"], identity(document).generation)
            known[document["metadata"]["name"]] = held.rules if isinstance(held, LoadedPolicy) else None
        return known

    async def run(self) -> None:
        """Keep :attr:`current` current until cancelled."""
        # Otherwise webhooks would be registered at each start for what API servers evaluate.
        await self._exported.settled()
        try:
            while True:
                await self._dirty.wait()
                # Before the rebuild: a change during it causes another one.
                self._dirty.clear()
                # A set without policies that are not listed yet would admit what they deny.
                if not self._sources.unsynced():
                    await self._rebuild()
        finally:
            await self._parameters.stop()

    async def _rebuild(self) -> None:
        """Load what changed, and put it in force once its parameters are known."""
        policies = {policy["metadata"]["name"]: policy for policy in self._sources.policies()}
        exceptions = {exception["metadata"]["name"]: exception for exception in self._sources.exceptions()}
        changed = await _update(self._policies, policies, self._load)
        changed |= await _update(self._exceptions, exceptions, self._read)
        held = [held for _, (_, held) in sorted(self._policies.items())]
        loaded = tuple(policy for policy in held if isinstance(policy, LoadedPolicy))
        wanted = {objects for policy in loaded if (objects := wanted_by(policy.spec)) is not None}
        await self._parameters.follow(wanted)
        allowed = tuple(entry for _, entry in self._exceptions.values() if isinstance(entry, LoadedException))
        self.standing = self._exported.standing(loaded, allowed, self._now())
        if self.standing.seconds is not None:
            # No object changes when an exported policy has become old enough.
            asyncio.get_running_loop().call_later(self.standing.seconds, self.wake)
        # The first set is put in force even if it is empty, because readiness waits for it.
        if changed or self.standing.names != self.current.exported or not self.synced.is_set():
            broken = tuple(policy.broken for policy in held if isinstance(policy, PolicyError))
            generation = self.current.generation + 1
            await self._swap(PolicySet(generation, loaded, allowed, broken, self.standing.names))
        # Not before the swap: until then the policies before are evaluated, with their parameters.
        await self._parameters.drop_others(wanted)
        # Of all: the state of exports and of parameters is in the status, too.
        for kind, names in ((POLICY_KIND, policies), (EXCEPTION_KIND, exceptions)):
            for name in names:
                self._on_status_change((kind, name))

    async def _swap(self, policies: PolicySet) -> None:
        # First the workers load it: webhooks must not use a set that no worker has.
        await self._evaluator.install(policies)
        self.current = policies
        counts = {name: len(getattr(policies, name)) for name in ("policies", "broken", "exported")}
        _log.info("policies in force", **counts, exceptions=len(policies.exceptions))
        self.synced.set()
        for call in self.on_swap:
            call()

    async def _load(self, name: str, document: Object) -> Held:
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

    async def _read(self, name: str, document: Object) -> HeldException:
        try:
            return load_exception(document)
        except ValidationError as error:
            _log.warning("exception broken", exception=name, problem=one_line(str(error.errors[0])))
            return error
        except Exception as error:  # noqa: BLE001 -- an unreadable exception must not block policies
            _log.exception("exception not understood", exception=name)
            return ValidationError([FieldError("spec", ErrorKind.INVALID, _not_loaded(error))])


async def _update(
    kept: dict[str, tuple[PolicyVersion, T]],
    documents: Mapping[str, Object],
    load: Callable[[str, Object], Awaitable[T]],
) -> bool:
    """Load new or changed documents, drop deleted ones; return whether there were any."""
    gone = kept.keys() - documents.keys()
    for name in gone:
        del kept[name]
    changed = bool(gone)
    for name, document in documents.items():
        version = identity(document)
        if name not in kept or kept[name][0] != version:
            changed = True
            kept[name] = version, await load(name, document)
    return changed


def _unreadable(name: str, document: Object, error: Exception) -> PolicyError:
    """The placeholder for a policy that gangctl fails to load: for every JobSet that is created."""
    problem = PolicyProblem("spec", _not_loaded(error), UNREADABLE)
    return refusal(name, document, GangPolicySpec(), [problem], fails_closed=fails_closed(document))


def _not_loaded(error: Exception) -> str:
    return f"gangctl failed to load it ({type(error).__name__}), its log says where"


EVALUATION_UNAVAILABLE: Final = "EvaluationUnavailable"
"""Reason of a condition: no process works that could evaluate policies."""
IN_FORCE: Final = "InForce"
"""Reason of a condition: gangctl evaluates the policy at admission."""
_READY: Final = "Ready"
_ACTIVE: Final = "Active"
_MOST_PROBLEMS: Final = 20
_MOST_WARNINGS: Final = 64
_TEXT: Final = 1024
_REQUESTS: Final = "requests that it is about"


def _condition(kind: str, status: bool, reason: str, message: str, generation: int) -> dict[str, Any]:
    return {
        "type": kind,
        "status": str(status),
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


def policy_status(
    held: Held,
    generation: int,
    trouble: tuple[str, str] | None = None,
    exported: str | None = None,
    absent: str = "",
) -> dict[str, Any]:
    """The status of a policy, without times.

    ``trouble`` is reason and message of why it is not evaluated. ``exported`` is None where it was not exported, empty
    where API servers evaluate it, else the reason why they do not do all of it. ``absent`` are missing parameters.
    """
    if isinstance(held, PolicyError):
        shown = [one_line(problem.sentence, _TEXT) for problem in held.problems[:_MOST_PROBLEMS]]
        shown += [f"and {len(held.problems) - len(shown)} more"] if len(held.problems) > len(shown) else []
        message = f"{'; '.join(shown)}. {_consequence(held.broken)}"
        return _status(_READY, _condition(_READY, False, _reason(held.problems[0]), message, generation), ())
    if trouble is not None:
        reason, why = trouble
        needed = reason != EVALUATION_UNAVAILABLE
        requests = _REQUESTS if needed else "requests that need a worker"
        message = f"{why}. {_consequence(held, requests, needed=needed)}"
        return _status(_READY, _condition(_READY, False, reason, message, generation), held.warnings)
    message = f"In force with {len(held.rules)} rule{'s' if len(held.rules) != 1 else ''}."
    if exported == "":
        message = f"{message} API servers evaluate requests by the ValidatingAdmissionPolicy that was exported from it."
    elif exported is not None:
        message = one_line(f"{message} gangctl evaluates it, although it was exported: {exported}.", _TEXT)
    if absent:
        message = one_line(f"{message} {absent}. {_without_parameters(held)}", _TEXT)
    reason = IN_FORCE if exported != "" else "Exported"
    return _status(_READY, _condition(_READY, True, reason, message, generation), held.warnings)


def _reason(problem: PolicyProblem) -> str:
    if problem.kind == UNREADABLE:
        return UNREADABLE
    return "InvalidField" if problem.offset is None else "InvalidExpression"


def _consequence(policy: LoadedPolicy | BrokenPolicy, requests: str = _REQUESTS, *, needed: bool = False) -> str:
    """What becomes of requests; without parameters that are ``needed`` they are refused by any action, as natively."""
    if refuses(policy) or (needed and policy.fail_closed):
        return f"Meanwhile {requests} are refused, because its failurePolicy is Fail."
    why = (
        "Deny is not among its validationActions" if policy.fail_closed else "failurePolicy: Fail is not written in it"
    )
    return f"Meanwhile {requests} pass without it, because {why}."


def _without_parameters(policy: LoadedPolicy) -> str:
    reference = policy.spec.param_ref
    if reference is not None and reference.parameter_not_found_action == "Deny":
        return _consequence(policy, needed=True)
    return "Meanwhile it applies to no request, because its parameterNotFoundAction is Allow."


def _status(kind: str, condition: dict[str, Any], warnings: Iterable[PolicyProblem]) -> dict[str, Any]:
    shown = [
        {"fieldRef": one_line(problem.path, _TEXT), "warning": one_line(problem.sentence, _TEXT)}
        for problem in [*warnings][:_MOST_WARNINGS]
    ]
    status = {"observedGeneration": condition["observedGeneration"], "conditions": [condition]}
    # None, because a merge patch removes a field in no other way.
    return {**status, "typeChecking": {"expressionWarnings": shown} if shown else None} if kind == _READY else status


def exception_status(
    held: HeldException, generation: int, now: datetime, known: KnownRules, exported: Collection[str] = ()
) -> dict[str, Any]:
    """The status of an exception at ``now``, without times.

    ``known`` are the policies that exist, ``exported`` those that API servers evaluate, which have no exceptions.
    """
    if isinstance(held, ValidationError):
        message = "; ".join(str(error) for error in held.errors[:_MOST_PROBLEMS])
        return _status(_ACTIVE, _condition(_ACTIVE, False, "InvalidField", message, generation), ())
    if held.expired(now):
        message = f"Expired at {held.expires_at.isoformat()}."
        return _status(_ACTIVE, _condition(_ACTIVE, False, "Expired", message, generation), ())
    if missing := list(unknown_names(held, known)):
        active = has_effect(held, known)
        rest = f" The rest is in force until {held.expires_at.isoformat()}." if active else ""
        message = one_line("; ".join(problem.sentence for problem in missing[:_MOST_PROBLEMS]), _TEXT) + f".{rest}"
        return _status(_ACTIVE, _condition(_ACTIVE, active, missing[0].kind, message, generation), ())
    message = f"In force until {held.expires_at.isoformat()}."
    named = [policy.name for policy in held.spec.policies]
    if still := [name for name in named if name in exported]:
        message = one_line(
            f"{message} But API servers, which have no exceptions, go on evaluating what was exported from "
            f"{', '.join(still)}: delete these ValidatingAdmissionPolicies and their bindings.",
            _TEXT,
        )
        return _status(_ACTIVE, _condition(_ACTIVE, still != named, "Exported", message, generation), ())
    return _status(_ACTIVE, _condition(_ACTIVE, True, "InForce", message, generation), ())


class PolicyStatusWriter:
    """``reconcile(key) -> Action`` for policies and exceptions."""

    def __init__(
        self,
        client: Client,
        sources: PolicySources,
        keeper: PolicyKeeper,
        now: Callable[[], datetime],
    ) -> None:
        """Write through ``client``, whose guard stops a replica that lost the lease."""
        self._client = client
        self._sources = sources
        self._keeper = keeper
        self._now = now

    async def reconcile(self, key: Key) -> Action:
        """Update one status; an exception's again when it expires."""
        document = self._sources.document(*key)
        if document is None:
            return await_change()
        now = self._now()
        wanted, until = self._plan(key, document, now)
        status = difference(document.get("status") or {}, wanted, now) if wanted is not None else None
        resource = GANG_POLICIES if key[0] == POLICY_KIND else GANG_POLICY_EXCEPTIONS
        written = await_change()
        if status is not None:
            written = await write_status(self._client, resource, document["metadata"], status)
        if written != await_change() or until is None:
            return written
        # A little later, because a timer may end before the wall clock gets there.
        return requeue(max(0.0, (until - now).total_seconds()) + 0.001)

    def _plan(self, key: Key, document: Object, now: datetime) -> tuple[Object | None, datetime | None]:
        """The status, None while the document has not been loaded, and when it expires by itself."""
        kind, name = key
        generation = identity(document).generation
        if kind == POLICY_KIND:
            policy = self._keeper.policy(name, generation)
            if policy is None:
                return None, None
            exported = self._keeper.standing.differences.get(name)
            absent = "" if isinstance(policy, PolicyError) else self._keeper.absent(policy)
            return policy_status(policy, generation, self._trouble(policy), exported, absent), None
        exception, known = self._keeper.exception(name, generation), self._keeper.rules()
        if exception is None or known is None:
            return None, None
        status = exception_status(exception, generation, now, known, self._keeper.standing.bound)
        if isinstance(exception, ValidationError) or exception.expired(now):
            return status, None
        return status, exception.expires_at

    def _trouble(self, held: Held) -> tuple[str, str] | None:
        if self._keeper.problem:
            return EVALUATION_UNAVAILABLE, one_line(self._keeper.problem, _TEXT)
        missing = "" if isinstance(held, PolicyError) else self._keeper.unreadable(held)
        return ("ParametersUnavailable", missing) if missing else None

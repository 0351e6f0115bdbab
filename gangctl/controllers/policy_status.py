"""The status of policies and exceptions, which the leader writes when it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api.objects import Object
from gangctl.client.client import Client
from gangctl.controllers.parameters import Parameters, wanted_by
from gangctl.controllers.policies import UNREADABLE, Held, HeldException, Key, PolicyKeeper
from gangctl.controllers.policy_sources import GANG_POLICIES, GANG_POLICY_EXCEPTIONS, PolicySources
from gangctl.controllers.status import difference, write_status
from gangctl.errors import ValidationError, one_line
from gangctl.policy.loaded import PolicyError, Problem
from gangctl.policy.model import POLICY_KIND
from gangctl.policy.status import ACTIVE, READY
from gangctl.runtime.controller import Action, await_change, requeue

_MOST_PROBLEMS: Final = 20
_MOST_WARNINGS: Final = 64
_TEXT: Final = 1024


def place(problem: Problem) -> str:
    """A problem as a sentence: which field, and where in its expression."""
    if problem.offset is None:
        where = problem.path
    else:
        before = problem.expression[: problem.offset]
        line, column = before.count("\n") + 1, problem.offset - (before.rfind("\n") + 1) + 1
        where = f"{problem.path}, line {line}, column {column}"
    hint = f" ({problem.hint})" if problem.hint else ""
    return one_line(f"{where}: {problem.message}{hint}", _TEXT)


def _condition(kind: str, status: bool, reason: str, message: str, generation: int) -> dict[str, Any]:
    return {
        "type": kind,
        "status": str(status),
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


def policy_status(held: Held, generation: int, trouble: str = "") -> dict[str, Any]:
    """The status of a policy, without times; ``trouble`` is why its parameters cannot be read."""
    if isinstance(held, PolicyError):
        shown = [place(each) for each in held.problems[:_MOST_PROBLEMS]]
        shown += [f"and {len(held.problems) - len(shown)} more"] if len(held.problems) > len(shown) else []
        message = f"{'; '.join(shown)}. {_consequence(closed=held.broken.fail_closed)}"
        return _status(READY, _condition(READY, False, _reason(held.problems[0]), message, generation), ())
    if trouble:
        message = f"{trouble}. {_consequence(closed=held.fail_closed)}"
        return _status(READY, _condition(READY, False, "ParametersUnavailable", message, generation), held.warnings)
    message = f"In force with {len(held.rules)} rule{'s' if len(held.rules) != 1 else ''}."
    return _status(READY, _condition(READY, True, "InForce", message, generation), held.warnings)


def _reason(problem: Problem) -> str:
    if problem.kind == UNREADABLE:
        return UNREADABLE
    return "InvalidField" if problem.offset is None else "InvalidExpression"


def _consequence(*, closed: bool) -> str:
    if closed:
        return "Meanwhile requests that it is about are refused, because its failurePolicy is Fail."
    return "Meanwhile it is left out, because its failurePolicy is Ignore."


def _status(kind: str, condition: dict[str, Any], warnings: Iterable[Problem]) -> dict[str, Any]:
    shown = [{"fieldRef": one_line(each.path, _TEXT), "warning": place(each)} for each in warnings][:_MOST_WARNINGS]
    status = {"observedGeneration": condition["observedGeneration"], "conditions": [condition]}
    return {**status, "typeChecking": {"expressionWarnings": shown} if shown else None} if kind == READY else status


def exception_status(held: HeldException, generation: int, now: datetime, policies: Iterable[str]) -> dict[str, Any]:
    """The status of an exception at ``now``, without times; ``policies`` are the existing names."""
    if isinstance(held, ValidationError):
        message = "; ".join(str(error) for error in held.errors[:_MOST_PROBLEMS])
        return _status(ACTIVE, _condition(ACTIVE, False, "InvalidField", message, generation), ())
    if held.expired(now):
        message = f"Expired at {held.expires_at.isoformat()}."
        return _status(ACTIVE, _condition(ACTIVE, False, "Expired", message, generation), ())
    missing = sorted({each.name for each in held.spec.policies} - set(policies))
    if missing:
        message = one_line(f"There is no GangPolicy {', '.join(missing)}.", _TEXT)
        reason, active = "NoSuchPolicy", len(missing) < len(held.spec.policies)
        return _status(ACTIVE, _condition(ACTIVE, active, reason, message, generation), ())
    message = f"In force until {held.expires_at.isoformat()}."
    return _status(ACTIVE, _condition(ACTIVE, True, "InForce", message, generation), ())


class PolicyStatusWriter:
    """``reconcile(key) -> Action`` for policies and exceptions."""

    def __init__(
        self,
        client: Client,
        sources: PolicySources,
        keeper: PolicyKeeper,
        parameters: Parameters,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Write through ``client``, whose guard stops a replica that lost the lease."""
        self._client = client
        self._sources = sources
        self._keeper = keeper
        self._parameters = parameters
        self._now = now

    async def reconcile(self, key: Key) -> Action:
        """Update one status; an exception's again when it expires."""
        document = self._observe(key)
        if document is None:
            return await_change()
        now = self._now()
        wanted, until = self._plan(key, document, now)
        status = difference(document.get("status") or {}, wanted, now) if wanted is not None else None
        written = await self._apply(document, status) if status is not None else await_change()
        if written != await_change() or until is None:
            return written
        return requeue(max(0.0, (until - now).total_seconds()) + 0.001)

    def _observe(self, key: Key) -> Object | None:
        return self._sources.document(*key)

    def _plan(self, key: Key, document: Object, now: datetime) -> tuple[Object | None, datetime | None]:
        """The status, None while the document has not been loaded, and when it expires by itself."""
        kind, name = key
        generation = int(document["metadata"].get("generation") or 0)
        if kind == POLICY_KIND:
            policy = self._keeper.policy(name, generation)
            return (None if policy is None else policy_status(policy, generation, self._trouble(policy))), None
        exception = self._keeper.exception(name, generation)
        if exception is None:
            return None, None
        names = (each["metadata"]["name"] for each in self._sources.policies())
        status = exception_status(exception, generation, now, names)
        if isinstance(exception, ValidationError) or exception.expired(now):
            return status, None
        return status, exception.expires_at

    def _trouble(self, held: Held) -> str:
        wanted = None if isinstance(held, PolicyError) else wanted_by(held.spec)
        return "" if wanted is None else self._parameters.trouble(wanted)

    async def _apply(self, document: Object, status: Object) -> Action:
        resource = GANG_POLICIES if document["kind"] == POLICY_KIND else GANG_POLICY_EXCEPTIONS
        return await write_status(self._client, resource, document["metadata"], status)

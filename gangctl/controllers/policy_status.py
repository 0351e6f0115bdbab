"""What the status of policies and exceptions says, written by the leader when it says something new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.client.client import Client
from gangctl.controllers.parameters import Parameters, wanted_by
from gangctl.controllers.policies import UNREADABLE, Held, HeldException, Key, PolicyKeeper
from gangctl.controllers.policy_sources import (
    GANG_POLICIES,
    GANG_POLICY_EXCEPTIONS,
    Object,
    PolicySources,
)
from gangctl.errors import ConflictError, NotFoundError, ValidationError, one_line
from gangctl.policy.loaded import PolicyError, Problem
from gangctl.policy.model import POLICY_KIND
from gangctl.policy.status import ACTIVE, READY
from gangctl.runtime.controller import Action, await_change, requeue

CONFLICT_RETRY_SECONDS: Final = 0.5

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
    """The status of a policy, but for times; ``trouble`` is why its parameters cannot be read."""
    if isinstance(held, PolicyError):
        told = [place(each) for each in held.problems[:_MOST_PROBLEMS]]
        told += [f"and {len(held.problems) - len(told)} more"] if len(held.problems) > len(told) else []
        message = f"{'; '.join(told)}. {_consequence(closed=held.broken.fail_closed)}"
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
    told = [{"fieldRef": one_line(each.path, _TEXT), "warning": place(each)} for each in warnings][:_MOST_WARNINGS]
    status = {"observedGeneration": condition["observedGeneration"], "conditions": [condition]}
    return {**status, "typeChecking": {"expressionWarnings": told} if told else None} if kind == READY else status


def exception_status(held: HeldException, generation: int, now: datetime, policies: Iterable[str]) -> dict[str, Any]:
    """The status of an exception at ``now``, but for times; ``policies`` are the names that there are."""
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


def difference(live: Mapping[str, Any], wanted: Mapping[str, Any], now: datetime) -> dict[str, Any] | None:
    """What to merge into the status, None when it says the same; conditions of others stay, and times of what stays."""
    before = [each for each in live.get("conditions") or [] if isinstance(each, dict)]
    (condition,) = wanted["conditions"]
    old = next((each for each in before if each.get("type") == condition["type"]), {})
    changed = old.get("status") != condition["status"]
    since = now.isoformat(timespec="seconds").replace("+00:00", "Z") if changed else old.get("lastTransitionTime")
    target = {**wanted, "conditions": [{**condition, "lastTransitionTime": since}]}
    target["conditions"] += [each for each in before if each.get("type") != condition["type"]]
    same = all(live.get(key) == value for key, value in target.items() if key != "conditions")
    if same and sorted(before, key=_kind) == sorted(target["conditions"], key=_kind):
        return None
    return target


def _kind(condition: Mapping[str, Any]) -> str:
    return str(condition.get("type"))


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
        """Bring one status up to date; an exception's again when it ends."""
        kind, name = key
        document = self._sources.document(kind, name)
        if document is None:
            return await_change()
        generation = int(document["metadata"].get("generation") or 0)
        if kind == POLICY_KIND:
            policy = self._keeper.policy(name, generation)
            if policy is not None:
                return await self._write(document, policy_status(policy, generation, self._trouble(policy)))
            return await_change()
        exception = self._keeper.exception(name, generation)
        if exception is None:
            return await_change()
        now = self._now()
        names = (each["metadata"]["name"] for each in self._sources.policies())
        written = await self._write(document, exception_status(exception, generation, now, names))
        if written != await_change() or isinstance(exception, ValidationError) or exception.expired(now):
            return written
        return requeue(max(0.0, (exception.expires_at - now).total_seconds()) + 0.001)

    def _trouble(self, held: Held) -> str:
        wanted = None if isinstance(held, PolicyError) else wanted_by(held.spec)
        return "" if wanted is None else self._parameters.trouble(wanted)

    async def _write(self, document: Object, wanted: Mapping[str, Any]) -> Action:
        status = difference(document.get("status") or {}, wanted, self._now())
        if status is None:
            return await_change()
        resource = GANG_POLICIES if document["kind"] == POLICY_KIND else GANG_POLICY_EXCEPTIONS
        metadata = document["metadata"]
        patch = {"metadata": {"resourceVersion": metadata.get("resourceVersion")}, "status": status}
        try:
            await self._client.merge_patch(resource, metadata["name"], patch, subresource="status")
        except NotFoundError:
            return await_change()
        except ConflictError:
            # Somebody else was quicker, and the cache has not seen it yet.
            return requeue(CONFLICT_RETRY_SECONDS)
        return await_change()

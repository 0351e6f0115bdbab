"""Messages between a policy pool and its workers, as this program has them and as they are sent: values of JSON.

Each has one function that makes plain values of it, and one that reads and checks them: :class:`FrameError` names what
is wrong. The objects of a review are JSON already, whether an API server or a file had them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, get_args

from gangctl.api.objects import Object
from gangctl.policy.loaded import PolicyData
from gangctl.policy.review import Operation, Review
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction
from gangctl.runtime.workerchild import FrameError


class Load(NamedTuple):
    """Policies (name and source) and exceptions (their documents) to keep, by key, and keys to forget.

    ``minor`` is the Kubernetes minor whose CEL libraries native policies get. Answered by the key of each policy, in
    order, when it is loaded.
    """

    minor: str
    policies: Mapping[str, tuple[str, PolicyData]] = {}
    exceptions: Mapping[str, tuple[Object, ...]] = {}
    forget: frozenset[str] = frozenset()


class Evaluate(NamedTuple):
    """A review, and the keys of the policies and exceptions to evaluate it by.

    Answered by :data:`READ` when the review has been read, then by one :class:`Evaluated` per policy, in order.
    ``policy_seconds`` bounds the CPU time of each policy, ``seconds`` the wall-clock time of all of them, as far as an
    evaluation checks the clock.
    """

    review: Review
    policies: tuple[str, ...]
    exceptions: str
    policy_seconds: float
    seconds: float


READ: Final = "read"
MEMORY: Final = "memory"
"""In place of an outcome: the policy ran out of memory."""
LATE: Final = "late"
"""In place of an outcome: the time of the request was over before the policy began."""


class Evaluated(NamedTuple):
    """The outcome of one policy, and the CPU seconds that it took."""

    outcome: Outcome | str
    seconds: float


_LOAD: Final = "load"
_EVALUATE: Final = "evaluate"
_OPERATIONS: Final[dict[str, Operation]] = {operation: operation for operation in get_args(Operation)}
_ACTIONS: Final = {action.value: action for action in ValidationAction}
_RESULTS: Final = {result.value: result for result in Result}


def plain_request(message: Load | Evaluate) -> list[Any]:
    """What a worker is sent."""
    if isinstance(message, Load):
        policies = {key: [name, *source] for key, (name, source) in message.policies.items()}
        return [_LOAD, message.minor, policies, dict(message.exceptions), [*message.forget]]
    return [_EVALUATE, _plain_review(message.review), *message[1:]]


def read_request(value: Any) -> Load | Evaluate:
    """Read what a worker is sent."""
    match value:
        case ["load", str(minor), dict(policies), dict(exceptions), list(forget)]:
            return Load(
                minor,
                {key: _read_policy(policy) for key, policy in policies.items()},
                {key: _objects(documents) for key, documents in exceptions.items()},
                frozenset(_texts(forget)),
            )
        case ["evaluate", list(review), list(policies), str(exceptions), float() | int(), float() | int()]:
            return Evaluate(_read_review(review), _texts(policies), exceptions, value[4], value[5])
    raise FrameError("a request that is neither load nor evaluate")


def plain_evaluated(answer: Evaluated) -> list[Any]:
    """The answer of a worker for one policy."""
    outcome = answer.outcome
    return [outcome if isinstance(outcome, str) else _plain_outcome(outcome), answer.seconds]


def read_evaluated(policy: str, value: Any) -> Evaluated:
    """Read the answer of a worker for the policy of this name."""
    match value:
        case [("memory" | "late") as word, float(seconds) | int(seconds)]:
            return Evaluated(word, _seconds(seconds))
        case [[str(name), *outcome], float(seconds) | int(seconds)] if name == policy:
            return Evaluated(_read_outcome(policy, outcome), _seconds(seconds))
    raise FrameError("no outcome of the policy that is evaluated")


def read_text(expected: str, value: Any) -> None:
    """Read an answer that can only be this text."""
    if value != expected:
        raise FrameError("another text than was expected")


def _plain_review(review: Review) -> list[Any]:
    return [
        review.operation,
        review.now.astimezone(UTC).isoformat(),
        review.request,
        review.object,
        review.old_object,
        review.namespace,
        review.gang,
        review.fit,
        dict(review.params),
        dict(review.param_errors),
    ]


def _read_review(value: list[Any]) -> Review:
    match value:
        case [str(operation), str(now), dict(request), obj, old, namespace, gang, fit, dict(params), dict(errors)] if (
            operation in _OPERATIONS
            and all(isinstance(part, dict | None) for part in (obj, old, namespace, fit))
            and isinstance(gang, dict | str | None)
        ):
            return Review(
                _OPERATIONS[operation],
                _moment(now),
                request,
                obj,
                old,
                namespace,
                gang,
                fit,
                {name: _objects(documents) for name, documents in params.items()},
                dict(zip(errors, _texts(errors.values()), strict=True)),
            )
    raise FrameError("no review")


def _plain_outcome(outcome: Outcome) -> list[Any]:
    return [
        outcome.policy,
        outcome.matched,
        outcome.skipped,
        [*outcome.actions],
        [_plain_finding(finding) for finding in outcome.findings],
        [_plain_finding(finding) for finding in outcome.violations],
        outcome.audit_annotations,
        outcome.steps,
    ]


def _read_outcome(policy: str, value: list[Any]) -> Outcome:
    match value:
        case [
            bool(matched),
            str(skipped),
            list(actions),
            list(findings),
            list(violations),
            list(notes),
            int(steps),
        ] if steps >= 0 and not isinstance(steps, bool) and _ACTIONS.keys() >= {*_texts(actions)}:
            return Outcome(
                policy,
                matched,
                skipped,
                frozenset(_ACTIONS[action] for action in actions),
                tuple(_read_finding(policy, finding) for finding in findings),
                tuple(_read_finding(policy, finding) for finding in violations),
                tuple(_pair(note) for note in notes),
                steps,
            )
    raise FrameError("no outcome")


def _plain_finding(finding: Finding) -> list[Any]:
    """Without the policy, whose outcome it is in."""
    return [
        finding.rule,
        finding.result,
        finding.message,
        finding.reason,
        finding.params,
        finding.error,
        finding.exception,
        finding.always,
    ]


def _read_finding(policy: str, value: Any) -> Finding:
    match value:
        case [
            str(rule),
            str(result),
            str(message),
            str(reason),
            str(params),
            str(error),
            str(exception),
            bool(always),
        ] if result in _RESULTS:
            return Finding(policy, rule, _RESULTS[result], message, reason, params, error, exception, always)
    raise FrameError("no finding")


def _read_policy(value: Any) -> tuple[str, PolicyData]:
    match value:
        case [str(name), dict(document), bool(native)]:
            return name, PolicyData(document, native)
    raise FrameError("no policy")


def _pair(value: Any) -> tuple[str, str]:
    match value:
        case [str(key), str(text)]:
            return key, text
    raise FrameError("no pair of texts")


def _objects(value: Any) -> tuple[Object, ...]:
    if isinstance(value, list) and all(isinstance(document, dict) for document in value):
        return tuple(value)
    raise FrameError("no list of objects")


def _texts(values: Any) -> tuple[str, ...]:
    if all(isinstance(value, str) for value in values):
        return tuple(values)
    raise FrameError("no texts")


def _seconds(value: float) -> float:
    if isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise FrameError("no time")
    return float(value)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise FrameError("no time") from None
    if moment.tzinfo is None:
        raise FrameError("a time without a time zone")
    return moment

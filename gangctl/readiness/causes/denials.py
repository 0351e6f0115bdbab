"""Interpretation of messages of denied creations: who denied them, and what helps.

The texts are those of Kubernetes' admission plugins (``k8s.io/apiserver`` ``pkg/admission``, ``plugin/pkg/admission``),
unchanged for years and compared with real API servers in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gangctl.readiness.causes.commands import Command

_NAME: Final = r"(?P<name>[a-z0-9][-a-z0-9.]{0,252})"
"""A valid object name: it is part of a command that users copy, and any client may write events."""


@dataclass(frozen=True, slots=True)
class Denial:
    """``what`` follows "refused: "; ``name`` is that in ``command``, if it has one."""

    what: str
    remedy: str
    command: Command | None = None
    """None if the events of the refused object are all that is known."""
    name: str = ""
    follower: bool = False
    """JobSet's denial of pods before the leader of their Job has a node."""


def _own(found: re.Match[str]) -> Denial:
    return Denial(
        f'gangctl\'s own webhook "{found["name"]}" does not answer',
        "get gangctl's pods to run and their Service to reach them; the label gangctl.dev/skip=true on the "
        "namespace is the way around in an emergency, without gangs",
        Command.OWN_PODS,
    )


def _unanswered(found: re.Match[str]) -> Denial:
    return Denial(
        f'webhook "{found["name"]}" does not answer',
        "get the pods behind it to run, or ask the owner of its configuration to repair it",
        Command.WEBHOOKS,
    )


def _denied(found: re.Match[str]) -> Denial:
    why = found["why"] or "it does not say why"
    if "follower pod node selector" in why:
        return Denial("JobSet refuses followers before their leader has a node", "", follower=True)
    return Denial(
        f'webhook "{found["name"]}" denies it: {why}',
        "change what it objects to, or ask the owner of the webhook",
        Command.WEBHOOKS,
    )


def _quota(found: re.Match[str]) -> Denial:
    return Denial(
        f"ResourceQuota {found['name']} is used up: {found['rest']}",
        "free quota in the namespace, have the ResourceQuota raised, or make the JobSet smaller; all pods of a gang "
        "have to fit into it at once",
        Command.RESOURCE_QUOTA,
        found["name"],
    )


def _limit(found: re.Match[str]) -> Denial:
    return Denial(
        f"a LimitRange forbids it: {found['what']}",
        "keep requests and limits of the containers within the LimitRange, in a new JobSet",
        Command.LIMIT_RANGES,
    )


def _security(found: re.Match[str]) -> Denial:
    return Denial(
        f'PodSecurity "{found["level"]}" forbids it: {found["what"]}',
        "set the securityContext as the Pod Security Standard asks, in a new JobSet, or use another namespace",
        Command.NAMESPACE_LABELS,
    )


def _policy(found: re.Match[str]) -> Denial:
    return Denial(
        f"ValidatingAdmissionPolicy {found['name']} denies it: {found['why']}",
        "change what the policy objects to, or ask its owner",
        Command.ADMISSION_POLICY,
        found["name"],
    )


def _account(found: re.Match[str]) -> Denial:
    return Denial(
        f'ServiceAccount "{found["name"]}" does not exist',
        "create it in the namespace",
        Command.SERVICE_ACCOUNTS,
    )


def _priority(found: re.Match[str]) -> Denial:
    return Denial(
        f'PriorityClass "{found["name"]}" does not exist',
        "create it, or name another one in a new JobSet",
        Command.PRIORITY_CLASSES,
    )


_Readers = tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Denial]], ...]
_OF_JOBS: Final[_Readers] = ((re.compile(r'failed calling webhook "(?P<name>[^"]{1,241}\.gangctl\.dev)"'), _own),)
"""No webhook of gangctl's is for pods."""
_OF_ANY: Final[_Readers] = (
    (re.compile(r'failed calling webhook "(?P<name>[^"]{1,253})"'), _unanswered),
    (
        re.compile(r'admission webhook "(?P<name>[^"]{1,253})" denied the request(?:: (?P<why>.{0,300}))?', re.DOTALL),
        _denied,
    ),
    (re.compile(rf"exceeded quota: {_NAME}, (?P<rest>.{{0,300}})", re.DOTALL), _quota),
    (
        re.compile(
            rf"ValidatingAdmissionPolicy '{_NAME}' (?:with binding '[^']{{0,253}}' )?denied request: "
            r"(?P<why>.{0,300})",
            re.DOTALL,
        ),
        _policy,
    ),
)
_OF_PODS: Final[_Readers] = (
    (re.compile(r'violates PodSecurity "(?P<level>[^"]{1,80})": (?P<what>.{0,300})', re.DOTALL), _security),
    (re.compile(r'[Ss]ervice ?account "(?P<name>[^"]{1,253})" not found'), _account),
    (re.compile(r"no PriorityClass with name (?P<name>\S{1,253}) was found"), _priority),
    (
        re.compile(
            r"(?P<what>(?:(?:maximum|minimum) \S{1,100} usage per (?:Container|Pod|PersistentVolumeClaim)"
            r"|\S{1,100} max limit to request ratio per (?:Container|Pod)).{0,200})",
            re.DOTALL,
        ),
        _limit,
    ),
)


def read_denial(message: str, *, pods: bool) -> Denial:
    """Who denied the creation of pods, or of Jobs, as far as the message contains it; total."""
    for pattern, denial in (*_OF_ANY, *_OF_PODS) if pods else (*_OF_JOBS, *_OF_ANY):
        found = pattern.search(message)
        if found is not None:
            return denial(found)
    return Denial(message[:300] or "it is not said why", "put right what the message says")

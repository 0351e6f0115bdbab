"""Messages of other programs: why the scheduler found no node, and who denied a creation and what helps.

The texts are those of ``pkg/scheduler`` of Kubernetes 1.35 to 1.37; the tests have them from real schedulers.

The texts are those of Kubernetes' admission plugins (``k8s.io/apiserver`` ``pkg/admission``,
``plugin/pkg/admission``), unchanged for years and compared with real API servers in the tests.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from gangctl.errors import plural
from gangctl.readiness.causes.context import Command
from gangctl.readiness.causes.filters import COUNTED, FILTERS, Filter
from gangctl.readiness.membership import TIMED_OUT

_SAME: Final = 256
# Every repetition is bounded: any client may write an event, and reading its text must not take long.
_NODES: Final = re.compile(
    r"(?P<free>\d{1,7})/(?P<all>\d{1,7}) nodes are available: (?P<why>.{0,2000}?)(?:\.(?:\s|$)|$)"
)
_NOT_READY: Final = re.compile(
    r'running (?P<why>PreBind plugin "(?:VolumeBinding": |DynamicResources": device binding ).{1,300})', re.DOTALL
)
"""Of what the scheduler has waited for on the node that it chose; the reason of the condition is SchedulerError."""
_COUNTED: Final = re.compile(r"^(?P<count>\d{1,7}) (?P<what>.+)$", re.DOTALL)
_PLACEMENTS: Final = re.compile(r"(?P<free>\d{1,7})/(?P<all>\d{1,7}) placements are available")
_QUORUM: Final = re.compile(
    r"minCount \((?P<minimum>\d{1,7})\) cannot be satisfied: (?P<placed>\d{1,7}) scheduled, (?P<left>\d{1,7}) remaining"
)
_NO_DOMAIN: Final = "no feasible placements found"
_PRIORITY: Final = re.compile(
    r"same priority as the pod group's priority, got (?P<pods>-?\d{1,10}) and (?P<group>-?\d{1,10})"
)
_PREEMPTS: Final = re.compile(
    r"pod group preemption: (?:found a placement|ongoing preemption)|pod group is waiting for preemption to complete"
    r"|preemption: not eligible due to a terminating pod on the nominated node"
)
"""Of a group: 1.37, and 1.36, where a pod says it after the first retry."""
_HIDDEN: Final = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'
_OF_THE_GROUP: Final = ("pod group is unschedulable", "waiting for minCount pods")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Content of the messages about one group; missing numbers are None."""

    nodes: int | None = None
    """Nodes that the scheduler considered."""
    reasons: tuple[tuple[int, str], ...] = ()
    """How many of them were rejected and why, in short; the most first. 0 is what holds for any node."""
    filters: frozenset[Filter] = frozenset()
    """Those that are known."""
    unknown: bool = False
    """Whether there are others."""
    minimum: int | None = None
    placed: int | None = None
    """Pods of the minimum that it could place before it gave up."""
    placements: int | None = None
    """Topology domains that it tried; 1 where there is no constraint."""
    no_domain: bool = False
    """No node, or no usable node, has the topology's label."""
    priorities: tuple[int, int] | None = None
    """Priority of pods and of their group, where these differ."""
    preempts: bool = False
    """Whether the scheduler waits for the end of pods that it has preempted for the group."""
    hidden: bool = False
    """Whether all pods were refused before the filters of nodes, which Kubernetes 1.37 reports as an error."""

    @property
    def counted(self) -> bool:
        """Whether gangctl's model of nodes looks at all that it is about."""
        return not self.unknown and self.filters <= frozenset(COUNTED)

    @property
    def short(self) -> str:
        """A short text."""
        parts = []
        if self.minimum is not None and self.placed:
            parts.append(f"room for {self.placed} of {plural(self.minimum, 'pod')}")
        parts += [what for count, what in self.reasons if not count]
        if counted := [f"{count} {what}" for count, what in self.reasons[:4] if count]:
            parts.append(f"of {plural(self.nodes or 0, 'node')}, {', '.join(counted)}")
        return "; ".join(parts)


def read_refusal(messages: Iterable[str]) -> Refusal:
    """Combined content of all messages about one group; total, and independent of their order."""
    return _read(tuple(sorted({message for message in messages if message})))


@lru_cache(_SAME)
def _read(texts: tuple[str, ...]) -> Refusal:
    # Cached, because rejected groups of a JobSet mostly have the same message.
    nodes: int | None = None
    reasons: dict[str, int] = {}
    filters: set[Filter | None] = set()
    for text in texts:
        if TIMED_OUT in text:
            continue
        match = _NODES.search(text)
        if match is None:
            match = _NOT_READY.search(text)
        elif int(match["all"]) >= (nodes or 0):
            nodes = int(match["all"])
        else:
            match = None
        if match is not None:
            counts, known = _reasons(match["why"])
            filters |= known
            for what, count in counts.items():
                reasons[what] = max(count, reasons.get(what, 0))
    quorum = _last(_QUORUM, texts)
    placements = _last(_PLACEMENTS, texts)
    priorities = _last(_PRIORITY, texts)
    return Refusal(
        nodes=nodes,
        filters=frozenset(known for known in filters if known is not None),
        unknown=None in filters,
        reasons=tuple(sorted(((count, what) for what, count in reasons.items()), key=lambda r: (-r[0], r[1]))),
        minimum=int(quorum["minimum"]) if quorum is not None else None,
        placed=int(quorum["placed"]) if quorum is not None else None,
        placements=int(placements["all"]) if placements is not None else None,
        no_domain=any(_NO_DOMAIN in text for text in texts),
        preempts=any(_PREEMPTS.search(text) for text in texts),
        hidden=any(_HIDDEN in text for text in texts),
        priorities=(int(priorities["pods"]), int(priorities["group"])) if priorities is not None else None,
    )


def _last(pattern: re.Pattern[str], texts: Iterable[str]) -> re.Match[str] | None:
    return next((match for text in texts if (match := pattern.search(text)) is not None), None)


def _reasons(why: str) -> tuple[Mapping[str, int], set[Filter | None]]:
    """The parts of ``3 Insufficient cpu, 2 node(s) were unschedulable``, in short; 0 for one without a number.

    None is a filter that is not known.
    """
    shortened: Counter[str] = Counter()
    filters: set[Filter | None] = set()
    # A reason may contain a comma; the next one begins with a number.
    for part in re.split(r", (?=\d)", why):
        counted = _COUNTED.match(part.strip().rstrip("."))
        what = part.strip() if counted is None else counted["what"]
        words = what.removeprefix("node(s) ").strip()
        matching = next((one for one in FILTERS if one.text.search(what)), None)
        if matching is not None:
            words = matching.text.sub(matching.words, what).strip()
        filters.add(matching)
        if matching is not None or counted is not None:
            shortened[words] += 0 if counted is None else int(counted["count"])
    return shortened, filters


def of_the_group(message: str) -> bool:
    """Whether a pod's message is only about its waiting group, not about nodes."""
    if TIMED_OUT in message:
        return True
    return any(words in message for words in _OF_THE_GROUP) and _NODES.search(message) is None


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
    ends: bool = True
    """Whether it can end without a new JobSet."""


_Texts = tuple[tuple[re.Pattern[str], Denial], ...]
"""Texts by the pattern whose groups are filled into them; the first that matches counts."""
# Read before _OF_ANY, whose pattern of a webhook matches these messages, too.
_OF_JOBS: Final[_Texts] = (
    (
        re.compile(r'failed calling webhook "(?P<name>[^"]{1,241}\.gangctl\.dev)"'),
        Denial(
            'gangctl\'s own webhook "{name}" does not answer',
            "get gangctl's pods to run and their Service to reach them; the label gangctl.dev/skip=true on the "
            "namespace is the way around in an emergency, without gangs",
            Command.OWN_PODS,
        ),
    ),
)
"""No webhook of gangctl's is for pods."""
_OF_ANY: Final[_Texts] = (
    (
        re.compile(r'failed calling webhook "(?P<name>[^"]{1,253})"'),
        Denial(
            'webhook "{name}" does not answer',
            "get the pods behind it to run, or ask the owner of its configuration to repair it",
            Command.WEBHOOKS,
        ),
    ),
    (
        re.compile(
            r'admission webhook "[^"]{1,253}" denied the request: .{0,274}follower pod node selector', re.DOTALL
        ),
        Denial("JobSet refuses followers before their leader has a node", "", follower=True),
    ),
    (
        re.compile(r'admission webhook "(?P<name>[^"]{1,253})" denied the request(?:: (?P<why>.{1,300}))?', re.DOTALL),
        Denial(
            'webhook "{name}" denies it: {why}',
            "change what it objects to, or ask the owner of the webhook",
            Command.WEBHOOKS,
        ),
    ),
    (
        re.compile(rf"exceeded quota: {_NAME}, (?P<rest>.{{0,300}})", re.DOTALL),
        Denial(
            "ResourceQuota {name} is used up: {rest}",
            "free quota in the namespace, have the ResourceQuota raised, or make the JobSet smaller; all pods of a "
            "gang have to fit into it at once",
            Command.RESOURCE_QUOTA,
            "{name}",
        ),
    ),
    (
        re.compile(rf"failed quota: {_NAME}: must specify (?P<rest>.{{0,300}})", re.DOTALL),
        Denial(
            "ResourceQuota {name} takes no pod that does not specify {rest}",
            "create a LimitRange in the namespace with defaults for it, or the JobSet anew with it in its templates",
            Command.RESOURCE_QUOTA,
            "{name}",
        ),
    ),
    (
        re.compile(
            rf"ValidatingAdmissionPolicy '{_NAME}' (?:with binding '[^']{{0,253}}' )?denied request: "
            r"(?P<why>.{0,300})",
            re.DOTALL,
        ),
        Denial(
            "ValidatingAdmissionPolicy {name} denies it: {why}",
            "change what the policy objects to, or ask its owner",
            Command.ADMISSION_POLICY,
            "{name}",
        ),
    ),
)
_INVALID: Final[_Texts] = (
    (
        re.compile(r'"[^"]{1,253}" is invalid: (?P<what>.{1,300})', re.DOTALL),
        Denial(
            "the API server finds it invalid: {what}",
            "templates are fixed once a JobSet is there: create it again with this field put right",
            ends=False,
        ),
    ),
)
_OF_PODS: Final[_Texts] = (
    (
        re.compile(r'violates PodSecurity "(?P<level>[^"]{1,80})": (?P<what>.{0,300})', re.DOTALL),
        Denial(
            'PodSecurity "{level}" forbids it: {what}',
            "set the securityContext as the Pod Security Standard asks, in a new JobSet, or use another namespace",
            Command.NAMESPACE_LABELS,
        ),
    ),
    (
        re.compile(r'[Ss]ervice ?account "(?P<name>[^"]{1,253})" not found'),
        Denial('ServiceAccount "{name}" does not exist', "create it in the namespace", Command.SERVICE_ACCOUNTS),
    ),
    (
        re.compile(r"no PriorityClass with name (?P<name>\S{1,253}) was found"),
        Denial(
            'PriorityClass "{name}" does not exist',
            "create it, or name another one in a new JobSet",
            Command.PRIORITY_CLASSES,
        ),
    ),
    (
        re.compile(
            r"(?P<what>(?:(?:maximum|minimum) \S{1,100} usage per (?:Container|Pod|PersistentVolumeClaim)"
            r"|\S{1,100} max limit to request ratio per (?:Container|Pod)).{0,200})",
            re.DOTALL,
        ),
        Denial(
            "a LimitRange forbids it: {what}",
            "keep requests and limits of the containers within the LimitRange, in a new JobSet",
            Command.LIMIT_RANGES,
        ),
    ),
)


def read_denial(message: str, *, pods: bool) -> Denial:
    """Who denied the creation of pods, or of Jobs, as far as the message contains it; total."""
    for pattern, denial in (*_OF_ANY, *_OF_PODS, *_INVALID) if pods else (*_OF_JOBS, *_OF_ANY, *_INVALID):
        match = pattern.search(message)
        if match is not None:
            parts = match.groupdict("it does not say why")
            return replace(denial, what=denial.what.format(**parts), name=denial.name.format(**parts))
    return Denial(message[:300] or "it is not said why", "put right what the message says")

"""Short forms of the scheduler's messages: which resource, how many nodes, how many pods would have fitted.

The texts are those of ``pkg/scheduler`` of Kubernetes 1.35 to 1.37; the tests have them from real schedulers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gangctl.errors import plural

_SAME: Final = 256
_NODES: Final = re.compile(
    r"(?P<free>\d{1,7})/(?P<all>\d{1,7}) nodes are available: (?P<why>.{0,2000}?)(?:\.(?:\s|$)|$)"
)
_COUNTED: Final = re.compile(r"^(?P<count>\d{1,7}) (?P<what>.+)$", re.DOTALL)
_PLACEMENTS: Final = re.compile(r"(?P<free>\d{1,7})/(?P<all>\d{1,7}) placements are available")
_QUORUM: Final = re.compile(
    r"minCount \((?P<minimum>\d{1,7})\) cannot be satisfied: (?P<placed>\d{1,7}) scheduled, (?P<left>\d{1,7}) remaining"
)
_NO_DOMAIN: Final = "no feasible placements found"
_PRIORITY: Final = re.compile(
    r"same priority as the pod group's priority, got (?P<pods>-?\d{1,10}) and (?P<group>-?\d{1,10})"
)
_OF_THE_GROUP: Final = ("pod group is unschedulable", "waiting for minCount pods")
_SHORT: Final = (
    (re.compile(r"Insufficient (\S{1,253})"), r"short of \1"),
    (re.compile(r"node\(s\) had untolerated taint\(?s?\)?\s?(\{[^}]{0,200}\})?.*", re.DOTALL), r"with a taint \1"),
    (re.compile(r"node\(s\) didn't match Pod's node affinity/selector"), "outside of the node selector or affinity"),
    (re.compile(r"node\(s\) were unschedulable"), "cordoned"),
    (re.compile(r"Too many pods"), "full of pods"),
    (re.compile(r"node\(s\) didn't match pod topology spread constraints.*", re.DOTALL), "against topology spread"),
    (
        re.compile(r"node\(s\) didn't (?:match|satisfy) (?:existing )?pods? (?:anti-)?affinity.*", re.DOTALL),
        "against pod (anti-)affinity",
    ),
    (
        re.compile(r"node\(s\) (?:had volume node affinity conflict|didn't find available persistent volumes to bind)"),
        "without the volume",
    ),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Content of the messages about one group; missing numbers are None."""

    nodes: int | None = None
    """Nodes that the scheduler considered."""
    reasons: tuple[tuple[int, str], ...] = ()
    """How many of them were rejected and why, in short; the most first."""
    minimum: int | None = None
    placed: int | None = None
    """Pods of the minimum that it could place before it gave up."""
    placements: int | None = None
    """Topology domains that it tried; 1 where there is no constraint."""
    no_domain: bool = False
    """No node, or no usable node, has the topology's label."""
    priorities: tuple[int, int] | None = None
    """Priority of pods and of their group, where these differ."""

    @property
    def short(self) -> str:
        """A short text."""
        parts = []
        if self.minimum is not None and self.placed:
            parts.append(f"room for {self.placed} of {plural(self.minimum, 'pod')}")
        if self.reasons:
            parts.append(
                f"of {plural(self.nodes or 0, 'node')}, "
                + ", ".join(f"{count} {what}" for count, what in self.reasons[:4])
            )
        return "; ".join(parts)


def read_refusal(messages: Iterable[str]) -> Refusal:
    """Combined content of all messages about one group; total, and independent of their order."""
    return _read(tuple(sorted({each for each in messages if each})))


@lru_cache(_SAME)
def _read(texts: tuple[str, ...]) -> Refusal:
    # Cached, because rejected groups of a JobSet mostly have the same message.
    nodes: int | None = None
    reasons: dict[str, int] = {}
    for text in texts:
        found = _NODES.search(text)
        if found is not None and int(found["all"]) >= (nodes or 0):
            nodes = int(found["all"])
            for what, count in _reasons(found["why"]).items():
                reasons[what] = max(count, reasons.get(what, 0))
    quorum = _last(_QUORUM, texts)
    placements = _last(_PLACEMENTS, texts)
    priorities = _last(_PRIORITY, texts)
    return Refusal(
        nodes=nodes,
        reasons=tuple(sorted(((count, what) for what, count in reasons.items()), key=lambda r: (-r[0], r[1]))),
        minimum=int(quorum["minimum"]) if quorum is not None else None,
        placed=int(quorum["placed"]) if quorum is not None else None,
        placements=int(placements["all"]) if placements is not None else None,
        no_domain=any(_NO_DOMAIN in text for text in texts),
        priorities=(int(priorities["pods"]), int(priorities["group"])) if priorities is not None else None,
    )


def _last(pattern: re.Pattern[str], texts: Iterable[str]) -> re.Match[str] | None:
    return next((found for text in texts if (found := pattern.search(text)) is not None), None)


def _reasons(why: str) -> Mapping[str, int]:
    """The parts of ``3 Insufficient cpu, 2 node(s) were unschedulable``, in short."""
    found: dict[str, int] = {}
    for part in re.split(r", (?=\d)", why):
        counted = _COUNTED.match(part.strip().rstrip("."))
        if counted is not None:
            what = _shortened(counted["what"])
            found[what] = found.get(what, 0) + int(counted["count"])
    return found


def _shortened(what: str) -> str:
    for pattern, words in _SHORT:
        if pattern.search(what):
            return pattern.sub(words, what).strip()
    return what.removeprefix("node(s) ").strip()


def of_the_group(message: str) -> bool:
    """Whether a pod's message is only about its waiting group, not about nodes."""
    return any(words in message for words in _OF_THE_GROUP) and _NODES.search(message) is None

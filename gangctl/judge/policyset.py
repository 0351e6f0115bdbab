"""The policies in force together."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from gangctl.policy.exemptions import LoadedException
from gangctl.policy.loaded import BrokenPolicy, LoadedPolicy
from gangctl.policy.review import Object


@dataclass(frozen=True, slots=True)
class PolicySet:
    """What a review is judged by: all of one set or none of it. ``generation`` counts the sets of one source.

    ``broken`` are those that could not be loaded: their failurePolicy is all that speaks.
    """

    generation: int = 0
    policies: tuple[LoadedPolicy, ...] = ()
    exceptions: tuple[LoadedException, ...] = ()
    broken: tuple[BrokenPolicy, ...] = ()


class Source(NamedTuple):
    """A policy as another process loads it again."""

    document: Object
    native: bool


class Entry(NamedTuple):
    """A policy, its key, which is the same for the same content, and the functions that it calls."""

    key: str
    policy: LoadedPolicy
    functions: frozenset[str]

    @property
    def source(self) -> Source:
        """What it is loaded from."""
        return Source(self.policy.source, self.policy.native)


class Docket(NamedTuple):
    """A set with its keys: made once, when it is installed."""

    policies: PolicySet
    entries: tuple[Entry, ...]
    exceptions_key: str

    @property
    def keys(self) -> frozenset[str]:
        """Of everything in it."""
        return frozenset([*(entry.key for entry in self.entries), self.exceptions_key])


def docket(policies: PolicySet) -> Docket:
    """Find out the keys."""
    entries = tuple(Entry(_policy_key(policy), policy, _functions(policy)) for policy in policies.policies)
    digest = hashlib.sha256(pickle.dumps([_text(each.source) for each in policies.exceptions]))
    return Docket(policies, entries, f"exceptions:{digest.hexdigest()}")


def _functions(policy: LoadedPolicy) -> frozenset[str]:
    return frozenset[str]().union(*(each.checked.functions for each in policy.programs.expressions()))


def _policy_key(policy: LoadedPolicy) -> str:
    # A native policy has an entry per binding.
    return hashlib.sha256(f"{policy.name}\n{policy.native}\n".encode() + _text(policy.source)).hexdigest()


def _text(document: Object) -> bytes:
    """The document without what changes when nothing of its meaning does."""
    metadata = document.get("metadata")
    kept = {key: value for key, value in document.items() if key not in {"metadata", "status"}}
    if isinstance(metadata, dict):
        kept["metadata"] = {key: metadata.get(key) for key in ("name", "generation")}
    return orjson.dumps(kept, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)

"""The policies that are in force together, and a key for the content of each."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from gangctl.api.objects import Object
from gangctl.policy.exemptions import LoadedException
from gangctl.policy.loaded import BrokenPolicy, LoadedPolicy


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Each review is evaluated by exactly one set. ``generation`` counts the sets of one source.

    ``broken`` are policies that could not be loaded: their failurePolicy decides.
    """

    generation: int = 0
    policies: tuple[LoadedPolicy, ...] = ()
    exceptions: tuple[LoadedException, ...] = ()
    broken: tuple[BrokenPolicy, ...] = ()


class Source(NamedTuple):
    """The data from which another process loads a policy."""

    document: Object
    native: bool


class Entry(NamedTuple):
    """A policy, and a key that is the same for the same content."""

    key: str
    policy: LoadedPolicy

    @property
    def source(self) -> Source:
        """What it is loaded from."""
        return Source(self.policy.source, self.policy.native)


class Snapshot(NamedTuple):
    """A set with its keys."""

    policies: PolicySet
    entries: tuple[Entry, ...]
    exceptions_key: str

    @property
    def keys(self) -> frozenset[str]:
        """Of all its policies and of its exceptions."""
        return frozenset([*(entry.key for entry in self.entries), self.exceptions_key])


def snapshot_of(policies: PolicySet) -> Snapshot:
    """Compute the keys; done once for each set."""
    entries = tuple(Entry(_policy_key(policy), policy) for policy in policies.policies)
    digest = hashlib.sha256(pickle.dumps([_text(each.source) for each in policies.exceptions]))
    return Snapshot(policies, entries, f"exceptions:{digest.hexdigest()}")


def _policy_key(policy: LoadedPolicy) -> str:
    # A native policy has an entry per binding.
    return hashlib.sha256(f"{policy.name}\n{policy.native}\n".encode() + _text(policy.source)).hexdigest()


def _text(document: Object) -> bytes:
    """The document without fields that do not change its meaning."""
    metadata = document.get("metadata")
    kept = {key: value for key, value in document.items() if key not in {"metadata", "status"}}
    if isinstance(metadata, dict):
        kept["metadata"] = {key: metadata.get(key) for key in ("name", "generation")}
    return orjson.dumps(kept, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)

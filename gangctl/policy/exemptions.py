"""Exceptions: what a GangPolicyException allows, for which JobSets, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gangctl.api.objects import Object, object_at
from gangctl.policy.match import selects_namespace, selects_object
from gangctl.policy.model import GangPolicyException, GangPolicyExceptionSpec
from gangctl.policy.reading import read_exception
from gangctl.policy.review import Review


@dataclass(frozen=True, slots=True)
class LoadedException:
    """An exception ready for evaluation; ``source`` is its document."""

    name: str
    spec: GangPolicyExceptionSpec
    source: Object
    generation: int = 0

    @property
    def expires_at(self) -> datetime:
        """When it expires."""
        return self.spec.expires_at

    def expired(self, now: datetime) -> bool:
        """Whether it has expired."""
        return now >= self.spec.expires_at


def load_exception(document: Mapping[str, Any]) -> LoadedException:
    """Read an exception; :class:`~gangctl.errors.ValidationError` with everything that is wrong with it."""
    read: GangPolicyException = read_exception(document)
    return LoadedException(read.metadata.name, read.spec, document, read.metadata.generation)


def covers(exception: LoadedException, policy: str, rule: str, review: Review) -> bool:
    """Whether the exception allows this request although the rule of the policy forbids it.

    A ``rule`` that is not a rule's id stands for the policy as a whole (its parameters, say): only an exception without
    ``rules`` covers that.
    """
    if exception.expired(review.now) or not _names_rule(exception.spec, policy, rule):
        return False
    match = exception.spec.match
    namespace = str(review.request.get("namespace") or "")
    if match.namespaces and namespace not in match.namespaces:
        return False
    if match.names and not any(_fits(pattern, review) for pattern in match.names):
        return False
    return selects_namespace(match.namespace_selector, review) and selects_object(match.object_selector, review)


def covering(exceptions: Iterable[LoadedException], policy: str, rule: str, review: Review) -> str:
    """Name of the first exception, by name, that covers it; empty when none does."""
    return min((each.name for each in exceptions if covers(each, policy, rule, review)), default="")


def _names_rule(spec: GangPolicyExceptionSpec, policy: str, rule: str) -> bool:
    return any(each.name == policy and (not each.rules or rule in each.rules) for each in spec.policies)


def _fits(pattern: str, review: Review) -> bool:
    """Whether a name, or the prefix of a name before ``*``, is the object's.

    An object without a name yet has its generateName: a pattern matches when every name with that prefix would.
    """
    prefix, star, _ = pattern.partition("*")
    name = str(review.request.get("name") or _metadata(review).get("name") or "")
    if name:
        return name.startswith(prefix) if star else name == pattern
    generate_name = str(_metadata(review).get("generateName") or "")
    return bool(star) and bool(generate_name) and generate_name.startswith(prefix)


def _metadata(review: Review) -> Mapping[str, Any]:
    return object_at(review.object or review.old_object or {}, "metadata")

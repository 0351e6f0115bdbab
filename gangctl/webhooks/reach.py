"""Which objects policies can match, as label selectors for the webhooks of the policies.

A webhook may be sent more than the policies match, never less. Several selectors become one by key: the values that any
of them accepts. What one ``LabelSelector`` cannot say is left out of it, so that it selects more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, NamedTuple

from gangctl.api.labelselector import Operator
from gangctl.policy.defaults import is_conditional
from gangctl.policy.loaded import BrokenPolicy, LoadedPolicy
from gangctl.policy.model import LabelSelector
from gangctl.policy.reading import check_selector

MAX_VALUES: Final = 512
"""Values of a term: with more the configuration would be large, and the term is left out."""


class Term(NamedTuple):
    """An entry of ``matchExpressions``."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def written(self) -> dict[str, Any]:
        """As a webhook configuration has it."""
        plain: dict[str, Any] = {"key": self.key, "operator": self.operator}
        return {**plain, "values": list(self.values)} if self.values else plain

    def negated(self) -> Term:
        """The term that selects exactly the other objects."""
        others: dict[Operator, Operator] = {
            "In": "NotIn",
            "NotIn": "In",
            "Exists": "DoesNotExist",
            "DoesNotExist": "Exists",
        }
        return self._replace(operator=others[self.operator])


@dataclass(frozen=True, slots=True)
class Reach:
    """Terms for labels of Namespaces and of objects; without any everything is selected."""

    namespaces: tuple[Term, ...] = ()
    objects: tuple[Term, ...] = ()


EVERYTHING: Final = Reach()


def reach_of(policies: Iterable[LoadedPolicy | BrokenPolicy]) -> Reach:
    """What any of these policies can match."""
    return _union([_of_constraints(policy) for policy in policies])


def reach_of_defaults(policies: Iterable[LoadedPolicy]) -> Reach:
    """The objects to which any of these policies can add defaults, or that it can refuse instead."""
    return _union([alternative for policy in policies for alternative in _of_defaults(policy)])


def divided(reach: Reach, rest: Reach) -> tuple[Reach, Reach | None]:
    """Two that no object shares: one has all of ``reach``, both together have all of ``rest``, too.

    They differ by one term for the Namespace, because the opposite of several terms cannot be said in one selector. No
    term for objects: the labels of an object can change in a request. Without a term for the Namespace the first one
    has everything, and there is no second one.
    """
    both = _union([_Alternative.of(reach), _Alternative.of(rest)])
    if not reach.namespaces:
        return both, None
    # Named values select fewer namespaces than their opposite.
    term = min(reach.namespaces, key=lambda term: (term.operator != "In", term))
    return Reach((term,), both.objects), Reach((term.negated(), *rest.namespaces), rest.objects)


@dataclass(frozen=True, slots=True)
class _Accepted:
    """The states of one label that a selector accepts.

    ``values`` are those it accepts, or with ``others`` those it does not; ``absent`` is whether it may be absent.
    """

    values: frozenset[str]
    others: bool
    absent: bool

    @staticmethod
    def of(operator: Operator, values: Iterable[str]) -> _Accepted:
        match operator:
            case "In":
                return _Accepted(frozenset(values), others=False, absent=False)
            case "NotIn":
                return _Accepted(frozenset(values), others=True, absent=True)
            case "Exists":
                return _Accepted(frozenset(), others=True, absent=False)
            case "DoesNotExist":
                return _Accepted(frozenset(), others=False, absent=True)

    def union(self, other: _Accepted) -> _Accepted:
        # What either accepts is the opposite of what both refuse: one distinction of cases is enough.
        opposite = self.opposite().intersection(other.opposite())
        return opposite.opposite()

    def intersection(self, other: _Accepted) -> _Accepted:
        absent = self.absent and other.absent
        if self.others and other.others:
            return _Accepted(self.values | other.values, others=True, absent=absent)
        if self.others or other.others:
            left_out, accepted = (self, other) if self.others else (other, self)
            return _Accepted(accepted.values - left_out.values, others=False, absent=absent)
        return _Accepted(self.values & other.values, others=False, absent=absent)

    def opposite(self) -> _Accepted:
        return _Accepted(self.values, others=not self.others, absent=not self.absent)

    def terms(self, key: str) -> tuple[Term, ...]:
        """Terms that accept at least these states."""
        values = tuple(sorted(self.values))
        if len(values) > MAX_VALUES:
            return ()
        if not self.others:
            if self.absent:
                # No term accepts some values and the absence.
                return () if values else (Term(key, "DoesNotExist"),)
            return (Term(key, "In", values),) if values else ()
        excluded = (Term(key, "NotIn", values),) if values else ()
        return excluded if self.absent else (Term(key, "Exists"), *excluded)


_Labels = dict[str, _Accepted]


class _Alternative(NamedTuple):
    namespaces: _Labels
    objects: _Labels

    @staticmethod
    def of(reach: Reach) -> _Alternative:
        return _Alternative(_labels(reach.namespaces), _labels(reach.objects))

    def both(self, namespaces: LabelSelector | None, objects: LabelSelector | None) -> _Alternative:
        return _Alternative(
            _intersection(self.namespaces, _labels(_terms(namespaces))),
            _intersection(self.objects, _labels(_terms(objects))),
        )


def _of_constraints(policy: LoadedPolicy | BrokenPolicy) -> _Alternative:
    constraints = policy.spec.match_constraints
    return _Alternative({}, {}).both(constraints.namespace_selector, constraints.object_selector)


def _of_defaults(policy: LoadedPolicy) -> list[_Alternative]:
    whole, defaults = _of_constraints(policy), policy.spec.defaults
    if defaults is None:
        return []
    others = defaults.model_dump(exclude={"queues"}, exclude_none=True)
    # A condition that fails, or parameters that are missing, refuse also what no entry of the queue map fits.
    if others or is_conditional(policy):
        return [whole]
    return [whole.both(choice.match.namespace_selector, choice.match.object_selector) for choice in defaults.queues]


def _terms(selector: LabelSelector | None) -> Sequence[Term]:
    # API servers refuse a configuration with a wrong selector, which a policy that cannot be used may have.
    if selector is None or any(check_selector(selector, "")):
        return ()
    return [
        *(Term(key, "In", (value,)) for key, value in selector.match_labels.items()),
        *(Term(term.key, term.operator, term.values) for term in selector.match_expressions),
    ]


def _labels(terms: Iterable[Term]) -> _Labels:
    return reduce(
        _intersection, ({term.key: _Accepted.of(term.operator, term.values)} for term in terms), dict[str, _Accepted]()
    )


def _intersection(one: _Labels, other: _Labels) -> _Labels:
    shared = {key: one[key].intersection(other[key]) for key in one.keys() & other.keys()}
    return {**one, **other, **shared}


def _wider(one: _Labels, other: _Labels) -> _Labels:
    """What accepts what either accepts: of a key that one of them does not read, everything."""
    return {key: one[key].union(other[key]) for key in one.keys() & other.keys()}


def _union(alternatives: Sequence[_Alternative]) -> Reach:
    if not alternatives:
        return EVERYTHING
    joined = reduce(
        lambda one, other: _Alternative(_wider(one.namespaces, other.namespaces), _wider(one.objects, other.objects)),
        alternatives,
    )
    return Reach(_written(joined.namespaces), _written(joined.objects))


def _written(labels: _Labels) -> tuple[Term, ...]:
    return tuple(term for key in sorted(labels) for term in labels[key].terms(key))

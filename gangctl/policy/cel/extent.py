"""How large a value can be, as a polynomial of the size of what is judged.

Symbols are ``n``, the characters of the largest input, ``c``, its number of elements, and for each
loop around a place two of the loop's element: its characters and the number of elements in it.
A sum over the elements of a list is then what CEL's authors expect: ``l.map(x, x.name)`` is no
larger than ``l``, and ``l.map(x, l)`` is larger by its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

CHARACTERS: Final = "n"
ELEMENTS: Final = "c"

Term = tuple[str, ...]
"""Symbols that are multiplied, sorted; none for a number alone."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of terms, each with a factor."""

    terms: Mapping[Term, float] = field(default_factory=dict)

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for term, factor in other.terms.items():
            terms[term] = terms.get(term, 0) + factor
        return Polynomial(terms)

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Term, float] = {}
        for one, factor in self.terms.items():
            for two, times in other.terms.items():
                term = tuple(sorted((*one, *two)))
                terms[term] = terms.get(term, 0) + factor * times
        return Polynomial(terms)

    def larger(self, other: Polynomial) -> Polynomial:
        """At least as large as both."""
        terms = dict(self.terms)
        for term, factor in other.terms.items():
            terms[term] = max(terms.get(term, 0), factor)
        return Polynomial(terms)

    def summed(self, values: Mapping[str, Polynomial], count: Polynomial) -> Polynomial:
        """The sum over a loop's elements.

        ``values`` is what the element's symbols sum up to; terms without them come ``count`` times.
        """
        total = Polynomial()
        for term, factor in self.terms.items():
            product = number(factor) if any(symbol in values for symbol in term) else number(factor) * count
            for symbol in term:
                product *= values.get(symbol) or Polynomial({(symbol,): 1})
            total += product
        return total

    def powers(self) -> Iterator[tuple[int, int, float]]:
        """Of each term the power of characters, of elements, and the factor; an element counts as the whole."""
        for term, factor in self.terms.items():
            elements = sum(symbol.endswith(ELEMENTS) for symbol in term)
            yield len(term) - elements, elements, factor


def number(value: float) -> Polynomial:
    """A constant."""
    return Polynomial({(): value}) if value else Polynomial()


@dataclass(frozen=True, slots=True)
class Extent:
    """Of a value: ``size`` in characters and ``count`` of elements in it at any depth."""

    size: Polynomial
    count: Polynomial

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.size + other.size, self.count + other.count)

    def larger(self, other: Extent) -> Extent:
        """At least as large as both."""
        return Extent(self.size.larger(other.size), self.count.larger(other.count))

    def summed(self, values: Mapping[str, Polynomial], count: Polynomial) -> Extent:
        """The sum over a loop's elements."""
        return Extent(self.size.summed(values, count), self.count.summed(values, count))


def constant(size: float, count: float = 0) -> Extent:
    """A value of a known size."""
    return Extent(number(size), number(count))


def symbolic(name: str = "") -> Extent:
    """An input, or the element of the loop of that name."""
    return Extent(Polynomial({(f"{name}{CHARACTERS}",): 1}), Polynomial({(f"{name}{ELEMENTS}",): 1}))


def together(extents: Iterable[Extent]) -> Extent:
    """All of them in one value."""
    total = constant(0)
    for each in extents:
        total += each
    return total

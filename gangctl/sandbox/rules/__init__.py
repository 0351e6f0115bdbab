"""Rules of a kind: decoding, defaults, admission and validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gangctl.sandbox.errors import Cause
from gangctl.sandbox.objects import Object
from gangctl.sandbox.store import Store


def _keep_all(obj: Object) -> list[str]:
    del obj
    return []


def _leave(obj: Object) -> None:
    del obj


def _leave_update(new: Object, old: Object, subresource: str) -> None:
    del new, old, subresource


def _admit_all(new: Object, old: Object | None, subresource: str, store: Store) -> None:
    del new, old, subresource, store


def _accept(new: Object, old: Object | None, subresource: str) -> list[Cause]:
    del new, old, subresource
    return []


@dataclass(frozen=True, slots=True)
class KindRules:
    """The rules of one kind; the defaults do nothing.

    ``drop(new)`` removes unknown and gated fields in place and returns the paths of unknown ones,
    ``default(new)`` fills in what is missing, ``prepare_create(new)`` and ``prepare_update(new, old,
    subresource)`` set the fields that the client does not control, ``admit`` is built-in admission (changes in
    place, or StatusError), ``validate`` returns errors.
    """

    drop: Callable[[Object], list[str]] = _keep_all
    default: Callable[[Object], None] = _leave
    prepare_create: Callable[[Object], None] = _leave
    prepare_update: Callable[[Object, Object, str], None] = _leave_update
    admit: Callable[[Object, Object | None, str, Store], None] = _admit_all
    validate: Callable[[Object, Object | None, str], Sequence[Cause]] = _accept

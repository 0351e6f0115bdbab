"""Rules of a kind: decoding, defaults, admission and validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gangctl.apiserver.fields import DecodeError
from gangctl.apiserver.metadata import FieldCause
from gangctl.sandbox.errors import bad_request
from gangctl.sandbox.objects import Object
from gangctl.sandbox.store import ObjectStore


@dataclass(frozen=True, slots=True)
class KindRules:
    """The rules of one kind; the defaults do nothing.

    ``drop(new)`` removes unknown and gated fields in place and returns the paths of unknown ones,
    ``default(new)`` fills in what is missing, ``prepare_create(new)`` and ``prepare_update(new, old,
    subresource)`` set the fields that the client does not control, ``validate`` returns errors.
    Built-in admission changes in place, or raises StatusError: ``plugins(new, store)`` of a new object before
    webhooks are called, and again after one has changed it; ``admit`` of every write after them.
    """

    drop: Callable[[Object], list[str]] = lambda _: []
    default: Callable[[Object], None] = lambda _: None
    prepare_create: Callable[[Object], None] = lambda _: None
    prepare_update: Callable[[Object, Object, str], None] = lambda *_: None
    plugins: Callable[[Object, ObjectStore], None] = lambda *_: None
    admit: Callable[[Object, Object | None, str, ObjectStore], None] = lambda *_: None
    validate: Callable[[Object, Object | None, str], Sequence[FieldCause]] = lambda *_: ()

    def decode(self, obj: Object) -> list[str]:
        """``drop``; 400 for a value of another type than its field."""
        try:
            return self.drop(obj)
        except DecodeError as error:
            raise bad_request(str(error)) from error

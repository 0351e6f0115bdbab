"""Paths to fields of Kubernetes objects, written as the API server writes them.

``spec.replicatedJobs[0].template.metadata.annotations[gangctl.dev/gang-mode]``:
a dot before the name of a field, brackets around the index of a list or the key
of a map (source: ``k8s.io/apimachinery/pkg/util/validation/field``, ``Path.String``).

>>> str(FieldPath().child("spec", "replicatedJobs").index(0).child("replicas"))
'spec.replicatedJobs[0].replicas'
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gangctl.errors import InputError


@dataclass(frozen=True, slots=True)
class MapKey:
    """The value of a map (labels, annotations, limits) under ``key``."""

    key: str


Step = str | int | MapKey
"""The field of an object, the entry of a list (counted from 0), or the value of a map."""


def _written(step: Step) -> str:
    return f".{step}" if isinstance(step, str) else f"[{step.key if isinstance(step, MapKey) else step}]"


# Names that can follow a dot and be found again by parse(): everything but the three signs of the notation.
_NAME = r"[^.\[\]]+"
_PLAIN = re.compile(_NAME)
# A key may hold dots and brackets of its own, so it ends at the first bracket before a valid continuation.
_STEP = re.compile(rf"\.?(?P<name>{_NAME})|\[(?P<index>0|[1-9][0-9]{{0,9}})\]|\[(?P<key>.*?)\](?=[.\[]|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldPath:
    """An immutable path: the empty one is the object itself, every method returns a longer one.

    Equal paths are equal values, so they serve as dictionary keys. Text and path are two forms of one value,
    ``FieldPath.parse(str(p)) == p``, except for two ambiguities of the notation: a map key made of digits reads as an
    index, and a key that contains ``].`` or ``][`` ends there.
    """

    steps: tuple[Step, ...] = ()

    def child(self, *names: str) -> FieldPath:
        """The field reached by ``names`` in turn; a name that cannot follow a dot becomes a key."""
        steps = (name if _PLAIN.fullmatch(name) else MapKey(name) for name in names)
        return FieldPath((*self.steps, *steps))

    def index(self, position: int) -> FieldPath:
        """The entry of a list, counted from 0; ValueError when negative."""
        if position < 0:
            raise ValueError(f"a list has no index {position}")
        return FieldPath((*self.steps, position))

    def key(self, key: str) -> FieldPath:
        """The value of a map under ``key``."""
        return FieldPath((*self.steps, MapKey(key)))

    def __str__(self) -> str:
        return "".join(map(_written, self.steps)).removeprefix(".")

    @classmethod
    def parse(cls, text: str) -> FieldPath:
        """Parse the written form; a leading dot is allowed, "" is the object itself, InputError on anything else."""
        steps: list[Step] = []
        at = 0
        while at < len(text):
            match = _STEP.match(text, at)
            if match is None or (match["name"] is not None and at > 0 and text[at] != "."):
                raise InputError(
                    f"field path {text!r}: cannot read {text[at:]!r}",
                    hint="write it as spec.replicatedJobs[0].template.metadata.annotations[example.com/key]",
                )
            if match["name"] is not None:
                steps.append(match["name"])
            elif match["index"] is not None:
                steps.append(int(match["index"]))
            else:
                steps.append(MapKey(match["key"]))
            at = match.end()
        return cls(tuple(steps))

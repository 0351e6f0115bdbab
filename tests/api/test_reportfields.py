"""What a dataclass is as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from gangctl.api.reportfields import INTERNAL, TIME, OutputKey, as_json


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str


@dataclass(frozen=True, slots=True)
class Tree:
    kind_of_tree: Annotated[str, "Its name."]
    secret: Annotated[str, INTERNAL]
    planted: Annotated[int, "When.", TIME, OutputKey("plantedTime")]
    felled_at: Annotated[int, TIME]
    colours: tuple[Colour, ...]
    leaves: Annotated[tuple[Leaf, ...], "All of them."]
    last: Leaf
    marks: dict[str, int]


def test_fields_are_printed_in_order_with_their_keys() -> None:
    tree = Tree("oak", "hidden", 1, 0, (Colour.RED,), (Leaf("a"), Leaf("b")), Leaf("b"), {"height": 9})
    printed = as_json(tree)
    assert list(printed) == ["kindOfTree", "plantedTime", "felledAt", "colours", "leaves", "last", "marks"]
    assert printed == {
        "kindOfTree": "oak",
        "plantedTime": "1970-01-01T00:00:01Z",
        "felledAt": "",
        "colours": ["red"],
        "leaves": [{"name": "a"}, {"name": "b"}],
        "last": {"name": "b"},
        "marks": {"height": 9},
    }
    assert type(printed["colours"][0]) is str

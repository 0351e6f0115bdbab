"""JSON Schema from the types of reports."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import pytest

from gangctl.api.reportfields import SIGNED
from gangctl.fit.report import FitIdentity as Known
from tests.cli.schema import violations
from tests.reportschema import Definitions, object_schema
from tests.rows import each


class Leaf(TypedDict):
    """The last of a branch."""

    name: str
    colour: Annotated[Literal["green", "red"], "By season."]


class Tree(TypedDict):
    """What grows.

    For long.
    """

    kind: Literal["Tree"]
    rings: int
    slope: Annotated[int, "Degrees, less than 0 where it leans back.", SIGNED]
    felled: bool
    leaves: list[Leaf]
    last: Annotated[Leaf | None, "Null in winter."]
    below: list[Tree]
    marks: dict[str, int]
    note: Any


def schema() -> dict[str, Any]:
    definitions = Definitions()
    return {**object_schema(Tree, definitions), "$defs": definitions}


def tree(**changes: Any) -> dict[str, Any]:
    grown = {"kind": "Tree", "rings": 0, "slope": 0, "felled": False, "leaves": [], "last": None, "below": []}
    return {**grown, "marks": {}, "note": None, **changes}


LEAF = {"name": "a", "colour": "red"}


@each(
    "changes",
    [
        {},
        {"rings": 300, "slope": -20, "felled": True, "marks": {"height": 9}},
        {"leaves": [LEAF, LEAF], "last": LEAF, "below": [tree(below=[tree()])]},
        {"note": ["", -1, 1.5, [None], {"a": {}}]},
    ],
)
def test_a_value_of_the_type_matches_the_schema(changes: dict[str, Any]) -> None:
    assert violations(tree(**changes), schema()) == []


@each(
    ("changes", "path"),
    [
        ({"kind": "Bush"}, "$"),
        ({"rings": -1}, "$"),
        ({"rings": True}, "$"),
        ({"slope": -(2**31) - 1}, "$"),
        ({"felled": 0}, "$"),
        ({"leaves": [{**LEAF, "colour": "blue"}]}, "$.leaves[0]"),
        ({"leaves": [{"name": "a"}]}, "$.leaves[0]"),
        ({"last": {}}, "$"),
        ({"below": [tree(rings="3")]}, "$.below[0]"),
        ({"marks": {"height": ""}}, "$.marks"),
        ({"age": 1}, "$"),
    ],
)
def test_a_value_of_another_type_violates_the_schema(changes: dict[str, Any], path: str) -> None:
    (found,) = violations(tree(**changes), schema())
    assert found.startswith(path)


def test_descriptions_are_those_of_the_type_and_of_its_fields() -> None:
    made = schema()
    assert made["description"] == "What grows.\n\nFor long."
    assert made["$defs"]["Leaf"]["description"] == "The last of a branch."
    assert made["properties"]["last"]["description"] == "Null in winter."
    assert made["properties"]["slope"] == {
        "type": "integer",
        "minimum": -(2**31),
        "description": "Degrees, less than 0 where it leans back.",
    }


def test_two_types_of_the_same_name_are_an_error() -> None:
    class FitIdentity(TypedDict):
        """Another one."""

    definitions = Definitions()
    assert definitions.reference(Known) == definitions.reference(Known) == {"$ref": "#/$defs/FitIdentity"}
    with pytest.raises(TypeError, match=r"two types are called FitIdentity: of gangctl.fit.report and of tests.test_"):
        definitions.reference(FitIdentity)


def test_an_unsupported_type_is_an_error() -> None:
    class Odd(TypedDict):
        """With a set."""

        names: set[str]

    with pytest.raises(TypeError, match="no schema for"):
        object_schema(Odd, Definitions())

"""A malformed object of an API server is detected, with the field that is wrong."""

from __future__ import annotations

from typing import Any

from gangctl.api.objects import misshapen
from tests.rows import each


class Text(str):
    """A text of another make than the decoder's."""

    __slots__ = ()


@each(
    "raw",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {"name": "a", "uid": None, "labels": None, "annotations": {}}, "spec": {}, "status": {}},
        {"metadata": {"labels": {"a": "b", "c": Text("d")}, "ownerReferences": [{"kind": "Job", "uid": None}]}},
        {"kind": "Status", "status": "Failure"},
    ],
)
def test_objects_with_absent_or_null_fields_are_well_formed(raw: dict[str, Any]) -> None:
    assert misshapen(raw) == ""


@each(
    ("raw", "field"),
    [
        ({"metadata": []}, "metadata"),
        ({"metadata": {"name": 1}}, "metadata.name"),
        ({"metadata": {"resourceVersion": 7}}, "metadata.resourceVersion"),
        ({"metadata": {"labels": []}}, "metadata.labels"),
        ({"metadata": {"labels": {"a": "b", "c": 1}}}, "metadata.labels"),
        ({"metadata": {"annotations": {"a": None}}}, "metadata.annotations"),
        ({"metadata": {"annotations": ""}}, "metadata.annotations"),
        ({"metadata": {"ownerReferences": {"a": 1}}}, "metadata.ownerReferences"),
        ({"metadata": {"ownerReferences": ["x"]}}, "metadata.ownerReferences"),
        ({"metadata": {"ownerReferences": [{"uid": 1}]}}, "metadata.ownerReferences"),
        ({"spec": "x"}, "spec"),
        ({"status": "Failure"}, "status"),
    ],
)
def test_an_object_with_a_field_of_the_wrong_type_is_malformed(raw: dict[str, Any], field: str) -> None:
    assert misshapen(raw) == field

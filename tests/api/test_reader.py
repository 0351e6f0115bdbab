"""Reading JSON that may hold anything: values of the promised types, and what is wrong with its place."""

from __future__ import annotations

from gangctl.api.objects import Reader
from gangctl.errors import FieldError


def test_an_error_has_its_path_in_the_whole_object() -> None:
    errors: list[FieldError] = []
    raw = {"list": [{"in": {"text": 1}}, 7, {"in": "no object"}], "labels": {"good": "x", "bad/key": 2}, "no": 3}
    root = Reader(raw, "", errors)
    for entry in root.child("none").children("list", 10) + root.children("list", 10):
        assert entry.child("in").string("text") == ""
    assert root.strings("labels") == {"good": "x"}
    assert root.child("no").child("deeper").string("text") == ""
    assert [error.path for error in errors] == ["list[1]", "list[0].in.text", "list[2].in", "labels[bad/key]", "no"]


def test_every_reader_has_a_path_even_if_absent() -> None:
    root = Reader({"list": [{}], "spec": {}}, "", [])
    assert root.path == ""
    assert root.child("spec").child("absent").path == "spec.absent"
    assert root.children("list", 1)[0].child("in").path == "list[0].in"
    assert Reader({}, "spec", []).child("template").path == "spec.template"

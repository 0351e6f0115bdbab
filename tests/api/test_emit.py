"""Written objects read back as the same data, look alike every time, and quote no more than needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gangctl.api.documents import parse_documents
from gangctl.api.emit import to_json, to_yaml
from tests.api.test_documents import OBJECTS
from tests.rows import each

LISTS = st.lists(OBJECTS, max_size=3)
STRINGS = st.text(max_size=30) | st.text(
    alphabet=" \n\t-:#'\"|>&*!%@`{}[],?<=0123456789abeyn~._\x85\u2028\x7f\ufeff", max_size=12
)


@given(LISTS)
def test_yaml_reads_back_as_the_same_data(objects: list[dict[str, Any]]) -> None:
    assert [document.value for document in parse_documents(to_yaml(objects), "f")] == objects


@given(LISTS)
def test_json_reads_back_as_the_same_data(objects: list[dict[str, Any]]) -> None:
    assert [document.value for document in parse_documents(to_json(objects), "f")] == objects


@example("\n a\n")
@example("a\r\nb")
@example(" \n")
@example("a\n\n\n")
@example("---\n")
@example("<<")
@example("012")
@given(STRINGS)
def test_every_string_survives_as_value_and_as_key(text: str) -> None:
    value = {"v": text, "l": [text], text + "k": {text: 1}}
    assert parse_documents(to_yaml([value]), "f")[0].value == value


@given(OBJECTS)
def test_other_yaml_readers_read_the_same_strings(value: dict[str, Any]) -> None:
    strings = {f"k{index}": str(key) for index, key in enumerate(value)}
    assert yaml.safe_load(to_yaml([strings])) == strings


@given(OBJECTS)
def test_json_is_one_document_to_every_reader(value: dict[str, Any]) -> None:
    assert json.loads(to_json([value])) == value


@pytest.mark.parametrize("write", [to_json, to_yaml])
def test_known_fields_are_first_and_the_rest_keeps_its_order(write: Callable[[list[dict[str, Any]]], str]) -> None:
    value = {"status": {}, "spec": {"b": 1, "a": 2}, "kind": "K", "data": 1, "apiVersion": "v1", "metadata": {}}
    (document,) = parse_documents(write([value]), "f")
    assert list(document.value) == ["apiVersion", "kind", "metadata", "spec", "status", "data"]
    assert list(document.value["spec"]) == ["b", "a"]


def test_yaml_is_in_block_style() -> None:
    value = {
        "kind": "JobSet",
        "spec": {
            "image": "reg.example/x:1",
            "count": 3,
            "on": "on",
            "version": "1.10",
            "day": "2026-01-01",
            "none": None,
        },
        "list": [{"a": "b c"}, "it's", ""],
        "script": "set -e\nrun\n",
        "long": "word " * 60 + "end",
        "float": 3.0,
    }
    assert to_yaml([value, {"a": True}]) == (
        "kind: JobSet\n"
        "spec:\n"
        "  image: reg.example/x:1\n"
        "  count: 3\n"
        "  'on': 'on'\n"
        "  version: '1.10'\n"
        "  day: '2026-01-01'\n"
        "  none: null\n"
        "list:\n"
        "- a: b c\n"
        "- it's\n"
        "- ''\n"
        "script: |\n"
        "  set -e\n"
        "  run\n"
        f"long: {'word ' * 60}end\n"
        "float: 3\n"
        "---\n"
        "a: true\n"
    )


def test_the_same_object_twice_is_written_twice() -> None:
    shared = {"x": [1]}
    assert "&" not in to_yaml([{"a": shared, "b": shared}])


def test_no_object_and_several_objects_are_written() -> None:
    assert to_yaml([]) == ""
    assert json.loads(to_json([])) == {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []}
    assert json.loads(to_json([{"a": 1}, {"b": 2}]))["items"] == [{"a": 1}, {"b": 2}]
    assert to_json([{"a": 1}]) == '{\n  "a": 1\n}\n'


@each("write", [to_json, to_yaml])
@each(
    ("value", "complaint"),
    [
        ({"a": [float("nan")]}, r"a\[0\]: float 'nan' is not JSON data"),
        ({"a": {"b.c/d": {1}}}, r"a\[b.c/d\]: set '\{1\}' is not JSON data"),
        ({"a": 2**64}, "a: int '18446744073709551616' is not JSON data"),
        ({"a": "\ud800"}, "a: str .* is not JSON data"),
        ({"a": b"x"}, "a: bytes .* is not JSON data"),
        ({1: "a"}, "1 is not a JSON key"),
        ({"\udfff": "a"}, "is not a JSON key"),
    ],
)
def test_a_value_that_is_not_json_is_refused(
    write: Callable[[list[dict[Any, Any]]], str], value: dict[Any, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        write([value])

"""The model of test files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gangctl.cli.policy.suite import KIND, Expected, Selector, Suite
from tests.cli.conftest import Golden
from tests.rows import each

SCHEMA = Path(__file__).parents[3] / "docs" / "gangctl-test.schema.json"


def suite(**fields: Any) -> Suite:
    return Suite.model_validate({"policies": ["p.yaml"], "resources": ["r.yaml"], "results": [row()], **fields})


def row(**fields: Any) -> dict[str, Any]:
    return {"policy": "p", "resources": "js", "result": "pass", **fields}


def test_the_published_schema_is_that_of_the_model(golden: Golden) -> None:
    schema = _untitled(Suite.model_json_schema(by_alias=True))
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": KIND, **schema}
    golden(SCHEMA, json.dumps(schema, indent=2) + "\n")


def _untitled(value: Any) -> Any:
    """Without the titles that only repeat the names of fields; a property may be called so itself."""
    if isinstance(value, list):
        return [_untitled(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _untitled(each) for key, each in value.items() if key != "title" or isinstance(each, dict)}


def test_a_minimal_test_file_is_read() -> None:
    (only,) = suite().results
    assert (only.policy, only.rule, only.operation, only.result) == ("p", None, "CREATE", Expected.PASS)
    assert only.resources == [Selector(name="js")]


@each(
    ("short", "long"),
    [
        ("js", [{"name": "js"}]),
        ("ns/js", [{"namespace": "ns", "name": "js"}]),
        ("JobSet/ns/js", [{"kind": "JobSet", "namespace": "ns", "name": "js"}]),
        (["a", {"name": "b"}], [{"name": "a"}, {"name": "b"}]),
        ({"name": "b"}, [{"name": "b"}]),
    ],
)
def test_selectors_can_be_written_in_a_short_form(short: Any, long: list[dict[str, str]]) -> None:
    (only,) = suite(results=[row(resources=short)]).results
    assert only.resources == [Selector.model_validate(each) for each in long]


def test_a_rule_without_a_name_is_known_by_its_index() -> None:
    assert suite(results=[row(rule=0)]).results[0].rule == "0"


@each(
    ("fields", "words"),
    [
        ({"policies": ["/etc/passwd"]}, "relative to the test file"),
        ({"policies": ["~/p.yaml"]}, "relative to the test file"),
        ({"resources": ["a/../../p.yaml"]}, '".." is not allowed'),
        ({"params": ["a\\b"]}, "written with /"),
        ({"namespaces": [" "]}, "empty"),
        ({"policies": []}, "at least 1 item"),
        ({"results": []}, "at least 1 item"),
        ({"result": []}, "Extra inputs"),
        ({"now": "2026-01-01T00:00:00"}, "timezone"),
        ({"results": [row(operation="UPDATE")]}, "UPDATE needs old"),
        ({"results": [row(old="o.yaml")]}, "old is for UPDATE"),
        ({"results": [row(operation="UPDATE", old="../o.yaml")]}, '".." is not allowed'),
        ({"results": [row(result="deny")]}, "'pass', 'fail', 'warn', 'skip' or 'error'"),
        ({"results": [row(result="fail", message="a", messageRegex="b")]}, "alternatives"),
        ({"results": [row(message="a")]}, "there is no message"),
        ({"results": [row(result="fail", messageRegex="(")]}, "no regular expression"),
        ({"results": [row(resources="a/b/c/d")]}, "write NAME"),
        ({"results": [row(resources="a//c")]}, "write NAME"),
        ({"results": [row(resources=[])]}, "at least 1 item"),
    ],
)
def test_an_invalid_test_file_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        suite(**fields)
    assert words in str(refused.value)

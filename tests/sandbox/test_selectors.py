from __future__ import annotations

from collections.abc import Mapping

import pytest

from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind, kinds_of
from gangctl.sandbox.selectors import selection, selector_object_test
from tests.rows import each

KINDS = {kind.qualified_name: kind for kind in reversed(kinds_of("1.37", {}))}
CONFIGMAP = KINDS["configmaps"]
POD = KINDS["pods"]


def _selects(kind: ResourceKind, labels: str, fields: str, obj: Mapping[str, object]) -> bool:
    return selection(kind, labels, fields).matches({"metadata": {}, **obj})


@each(
    ("selector", "labels", "expected"),
    [
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("!a", {}, True),
        ("a in (x, y)", {"a": "y"}, True),
        ("a in (x,y)", {}, False),
        ("a notin (x,y)", {}, True),
        ("a notin (x,y)", {"a": "x"}, False),
        ("a>3", {"a": "4"}, True),
        ("a<3", {"a": "x"}, False),
        ("a=b,c", {"a": "b"}, False),
        ("a=,b=c", {"a": "", "b": "c"}, True),
        ("example.com/a=b", {"example.com/a": "b"}, True),
        ("", {}, True),
    ],
)
def test_label_selectors_match(selector: str, labels: dict[str, str], *, expected: bool) -> None:
    assert _selects(CONFIGMAP, selector, "", {"metadata": {"labels": labels}}) is expected


@each(
    ("selector", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a==b=c", "found '=', expected: ',' or 'end of string'"),
    ],
)
def test_an_invalid_label_selector_is_refused(selector: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        selection(CONFIGMAP, selector)
    assert (caught.value.code, caught.value.message) == (400, message)


@each(
    ("selector", "expected"),
    [
        ("spec.nodeName=n", True),
        ("spec.nodeName=", False),
        ("spec.nodeName!=n", False),
        ("status.phase!=Failed,spec.nodeName=n", True),
        ("status.phase=", True),
        ("metadata.name=p", True),
        ("metadata.namespace=other", False),
        ("spec.hostNetwork=false", True),
    ],
)
def test_field_selectors_match(selector: str, *, expected: bool) -> None:
    pod = {"metadata": {"name": "p", "namespace": "x"}, "spec": {"nodeName": "n"}}
    assert _selects(POD, "", selector, pod) is expected


@each(
    ("resource", "message"),
    [
        ("configmaps", '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("pods", "field label not supported: spec.x"),
        (
            "podgroups.scheduling.k8s.io",
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_an_unsupported_field_selector_is_refused(resource: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        selection(KINDS[resource], "", "spec.x=1")
    assert (caught.value.code, caught.value.message) == (400, message)


def test_an_invalid_field_selector_is_refused() -> None:
    with pytest.raises(StatusError, match="invalid selector: 'abc'; can't understand 'abc'"):
        selection(POD, "", "abc")


@each(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "b"}}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, False),
        ({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}, True),
    ],
)
def test_selector_objects_match(selector: dict[str, object] | None, *, expected: bool) -> None:
    assert selector_object_test(selector)({"a": "b"}) is expected

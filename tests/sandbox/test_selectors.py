"""Field selectors of pods, and selectors as objects; tests/conformance has label selectors, and what is refused."""

from __future__ import annotations

from gangctl.api.labelselector import selector_object_test
from gangctl.sandbox.kinds import kinds_of
from gangctl.sandbox.reads import selection
from tests.rows import each

(POD,) = (kind for kind in kinds_of("1.37", {}) if kind.qualified_name == "pods")


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
    assert selection(POD, "", selector).matches(pod) is expected


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

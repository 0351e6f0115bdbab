"""Bodies in protobuf: every type of a field, and a table that has every field. tests/conformance asks real servers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.apiserver.fields import fields_of
from gangctl.sandbox import protobuf
from gangctl.sandbox.objects import Object
from tests.protobufs import envelope, message
from tests.rows import each
from tests.sandbox.messagetable import TABLE, Message, names

OLDEST, NEWEST = "1.35", "1.37"


def decode(kind: str, body: bytes, api_version: str = "v1", minor: str = NEWEST) -> Object:
    found = protobuf.decode(envelope(api_version, kind, body), minor, ("", ""))
    assert (found.pop("apiVersion"), found.pop("kind")) == (api_version, kind)
    return found


def metadata(*fields: Any) -> bytes:
    return message((1, message(*fields)))


@each(
    ("field", "value"),
    [
        pytest.param((1, "n"), {"name": "n"}, id="text"),
        pytest.param((1, "ä\n"), {"name": "ä\n"}, id="unicode"),
        pytest.param((2, ""), {}, id="empty-text"),
        pytest.param((7, 300), {"generation": 300}, id="number"),
        pytest.param((7, 0), {}, id="zero"),
        pytest.param((7, 2**64 - 1), {"generation": -1}, id="negative-number"),
        pytest.param((10, 0), {"deletionGracePeriodSeconds": 0}, id="zero-of-a-pointer"),
        pytest.param((8, message((1, 1767225600), (2, 0))), {"creationTimestamp": "2026-01-01T00:00:00Z"}, id="time"),
        pytest.param((8, ""), {}, id="no-time"),
        pytest.param((11, message((1, "k"), (2, "v"))), {"labels": {"k": "v"}}, id="map"),
        pytest.param((11, message((1, "k"))), {"labels": {"k": ""}}, id="map-of-nothing"),
        pytest.param((14, "f"), {"finalizers": ["f"]}, id="list"),
        pytest.param(
            (13, message((3, "o"), (6, 0), (7, 1))),
            {"ownerReferences": [{"name": "o", "controller": False, "blockOwnerDeletion": True}]},
            id="structs",
        ),
        pytest.param(
            (17, message((1, "m"), (7, message((1, '{"f:a":{}}'))))),
            {"managedFields": [{"manager": "m", "fieldsV1": {"f:a": {}}}]},
            id="json",
        ),
        pytest.param((4000, "x"), {}, id="unknown-field"),
    ],
)
def test_fields_of_metadata_are_decoded(field: Any, value: Object) -> None:
    assert decode("Pod", metadata(field)) == {"metadata": value}


@each(
    ("kind", "api_version", "body", "found"),
    [
        pytest.param(
            "Lease",
            "coordination.k8s.io/v1",
            message((2, message((1, "me"), (3, message((1, 1767225600), (2, 5000)))))),
            {"spec": {"holderIdentity": "me", "acquireTime": "2026-01-01T00:00:00.000005Z"}},
            id="micro-time",
        ),
        pytest.param(
            "SubjectAccessReview",
            "authorization.k8s.io/v1",
            message((2, message((5, message((1, "k"), (2, message((1, "v"), (1, "w")))))))),
            {"spec": {"extra": {"k": ["v", "w"]}}},
            id="lists-in-a-map",
        ),
        pytest.param(
            "Node",
            "v1",
            message((3, message((1, message((1, "cpu"), (2, message((1, "500m")))))))),
            {"status": {"capacity": {"cpu": "500m"}}},
            id="quantities-in-a-map",
        ),
        pytest.param(
            "Secret", "v1", message((2, message((1, "k"), (2, b"\xff\x00")))), {"data": {"k": "/wA="}}, id="bytes"
        ),
        pytest.param(
            "Service",
            "v1",
            message((2, message((1, message((3, 80), (4, message((1, 0), (2, 8080)))))))),
            {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
            id="port-as-number",
        ),
        pytest.param(
            "DeleteOptions",
            "batch/v1",
            message((1, 0), (2, message((1, "u"))), (4, "Foreground")),
            {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "propagationPolicy": "Foreground"},
            id="options",
        ),
    ],
)
def test_every_type_of_field_is_decoded(kind: str, api_version: str, body: bytes, found: Object) -> None:
    assert decode(kind, body, api_version) == found


def test_a_field_that_a_minor_does_not_have_is_dropped() -> None:
    group = message((2, message((43, message((1, "g"))))))
    assert decode("Pod", group) == {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
    assert decode("Pod", group, minor=OLDEST) == {"spec": {}}


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s\x00\x0a\x09v1", b"k8s\x00" + b"\xff" * 12, b"k8s\x00\x0b"])
def test_an_invalid_envelope_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        protobuf.decode(body, NEWEST, ("v1", "Pod"))


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a\x05",
        message((1, 7)),
        metadata((7, "text")),
        metadata((17, message((7, message((1, "{")))))),
        metadata((8, message((1, 2**40)))),
        metadata((8, message((1, 2**63 - 1)))),
    ],
    ids=["cut", "number-for-struct", "text-for-number", "no-json", "year-36812", "year-of-no-clock"],
)
def test_an_invalid_message_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        decode("Pod", body)


@given(st.data())
def test_a_body_with_other_bytes_is_decoded_or_refused(data: st.DataObject) -> None:
    body = bytearray(envelope("v1", "Pod", metadata((1, "n"), (8, message((1, 1767225600))), (11, message((1, "k"))))))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        protobuf.decode(bytes(body), NEWEST, ("v1", "Pod"))


@pytest.mark.parametrize("kind", ["Nothing", "JobSet", "CustomResourceDefinition"])
def test_a_kind_without_a_message_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="has no message"):
        decode(kind, b"")


def test_every_field_of_the_newest_minor_has_a_number() -> None:
    """If not, fields.json is newer than messages.json."""
    messages = json.loads(TABLE.read_text(encoding="utf-8"))["messages"]
    fields = fields_of(NEWEST)
    missing = [
        f"{definition}.{name}"
        for definition in names()
        for name in set(fields.of(definition)) - set(_names(messages, definition))
        if name not in {"apiVersion", "kind"}
    ]
    assert missing == []
    assert len(names()) > 100


def _names(messages: Mapping[str, Message], name: str) -> Iterator[str]:
    for entry in messages.get(name, {}).values():
        if entry.startswith("<"):
            yield from _names(messages, entry[1:])
        yield entry.removeprefix("*")

"""AdmissionReview: every malformed call is one clear refusal, every answer keeps the API server's rules."""

from __future__ import annotations

import base64
import unicodedata
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.errors import ErrorKind, FieldError, InputError
from gangctl.webhooks.review import (
    MAX_OBJECT_VALUES,
    MAX_UPDATED_VALUES,
    MAX_VALUES,
    AdmissionResponse,
    Kind,
    OversizedError,
    StatusCause,
    decode_review,
    encode_review,
    limit_warnings,
)
from tests.rows import each

JOBSET = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}}


def review(**changes: Any) -> dict[str, Any]:
    request: dict[str, Any] = {
        "uid": "0d1f",
        "kind": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"},
        "resource": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"},
        "requestKind": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"},
        "name": "train",
        "namespace": "ml",
        "operation": "CREATE",
        "userInfo": {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}},
        "object": JOBSET,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    request.update(changes)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def decoded(**changes: Any) -> Any:
    return decode_review(orjson.dumps(review(**changes)))


def answer(response: AdmissionResponse, **changes: Any) -> dict[str, Any]:
    body = orjson.loads(encode_review(decoded(**changes), response))
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return dict(body["response"])


def test_the_fields_of_a_review_are_read() -> None:
    request = decoded()
    assert (request.uid, request.operation, request.namespace, request.name) == ("0d1f", "CREATE", "ml", "train")
    assert request.kind == Kind("jobset.x-k8s.io", "v1alpha2", "JobSet")
    assert (request.object, request.old_object) == (JOBSET, None)


def test_optional_fields_may_be_absent() -> None:
    body = review(operation="DELETE", object=None, oldObject=JOBSET)
    for name in ("name", "namespace", "userInfo", "dryRun", "options"):
        del body["request"][name]
    request = decode_review(orjson.dumps(body))
    assert (request.name, request.namespace) == ("", "")


@each(
    ("changes", "complaint"),
    [
        ({"uid": None}, "request.uid is missing"),
        ({"uid": ""}, "request.uid is empty"),
        ({"uid": 7}, "request.uid is 7, not a string"),
        ({"operation": "PATCH"}, 'request.operation is "PATCH", not one of CREATE'),
        ({"kind": None}, "request.kind is missing"),
        ({"kind": {"group": "", "version": "v1"}}, "request.kind.kind is missing"),
        ({"resource": "pods"}, 'request.resource is "pods", not an object'),
        ({"subResource": []}, "request.subResource is a list, not a string"),
        ({"object": None}, "request.object is missing"),
        ({"object": []}, "request.object is a list, not an object"),
        ({"operation": "UPDATE"}, "request.oldObject is missing"),
        ({"operation": "DELETE"}, "request.oldObject is missing"),
    ],
)
def test_a_malformed_request_names_the_field(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        decoded(**changes)
    assert caught.value.message.startswith(complaint)


@each(
    ("body", "complaint"),
    [
        (b"", "the body is not JSON"),
        (b'{"a": \xff}', "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b"[]", "the body is a list, not an AdmissionReview object"),
        (b"{}", "the body has kind null and apiVersion null"),
        (
            b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}',
            'the body has kind "AdmissionReview" and apiVersion "adm',
        ),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "request is missing"),
    ],
)
def test_a_body_that_is_no_review_is_refused(body: bytes, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_review(body)
    assert caught.value.message.startswith(complaint)


def sized(values: int, **more: Any) -> dict[str, Any]:
    """An object of about so many values."""
    return {**JOBSET, "spec": {"values": [0] * values, **more}}


def managed(raw: dict[str, Any], values: int) -> dict[str, Any]:
    """The object, and so many values that others wrote about it."""
    return {**raw, "metadata": {"name": "train", "managedFields": [0] * values}, "status": {"values": [0] * values}}


LARGE = sized(MAX_OBJECT_VALUES - 10)
LARGER = sized(MAX_UPDATED_VALUES + 10)
LARGEST = sized(MAX_UPDATED_VALUES + 20)


@each(
    ("operation", "new", "old"),
    [
        ("CREATE", sized(MAX_OBJECT_VALUES + 10), None),
        ("CREATE", sized(0, text="," * MAX_OBJECT_VALUES), None),
        ("CREATE", sized(MAX_VALUES), None),
        ("UPDATE", LARGER, LARGE),
        ("UPDATE", LARGEST, LARGER),
    ],
)
def test_an_object_is_oversized_before_an_update_could_not_carry_it(operation: str, new: Any, old: Any) -> None:
    with pytest.raises(OversizedError) as caught:
        decoded(operation=operation, object=new, oldObject=old)
    asked = caught.value.request
    assert (asked.uid, asked.operation, asked.object, asked.old_object) == ("0d1f", operation, None, None)


@each(
    ("operation", "new", "old"),
    [
        ("CREATE", LARGE, None),
        ("UPDATE", LARGE, LARGE),
        # Kueue adds to pod templates when it starts a JobSet.
        ("UPDATE", sized(MAX_UPDATED_VALUES - 10), LARGE),
        ("UPDATE", LARGER, LARGER),
        ("UPDATE", LARGER, LARGEST),
        ("UPDATE", managed(LARGER, 100), LARGER),
        ("UPDATE", sized(MAX_UPDATED_VALUES + 10, suspend=True), LARGER),
        ("UPDATE", managed(sized(MAX_UPDATED_VALUES - 10, suspend=True), 130_000), managed(LARGE, 130_000)),
        ("DELETE", None, LARGEST),
    ],
)
def test_what_exists_can_be_suspended_started_made_smaller_and_deleted(operation: str, new: Any, old: Any) -> None:
    """However much controllers have added to its status and managed fields."""
    request = decoded(operation=operation, object=new, oldObject=old)
    assert (request.object, request.old_object) == (new, old)


@given(st.recursive(st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3), st.lists, max_leaves=5))
def test_any_value_in_any_field_is_read_or_refused(value: Any) -> None:
    for name in review()["request"]:
        try:
            assert decoded(**{name: value}).uid
        except InputError as error:
            assert name in error.message  # noqa: PT017 - both outcomes are right


def test_an_allowed_review_has_uid_and_allowed() -> None:
    assert answer(AdmissionResponse.allow()) == {"uid": "0d1f", "allowed": True}


def test_an_empty_patch_is_no_patch() -> None:
    assert answer(AdmissionResponse.allow(patch=[])) == {"uid": "0d1f", "allowed": True}


def test_a_patch_is_encoded_in_base64_with_its_type() -> None:
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"é": "x"}}]
    body = answer(AdmissionResponse.allow(patch=patch, warnings=["mind the gap"]))
    assert orjson.loads(base64.b64decode(body.pop("patch"))) == patch
    assert body == {"uid": "0d1f", "allowed": True, "patchType": "JSONPatch", "warnings": ["mind the gap"]}


def test_a_denial_has_the_form_of_a_status_of_the_api_server() -> None:
    cause = FieldError("metadata.annotations[gangctl.dev/gang-mode]", ErrorKind.NOT_SUPPORTED, 'must be "Gang"')
    body = answer(AdmissionResponse.deny(422, "Invalid", "no such mode \ud800", [cause]))
    assert body["allowed"] is False
    assert body["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "no such mode ?",
        "details": {
            "group": "jobset.x-k8s.io",
            "kind": "JobSet",
            "name": "train",
            "causes": [{"reason": "FieldValueNotSupported", "message": cause.detail, "field": cause.path}],
        },
    }


def test_without_causes_there_are_no_details_because_kubectl_would_hide_the_message() -> None:
    assert "details" not in answer(AdmissionResponse.deny(403, "Forbidden", "no"))["status"]


def test_a_refusal_needs_an_error_code() -> None:
    with pytest.raises(ValueError, match="200"):
        AdmissionResponse.deny(200, "", "no")


def test_warnings_are_lines_without_repetition() -> None:
    assert limit_warnings(["a\n\tb", "", "a b", "\x00", "c\x85d\x7f"]) == ("a b", "c d")


def test_a_long_warning_is_cut() -> None:
    (cut,) = limit_warnings(["x" * 300])
    assert (len(cut), cut[-4:]) == (256, "x...")


def test_too_many_warnings_end_with_the_number_of_omitted_ones() -> None:
    kept = limit_warnings(f"{number:04} " + "x" * 200 for number in range(100))
    assert kept[-1] == f"{100 - len(kept) + 1} more warnings are not shown"
    assert len(kept) == 20


@given(st.lists(st.text(max_size=400, alphabet=st.characters(exclude_categories=())), max_size=30))
def test_warnings_are_within_the_limits_of_the_api_server(texts: list[str]) -> None:
    kept = limit_warnings(texts)
    assert sum(map(len, kept)) <= 4096
    assert all(0 < len(text) <= 256 for text in kept)
    assert len(set(kept)) == len(kept)
    assert not [char for text in kept for char in text if unicodedata.category(char) in {"Cc", "Cs"}]


@given(st.lists(st.text(max_size=400, alphabet=st.characters(exclude_categories=())), max_size=30))
def test_limiting_twice_changes_nothing(texts: list[str]) -> None:
    assert limit_warnings(limit_warnings(texts)) == limit_warnings(texts)


def test_audit_annotations_are_sent_with_both_answers() -> None:
    kept = {"a_validation_failure": "no \ud800"}
    for response in (
        AdmissionResponse.allow(audit_annotations=kept),
        AdmissionResponse.deny(422, "Invalid", "no", [StatusCause("Invalid", "m", "a/b")], audit_annotations=kept),
    ):
        assert answer(response)["auditAnnotations"] == {"a_validation_failure": "no ?"}


def test_a_cause_can_name_a_policy_rule() -> None:
    body = answer(AdmissionResponse.deny(422, "Invalid", "no", [StatusCause("Forbidden", "because", "a/b")]))
    assert body["status"]["details"]["causes"] == [{"reason": "Forbidden", "message": "because", "field": "a/b"}]


def test_the_variable_request_has_neither_objects_nor_the_calls_uid() -> None:
    variable = decoded(subResource="status", dryRun=True).variable
    assert not {"uid", "object", "oldObject"} & set(variable)
    assert (variable["userInfo"]["username"], variable["subResource"], variable["dryRun"]) == ("jane", "status", True)

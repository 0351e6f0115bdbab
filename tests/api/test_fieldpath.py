"""Field paths print as the API server prints them and read back as the same value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.fieldpath import FieldPath, MapKey
from gangctl.errors import InputError
from tests.rows import each

ANNOTATION = "spec.replicatedJobs[0].template.metadata.annotations[gangctl.dev/gang-mode]"


def test_prints_the_kubernetes_form() -> None:
    path = FieldPath().child("spec", "replicatedJobs").index(0).child("template", "metadata", "annotations")
    assert str(path.key("gangctl.dev/gang-mode")) == ANNOTATION


def test_reads_the_kubernetes_form() -> None:
    assert FieldPath.parse(ANNOTATION).steps[1:4] == ("replicatedJobs", 0, "template")
    assert FieldPath.parse(ANNOTATION).steps[-1] == MapKey("gangctl.dev/gang-mode")


def test_the_root_path_is_empty() -> None:
    assert str(FieldPath()) == ""
    assert FieldPath.parse("") == FieldPath()


def test_a_leading_dot_is_accepted() -> None:
    assert FieldPath.parse(".spec.suspend") == FieldPath().child("spec", "suspend")


def test_paths_are_values() -> None:
    base = FieldPath().child("spec")
    base.child("a")
    assert base == FieldPath().child("spec")
    assert {base: 1}[FieldPath.parse("spec")] == 1


def test_a_name_with_special_characters_is_written_in_brackets() -> None:
    assert FieldPath().child("a.b/c") == FieldPath().key("a.b/c")
    assert FieldPath().child("") == FieldPath().key("")


@each("text", ["a..b", "a.", "a]", "a[0]b", "a[", "[x]y", "."])
def test_malformed_text_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError) as caught:
        FieldPath.parse(text)
    assert repr(text) in caught.value.message


def test_a_negative_index_is_an_error() -> None:
    with pytest.raises(ValueError, match="-1"):
        FieldPath().index(-1)


def _unambiguous(key: str) -> bool:
    return not (key.isdecimal() or "]." in key or "][" in key)


STEPS = st.one_of(
    st.text(min_size=1).map(lambda name: FieldPath().child(name).steps[0]),
    st.integers(min_value=0, max_value=10**9),
    st.text().map(MapKey),
).filter(lambda step: not isinstance(step, MapKey) or _unambiguous(step.key))


@given(st.lists(STEPS, max_size=6).map(lambda steps: FieldPath(tuple(steps))))
def test_reading_back_gives_the_same_path(path: FieldPath) -> None:
    assert FieldPath.parse(str(path)) == path

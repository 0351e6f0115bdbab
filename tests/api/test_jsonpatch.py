"""A patch applied to the old object gives the new one, and names nothing that stayed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api import jsonpatch
from gangctl.api.jsonpatch import additions, pointer
from tests.rows import each

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5]), st.sampled_from(["", "~/"]))
KEYS = st.sampled_from(["a", "b", "~", "/", "~1", "", "gangctl.dev/gang-ref"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=20,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4)


def more(data: st.DataObject, old: Any) -> Any:
    """The value with further keys, and with values in place of nulls."""
    if isinstance(old, dict):
        return {**data.draw(OBJECTS), **{key: more(data, value) for key, value in old.items()}}
    if isinstance(old, list):
        return [more(data, value) for value in old]
    return data.draw(JSON) if old is None else old


@given(st.data(), OBJECTS)
def test_applying_the_additions_gives_the_new_object(data: st.DataObject, old: dict[str, Any]) -> None:
    new = more(data, old)
    operations = list(additions(old, new))
    assert jsonpatch.apply(old, operations) == new
    assert list(additions(new, new)) == []
    assert all(operation["op"] == "add" or operation["value"] is not None for operation in operations)


@each("index", ["\u00b2", "-1", "2", ""])
def test_what_is_no_index_of_a_list_is_refused(index: str) -> None:
    with pytest.raises(jsonpatch.PatchError):
        jsonpatch.apply({"a": [1, 2]}, [{"op": "replace", "path": f"/a/{index}", "value": 3}])


def test_pointers_are_escaped() -> None:
    assert pointer(["a/b", "~c", 0]) == "/a~1b/~0c/0"
    assert pointer([]) == ""

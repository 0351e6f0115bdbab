"""The digest of a Gang object shows whether its status has changed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.controllers.readiness.gangobjects import digest

statuses = st.recursive(
    st.one_of(st.integers(), st.text(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.sampled_from(["a", "since", "phase"]), inner)),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["phase", "ready", "groups"]), statuses), statuses)
def test_a_digest_covers_everything_but_timestamps(status: dict[str, Any], other: Any) -> None:
    assert digest(status) == digest(dict(reversed(status.items()))) == digest({**status, "since": other})
    assert (digest(status) == digest({**status, "reason": other})) is False

"""What a search has found once does not come back."""

from __future__ import annotations

import pytest

from tests.search.explorer import replay
from tests.search.known import NOT_REPAIRED
from tests.search.traces import TRACES, Trace
from tests.search.worlds import named


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.world)
def test_a_trace_leads_to_no_violation(trace: Trace) -> None:
    if trace.finding.partition(":")[0] in NOT_REPAIRED:
        pytest.skip("not repaired")
    assert [wrong for wrong in replay(named(trace.world), trace.actions) if wrong[1]] == []


def test_an_action_that_is_not_possible_is_named() -> None:
    with pytest.raises(ValueError, match=r"action 0 of suspend-1\.37: 'user\.resume' is not possible, these are"):
        list(replay(named("suspend-1.37"), ["user.resume"]))

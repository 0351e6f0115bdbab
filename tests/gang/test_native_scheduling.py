"""A JobSet with ``spec.scheduling`` (KEP-969) is JobSet's own: gangctl makes no gang of it, and says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gangctl.api.scheduling import Generation
from gangctl.gang.reasons import Reason
from tests.gang.pipeline import GENERATIONS, assessed, resolved, stored
from tests.jobsets import jobset, rj
from tests.rows import each

NATIVE: Final[dict[str, Any]] = {"scheduling": {"schedulingPolicy": {"gang": {}}}}
ASKS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "the JobSet asks": lambda **spec: jobset("js", rj("a", 2, 2, 2), rj("b"), mode="Gang", **spec),
    "a ReplicatedJob asks": lambda **spec: jobset("js", rj("a", 2, 2, 2, mode="ReplicatedGang"), rj("b"), **spec),
    "gangConfig asks": lambda **spec: jobset("js", rj("a"), rj("b"), gangConfig={"gangMode": "Gang"}, **spec),
}


@each("generation", GENERATIONS)
@each("case", ASKS)
def test_gangctl_leaves_a_jobset_that_schedules_natively_to_jobset(case: str, generation: Generation) -> None:
    native: dict[str, Any] = ASKS[case](**NATIVE)
    resolution = resolved(native, generation)
    assert (resolution.stamps, resolution.errors) == ((None, None), ())
    assert [notice.reason for notice in resolution.notices] == [Reason.UPSTREAM_SCHEDULING]
    assert "spec.scheduling" in resolution.notices[0].message
    assert stored(native, generation) == native, "the webhook changes nothing"
    seen = assessed(native, generation)
    assert (seen.plan, seen.unstamped) == (None, False)


@each("case", ASKS)
def test_without_it_the_same_jobset_is_a_gang(case: str) -> None:
    resolution = resolved(ASKS[case]())
    assert any(resolution.stamps)
    assert resolution.notices == ()


def test_a_jobset_with_native_scheduling_and_no_gang_mode_has_no_notice() -> None:
    resolution = resolved(jobset("js", rj("w"), **NATIVE))
    assert (resolution.stamps, resolution.errors, resolution.notices) == ((None,), (), ())

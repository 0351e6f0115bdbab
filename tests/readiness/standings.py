"""Readiness of gangs, as short as a test needs it, and any that hypothesis can generate."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes import PROMISES
from gangctl.readiness.result import Cause, Counts, GangPhase, Readiness

CREATED = 1_000


def cause(reason: Reason, *, since: int = 0, blocking: bool = True) -> Cause:
    return Cause(reason, f"because of {reason.value}", since=since, blocking=blocking)


def standing(name: str = "js", *reasons: Reason | Cause, namespace: str = "ns", **known: Any) -> Readiness:
    """A JobSet of four pods, by default in phase Scheduling."""
    causes = tuple(each if isinstance(each, Cause) else cause(each) for each in reasons)
    values: dict[str, Any] = {
        "uid": f"uid-{name}",
        "phase": GangPhase.SCHEDULING,
        "since": CREATED,
        "counts": Counts(desired=4, minimum=4, wanted=4, created=4),
        "groups": (),
        "level": "JobSet",
        "local_queue": "local",
        "cluster_queue": "cluster",
        "created_at": CREATED,
        "admitted_at": CREATED,
        **known,
    }
    lost = next((each for each in causes if each.reason in PROMISES), None)
    return Readiness(namespace, name, causes=causes, lost=lost, **values)


NUMBERS = st.integers(0, 1_000)
REASONS = st.sampled_from([Reason.UNSCHEDULABLE, Reason.NEVER_FITS, Reason.FIELD_DROPPED, Reason.NOT_GANGED])
CAUSES = st.builds(cause, REASONS, since=st.integers(0, 5), blocking=st.booleans())


@st.composite
def standings(draw: st.DrawFn, names: int = 6) -> Readiness:
    return standing(
        f"js-{draw(st.integers(1, names))}",
        *draw(st.lists(CAUSES, max_size=3)),
        namespace=draw(st.sampled_from(["a", "b", "c"])),
        uid=f"uid-{draw(st.integers(1, 2))}",
        phase=draw(st.sampled_from(GangPhase)),
        since=draw(st.integers(1, 9)),
        counts=Counts(*(draw(NUMBERS) for _ in Counts.__slots__)),
        local_queue=draw(st.sampled_from(["", "x", "y"])),
        cluster_queue=draw(st.sampled_from(["", "q"])),
    )

"""One verdict of several: a queue that dispatches reserves its own quota, then one worker cluster runs the JobSet.

The result is ``fits`` if one cluster can run it, and ``never`` only if none ever can and all of them are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, TypedDict

from gangctl.fit.report import FitReport, Verdict

_ORDER: Final[tuple[Verdict, ...]] = ("fits", "not-now", "unknown", "never")
"""The verdict of the best cluster is that of all."""


class WorkerFit(TypedDict):
    """Whether one worker cluster of MultiKueue can run the JobSet."""

    name: Annotated[str, "The name that MultiKueue has for it."]
    verdict: Verdict
    reason: Annotated[str, "As that of the whole."]
    message: Annotated[str, "One sentence, as that of the whole."]


class DispatchedFit(FitReport):
    """Whether a JobSet can be admitted: ever, and now; and on which worker clusters of MultiKueue."""

    workers: Annotated[list[WorkerFit], "Empty without --worker, and where its queue dispatches to none."]


def unknown_worker(name: str, why: str) -> WorkerFit:
    """A worker cluster of which nothing is known."""
    return {"name": name, "verdict": "unknown", "reason": "Unknown", "message": f"Not known: {why}."}


def dispatched(own: FitReport, workers: Sequence[WorkerFit]) -> FitReport:
    """The verdict by the queue's own quota and by the worker clusters that it can dispatch to, of which there is one.

    ``own`` is without what depends on the worker clusters.
    """
    if own["verdict"] == "never":
        return own
    best = min(workers, key=lambda each: _ORDER.index(each["verdict"]))
    named = {verdict: ", ".join(each["name"] for each in workers if each["verdict"] == verdict) for verdict in _ORDER}
    if best["verdict"] == "never":
        message = f"No worker cluster can ever run it: {named['never']}."
        return {**own, "verdict": "never", "reason": best["reason"], "message": message, "blocking": False}
    if own["verdict"] == "fits" and best["verdict"] == "fits":
        several = "s" if "," in named["fits"] else ""
        return {**own, "reason": best["reason"], "message": f"It fits on worker cluster{several} {named['fits']} now."}
    missing = [f"what worker cluster {each['name']} has" for each in workers if each["verdict"] == "unknown"]
    report: FitReport = {**own, "unknown": [*own["unknown"], *missing]}
    if own["verdict"] != "fits":
        return report
    unsure = f", as far as is known; not known: {named['unknown']}" if missing else ""
    message = f"It fits on no worker cluster now{unsure}."
    return {**report, "verdict": best["verdict"], "reason": best["reason"], "message": message}

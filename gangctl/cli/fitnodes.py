"""A fit into queues and onto nodes together: what either can never hold is never admitted and run."""

from __future__ import annotations

from collections.abc import Callable

from gangctl.cli.kueuesnapshot import Stock
from gangctl.cli.placedpods import PlacedPod, in_use
from gangctl.fit.knowledge import Ask
from gangctl.fit.nodes import node_fit
from gangctl.fit.report import FitReport


def onto_nodes(ask: Ask, stock: Stock, without: Callable[[PlacedPod], bool]) -> FitReport:
    """Whether the nodes, which are all there will ever be, can hold a JobSet; some pods count as if they were gone."""
    used = None if stock.pods is None else in_use(stock.pods, without)
    surroundings = stock.snapshot().surroundings(ask.namespace)
    return node_fit(ask, stock.nodes, surroundings, used=used, fixed_nodes=True)


def together(queued: FitReport, nodes: FitReport) -> FitReport:
    """One report: the worse of both verdicts, with its reason, and the limits of both."""
    limits = [*queued["limits"], *nodes["limits"]]
    message = f"{queued['message']} {nodes['message']}"
    if queued["verdict"] == "never":
        return {**queued, "limits": limits}
    if nodes["verdict"] == "never":
        return {
            **queued,
            "verdict": "never",
            "reason": nodes["reason"],
            "message": nodes["message"],
            "limits": limits,
            "holders": [],
        }
    if nodes["verdict"] == "not-now" and queued["verdict"] == "fits":
        return {**queued, "verdict": "not-now", "reason": nodes["reason"], "message": message, "limits": limits}
    unknown = list(dict.fromkeys([*queued["unknown"], *nodes["unknown"]]))
    return {**queued, "message": message, "limits": limits, "unknown": unknown}

"""Who is told where PathwaysJobs stand."""

from __future__ import annotations

from gangctl.pathways.status.facts import PathwaysFacts


class PathwaysObserver:
    """The default ignores it."""

    def stands(self, before: PathwaysFacts | None, now: PathwaysFacts | None) -> None:
        """Tell of a PathwaysJob as it is stored: None before it was known, and after it is gone."""

    def stood_down(self, *, down: bool) -> None:
        """Tell whether PathwaysJobs are left to the upstream controller."""

    def forget(self) -> None:
        """Tell that this replica follows none any more."""

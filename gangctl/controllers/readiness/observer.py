"""What is told of readiness as it changes: metrics, events and ``Gang`` objects each listen."""

from __future__ import annotations

from gangctl.readiness.result import Readiness


class ReadinessObserver:
    """Told where each JobSet that asks for a gang stands; the default ignores it.

    It is called in the event loop and must return at once. What it raises is logged and keeps no other observer from
    being told.
    """

    def leads(self) -> None:
        """This replica tells from now on: of what happens from here on, too, that it comes to know of later."""

    def stands(self, before: Readiness | None, now: Readiness | None) -> None:
        """Tell of one JobSet whose readiness is another now.

        ``before`` is None for one that was not followed, ``now`` for one that is not followed any more. Both are of
        the same UID: another JobSet under the same name comes after the first one has gone.
        """

    def forget(self) -> None:
        """Know of no JobSet any more, nothing has happened to any: this replica leads no longer, another one tells."""

    def evaluated(self, seconds: float, lag_seconds: float | None) -> None:
        """Tell of one evaluation, after :meth:`stands`: how long it took.

        ``lag_seconds`` is the time from the first change that it had not seen until it was told, None where nothing
        came of it.
        """

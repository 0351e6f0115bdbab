"""The observers of readiness: metrics, events and ``Gang`` objects."""

from __future__ import annotations

from gangctl.readiness.result import Readiness


class ReadinessObserver:
    """Notified of each change of a gang's readiness; the default ignores it.

    It is called in the event loop and must return at once. An exception is logged, and the other observers are still
    notified.
    """

    def leads(self) -> None:
        """This replica reports from now on: also what happened after this moment and is observed later."""

    def on_status_change(self, before: Readiness | None, now: Readiness | None) -> None:
        """Handle a JobSet whose readiness has changed.

        ``before`` is None for one that was not followed, ``now`` for one that is no longer followed. Both have the same
        UID: another JobSet of the same name comes after the first one is gone.
        """

    def forget(self) -> None:
        """Forget every JobSet, without any change to them: this replica no longer leads, another one reports."""

    def evaluated(self, seconds: float, lag_seconds: float | None) -> None:
        """Record the duration of one evaluation, after :meth:`on_status_change`.

        ``lag_seconds`` is the time from the first unseen change until the notification, None if nothing was new.
        """

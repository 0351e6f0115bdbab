"""Own writes and the informer's events, in whatever order they arrive."""

from __future__ import annotations

from dataclasses import replace

from gangctl.api.scheduling import Observed
from gangctl.controllers.writer import TTL_SECONDS, Overlay

OLD = Observed("t", "wl", "uid-1", "10", "js-uid", "js", deleting=False, claims_jobset="", min_counts=(("w", 4),))
NEW = replace(OLD, resource_version="11", min_counts=(("w", 6),))
AGAIN = replace(OLD, uid="uid-2", resource_version="20")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def seen(overlay: Overlay, cached: Observed | None) -> Observed | None:
    return overlay.view("Workload", "t", "wl", cached)


def test_a_created_object_is_visible_before_the_cache_has_it() -> None:
    overlay = Overlay(Clock())
    overlay.wrote("Workload", OLD)
    assert seen(overlay, None) == OLD


def test_a_patch_wins_over_an_older_cache_and_loses_to_a_newer_one() -> None:
    overlay = Overlay(Clock())
    overlay.wrote("Workload", NEW)
    assert seen(overlay, OLD) == NEW
    newer = replace(NEW, resource_version="12", min_counts=(("w", 7),))
    assert seen(overlay, newer) == newer
    assert seen(overlay, None) is None


def test_an_accepted_delete_shows_until_the_object_is_gone() -> None:
    overlay = Overlay(Clock())
    overlay.deleted("Workload", OLD)
    found = seen(overlay, OLD)
    assert found is not None
    assert found.deleting
    overlay.observed_change("Workload", OLD, None)
    assert seen(overlay, None) is None


def test_the_event_of_a_delete_may_overtake_its_answer() -> None:
    overlay = Overlay(Clock())
    overlay.observed_change("Workload", OLD, None)
    overlay.deleted("Workload", OLD)
    assert seen(overlay, None) is None


def test_an_object_deleted_before_the_response_is_absent() -> None:
    overlay = Overlay(Clock())
    overlay.observed_change("Workload", None, OLD)
    overlay.observed_change("Workload", OLD, None)
    overlay.wrote("Workload", OLD)
    assert seen(overlay, None) is None


def test_the_successor_under_the_same_name_is_another_object() -> None:
    overlay = Overlay(Clock())
    overlay.deleted("Workload", OLD)
    overlay.observed_change("Workload", OLD, None)
    overlay.wrote("Workload", AGAIN)
    assert seen(overlay, None) == AGAIN
    overlay.observed_change("Workload", OLD, None)
    assert seen(overlay, None) == AGAIN


def test_own_writes_expire() -> None:
    clock = Clock()
    overlay = Overlay(clock)
    overlay.wrote("Workload", OLD)
    clock.now = TTL_SECONDS + 1
    assert seen(overlay, None) is None


def test_a_change_of_generation_forgets_everything() -> None:
    overlay = Overlay(Clock())
    overlay.wrote("Workload", OLD)
    overlay.clear()
    assert seen(overlay, None) is None
    assert overlay.written("Workload") == []

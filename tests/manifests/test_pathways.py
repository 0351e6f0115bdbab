"""The component of PathwaysJobs: its rights are few, and it switches the controller on."""

from __future__ import annotations

from gangctl.pathways.words import GROUP, UPSTREAM_LEASE
from tests.manifests.component import Component, overlay

COMPONENT = Component("pathways")
GRANTED = {
    (GROUP, "pathwaysjobs", "get"),
    (GROUP, "pathwaysjobs", "list"),
    (GROUP, "pathwaysjobs", "watch"),
    (GROUP, "pathwaysjobs/status", "patch"),
    (GROUP, "pathwaysjobs/finalizers", "update"),
    ("jobset.x-k8s.io", "jobsets", "get"),
    ("jobset.x-k8s.io", "jobsets", "create"),
    ("coordination.k8s.io", "leases", "list"),
    ("coordination.k8s.io", "leases", "watch"),
}


def test_lists_every_file_beside_it() -> None:
    assert COMPONENT.listed == {"crds", *COMPONENT.beside}


def test_the_role_has_exactly_the_listed_rights() -> None:
    assert COMPONENT.rights == sorted(GRANTED)
    named = {tuple(rule["resources"]): rule["resourceNames"] for rule in COMPONENT.rules if "resourceNames" in rule}
    assert named == {("leases",): [UPSTREAM_LEASE]}
    assert COMPONENT.unexplained == []


def test_an_overlay_enables_the_controller() -> None:
    settings, _ = overlay("pathways")
    assert settings.pathways

"""Optional components of gangctl in a cluster, by the names of the directories under ``manifests/``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Component:
    """One component: what it ``adds``, and what it ``needs`` to have an effect.

    Without ``api`` (GROUP/VERSION) an API server rejects its objects, because it does not serve their kinds.
    ``suggested_by`` is a group: a cluster that serves it is one for which the component is meant.
    """

    name: str
    adds: str
    needs: str = ""
    api: str = ""
    suggested_by: str = ""


COMPONENTS: Final = (
    Component(
        "high-availability",
        "three replicas, each on a node of its own, of which two always answer",
        "two nodes or more",
    ),
    Component("shards", "two leaders, each for a part of the namespaces, and a standby replica"),
    Component(
        "cert-manager",
        "certificates of the webhooks by cert-manager, in the place of gangctl's own authority",
        "cert-manager",
        api="cert-manager.io/v1",
        suggested_by="cert-manager.io",
    ),
    Component(
        "kueue-check",
        "gangctl as the controller of AdmissionChecks, definition of their parameters",
        "Kueue",
        suggested_by="kueue.x-k8s.io",
    ),
    Component(
        "policies/native",
        "the policies of the pack that need nothing of gangctl's, as ValidatingAdmissionPolicies that warn",
    ),
    Component("policies/native/deny", "Deny and failurePolicy Fail for these", "policies/native"),
    Component("gang-objects", "a Gang object beside each JobSet, definition of Gangs"),
    Component("stranded", "eviction of gangs that run below their minimum for longer than they allow"),
    Component("pathways", "JobSets of PathwaysJobs, definition of PathwaysJobs"),
    Component(
        "monitoring",
        "scraping and alerts by Prometheus' operator",
        "Prometheus' operator",
        api="monitoring.coreos.com/v1",
        suggested_by="monitoring.coreos.com",
    ),
    Component("monitoring/secured", "metrics over TLS, for those who may get /metrics"),
    Component("tenants", "roles for the people of a cluster, as parts of view, edit and admin"),
    Component(
        "tenants/managed",
        "gangctl only in namespaces labelled gangctl.dev/managed=true",
        "the label on those namespaces",
    ),
)
"""In the order of their patches."""

NAMES: Final = tuple(component.name for component in COMPONENTS)

"""Claims that the API server refuses, without which JobSet creates no Job."""

from __future__ import annotations

from typing import Any, Final

from gangctl.apiserver.create import create, errors_of_jobs
from tests.jobsets import jobset, rj
from tests.rows import each

VALID: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
MODES: Final = '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'
NO_STORAGE: Final = ("spec.resources[storage]", "Required value")
OF_GROUP: Final = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
SNAPSHOT: Final = {"kind": "VolumeSnapshot", "name": "s"}
GROUPED: Final = {**SNAPSHOT, "apiGroup": "snapshot.storage.k8s.io"}


def claiming(spec: dict[str, Any], metadata: dict[str, Any] | None = None, replicas: int = 1) -> dict[str, Any]:
    """A JobSet that mounts one claim of its own."""
    mounting = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    template = {"metadata": {"name": "data", **(metadata or {})}, "spec": spec}
    job = rj("w", replicas, 1, 1, pod={"containers": [mounting]})
    return jobset("js", job, volumeClaimPolicies=[{"templates": [template]}])


@each(
    ("spec", "errors"),
    [
        (VALID, []),
        ({}, [("spec.accessModes", "Required value: at least 1 access mode is required"), NO_STORAGE]),
        ({**VALID, "accessModes": ["RWO"]}, [("spec.accessModes", f'value: "RWO": supported values: {MODES}')]),
        (
            {**VALID, "accessModes": ["ReadWriteOncePod", "ReadWriteMany"]},
            [("spec.accessModes", "Forbidden: may not use ReadWriteOncePod with other access modes")],
        ),
        ({**VALID, "accessModes": ["ReadWriteOncePod"]}, []),
        ({**VALID, "resources": {"limits": {"storage": "1Gi"}}}, [NO_STORAGE]),
        (
            {**VALID, "resources": {"requests": {"storage": 0}}},
            [("spec.resources[storage]", 'Invalid value: "0": must be greater than zero')],
        ),
        ({**VALID, "storageClassName": "Fast"}, [("spec.storageClassName", "a lowercase RFC 1123 subdomain must")]),
        # The class without a name, which turns provisioning off.
        ({**VALID, "storageClassName": ""}, []),
        (
            {**VALID, "volumeAttributesClassName": "Fast"},
            [("spec.volumeAttributesClassName", "a lowercase RFC 1123 subdomain must")],
        ),
        ({**VALID, "volumeMode": "Raw"}, [("spec.volumeMode", 'supported values: "Block", "Filesystem"')]),
        (
            {**VALID, "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            [("spec.selector.matchExpressions[0].values", "must be specified when `operator` is 'In' or 'NotIn'")],
        ),
        ({**VALID, "dataSourceRef": SNAPSHOT}, [("spec.dataSourceRef", OF_GROUP)]),
        ({**VALID, "dataSourceRef": GROUPED}, []),
        ({**VALID, "dataSourceRef": {**GROUPED, "apiGroup": "S"}}, [("spec.dataSourceRef.apiGroup", "lowercase")]),
        ({**VALID, "dataSourceRef": GROUPED, "dataSource": GROUPED}, []),
        (
            {**VALID, "dataSourceRef": GROUPED, "dataSource": {**GROUPED, "name": "t"}},
            [("spec", "must match dataSourceRef")],
        ),
        (
            {**VALID, "dataSourceRef": {**GROUPED, "name": ""}},
            [("spec.dataSourceRef.name", "Required value")],
        ),
        # A new claim loses them: as what the API server ignores, and without a feature gate.
        ({**VALID, "dataSource": SNAPSHOT}, []),
        ({**VALID, "dataSourceRef": {**SNAPSHOT, "namespace": "other"}}, []),
    ],
)
def test_a_claim_that_the_api_server_refuses_is_an_error(spec: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    created = create(claiming(spec))
    assert created.refused == created.jobs == ()
    assert errors_of_jobs(created.obj) == created.errors
    for error, (field, detail) in zip(created.errors, errors, strict=True):
        assert error.path == f"spec.volumeClaimPolicies[0].templates[0].{field}"
        assert error.detail.startswith("the API server refuses such a claim, without which JobSet creates no Job, so ")
        assert detail in error.detail


@each(("part", "wrong"), [("labels", {"a": "b c"}), ("annotations", {"a b": "c"})])
def test_metadata_of_a_claim_is_checked(part: str, wrong: dict[str, str]) -> None:
    (error,) = create(claiming(VALID, {part: wrong})).errors
    assert error.path == f"spec.volumeClaimPolicies[0].templates[0].metadata.{part}"


def test_a_jobset_without_jobs_has_claims_all_the_same() -> None:
    assert len(create(claiming({}, replicas=0)).errors) == 2


def test_a_claim_is_in_the_namespace_of_its_jobset() -> None:
    (error,) = create(claiming(VALID, {"namespace": "other"})).errors
    assert str(error).startswith("spec.volumeClaimPolicies[0]: ")
    assert "namespace cannot be set for VolumeClaimPolicies templates" in str(error)
    assert create(claiming(VALID, {"namespace": ""})).errors == ()

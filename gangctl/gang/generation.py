"""Which generation of the scheduling API a cluster serves, and whether it keeps the pods' reference.

Discovery alone is not enough: an API server silently drops the field of a disabled gate, and keeps it while the API
group is off and no group can exist. So the served resources choose the generation, and a dry-run create of a small Job
shows that the reference is stored. gangctl makes gangs only if both hold.

A generation that no released Kubernetes serves is used only if its OpenAPI document has every field as gangctl writes
and reads it. What gangctl writes is not listed here: the adapter makes sample objects, with every option and with none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from gangctl.api.meta import GANG_REF, JOB_INDEX, JOBSET_NAME, JOBSET_UID, MANAGED_BY, MANAGER
from gangctl.api.objects import object_at, objects_at, within
from gangctl.api.pods import HOSTNAME
from gangctl.api.scheduling import (
    FIRST_OF_COMPOSITES,
    GATES,
    GROUP,
    NEWEST,
    ApiState,
    Claim,
    CompositeTemplate,
    Feature,
    Generation,
    Owner,
    PodGroup,
    Reference,
    Template,
    Workload,
    named_group,
)
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.errors import one_line
from gangctl.gang.naming import UID_PLACEHOLDER, Scope, Stamp
from gangctl.gang.plan import job_reference

_PREFIX: Final = "#/components/schemas/"
_REFERENCES: Final = 8
"""References that lead to a schema; more than that is a loop."""
_NAME: Final = 64
"""Characters of a field's name in a message."""
_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    dict: "object",
    int: "integer",
    list: "array",
    str: "string",
}
_OWNER: Final = Owner("js", "uid")
_CLAIMS: Final = (Claim("a", claim="c"), Claim("b", template="t"))
TEMPLATES: Final = (
    Template("w", 1),
    Template("w", 1, "high", "rack", "single", _CLAIMS),
    Template("w", 1, "high", "rack", "all", _CLAIMS),
)
COMPOSITE: Final = CompositeTemplate("all", 2, "high", "all")
_CONDITION: Final = dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), "")


def differences(generation: Generation, document: object, *, composite: bool = False) -> tuple[str, ...]:
    """Fields of ``document`` that are not as gangctl writes and reads them; empty if it can use this generation.

    The generation has PodGroups. ``composite``: those of gangs that start together, under a CompositePodGroup.
    Each field that it writes or reads has to exist with that type, and none that it does not write may be required.
    Never raises, for any JSON.
    """
    schemas, fields = _Schemas(document), dict[str, None]()
    for sample in _samples(generation, composite=composite):
        fields |= dict.fromkeys(schemas.compare(sample["kind"], schemas.root(generation, sample["kind"]), sample))
    return tuple(fields)


def _samples(generation: Generation, *, composite: bool) -> Iterator[dict[str, Any]]:
    adapter, above, parent = ADAPTERS[generation], COMPOSITE if composite else None, "parent" if composite else ""
    for template in TEMPLATES:
        yield adapter.workload(Workload("ns", "wl", _OWNER, (template,), above))
        group = adapter.pod_group(PodGroup("ns", "pg", _OWNER, "wl", template, template.min_count, parent))
        yield group
        if not composite:
            # As it is read: with what the API server and the scheduler have filled in.
            yield {**group, "spec": {**group["spec"], "priority": 0}, "status": {"conditions": [_CONDITION]}}


class _Schemas:
    """The schemas of one document, which may be anything."""

    def __init__(self, document: object) -> None:
        self._schemas = within(document, "components", "schemas") if isinstance(document, dict) else {}

    def root(self, generation: Generation, kind: str) -> object:
        """The schema of a kind; None without one."""
        wanted = {"group": GROUP, "version": generation.value, "kind": kind}
        for schema in self._schemas.values():
            kinds = schema.get("x-kubernetes-group-version-kind") if isinstance(schema, dict) else None
            if isinstance(kinds, list) and wanted in kinds:
                return schema
        return None

    def compare(self, path: str, schema: object, value: object) -> Iterator[str]:
        """What ``schema`` does not say of the field at ``path``, which has a value like this."""
        resolved, wanted = self._resolve(schema), _TYPES[type(value)]
        if not resolved:
            yield f"{path} does not exist"
        elif resolved.get("type") != wanted:
            yield f"{path} is not of type {wanted}"
        elif isinstance(value, dict):
            yield from self._compare_fields(path, resolved, value)
        elif isinstance(value, list):
            for item in value:
                yield from self.compare(f"{path}[]", resolved.get("items"), item)

    def _compare_fields(self, path: str, schema: Mapping[str, Any], value: Mapping[str, object]) -> Iterator[str]:
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict):
            # A map, such as labels, has one schema for all of its values.
            properties = dict.fromkeys(value, schema.get("additionalProperties"))
        for name, part in value.items():
            yield from self.compare(f"{path}.{name}", properties.get(name), part)
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                yield f"{path}.{one_line(name, _NAME)} is required"

    def _resolve(self, schema: object) -> Mapping[str, Any]:
        """The schema itself, which may be behind references; empty without one."""
        # Bounded, because the document is the server's, and may refer to itself.
        for _ in range(_REFERENCES):
            if not isinstance(schema, dict):
                break
            parts = schema.get("allOf")
            # kube-openapi writes a reference that has a default or a description as allOf with one part.
            only = parts[0] if isinstance(parts, list) and len(parts) == 1 else schema
            reference = only.get("$ref") if isinstance(only, dict) else None
            if not isinstance(reference, str):
                return schema
            schema = self._schemas.get(reference.removeprefix(_PREFIX))
        return {}


PROOF_NAME: Final = "gangctl-proof"
_PROOF_LABELS: Final = {"app.kubernetes.io/name": MANAGER, MANAGED_BY: MANAGER}
# k8s.io/apimachinery runtime.notRegisteredErr, inside a message of the storage layer.
_NOT_REGISTERED: Final = re.compile(
    r'no kind "(?P<kind>\w{1,63})" is registered for version "(?P<version>[\w./]{1,80})"'
)
_STAMP: Final = Stamp(Scope.JOB, PROOF_NAME, PROOF_NAME)
_NEWEST_FIRST: Final = (Generation.V1, Generation.V1BETA1, Generation.V1ALPHA2, Generation.V1ALPHA1)
_LISTED: Final = 5
"""Differences that a reason names."""


class ServedVersion(NamedTuple):
    """What an API server serves in one version of ``scheduling.k8s.io``."""

    resources: frozenset[str] = frozenset()
    """Plural names."""
    differences: tuple[str, ...] = ()
    """Fields that are not as gangctl writes and reads them."""
    lacks: frozenset[Feature] = frozenset()
    """What it has no such fields for."""


def pick_generation(served: Mapping[str, ServedVersion]) -> ApiState:
    """Choose from ``served``: what is served, by version of ``scheduling.k8s.io``.

    The resource counts, not the version: v1 has PriorityClass alone before Kubernetes 1.38.
    """
    reason = ""
    for generation in _NEWEST_FIRST:
        version = served.get(generation.value, ServedVersion())
        wanted = {"workloads", "podgroups"} if generation.capabilities.pod_groups else {"workloads"}
        if not wanted <= version.resources:
            continue
        if not version.differences:
            parents = _version_of_composites(generation, served)
            lacks = frozenset() if parents else frozenset({Feature.COMPOSITE})
            return ApiState(generation, reason, lacks=lacks | version.lacks, parents=parents)
        more = f" and {len(version.differences) - _LISTED} more" if len(version.differences) > _LISTED else ""
        listed = "; ".join(version.differences[:_LISTED]) + more
        reason = f"{generation.api_version} is served with other fields than this gangctl writes and reads: {listed}"
    if reason:
        return ApiState(None, f"{reason}. Upgrade gangctl, or serve {GROUP}/{NEWEST.value} beside it")
    versions = ", ".join(sorted(v for v, version in served.items() if "workloads" in version.resources))
    if versions:
        return ApiState(None, f"Workloads are served only in {GROUP}/{versions}, which gangctl does not speak")
    return ApiState(
        None,
        f"the cluster serves no Workloads in {GROUP}: set --runtime-config={GROUP}/VERSION=true "
        f"(v1beta1 on Kubernetes 1.37, v1alpha2 on 1.36, v1alpha1 on 1.35) and enable the feature gate {GATES}",
        unserved=True,
    )


def _version_of_composites(generation: Generation, served: Mapping[str, ServedVersion]) -> str:
    """The newest version that has CompositePodGroups and that gangctl knows; empty without one."""
    versions = (generation.value, NEWEST.value, FIRST_OF_COMPOSITES)
    return next((v for v in versions if "compositepodgroups" in served.get(v, ServedVersion()).resources), "")


def evaluate_unreadable(message: str) -> ApiState | None:
    """The verdict if a list fails because of stored objects of another generation, None for other errors.

    There is no conversion between the generations. Objects that an earlier minor stored cannot be
    decoded, and a single one prevents the API server from listing and watching its kind.
    """
    match = _NOT_REGISTERED.search(message)
    if match is None:
        return None
    return ApiState(
        None,
        f"the API server cannot read the {match['kind']} objects that an earlier Kubernetes stored as "
        f"{match['version']}, and serves none of that kind because of them: remove what is under /registry/workloads/ "
        "and /registry/podgroups/ from etcd (etcdctl del --prefix). Running pods do not need it, and gangctl makes its "
        "own anew",
    )


def proof_job(generation: Generation, namespace: str) -> dict[str, Any]:
    """A suspended Job whose pods carry a reference, to be created with ``dryRun=All``.

    It has what usual policies of a cluster require of any pod: where one refuses it, no gang can be made.
    """
    adapter = ADAPTERS[generation]
    reference = adapter.reference(Reference(PROOF_NAME, "proof", PROOF_NAME, None))
    pod_spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "proof",
                "image": "proof:1",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}},
            }
        ],
        adapter.reference_field: reference,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": PROOF_NAME, "namespace": namespace, "labels": dict(_PROOF_LABELS)},
        "spec": {"suspend": True, "template": {"metadata": {"labels": dict(_PROOF_LABELS)}, "spec": pod_spec}},
    }


def stamped_proof_job(namespace: str) -> dict[str, Any]:
    """A Job like those of a gang, for a dry run: its pods carry no reference.

    The policy for Jobs names its group. The webhook for Jobs, which is called where that policy is not in effect,
    refuses it: no JobSet owns it.
    """
    job = proof_job(NEWEST, namespace)
    del job["spec"]["template"]["spec"][ADAPTERS[NEWEST].reference_field]
    labels = {**_PROOF_LABELS, JOBSET_NAME: PROOF_NAME, JOBSET_UID: UID_PLACEHOLDER, JOB_INDEX: "0"}
    return {**job, "metadata": {**job["metadata"], "labels": labels, "annotations": {GANG_REF: _STAMP.encode()}}}


def names_its_group(stored: Mapping[str, Any]) -> bool:
    """Whether the API server wrote the expected reference into :func:`stamped_proof_job`."""
    wanted = job_reference(PROOF_NAME, UID_PLACEHOLDER, 0, _STAMP).group
    return named_group(within(stored, "spec", "template", "spec")) == wanted


def proof_workload(generation: Generation, namespace: str) -> dict[str, Any]:
    """A Workload with every option of a gang, to be created with ``dryRun=All``."""
    claims = (Claim(PROOF_NAME, claim=PROOF_NAME),)
    template = Template("proof", 1, topology_key=HOSTNAME, disruption="all", claims=claims)
    owner = Owner(PROOF_NAME, UID_PLACEHOLDER)
    return ADAPTERS[generation].workload(Workload(namespace, PROOF_NAME, owner, (template,)))


def dropped_options(stored: Mapping[str, Any]) -> frozenset[Feature]:
    """Options that are not in the API server's response to a dry run of :func:`proof_workload`."""
    templates = objects_at(object_at(stored, "spec"), "podGroupTemplates")
    kept = templates[0] if templates else {}
    # Composites are no field of a template: discovery finds whether they are served.
    return frozenset(feature for feature in Feature if feature is not Feature.COMPOSITE and not kept.get(feature))


def evaluate_proof(generation: Generation, stored: Mapping[str, Any]) -> ApiState:
    """The verdict on the API server's response to a dry run of :func:`proof_job`."""
    field = ADAPTERS[generation].reference_field
    if within(stored, "spec", "template", "spec").get(field):
        return ApiState(generation)
    return ApiState(
        None,
        f"the API server serves {generation.api_version} but drops spec.{field} of pods: enable the feature gate "
        f"{generation.capabilities.gates} on the kube-apiserver, kube-scheduler and kube-controller-manager",
    )

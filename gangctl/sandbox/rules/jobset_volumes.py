"""``volumeClaimPolicies`` of a JobSet, as its validating webhook looks at them."""

from __future__ import annotations

from typing import Any, Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.jobset_types import in_go_order, replicated_jobs
from gangctl.sandbox.rules.pod_defaults import containers
from gangctl.sandbox.rules.world import World

_CLAIMS: Final = "persistentvolumeclaims"
_CLAIM_LENGTH: Final = 63


def check_volume_claims(jobset: Object, world: World, wrong: Causes) -> None:
    """Tell of claims that cannot be made, or that nothing mounts."""
    seen: set[str] = set()
    for index, policy in enumerate(jobset["spec"].get("volumeClaimPolicies") or ()):
        path = f"spec.volumeClaimPolicies[{index}]"
        for at, template in enumerate(policy.get("templates") or ()):
            name, here = template.get("metadata", {}).get("name", ""), f"{path}.template[{at}].name"
            if name in seen:
                wrong.invalid(here, name, "names must be unique for VolumeClaimPolicies template")
            seen.add(name)
            wrong.invalid_each(here, name, names.dns_subdomain(name))
            claim = f"{name}-{jobset['metadata'].get('name', '')}"
            if len(claim) > _CLAIM_LENGTH:
                wrong.invalid(here, name, "VolumeClaimPolicies template name is too long")
            _mounts(replicated_jobs(jobset), name, wrong)
            existing = world(_CLAIMS, jobset["metadata"].get("namespace", ""), claim)
            if existing is not None:
                _existing(existing, template, policy, claim, path, at, wrong)


def _mounts(replicated: list[Any], name: str, wrong: Causes) -> None:
    mounted = False
    for index, each in enumerate(replicated):
        pod = each["template"]["spec"]["template"]["spec"]
        for at, volume in enumerate(pod.get("volumes") or ()):
            if volume.get("name") == name:
                path = f"spec.replicatedJobs[{index}].template.spec.template.spec.volumes[{at}].name"
                wrong.invalid(path, name, f"volume name conflicts with VolumeClaimPolicy template name: {name}")
        for container in containers(pod):
            mounted = mounted or any(mount.get("name") == name for mount in container.get("volumeMounts") or ())
    if not mounted:
        told = f"replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
        wrong.invalid("spec.replicatedJobs", in_go_order(replicated), told)


def _existing(  # noqa: PLR0917 - a claim, what it is asked to be, and where that is said
    existing: Object, template: Object, policy: Object, claim: str, path: str, at: int, wrong: Causes
) -> None:
    namespace = existing["metadata"].get("namespace", "")
    if existing.get("spec") != template.get("spec"):
        told = f"spec does not match existing PVC {claim} in namespace {namespace}"
        wrong.invalid(f"{path}.template[{at}].spec", template.get("spec"), told)
    ends = policy.get("retentionPolicy", {}).get("whenDeleted")
    if ends != "Retain":
        wrong.invalid(f"{path}.retentionPolicy.whenDeleted", ends, "retentionPolicy must be retain when PVC exists")

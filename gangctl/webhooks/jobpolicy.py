"""The MutatingAdmissionPolicy through which the API server itself names the group of a gang's Jobs.

Kubernetes 1.36 and newer serve ``admissionregistration.k8s.io/v1 MutatingAdmissionPolicy``: there the Jobs of a gang
are created, and restarted, even while gangctl is down. The CEL here computes what
:func:`gangctl.gang.plan.job_reference` computes of a Job, from the stamp and the labels that JobSet puts on it.
"""

from __future__ import annotations

from typing import Any, Final

from gangctl.api.meta import (
    GANG_REF,
    JOB_INDEX,
    JOB_RESTART_ATTEMPT,
    JOBSET_NAME,
    JOBSET_UID,
    MANAGER,
    PROOF_LABEL,
    RESTART_ATTEMPT,
)
from gangctl.gang.naming import UID_LENGTH, Scope
from gangctl.webhooks.configurations import (
    JOBS,
    NAME,
    STAMPED_CONDITION,
    WebhookSettings,
    jobs_failure_policy,
    namespace_selector,
    rule,
)

POLICY: Final = "MutatingAdmissionPolicy"
BINDING: Final = "MutatingAdmissionPolicyBinding"
PROOF_NAME: Final = "gangctl-gangs-proof"
"""The binding for dry-run Jobs, by which gangctl finds out that the policy is in effect."""

_API_VERSION: Final = "admissionregistration.k8s.io/v1"
_POD: Final = "spec.template.spec"


def _reference(name: str) -> str:
    return f"has({name}.{_POD}.schedulingGroup)"


_CONDITIONS: Final = (
    STAMPED_CONDITION,
    # A group that the user chose stays. 1.35's field is pruned where this policy is served.
    {"name": "names-no-group", "expression": f"!{_reference('object')}"},
    # An UPDATE restores what the Job was created with, and adds nothing else: the template is immutable.
    {"name": "new-or-named-one", "expression": f"request.operation == 'CREATE' || {_reference('oldObject')}"},
)


def _number(label: str) -> str:
    return f"'{label}' in object.metadata.labels ? object.metadata.labels['{label}'] : '0'"


_VARIABLES: Final = {
    "stamp": f"object.metadata.annotations['{GANG_REF}'].split('/')",
    "uid": f"object.metadata.labels['{JOBSET_UID}'].substring(0, {UID_LENGTH})",
    "attempt": _number(RESTART_ATTEMPT),
    "jobAttempt": _number(JOB_RESTART_ATTEMPT),
    "index": f"variables.stamp[0] == '{Scope.JOB}' ? '-' + object.metadata.labels['{JOB_INDEX}'] : ''",
    "again": f"variables.stamp[0] == '{Scope.JOB}' && variables.jobAttempt != '0' ? '.' + variables.jobAttempt : ''",
    "group": (
        f"request.operation == 'UPDATE' ? oldObject.{_POD}.schedulingGroup.podGroupName : "
        "variables.stamp[2] + '-' + variables.uid + variables.index + '-' + variables.attempt + variables.again"
    ),
}
# An ApplyConfiguration is merged by its schema: 0.7 ms of kube-apiserver's CPU for each Job, where this takes 0.3 ms.
_MUTATION: Final = (
    f"[JSONPatch{{op: 'add', path: '/{_POD.replace('.', '/')}/schedulingGroup', "
    f"value: Object.{_POD}.schedulingGroup{{podGroupName: variables.group}}}}]"
)


def build_job_policy(settings: WebhookSettings, own_namespace: str) -> list[dict[str, Any]]:
    """The policy and its two bindings: the Jobs of JobSets in the namespaces of ``settings``, and the proof's."""
    policy = {
        "failurePolicy": jobs_failure_policy(settings),
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule(JOBS, ("CREATE", "UPDATE"))]},
        "matchConditions": [dict(each) for each in _CONDITIONS],
        "variables": [{"name": name, "expression": expression} for name, expression in _VARIABLES.items()],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _MUTATION}}],
    }
    return [
        _object(POLICY, NAME, policy),
        _object(BINDING, NAME, _binding(namespace_selector(settings), JOBSET_NAME)),
        # gangctl's own namespace is none of those above.
        _object(
            BINDING,
            PROOF_NAME,
            _binding({"matchLabels": {"kubernetes.io/metadata.name": own_namespace}}, PROOF_LABEL),
        ),
    ]


def _binding(namespaces: dict[str, Any], label: str) -> dict[str, Any]:
    objects = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    return {"policyName": NAME, "matchResources": {"namespaceSelector": namespaces, "objectSelector": objects}}


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": MANAGER}
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}

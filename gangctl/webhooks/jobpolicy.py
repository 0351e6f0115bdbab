"""The MutatingAdmissionPolicy through which the API server itself names the group of a gang's Jobs.

Kubernetes 1.36 and newer serve ``admissionregistration.k8s.io/v1 MutatingAdmissionPolicy``: there the Jobs of a gang
are created, and restarted, even while gangctl is down. The CEL here computes what
:func:`gangctl.gang.plan.job_reference` computes of a Job, from the stamp and the labels that JobSet puts on it. A Job
that this policy misses, because it is not there, not in effect or edited, is sent to gangctl's webhook.
"""

from __future__ import annotations

from typing import Any, Final

from gangctl.api.meta import (
    GANG_REF,
    JOB_INDEX,
    JOB_RESTART_ATTEMPT,
    JOBSET_NAME,
    JOBSET_UID,
    MANAGED_BY,
    MANAGER,
    RESTART_ATTEMPT,
)
from gangctl.gang.naming import UID_LENGTH, Scope
from gangctl.webhooks.configurations import (
    JOB_CONDITIONS,
    JOBS,
    NAME,
    WebhookSettings,
    namespace_selector,
    rule,
)

POLICY: Final = "MutatingAdmissionPolicy"
BINDING: Final = "MutatingAdmissionPolicyBinding"
_API_VERSION: Final = "admissionregistration.k8s.io/v1"
_POD: Final = "spec.template.spec"


def _number(label: str) -> str:
    # JobSet sets the label of restarts alone only with its feature gate RestartJob.
    return f"'{label}' in object.metadata.labels ? object.metadata.labels['{label}'] : '0'"


# In this order, because an expression may use the variables before it only.
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


def build_job_policy(settings: WebhookSettings) -> list[dict[str, Any]]:
    """The policy, and its binding to the Jobs of JobSets in the namespaces of ``settings``."""
    objects = {"matchExpressions": [{"key": JOBSET_NAME, "operator": "Exists"}]}
    resources = {"namespaceSelector": namespace_selector(settings), "objectSelector": objects}
    policy = {
        "failurePolicy": "Fail",
        # A webhook that is called after this policy may remove the group again (one that was built for an older API
        # drops the field): the policy then writes it once more. A Job that has its group fails a matchCondition.
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [rule(JOBS, ("CREATE", "UPDATE"))]},
        "matchConditions": [dict(condition) for condition in JOB_CONDITIONS],
        "variables": [{"name": name, "expression": expression} for name, expression in _VARIABLES.items()],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _MUTATION}}],
    }
    return [
        _object(POLICY, NAME, policy),
        _object(BINDING, NAME, {"policyName": NAME, "matchResources": resources}),
    ]


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    labels = {MANAGED_BY: MANAGER}
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}

"""The answers of gangctl: the verdict of a policy on a request, and of one expression on the sample."""

from collections.abc import Mapping
from typing import Any, Final

from gangctl.cel.meter import StepMeter
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.loaded import LoadedPolicy, PolicyError
from gangctl.policy.native import load_native
from gangctl.policy.review import Operation, Review
from gangctl.policy.verdict import Finding
from tests.parity.corpus import SAMPLE
from tests.parity.outcomes import Outcome
from tests.parity.policies import GROUP, Object, labelled, native_policy, resource_of
from tests.policy.documents import NOW

NAMESPACE: Final[Mapping[str, Any]] = {
    "metadata": {
        "name": "parity",
        "uid": "5b3c2f5e-4c1f-4a1c-9d0a-0a6f2f6a8f11",
        "resourceVersion": "300",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"kubernetes.io/metadata.name": "parity", "team": "research", "tier": "gold"},
    },
    "spec": {"finalizers": ["kubernetes"]},
    "status": {"phase": "Active"},
}
"""``namespaceObject``, of whatever name."""


def review_of(operation: Operation, obj: Object | None, old: Object | None) -> Review:
    """A dry run of an administrator's request for an object of the corpus."""
    subject = obj or old or {}
    kind = {"group": GROUP, "version": "v1", "kind": subject["kind"]}
    resource = {"group": GROUP, "version": "v1", "resource": resource_of(subject["kind"])}
    request = {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": subject["metadata"]["name"],
        "namespace": "parity",
        "operation": operation,
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "dryRun": True,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.capitalize()}Options"},
    }
    return Review(operation, NOW, request, obj, old, NAMESPACE)


def violations_of(policy: LoadedPolicy, review: Review) -> tuple[Finding, ...]:
    """The rules that a request breaks, and the errors that count."""
    return Evaluation(review).evaluate(policy, StepMeter.request(lambda: 0.0)).violations


def evaluate(expression: str) -> tuple[Outcome, Outcome]:
    """The outcome of one expression in the policy that a server is asked about, and in the GangPolicy that it was."""
    native = native_policy("parity", {"validations": [{"expression": expression}]})
    try:
        (policy,) = load_native(native[:2])
    except PolicyError as error:
        exported = Outcome("refused", str(error))
    else:
        exported = _outcome(policy)
    return exported, Outcome("refused") if native.own is None else _outcome(native.own)


def _outcome(policy: LoadedPolicy) -> Outcome:
    violations = violations_of(policy, review_of("CREATE", labelled(SAMPLE, "sample"), None))
    if not violations:
        return Outcome("true")
    (violation,) = violations
    return Outcome(violation.error or "false", violation.message)

"""The updates of JobSets that Kueue, JobSet and the garbage collector make, and the rules that would refuse them.

A rule about updates is evaluated on JobSets that were there before it and need not comply. One that neither compares
with ``oldObject`` nor reads ``request`` refuses every write to them; the others are evaluated on a few JobSets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import product
from typing import Any, Final

from gangctl.api.meta import GANG_MODE, JOBSET_API_VERSION, QUEUE_NAME
from gangctl.cel.meter import StepMeter
from gangctl.cli.policy.requests import RequestSetting, as_admitted, review_of
from gangctl.kueue.names import KUEUE_NAMESPACE
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.loaded import Expression, LoadedPolicy, Rule
from gangctl.policy.model import LabelSelector
from gangctl.policy.review import Review, matches
from gangctl.policy.verdict import Result, ValidationAction

Object = dict[str, Any]

_KUEUE: Final = f"system:serviceaccount:{KUEUE_NAMESPACE}:kueue-controller-manager"
_JOBSET: Final = "system:serviceaccount:jobset-system:jobset-controller-manager"
_COLLECTOR: Final = "system:serviceaccount:kube-system:generic-garbage-collector"
_DISTINGUISHING: Final = frozenset({"oldObject", "request"})
"""What an expression reads that is for some updates and not for others."""


def _stored(replicas: int, annotations: Object, labels: Object, **container: Any) -> Object:
    """A suspended JobSet, as the API server stores it."""
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "trainer", **container}]}
    job = {"parallelism": replicas, "completions": replicas, "template": {"metadata": {}, "spec": pods}}
    metadata = {"name": "js", "labels": labels, "annotations": annotations, "finalizers": ["foregroundDeletion"]}
    raw = {
        "apiVersion": JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"suspend": True, "replicatedJobs": [{"name": "w", "replicas": replicas, "template": {"spec": job}}]},
    }
    return as_admitted(raw).obj


_GANG: Final = {GANG_MODE: "Gang"}
_WORKER: Final = {"image": "registry.example/trainer:1.4.2", "resources": {"requests": {"cpu": "1"}}}
_JOBSETS: Final[tuple[Callable[[], Object], ...]] = (
    partial(_stored, 2, _GANG, {QUEUE_NAME: "queue"}, **_WORKER),
    partial(_stored, 90, _GANG, {}),
    partial(_stored, 90, {}, {}),
)
"""One that most policies admit, and two that many do not: large, without a queue, requests or a gang."""


def _admit(raw: Object) -> None:
    raw["spec"]["suspend"] = False
    template = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    podset = {"kueue.x-k8s.io/podset": "w"}
    template["metadata"] |= {"labels": podset, "annotations": {"kueue.x-k8s.io/workload": "js"}}
    template["spec"] |= {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}


def _release(raw: Object) -> None:
    raw["metadata"]["finalizers"] = []


@dataclass(frozen=True, slots=True)
class _Write:
    """Who changes what, and how; ``part`` is the subresource."""

    what: str
    user: str
    old: Callable[[Object], object]
    new: Callable[[Object], object]
    part: str = ""


def _delete(raw: Object) -> None:
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _collect(raw: Object) -> None:
    _delete(raw)
    _release(raw)


def _finish(raw: Object) -> None:
    raw["status"] = {"restarts": 1, "terminalState": "Completed"}


def _nothing(_: Object) -> None: ...


_WRITES: Final = (
    _Write("Kueue's start (suspend: false, labels and node selectors of pods)", _KUEUE, _nothing, _admit),
    _Write("Kueue's eviction (suspend: true)", _KUEUE, _admit, _nothing),
    _Write("JobSet's and others' finalizers", _JOBSET, _nothing, _release),
    _Write("the garbage collector's removal of finalizers", _COLLECTOR, _delete, _collect),
    _Write("JobSet's status", _JOBSET, _nothing, _finish, "status"),
)


def refused_writes(policy: LoadedPolicy, now: datetime) -> Iterator[tuple[Rule, str]]:
    """Each rule that would refuse such a write, and which."""
    if ValidationAction.DENY not in policy.actions:
        return
    policy = _anywhere(policy)
    failed: dict[str, set[str]] = {}
    for write, jobset in product(_WRITES, _JOBSETS):
        review = _review(write, jobset, now)
        # It is empty where the policy applies.
        if not matches(policy, review):
            findings = Evaluation(review).evaluate(policy, StepMeter.request(time.monotonic)).findings
            rules = failed.setdefault(write.what, set())
            rules |= {finding.rule for finding in findings if finding.result is Result.FAIL}
    conditions = frozenset[str]().union(*(_reads(policy, condition) for condition in policy.programs.match_conditions))
    for rule in policy.programs.rules:
        refused = [*failed]
        if _DISTINGUISHING & (conditions | _reads(policy, rule.condition)):
            refused = [what for what, broken in failed.items() if rule.id in broken]
        if refused:
            yield rule, ", ".join(refused)


def _anywhere(policy: LoadedPolicy) -> LoadedPolicy:
    """The policy without its selectors, as somewhere is a JobSet that they select; its parameters are not known."""
    everything = {"namespace_selector": LabelSelector(), "object_selector": LabelSelector()}
    constraints = policy.spec.match_constraints.model_copy(update=everything)
    spec = policy.spec.model_copy(update={"match_constraints": constraints, "param_ref": None})
    return replace(policy, spec=spec, narrowing=None)


def _reads(policy: LoadedPolicy, expression: Expression) -> frozenset[str]:
    """What an expression reads, also through variables."""
    reads = expression.checked.reads
    for name in expression.checked.variables:
        reads |= _reads(policy, policy.programs.variables[name])
    return reads


def _review(write: _Write, jobset: Callable[[], Object], now: datetime) -> Review:
    old, new = jobset(), jobset()
    write.old(old)
    write.new(new)
    return review_of(new, "UPDATE", RequestSetting(now, user=write.user), old, write.part)

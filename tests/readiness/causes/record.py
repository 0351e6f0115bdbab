"""Records the messages of a real scheduler, API server and JobSet controller about gangs that cannot start.

``python -m tests.readiness.causes.record`` writes it anew, for each minor, to ``recorded/``; a live test compares.
Names of pods are as they were made at the time, and which pod of a gang is told which message is chance.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.controlplane.api import ApiClient, ApiFailure, path_of
from tests.controlplane.minors import MINORS
from tests.controlplane.nodes import NODES, add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import wait_for
from tests.jobsets import jobset, rj
from tests.live.placing import nothing_to_place

DIRECTORY: Final = Path(__file__).parent / "recorded"
RECORDED_MINORS: Final = ("1.36", "1.37")
GATES: Final = {"TopologyAwareWorkloadScheduling": True}
DEAD: Final = "https://127.0.0.1:9/"

Object = dict[str, Any]


@dataclass
class Recorder:
    """Makes gangs fail in one namespace, and records the messages about them."""

    plane: ControlPlane
    namespace: str
    messages: dict[str, Any] = field(default_factory=dict)

    @property
    def api(self) -> ApiClient:
        return self.plane.api

    @property
    def version(self) -> str:
        """Of the scheduling API."""
        return self.plane.minor.scheduling_version

    def path(self, api_version: str, resource: str, name: str | None = None) -> str:
        return path_of(api_version, resource, namespace=self.namespace, name=name)

    async def gang(
        self,
        case: str,
        count: int,
        cpu: str,
        *,
        minimum: int | None = None,
        group: Mapping[str, Any] | None = None,
        first: Mapping[str, Any] | None = None,
        **pod: Any,
    ) -> None:
        """A gang of bare pods in a group; ``first`` is laid over the first of them."""
        name, version = f"g-{case}", f"scheduling.k8s.io/{self.version}"
        policy = {"gang": {"minCount": minimum or count}}
        spec = {"schedulingPolicy": policy, **(group or {})}
        body = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
        await self.api.create(self.path(version, "podgroups"), body)
        names = [f"{name}-{number}" for number in range(count)]
        for number, each in enumerate(names):
            own = {**pod, **(first or {})} if number == 0 else pod
            spec = {**_pod_spec(cpu), "schedulingGroup": {"podGroupName": name}, **own}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": each}, "spec": spec}
            await self.api.create(self.path("v1", "pods"), body)
        await self._wait(case, self.path(version, "podgroups", name), names)
        for each in names:
            await self.api.delete(self.path("v1", "pods", each))
        await self.api.delete(self.path(version, "podgroups", name))

    async def _wait(self, case: str, group: str, pods: Sequence[str]) -> None:
        async def complete() -> bool:
            conditions = ((await self.api.get(group)).get("status") or {}).get("conditions") or []
            reported = [_scheduled(await self.api.get(self.path("v1", "pods", name))) for name in pods]
            keys = ("type", "status", "reason", "message")
            self.messages[case] = {"group": [{key: each[key] for key in keys} for each in conditions], "pods": reported}
            return bool(conditions) and all(reported)

        if case in _QUIET[self.version]:
            # It has refused a later pod, so it writes no message on these.
            await nothing_to_place(self.plane)
            await complete()
        else:
            await wait_for(complete, case)

    async def refused_pods(self, case: str, **pod: Any) -> None:
        """A Job whose pods are refused."""
        spec = _pod_spec("1") | pod
        jobs = self.path("batch/v1", "jobs")
        template = {"spec": {"parallelism": 1, "backoffLimit": 0, "template": {"spec": spec}}}
        await self.api.create(jobs, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": case}, **template})
        self.messages[f"job/{case}"] = await self.event(case, "FailedCreate")
        await self.api.delete(f"{jobs}/{case}", propagationPolicy="Background")

    async def event(self, name: str, reason: str) -> str:
        """The note of the first event with this reason about something whose name begins so."""

        async def note() -> str:
            events = await self.api.list(self.path("events.k8s.io/v1", "events"))
            about = (each for each in events if each["regarding"].get("name", "").startswith(name))
            return next((str(each["note"]) for each in about if each["reason"] == reason), "")

        return await wait_for(note, f"{reason} of {name}")

    async def until_refused(self, words: str) -> None:
        """Wait until what was just made is enforced: creating a pod fails with these words."""

        async def refused() -> bool:
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": _pod_spec("1")}
            try:
                await self.api.create(self.path("v1", "pods"), body, dryRun="All")
            except ApiFailure as failure:
                return words in str(failure)
            return False

        await wait_for(refused, words)

    async def until_allowed(self, **pod: Any) -> None:
        """Wait until nothing refuses pods, or such pods, any more."""

        async def allowed() -> bool:
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": _pod_spec("1") | pod}
            try:
                return bool(await self.api.create(self.path("v1", "pods"), body, dryRun="All"))
            except ApiFailure:
                return False

        await wait_for(allowed, "pods to be allowed")


_QUIET: Final = {
    "v1alpha2": frozenset({"scheduler-nobody", "below-quorum"}),
    # It waits for pods that are gated.
    "v1beta1": frozenset({"scheduler-nobody", "below-quorum", "gated"}),
}
"""Cases without any message, on the group or on one of its pods, by the API version of its minor."""


def _container(cpu: str) -> Object:
    return {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}


def _pod_spec(cpu: str) -> Object:
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [_container(cpu)]}


def _scheduled(pod: Object) -> Object | None:
    conditions = (pod.get("status") or {}).get("conditions") or []
    found = next((each for each in conditions if each["type"] == "PodScheduled"), None)
    return None if found is None else {key: found[key] for key in ("status", "reason", "message") if key in found}


async def record(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    """Everything, on a plane with :data:`GATES`, JobSet and no nodes, in a namespace that can make pods."""
    recorder = Recorder(plane, namespace)
    tainted = await add_nodes(plane.api, 2, cpu="4", labels={"rack": "r1"}, prefix="a")
    await add_nodes(plane.api, 2, cpu="4", labels={"rack": "r2"}, prefix="b")
    await _gangs(recorder, tainted)
    for make in (_quota, _limit_range, _pod_security, _policy, _webhook):
        await make(recorder)
    await recorder.refused_pods("serviceaccount", serviceAccountName="absent")
    await recorder.refused_pods("priorityclass", priorityClassName="absent")
    await _refused_job(recorder)
    await _exclusive(recorder)
    return recorder.messages


async def _gangs(recorder: Recorder, tainted: Sequence[str]) -> None:
    api = recorder.api
    await recorder.gang("scheduled", 2, "1")
    await recorder.gang("unschedulable-each", 3, "5")
    await recorder.gang("unschedulable-together", 6, "3")
    await recorder.gang("selector", 2, "1", nodeSelector={"gpu": "yes"})
    await recorder.gang("topology", 4, "3", group=_topology("rack"))
    await recorder.gang("topology-no-such-key", 2, "1", group=_topology("nosuch"))
    classes = path_of("scheduling.k8s.io/v1", "priorityclasses")
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    await api.create(classes, high)
    # Admission gets the class from a watch.
    await recorder.until_allowed(priorityClassName="high")
    await recorder.gang("priority", 2, "1", priorityClassName="high")
    await recorder.gang("scheduler-nobody", 2, "1", schedulerName="nobody")
    await recorder.gang("below-quorum", 1, "1", minimum=2)
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}
    await recorder.gang("gated", 2, "1", first=gates)
    taint = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    for name in tainted:
        await api.patch(f"{NODES}/{name}", {"spec": {"taints": taint}}, kind="merge")
    # The scheduler has the taints now.
    await nothing_to_place(recorder.plane)
    await recorder.gang("taint-and-cpu", 4, "3")


def _topology(key: str) -> Object:
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


async def _quota(recorder: Recorder) -> None:
    path = recorder.path("v1", "resourcequotas")
    hard = {"spec": {"hard": {"pods": "0"}}}
    await recorder.api.create(
        path, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "tight"}, **hard}
    )
    # The quota may have counted pods of the last gang, whose deletion its controller had not seen yet.
    await recorder.until_refused("used: pods=0")
    await recorder.refused_pods("quota")
    await recorder.api.delete(f"{path}/tight")
    await recorder.until_allowed()


async def _limit_range(recorder: Recorder) -> None:
    path = recorder.path("v1", "limitranges")
    limits = {"spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}}
    await recorder.api.create(path, {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, **limits})
    await recorder.until_refused("maximum cpu usage")
    await recorder.refused_pods("limitrange")
    await recorder.api.delete(f"{path}/small")
    await recorder.until_allowed()


async def _pod_security(recorder: Recorder) -> None:
    path = path_of("v1", "namespaces", name=recorder.namespace)
    key = "pod-security.kubernetes.io/enforce"
    await recorder.api.patch(path, {"metadata": {"labels": {key: "restricted"}}}, kind="merge")
    await recorder.until_refused("violates PodSecurity")
    await recorder.refused_pods("podsecurity")
    await recorder.api.patch(path, {"metadata": {"labels": {key: None}}}, kind="merge")
    await recorder.until_allowed()


_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_ON_PODS: Final = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
_ON_JOBS: Final = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}


async def _policy(recorder: Recorder) -> None:
    policies = path_of(_ADMISSION, "validatingadmissionpolicies")
    bindings = path_of(_ADMISSION, "validatingadmissionpolicybindings")
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": recorder.namespace}}}
    validations = [{"expression": "false", "message": "no pods today"}]
    policy = {"matchConstraints": {"resourceRules": [_ON_PODS]}, "validations": validations}
    binding = {"policyName": "nopods", "validationActions": ["Deny"], "matchResources": here}
    for path, kind, spec in (
        (policies, "ValidatingAdmissionPolicy", policy),
        (bindings, "ValidatingAdmissionPolicyBinding", binding),
    ):
        await recorder.api.create(
            path, {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": "nopods"}, "spec": spec}
        )
    await recorder.until_refused("no pods today")
    await recorder.refused_pods("policy")
    for path in (bindings, policies):
        await recorder.api.delete(f"{path}/nopods")
    await recorder.until_allowed()


def _dead_webhook(kind: str, configuration: str, name: str, rule: Object, namespace: str) -> Object:
    """A webhook without a server, for one namespace."""
    hook = {
        "name": name,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "timeoutSeconds": 30,
        "clientConfig": {"url": DEAD},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": configuration}, "webhooks": [hook]}


async def _webhook(recorder: Recorder) -> None:
    path = path_of(_ADMISSION, "validatingwebhookconfigurations")
    kind = "ValidatingWebhookConfiguration"
    body = _dead_webhook(kind, "dead", "pods.dead.example.com", _ON_PODS, recorder.namespace)
    await recorder.api.create(path, body)
    await recorder.until_refused("pods.dead.example.com")
    await recorder.refused_pods("webhook-dead")
    await recorder.api.delete(f"{path}/dead")
    await recorder.until_allowed()


async def _refused_job(recorder: Recorder) -> None:
    """JobSet cannot make a Job because gangctl's webhook does not answer."""
    path = path_of(_ADMISSION, "mutatingwebhookconfigurations")
    kind = "MutatingWebhookConfiguration"
    body = _dead_webhook(kind, "gangctl", "jobs.gangs.gangctl.dev", _ON_JOBS, recorder.namespace)
    await recorder.api.create(path, body)
    jobs = recorder.path("batch/v1", "jobs")
    job = {"spec": {"template": {"spec": _pod_spec("1")}}, "metadata": {"name": "try"}}

    async def refused() -> bool:
        try:
            await recorder.api.create(jobs, {"apiVersion": "batch/v1", "kind": "Job", **job}, dryRun="All")
        except ApiFailure as failure:
            return "jobs.gangs.gangctl.dev" in str(failure)
        return False

    await wait_for(refused, "the webhook to be asked")
    jobsets = recorder.path("jobset.x-k8s.io/v1alpha2", "jobsets")
    await recorder.api.create(jobsets, jobset("hooked", rj("w", 1, 2, 2), namespace=recorder.namespace))
    recorder.messages["jobset/hooked"] = await recorder.event("hooked", "JobCreationFailed")
    await recorder.api.delete(f"{path}/gangctl")
    await recorder.api.delete(f"{jobsets}/hooked")


async def _exclusive(recorder: Recorder) -> None:
    """Followers that JobSet refuses while their leader waits for the whole gang."""
    version = f"scheduling.k8s.io/{recorder.version}"
    spec = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    body = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "exclusive"}, "spec": spec}
    await recorder.api.create(recorder.path(version, "podgroups"), body)
    workers = rj("w", 2, 2, 2, pod={"schedulingGroup": {"podGroupName": "exclusive"}})
    notes = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    wanted = jobset("exclusive", workers, namespace=recorder.namespace, annotations=notes)
    await recorder.api.create(recorder.path("jobset.x-k8s.io/v1alpha2", "jobsets"), wanted)
    recorder.messages["jobset/exclusive"] = await recorder.event("exclusive", "FailedCreate")


async def on_a_plane(minor: str, namespace: str = "recorded") -> dict[str, Any]:
    """Start a plane of a minor, record, and stop it."""
    async with ControlPlane.start(minor, ("jobset",), gates=GATES) as plane:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await plane.api.create(path_of("v1", "namespaces"), body)
        account = path_of("v1", "serviceaccounts", namespace=namespace, name="default")
        await wait_for(_found(plane.api, account), "the default ServiceAccount")
        return await record(plane, namespace)


def _found(api: ApiClient, path: str) -> Callable[[], Awaitable[bool]]:
    async def found() -> bool:
        try:
            return bool(await api.get(path))
        except ApiFailure:
            return False

    return found


def main() -> None:
    """Write the messages of each minor."""
    for minor in RECORDED_MINORS:
        assert minor in MINORS
        messages = asyncio.run(on_a_plane(minor))
        (DIRECTORY / f"{minor}.json").write_text(json.dumps(messages, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()

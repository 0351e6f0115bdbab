"""GangPolicies on a real API server: what it makes of verdicts, who is asked, what follows while gangctl is away."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from gangctl.policy.crd import definitions
from tests.controlplane.api import Answer, ApiFailure, Object, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster, refused
from tests.live.gangctl import Gangctl

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rough")]

GROUP: Final = "gangctl.dev/v1alpha1"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PLAIN: Final = jobset("js", rj("w", 1, 2, 2))
TEAM_NEEDED: Final = {"name": "team", "expression": "'team' in object.metadata.?labels.orValue({})"}
CONFIGURATIONS: Final = {
    "gangctl-policies": "validatingwebhookconfigurations",
    "gangctl-defaults": "mutatingwebhookconfigurations",
}


@dataclass
class Policed:
    """A namespace with policies of its own, and a gangctl."""

    cluster: Cluster
    gangctl: Gangctl
    made: list[str] = field(default_factory=list)

    async def create(self, kind: str, name: str, spec: Object) -> str:
        """Create or replace a policy or an exception, and clean it up later; its path."""
        name = f"{name}-{self.cluster.namespace[-6:]}"
        path = path_of(GROUP, f"{kind.lower()}s" if kind != "GangPolicy" else "gangpolicies", name=name)
        body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self.cluster.api.patch(path, body, kind="apply", fieldManager="test", force=True)
        if path not in self.made:
            self.made.append(path)
        return path

    async def policy(self, name: str, **spec: Any) -> str:
        """A policy for this namespace only."""
        constraints = spec.pop("matchConstraints", {})
        here = {"matchLabels": {"kubernetes.io/metadata.name": self.cluster.namespace}}
        constraints = {"namespaceSelector": here, **constraints}
        return await self.create("GangPolicy", name, {**spec, "matchConstraints": constraints})

    async def in_force(self, path: str, *, reason: str = "InForce") -> Object:
        """Wait until a status says so, of the newest generation; the condition."""

        async def said() -> Object:
            live = await self.cluster.api.get(path)
            conditions: list[Object] = live.get("status", {}).get("conditions", [])
            for each in conditions:
                if each["reason"] == reason and each["observedGeneration"] == live["metadata"]["generation"]:
                    return each
            raise NotYet(str(live.get("status")))

        return await wait_for(said, what=f"{path} to be {reason}")

    async def dry(self, raw: Object = PLAIN) -> Answer:
        """What a dry run answers, headers included."""
        body = {**raw, "metadata": {**raw["metadata"], "namespace": self.cluster.namespace}}
        return await self.cluster.api.exchange(
            "POST",
            self.cluster.path(JOBSETS, "jobsets"),
            data=json.dumps(body),
            parameters={"dryRun": "All"},
            headers={"Content-Type": "application/json"},
        )

    async def until(self, status: int, raw: Object = PLAIN, words: str = "") -> Answer:
        """Wait until a dry run is answered so: the API server learns of a webhook when it gets round to it."""

        async def answered() -> Answer:
            answer = await self.dry(raw)
            if answer.status != status or words not in answer.text + str(answer.headers.getall("Warning", [])):
                raise NotYet(f"{answer.status} {answer.text[:500]} {answer.headers.getall('Warning', [])}")
            return answer

        return await wait_for(answered, what=f"status {status} {words}")

    async def gone(self) -> None:
        """Delete the policies, and wait until nobody is asked any more."""
        for path in self.made:
            await self.cluster.api.delete(path)
        self.made.clear()

        async def unregistered() -> bool:
            for name, plural in CONFIGURATIONS.items():
                live = await self.cluster.api.list(path_of("admissionregistration.k8s.io/v1", plural))
                if name in {each["metadata"]["name"] for each in live}:
                    raise NotYet(f"{name} is there")
            return True

        await wait_for(unregistered, what="the configurations to go with the policies")


@pytest.fixture
async def policed(rough: Cluster) -> AsyncIterator[Policed]:
    for definition in definitions().values():
        name = definition["metadata"]["name"]
        path = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions", name=name)
        await rough.api.patch(path, definition, kind="apply", fieldManager="test")

        async def established(path: str = path) -> bool:
            conditions = (await rough.api.get(path)).get("status", {}).get("conditions") or []
            return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

        await wait_for(established, what=f"{name} to be served")
    async with Gangctl(rough.plane) as gangctl:
        made = Policed(rough, gangctl)
        try:
            yield made
        finally:
            if not gangctl.process.running:
                await gangctl.process.start()
            await made.gone()
        assert "Traceback" not in gangctl.log


async def test_denied_warned_audited_and_changed_without_a_restart(policed: Policed) -> None:
    cluster = policed.cluster
    rules = [
        {**TEAM_NEEDED, "message": "a team is needed", "reason": "Forbidden"},
        {"expression": "gang.totalPods == 1", "messageExpression": "'one pod, not %d'.format([gang.totalPods])"},
    ]
    denying = await policed.policy("a", validations=rules)
    await policed.policy("b", validations=[{**TEAM_NEEDED, "message": "mind the team"}], validationActions=["Warn"])
    notes = [{"key": "pods", "valueExpression": "string(gang.totalPods)"}]
    rule = {**TEAM_NEEDED, "message": "audited"}
    await policed.policy("c", validations=[rule], validationActions=["Audit"], auditAnnotations=notes)
    answer = await policed.until(403, words="a team is needed")
    name = denying.rpartition("/")[2]
    status = answer.body
    assert status["message"].endswith(f"denied the request: GangPolicy '{name}' denied request: a team is needed")
    assert [(each["reason"], each["message"], each["field"]) for each in status["details"]["causes"]] == [
        ("Forbidden", "a team is needed", f"{name}/team"),
        ("Invalid", "one pod, not 2", f"{name}/1"),
    ]
    # Another set of rules, while gangctl runs.
    await policed.policy("a", validations=[{"expression": "true"}])
    since = cluster.plane.audit_position
    answer = await policed.until(201)
    (warning,) = answer.headers.getall("Warning")
    assert "mind the team" in warning

    async def audited() -> dict[str, str]:
        entries = [e for e in cluster.plane.audit(since) if e.get("objectRef", {}).get("resource") == "jobsets"]
        found = [each["annotations"] for each in entries if each["responseStatus"]["code"] == 201]
        if not found:
            raise NotYet(f"{len(entries)} entries")
        return dict(found[-1])

    annotations = await wait_for(audited, what="the audit log")
    suffix = cluster.namespace[-6:]
    assert annotations[f"fail.policies.gangctl.dev/c-{suffix}_pods"] == "2"
    assert annotations[f"fail.policies.gangctl.dev/c-{suffix}_validation_failure"] == "audited"
    await cluster.create_jobset(PLAIN)
    # Updates are judged as well; what the JobSet controller writes into the status is nobody's request.
    await policed.policy("a", validations=[{"expression": "request.operation != 'UPDATE'", "message": "stays so"}])

    async def stays() -> ApiFailure:
        patch = {"metadata": {"labels": {"x": "y"}}}
        path = cluster.path(JOBSETS, "jobsets", "js")
        return await refused(cluster.api.patch(path, patch, dryRun="All"))

    failure = await wait_for(stays, what="the update to be refused", tolerate=(AssertionError,))
    assert "stays so" in failure.message
    status_path = f"{cluster.path(JOBSETS, 'jobsets', 'js')}/status"
    await cluster.api.patch(status_path, {"status": {"restarts": 0}})
    assert await policed.gangctl.metric("gangctl_policy_evaluations_total", {"policy": name, "action": "deny"}) > 0
    await policed.gone()


async def test_parameters_exceptions_and_other_namespaces(policed: Policed) -> None:
    cluster = policed.cluster
    limits = cluster.path("v1", "configmaps", "limits")
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"pods": "1"}}
    await cluster.api.create(cluster.path("v1", "configmaps"), body)
    path = await policed.policy(
        "limit",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        paramRef={"name": "limits", "parameterNotFoundAction": "Deny"},
        validations=[{"expression": "gang.totalPods <= int(params.data.pods)", "message": "too many pods"}],
    )
    await policed.in_force(path)
    await policed.until(422, words="too many pods")
    # Somebody else's namespace is not concerned.
    elsewhere = Cluster(cluster.plane, "default")
    await elsewhere.create_jobset(PLAIN, dry_run=True)
    until = (datetime.now(UTC) + timedelta(seconds=6)).isoformat()
    spec = {"policies": [{"name": path.rpartition("/")[2]}], "owner": "team", "reason": "moving", "expiresAt": until}
    excepted = await policed.create("GangPolicyException", "moving", spec)
    await policed.until(201)
    await policed.in_force(excepted, reason="Expired")
    await policed.until(422, words="too many pods")
    await cluster.api.patch(limits, {"data": {"pods": "2"}})
    await policed.until(201)
    await cluster.api.delete(limits)
    await policed.until(422, words="no params found")


async def test_a_broken_policy_is_reported_and_its_failure_policy_decides(policed: Policed) -> None:
    broken = [{"expression": "objet.spec.replicatedJobs.size() > 0"}]
    path = await policed.policy("broken", validations=broken)
    told = await policed.in_force(path, reason="InvalidExpression")
    assert told["status"] == "False"
    assert "spec.validations[0].expression, line 1, column 1" in told["message"]
    name = path.rpartition("/")[2]
    await policed.until(422, words=f"GangPolicy '{name}' denied request: the policy cannot be used")
    await policed.policy("broken", validations=broken, failurePolicy="Ignore")
    answer = await policed.until(201, words="was left out")
    assert name in answer.headers["Warning"]
    assert await policed.gangctl.metric("gangctl_policies", {"state": "broken"}) == 1
    await policed.policy("broken", validations=[{"expression": "false", "message": "mended"}])
    await policed.until(422, words="mended")
    assert (await policed.in_force(path))["status"] == "True"


async def test_while_gangctl_is_away_the_failure_policy_decides(policed: Policed) -> None:
    cluster = policed.cluster
    await policed.policy("p", validations=[{"expression": "false", "message": "never"}], failurePolicy="Ignore")
    await policed.until(422, words="never")
    await policed.gangctl.process.stop()
    await policed.until(201)
    await policed.gangctl.process.start()
    await policed.policy("p", validations=[{"expression": "false", "message": "never"}])
    await policed.until(422, words="fail.policies.gangctl.dev")
    await policed.gangctl.process.stop()
    await policed.until(500, words="failed calling webhook")
    # Nor does one that shall not know of policies any more leave it at that.
    command = policed.gangctl.process.command
    policed.gangctl.process.command = [*command, "--policies=off"]
    await policed.gangctl.process.start()
    await policed.until(201)
    await policed.gangctl.process.stop()
    policed.gangctl.process.command = command
    await policed.gangctl.process.start()
    await policed.until(422, words="fail.policies.gangctl.dev")
    await policed.gangctl.process.stop()
    namespace = path_of("v1", "namespaces", name=cluster.namespace)
    await cluster.api.patch(namespace, {"metadata": {"labels": {"gangctl.dev/skip": "true"}}})
    await policed.until(201)


async def test_defaults_make_a_gang_and_set_the_queue(policed: Policed) -> None:
    cluster = policed.cluster
    path = await policed.policy("team", defaults={"gangMode": "Gang", "queue": "team-a"})
    await policed.in_force(path)

    async def defaulted() -> Object:
        made: Object = (await policed.dry()).body
        if QUEUE not in made["metadata"].get("labels", {}):
            raise NotYet(str(made["metadata"]))
        return made

    made = await wait_for(defaulted, what="the defaults")
    assert made["metadata"]["labels"][QUEUE] == "team-a"
    assert made["metadata"]["annotations"]["gangctl.dev/gang-mode"] == "Gang"
    created = await cluster.create_jobset(PLAIN)
    assert "gangctl.dev/gang-ref" in str(created["spec"])

    async def ganged() -> bool:
        return len((await cluster.gangs()).workloads) == 1

    await wait_for(ganged, what="the Workload of a JobSet that never asked for one")
    own = {**PLAIN, "metadata": {"name": "own", "labels": {QUEUE: "mine"}}}
    assert (await policed.dry(own)).body["metadata"]["labels"][QUEUE] == "mine"
    await policed.policy("other", defaults={"queue": "team-b"})
    answer = await policed.until(422, {**PLAIN, "metadata": {"name": "next"}}, words="disagree")
    assert all(f"GangPolicy '{each}-{cluster.namespace[-6:]}'" in answer.text for each in ("team", "other"))
    await policed.gone()
    assert QUEUE not in (await policed.dry({**PLAIN, "metadata": {"name": "next"}})).text

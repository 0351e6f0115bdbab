"""GangPolicies on a real API server: what it makes of verdicts, who is asked, what is said of JobSets that exist."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import JOBSETS, Cluster, refused
from tests.live.policed import PLAIN, Policed, policing

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rough")]

QUEUE: Final = "kueue.x-k8s.io/queue-name"
TEAM_NEEDED: Final = {"name": "team", "expression": "'team' in object.metadata.?labels.orValue({})"}


@pytest.fixture
async def policed(rough: Cluster) -> AsyncIterator[Policed]:
    async with policing(rough) as made:
        yield made


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

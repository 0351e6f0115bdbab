"""GangPolicies on a real API server: verdicts, which requests are evaluated, reports on existing JobSets."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for, wait_until
from tests.live.cluster import JOBSETS, Cluster, refused
from tests.live.definitions import serve, withdraw
from tests.live.gangctl import USER, Gangctl, create_namespaces, prepare, shared, shared_gangctl
from tests.live.policed import GROUP, LIMITS, PLAIN, REPORTS, Policed, except_from, named, policing
from tests.manifests.definitions.policies import definitions
from tests.manifests.kubectl import Kubectl, KubectlFailed
from tests.policy.documents import rule as about
from tests.policy.reportcrd import policy_report_definition

pytestmark = pytest.mark.controlplane

QUEUE: Final = "kueue.x-k8s.io/queue-name"
SOON: Final = ("--policy-scan-period=1",)
POLICIES: Final = path_of(GROUP, "gangpolicies")
TEAM_NEEDED: Final = {"name": "team", "expression": "'team' in object.metadata.?labels.orValue({})"}


@pytest.fixture(scope="module")
def policy_plane() -> Iterator[ControlPlane]:
    """A plane with policies and PolicyReports."""

    async def start() -> ControlPlane:
        started = await ControlPlane.start("1.37", ("jobset",), scheduler=False)
        await prepare(started)
        await serve(started.api, [*definitions().values(), policy_report_definition()])
        return started

    yield from shared(start)


@pytest.fixture(scope="module")
def evaluating(policy_plane: ControlPlane) -> Iterator[Gangctl]:
    """gangctl that scans all the time; a test that stops it starts it again."""
    yield from shared_gangctl(Gangctl(policy_plane, *SOON))


@pytest.fixture
async def policed(policy_plane: ControlPlane, evaluating: Gangctl) -> AsyncIterator[Policed]:
    """A namespace with policies of its own, of which nothing is left in the end."""
    name = f"policed-{secrets.token_hex(3)}"
    await create_namespaces(policy_plane, [name])
    made = Policed(Cluster(policy_plane, name), evaluating)
    yield made
    if not evaluating.process.running:
        await evaluating.process.start()
    await made.gone()
    await made.scans(1)
    assert await policy_plane.api.list(path_of(REPORTS, "policyreports")) == []
    await remove_namespace(policy_plane.api, name)


async def test_policies_deny_warn_audit_and_change_without_a_restart(policed: Policed) -> None:
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
    stays = {"expression": "request.operation != 'UPDATE'", "message": "stays so"}
    await policed.policy("a", matchConstraints={"resourceRules": [about("UPDATE")]}, validations=[stays])

    async def refused_update() -> ApiFailure:
        patch = {"metadata": {"labels": {"x": "y"}}}
        path = cluster.path(JOBSETS, "jobsets", "js")
        return await refused(cluster.api.patch(path, patch, dryRun="All"))

    failure = await wait_for(refused_update, what="the update to be refused", tolerate=(AssertionError,))
    assert "stays so" in failure.message
    status_path = f"{cluster.path(JOBSETS, 'jobsets', 'js')}/status"
    await cluster.api.patch(status_path, {"status": {"restarts": 0}})
    assert await policed.gangctl.metric("gangctl_policy_evaluations_total", {"policy": name, "action": "deny"}) > 0
    await policed.gone()


async def test_many_large_jobsets_do_not_cause_the_refusal_of_small_ones(policed: Policed) -> None:
    """Six clients create JobSets with a text of 400,000 letters, in which a policy searches for longer than it may."""
    containers = "object.spec.replicatedJobs.map(r, r.template.spec.template.spec.containers).flatten()"
    await policed.policy(
        "searching",
        validations=[
            {"expression": f"{containers}.all(c, c.?args.orValue([]).all(a, a.findAll('a.*z|a').size() >= 0))"},
            {"expression": "!has(object.metadata.labels)", "message": "no labels"},
        ],
    )
    labelled = {**PLAIN, "metadata": {**PLAIN["metadata"], "labels": {"a": "b"}}}
    await policed.until(422, labelled, words="no labels")
    large = json.loads(json.dumps(PLAIN))
    pod = large["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["args"] = ["a" * 400_000]
    calm = asyncio.Event()
    answers: list[int] = []

    async def flood() -> None:
        while not calm.is_set():
            answers.append((await policed.dry(large)).status)

    async with asyncio.TaskGroup() as group:
        clients = [group.create_task(flood()) for _ in range(6)]

        await wait_until(lambda: len(answers) >= len(clients), "six answers to large JobSets")
        small = [(await policed.dry()).status for _ in range(40)]
        calm.set()
    assert set(small) == {201}
    assert set(answers) == {422}, "what is too large for the rule is denied"


async def test_parameters_exceptions_and_namespace_selectors_apply(policed: Policed) -> None:
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
    # Another namespace is not affected.
    elsewhere = Cluster(cluster.plane, "default")
    await elsewhere.create_jobset(PLAIN, dry_run=True)
    excepted = await except_from(policed, path, "moving", timedelta(hours=1))
    await policed.until(201)
    # Its end is moved nearer only now: how long it takes until it counts is nobody's promise.
    await except_from(policed, path, "moving", timedelta(seconds=1))
    await policed.in_force(excepted, reason="Expired")
    await policed.until(422, words="too many pods")
    await cluster.api.patch(limits, {"data": {"pods": "2"}})
    await policed.until(201)
    await cluster.api.delete(limits)
    await policed.until(422, words="no params found")


async def test_a_policy_that_cannot_be_loaded_is_refused_at_apply(policed: Policed, tmp_path: Path) -> None:
    """What the user of kubectl reads, also in a dry run; without gangctl a policy can still be written."""
    kubectl = Kubectl(tmp_path, policed.cluster.plane.kubeconfig)
    name = f"misspelt-{policed.cluster.namespace[-6:]}"
    metadata = {"name": name}
    mistyped = {"validations": [{"expression": "gang.groups.all(group, group.minCuont < 5)", "message": "small gangs"}]}
    policy = {"apiVersion": GROUP, "kind": "GangPolicy", "metadata": metadata, "spec": mistyped}
    refusal = (
        f'The GangPolicy "{name}" is invalid: spec.validations[0].expression: line 1, column 30: '
        "gangctl.Group has no field 'minCuont' (did you mean minCount?)"
    )
    for options in ((), ("--dry-run=server",), ("--server-side",)):
        with pytest.raises(KubectlFailed, match=re.escape(refusal)):
            await kubectl.run("apply", *options, "-f", "-", given=json.dumps(policy))
    spec = {"policies": [{"name": "a"}], "match": {"names": ["a*b"]}, "owner": "o", "reason": "r"}
    spec["expiresAt"] = "2999-01-01T00:00:00Z"
    exception = {"apiVersion": GROUP, "kind": "GangPolicyException", "metadata": metadata, "spec": spec}
    with pytest.raises(KubectlFailed, match=re.escape("spec.match.names[0]: a * stands at the end only")):
        await kubectl.run("apply", "-f", "-", given=json.dumps(exception))
    assert name not in {each["metadata"]["name"] for each in await policed.cluster.api.list(POLICIES)}


async def test_a_broken_policy_is_reported_and_follows_its_failure_policy(policed: Policed) -> None:
    broken = [{"expression": "objet.spec.replicatedJobs.size() > 0"}]
    await policed.gangctl.process.stop()
    path = await policed.policy("broken", validations=broken)
    await policed.gangctl.process.start()
    condition = await policed.in_force(path, reason="InvalidExpression")
    assert condition["status"] == "False"
    assert "spec.validations[0].expression, line 1, column 1" in condition["message"]
    name = path.rpartition("/")[2]
    answer = await policed.until(201, words="was left out")
    assert name in answer.headers["Warning"]
    await policed.gangctl.process.stop()
    await policed.policy("broken", validations=broken, failurePolicy="Fail")
    await policed.gangctl.process.start()
    await policed.until(422, words=f"GangPolicy '{name}' denied request: the policy cannot be used")
    assert await policed.gangctl.metric("gangctl_policies", {"state": "broken"}) == 1
    await policed.policy("broken", validations=[{"expression": "false", "message": "repaired"}])
    await policed.until(422, words="repaired")
    assert (await policed.in_force(path))["status"] == "True"


async def test_while_gangctl_is_down_the_failure_policy_applies(policed: Policed) -> None:
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


async def test_violations_of_existing_jobsets_are_counted_and_reported(policed: Policed, tmp_path: Path) -> None:
    cluster = policed.cluster
    began = datetime.now(UTC).timestamp()
    for each in (named("old-1"), named("old-2"), named("good", team="a")):
        await cluster.create_jobset(each)
    skipped = await with_one_left_alone(cluster)
    here = [cluster.namespace, skipped]
    expression = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": here}
    both = {"namespaceSelector": {"matchExpressions": [expression]}}
    annotations = {"policies.gangctl.dev/severity": "high", "policies.gangctl.dev/category": "Ownership"}
    rule = {**TEAM_NEEDED, "message": "a team is needed"}
    spec = {"validations": [rule], "matchConstraints": both, "failurePolicy": "Fail"}
    denying = await policed.policy("team", annotations, **spec)
    small = {"name": "pods", "expression": "gang.totalPods < 2", "message": "too many pods"}
    warning = await policed.policy("small", validations=[small], validationActions=["Warn"], matchConstraints=both)
    name, other = denying.rpartition("/")[2], warning.rpartition("/")[2]

    status = await policed.counted(denying, pass_=1, fail=2)
    await policed.counted(warning, fail=3)
    assert status["violations"] == [{"namespace": cluster.namespace, "count": 2}]
    report = await policed.reported(pass_=1, fail=2, warn=3)
    assert sorted((r["policy"], r["rule"], r["result"], r["resources"][0]["name"]) for r in report["results"]) == [
        *((other, "pods", "warn", each) for each in ("good", "old-1", "old-2")),
        *((name, "team", "fail", each) for each in ("old-1", "old-2")),
    ]
    result = next(each for each in report["results"] if each["policy"] == name)
    assert (result["severity"], result["category"], result["source"]) == ("high", "Ownership", "gangctl")
    for count, labels in (
        (2, {"policy": name, "severity": "high", "action": "deny"}),
        (3, {"policy": other, "severity": "", "action": "warn"}),
    ):
        await wait_for(partial(is_violated, policed, count, **labels), what="the metric to follow")
    await is_shown(Kubectl(tmp_path, cluster.plane.kubeconfig), name, 2)

    # What is found again is not written again.
    since = cluster.plane.audit_position
    await policed.scans(3)
    assert await policed.gangctl.metric("gangctl_policy_last_scan_timestamp_seconds") > began
    assert await policed.gangctl.metric("gangctl_policy_scanned_jobsets") >= 3
    written = cluster.plane.writes_by(USER, since)
    # In namespaces of earlier tests gangs end.
    places = (entry["objectRef"].get("namespace", cluster.namespace) for entry in (*written.objects, *written.events))
    assert cluster.namespace not in places, str(written)
    assert (await cluster.api.get(denying))["status"] == status

    assert await agree(policed) > 0
    await cluster.api.delete(cluster.path(JOBSETS, "jobsets", "old-1"), propagation="Background")
    after = await policed.counted(denying, pass_=1, fail=1)
    assert after["violations"] == [{"namespace": cluster.namespace, "count": 1}]
    await policed.counted(warning, fail=2)
    await policed.reported(pass_=1, fail=1, warn=2)
    await wait_for(lambda: is_violated(policed, 1, policy=name), what="the metric to follow")
    await agree(policed)
    # One that is not asked about what exists says nothing of it any more.
    await cluster.api.patch(denying, {"spec": {"background": False}})
    await policed.reported(warn=2)
    await wait_for(lambda: is_uncounted(policed, denying), what="the status to forget")
    await wait_for(lambda: is_violated(policed, 0, policy=name), what="the metric to follow")
    assert (await cluster.api.get(warning))["status"]["results"]["fail"] == 2
    await remove_namespace(cluster.api, skipped)


async def with_one_left_alone(cluster: Cluster) -> str:
    """A namespace that gangctl leaves alone, with a JobSet in it."""
    skipped = Cluster(cluster.plane, f"{cluster.namespace}-skipped")
    await create_namespaces(cluster.plane, [skipped.namespace])
    label = {"metadata": {"labels": {"gangctl.dev/skip": "true"}}}
    await cluster.api.patch(path_of("v1", "namespaces", name=skipped.namespace), label)
    await skipped.create_jobset(named("left-alone"))
    return skipped.namespace


async def is_shown(kubectl: Kubectl, policy: str, broken: int) -> None:
    """What kubectl prints of a policy has the number of violations, and reports are found by their label."""
    header, row = (line.split() for line in (await kubectl.run("get", "gangpolicies", policy)).text.splitlines())
    assert dict(zip(header, row, strict=True))["VIOLATIONS"] == str(broken)
    ours = ("get", "policyreports", "-A", "-l", "app.kubernetes.io/managed-by=gangctl", "-o", "name")
    assert (await kubectl.run(*ours)).text.split() == ["policyreport.wgpolicyk8s.io/gangctl"]


async def violations(policed: Policed, **labels: str) -> float:
    """A sample of the metric."""
    return await policed.gangctl.metric("gangctl_policy_violations", labels)


async def is_violated(policed: Policed, count: int, **labels: str) -> bool:
    found = await violations(policed, **labels)
    if found != count:
        raise NotYet(f"{found}")
    return True


async def is_uncounted(policed: Policed, path: str) -> bool:
    status = (await policed.cluster.api.get(path))["status"]
    if {"results", "violations", "lastScanTime"} & set(status):
        raise NotYet(str(status))
    return True


async def agree(policed: Policed) -> int:
    """``gangctl policy scan`` and ``list`` find what the statuses say; how many JobSets were left alone."""
    live = {each["metadata"]["name"]: each["status"] for each in await policed.cluster.api.list(POLICIES)}
    answer = await policed.ask("scan", "-A", "-o", "json")
    assert (answer.code, answer.err) == (1, "")
    found = {each.pop("policy"): each for each in answer.json["policies"]}
    assert found == {name: status["results"] for name, status in live.items()}
    violated = Counter((each["policy"], each["namespace"]) for each in answer.json["violations"])
    assert violated == {
        (name, each["namespace"]): each["count"] for name, status in live.items() for each in status["violations"]
    }
    left_alone: int = answer.json["leftAlone"]
    answer = await policed.ask("list", "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    assert {each["metadata"]["name"]: (each["ready"], each["violations"]) for each in answer.json["items"]} == {
        name: ("yes", status["results"]["fail"]) for name, status in live.items()
    }
    return left_alone


async def test_an_exception_applies_in_a_scan_until_it_expires(policed: Policed) -> None:
    cluster = policed.cluster
    for each in ("old-1", "old-2"):
        await cluster.create_jobset(named(each))
    path = await policed.policy("team", validations=[{**TEAM_NEEDED, "message": "a team is needed"}])
    name = path.rpartition("/")[2]
    await policed.counted(path, fail=2)
    await policed.reported(fail=2)
    excepted = await except_from(policed, path, "moving", timedelta(hours=1), names=["old-1"])
    status = await policed.counted(path, fail=1, exempt=1)
    assert status["violations"] == [{"namespace": cluster.namespace, "count": 1}]
    report = await policed.reported(fail=1, skip=1)
    (skip,) = (each for each in report["results"] if each["result"] == "skip")
    assert skip["properties"] == {"exception": excepted.rpartition("/")[2]}
    assert (skip["resources"][0]["name"], skip["scored"]) == ("old-1", False)
    await agree(policed)
    await wait_for(lambda: is_violated(policed, 1, policy=name), what="the metric to follow")
    # It ends soon, by itself.
    await except_from(policed, path, "moving", timedelta(seconds=5), names=["old-1"])
    end = datetime.fromisoformat((await cluster.api.get(excepted))["spec"]["expiresAt"])
    status = (await cluster.api.get(path))["status"]
    assert status["results"]["exempt"] == 1 or datetime.now(UTC) >= end
    status = await policed.counted(path, fail=2)
    assert datetime.now(UTC) > end
    assert datetime.fromisoformat(status["lastScanTime"]) >= end.replace(microsecond=0)
    await policed.reported(fail=2)
    await wait_for(lambda: is_violated(policed, 2, policy=name), what="the metric to follow")


async def test_definitions_installed_after_gangctl_are_followed(bare: Cluster) -> None:
    await withdraw(bare.api, definitions().values())
    async with policing(bare, *SOON, defined=False) as policed:
        # Ready, and not restarted by what follows.
        assert await policed.gangctl.is_ready()
        answer = await policed.ask("list")
        assert (answer.code, answer.out) == (3, "")
        assert "the cluster does not have gangpolicies.gangctl.dev" in answer.err
        await bare.create_jobset(named("old"))
        process = policed.gangctl.process.pid
        await serve(bare.api, definitions().values())
        path = await policed.policy("late", validations=[{**TEAM_NEEDED, "message": "a team is needed"}])
        await policed.in_force(path)
        await policed.until(422, words="a team is needed")
        await policed.counted(path, fail=1)
        excepted = await except_from(policed, path, "late", timedelta(hours=1))
        await policed.in_force(excepted)
        await policed.until(201)
        await policed.counted(path, exempt=1)
        assert policed.gangctl.process.pid == process


async def test_parameters_of_a_custom_kind_are_read_with_their_role(policed: Policed) -> None:
    cluster = policed.cluster
    await serve(cluster.api, [LIMITS])
    limits = cluster.path("gangs.example.org/v1", "ganglimits")
    body = {"apiVersion": "gangs.example.org/v1", "kind": "GangLimit", "metadata": {"name": "limit"}}
    await cluster.api.create(limits, {**body, "spec": {"pods": 1}})
    path = await policed.policy(
        "limit",
        paramKind={"apiVersion": "gangs.example.org/v1", "kind": "GangLimit"},
        paramRef={"name": "limit", "parameterNotFoundAction": "Deny"},
        validations=[{"expression": "gang.totalPods <= params.spec.pods", "message": "too many pods"}],
    )
    # Before it has asked for them it says that they have not been looked for yet.
    forbidden = "GangLimit of gangs.example.org/v1 cannot be read: ForbiddenError"
    await policed.in_force(path, reason="ParametersUnavailable", words=forbidden)
    right = 'cannot list resource "ganglimits" in API group "gangs.example.org"'
    assert right in policed.gangctl.log.replace('\\"', '"')
    await policed.until(422, words="cannot be read")
    # The control plane gives its rules to gangctl-params, because of the label.
    role = path_of("rbac.authorization.k8s.io/v1", "clusterroles")
    rule = {"apiGroups": ["gangs.example.org"], "resources": ["ganglimits"], "verbs": ["list", "watch"]}
    labels = {"gangctl.dev/aggregate-to-params": "true"}
    metadata = {"name": f"limits-{cluster.namespace}", "labels": labels}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    await cluster.api.create(role, {**kind, "metadata": metadata, "rules": [rule]})
    await policed.in_force(path)
    await policed.until(422, words="too many pods")
    await cluster.api.patch(f"{limits}/limit", {"spec": {"pods": 2}})
    await policed.until(201)
    await cluster.api.delete(f"{role}/{metadata['name']}")
    await policed.gone()
    await withdraw(cluster.api, [LIMITS])

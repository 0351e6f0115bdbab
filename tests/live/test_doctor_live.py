"""``gangctl doctor`` beside real clusters: what it calls healthy is, what is broken it finds, and it writes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gangctl.cli.doctor.check import Area
from gangctl.cli.doctor.checks import CHECKS
from tests.cli.run import Answer, process
from tests.controlplane.api import Object, path_of
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import HUNG_SECONDS, NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster
from tests.live.gangctl import Gangctl, create_namespaces
from tests.live.observe import webhooks_noticed
from tests.live.tenantrights import grant_reading
from tests.manifests.helm import Helm

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]

CANARY: Final = [check.id for check in CHECKS if check.area is Area.CANARY]
OTHERS_TOO: Final = {check.id for check in CHECKS if check.area is Area.GANGS}
"""Checks that look at the gangs of other tests, too: who may read one namespace has them about that alone."""
FOR_EVER: Final = ("--timeout", f"{HUNG_SECONDS:.0f}")
"""For each step of the canary: a machine may be busy."""
OUTSIDE: Final = {"gangctl-replicas": "unknown", "gangctl-leader": "unknown"}
"""gangctl runs as a process without a Service, and without an election."""


NEWEST: Final = pytest.mark.parametrize(
    "plane", [pytest.param("1.37", marks=pytest.mark.xdist_group("1.37"), id="1.37")], indirect=True
)


async def ask(cluster: Cluster, *arguments: str, kubeconfig: Path | None = None) -> Answer:
    """As the administrator, or as another user, in the namespace."""
    config = str(kubeconfig or cluster.plane.kubeconfig)
    flags = ("-n", cluster.namespace, "--kubeconfig", config, "-o", "json")
    return await asyncio.to_thread(process, "doctor", *arguments, *flags, seconds=4 * HUNG_SECONDS)


def verdicts(answer: Answer) -> dict[str, str]:
    """Verdict by check."""
    assert answer.code in {0, 1}, answer.err
    return {each["id"]: each["verdict"] for each in answer.json["checks"]}


def reported(answer: Answer, check: str) -> dict[str, Any]:
    """Everything about one check."""
    found: dict[str, Any] = next(each for each in answer.json["checks"] if each["id"] == check)
    return found


@pytest.fixture
async def roomy(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A node with room for the canary, which selects none, whatever else on this plane waits for one."""
    nodes = await add_nodes(cluster.api, 1, cpu="64", memory="256Gi", pods=1000)
    yield cluster
    await remove_nodes(cluster.api, nodes)


async def test_a_healthy_cluster_passes_every_check(roomy: Cluster) -> None:
    since = roomy.plane.audit_position
    answer = await ask(roomy, "--canary", *FOR_EVER)
    found = {check: verdict for check, verdict in verdicts(answer).items() if check not in OTHERS_TOO}
    expected = {**dict.fromkeys((check.id for check in CHECKS if check.id not in OTHERS_TOO), "ok"), **OUTSIDE}
    assert found == expected, json.dumps([each for each in answer.json["checks"] if each["verdict"] != "ok"])
    assert reported(answer, "canary-all-or-nothing")["message"].startswith("no pod was placed within 5 s")
    assert any("Unschedulable" in line for line in reported(answer, "canary-all-or-nothing")["evidence"])
    assert len([line for line in reported(answer, "canary-scheduled")["evidence"] if " is on " in line]) == 2
    left = [*await roomy.api.list(roomy.path(JOBSETS, "jobsets")), *(await roomy.jobs()).values(), *await roomy.pods()]
    assert (left, (await roomy.gangs()).names) == ([], set())
    written = [entry["objectRef"] for entry in roomy.plane.writes_by("admin", since).objects]
    mine = {(ref["resource"], ref["name"][:14]) for ref in written if ref.get("namespace") == roomy.namespace}
    assert mine == {("jobsets", "gangctl-canary")}


@NEWEST
async def test_with_rights_in_one_namespace_other_checks_are_unknown(roomy: Cluster) -> None:
    user = f"reader-{roomy.namespace}"
    await grant_reading(roomy, user)
    await roomy.create_jobset(jobset("js", rj("w", 1, 2, 2), mode="Gang"))

    seen = {
        *("kubernetes-version", "scheduling-api", "stored-objects", "pod-field", "jobset-api", "scheduler-gate"),
        *("exclusive-topology", "job-controller-gangs", "priorities", "terminating-groups", "gangs-in-name-only"),
    }
    since = roomy.plane.audit_position

    async def placed() -> Answer:
        """Rights are in force a moment after they are given, and then the gang is placed."""
        answer = await ask(roomy, kubeconfig=roomy.plane.kubeconfig_for(user))
        found = verdicts(answer)
        if unlike := {check: found[check] for check in seen if found[check] != "ok"}:
            raise NotYet(str(unlike))
        return answer

    answer = await wait_for(placed, "the gang to be seen")
    assert roomy.plane.writes_by(user, since).objects == []
    assert (answer.code, "Traceback" in answer.err) == (0, False)
    found = verdicts(answer)
    assert (
        reported(answer, "admission")["message"]
        == f"you may not create jobsets.jobset.x-k8s.io in namespace {user[7:]}"
    )
    assert reported(answer, "gangctl-webhooks")["message"].startswith("you may not list mutatingwebhookconfigurations")
    assert found["rights"] == "warning"
    assert any("list nodes cluster-wide" in line for line in reported(answer, "rights")["evidence"])


@NEWEST
async def test_a_quota_without_room_for_groups_is_reported(roomy: Cluster) -> None:
    """There is room for the group of a gang, and not for that of its next attempt."""
    quota, limit = roomy.path("v1", "resourcequotas", "groups"), "count/podgroups.scheduling.k8s.io"
    body: Object = {"metadata": {"name": "groups"}, "spec": {"hard": {limit: "1"}}}
    await roomy.api.create(roomy.path("v1", "resourcequotas"), body)

    async def counted() -> bool:
        """Before that the API server refuses every group."""
        return bool((await roomy.api.get(quota))["status"].get("used"))

    await wait_for(counted, "the quota to be counted")
    await roomy.create_jobset(jobset("js", rj("w", 1, 2, 2), mode="Gang", failurePolicy={"maxRestarts": 1}))

    async def seen(verdict: str, words: str) -> bool:
        check = reported(await ask(roomy, "--only", "object-quotas"), "object-quotas")
        own = [line for line in check["evidence"] if line.startswith(f"ResourceQuota {roomy.namespace}/groups: ")]
        if check["verdict"] != verdict or words not in "".join(own):
            raise NotYet(str(check))
        return True

    lacking = "1 of 1 podgroups.scheduling.k8s.io used; gangs lack 0 now, and 1 for a restart"
    await wait_for(partial(seen, "warning", lacking), "the group to be made and counted")
    await roomy.api.patch(quota, {"spec": {"hard": {limit: "2"}}})
    await wait_for(partial(seen, "ok", "of 2 podgroups"), "the new quota to be seen")


@NEWEST
async def test_the_canary_of_the_chart_uses_each_of_its_rights(roomy: Cluster, tmp_path: Path) -> None:
    """What the Pod of ``helm test`` runs, as a user with the rights of its account."""
    user = f"canary-{roomy.namespace}"
    values = {"canary": {"namespace": roomy.namespace, "timeoutSeconds": int(HUNG_SECONDS)}}
    _, role, binding, pod = Helm(tmp_path).hooks(values, roomy.namespace)
    # A certificate has no room for the name of an account.
    binding["subjects"] = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]
    for each in (role, binding):
        await roomy.api.create(roomy.path(each["apiVersion"], f"{each['kind'].lower()}s"), each)
    arguments = (*pod["spec"]["containers"][0]["args"], "--kubeconfig", str(roomy.plane.kubeconfig_for(user)))
    since = roomy.plane.audit_position

    async def tested() -> str:
        """Rights are in force a moment after they are given."""
        answer = await asyncio.to_thread(process, *arguments, seconds=4 * HUNG_SECONDS)
        if answer.code:
            raise NotYet(answer.out + answer.err)
        return answer.out

    assert "5 ok" in await wait_for(tested, "the canary to start")
    granted = {
        (verb, group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    requests = [entry for entry in roomy.plane.audit(since) if entry["user"]["username"] == user]
    used = {
        (entry["verb"], entry["objectRef"].get("apiGroup", ""), entry["objectRef"]["resource"])
        for entry in requests
        if "objectRef" in entry
    }
    assert used == granted


async def test_defects_are_found() -> None:
    """On a plane of its own: gangctl is taken away, hangs up, and the scheduler loses its gates."""
    async with ControlPlane.start("1.37", ("jobset",)) as plane, Gangctl(plane) as gangctl:
        await create_namespaces(plane, ["broken"])
        cluster = Cluster(plane, "broken")
        async with _away(gangctl):
            await _without_gangctl(cluster)
        await cluster.asked()
        await gangctl.process.stop()
        await _without_an_answer(cluster)
        await gangctl.process.start()
        await cluster.asked()
        await add_nodes(plane.api, 1, cpu="64", memory="256Gi", pods=1000)
        await _blind(plane)
        # A pod that is placed alone is placed at once, but for a machine that stands still just then.
        answer = await wait_for(partial(_placed_alone, cluster), "a pod to be placed alone")
    assert (answer.code, verdicts(answer)) == (1, {**dict.fromkeys(CANARY, "ok"), "canary-all-or-nothing": "failed"})
    why = reported(answer, "canary-all-or-nothing")
    assert "placed alone, although it names its group" in why["message"]
    assert "GenericWorkload" in why["remedy"]


async def _without_gangctl(cluster: Cluster) -> None:
    answer = await ask(cluster, "--only", "gangctl-webhooks", "--only", "admission", "--only", "webhook-order")
    assert answer.code == 1
    assert verdicts(answer) == {"gangctl-webhooks": "failed", "webhook-order": "unknown", "admission": "failed"}
    assert "not installed" in reported(answer, "gangctl-webhooks")["message"]
    assert "without one" in reported(answer, "admission")["message"]


async def _without_an_answer(cluster: Cluster) -> None:
    answer = await ask(cluster, "--only", "gangctl-webhooks", "--only", "admission", "--only", "jobset-webhooks")
    assert verdicts(answer)["admission"] == "failed"
    assert any("failed calling webhook" in line for line in reported(answer, "admission")["evidence"])
    assert verdicts(answer)["gangctl-webhooks"] == "ok"


async def _placed_alone(cluster: Cluster) -> Answer:
    only = [word for check in CANARY for word in ("--only", check)]
    answer = await ask(cluster, "--canary", *FOR_EVER, *only)
    if verdicts(answer)["canary-all-or-nothing"] != "failed":
        raise NotYet(str(verdicts(answer)))
    return answer


@asynccontextmanager
async def _away(gangctl: Gangctl) -> AsyncIterator[None]:
    """Neither the process nor its webhook configurations; it registers them anew when it starts."""
    await gangctl.process.stop()
    try:
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            await gangctl.plane.api.delete(path_of("admissionregistration.k8s.io/v1", plural, name="gangctl-gangs"))
        await webhooks_noticed(gangctl.plane)
        yield
    finally:
        await gangctl.process.start()


async def _blind(plane: ControlPlane) -> None:
    """Restart the scheduler without the gates that the API server has."""
    scheduler = plane.process("kube-scheduler")
    scheduler.command = [
        part.replace("=true", "=false") if part.startswith("--feature-gates=") else part for part in scheduler.command
    ]
    await plane.restart("kube-scheduler")

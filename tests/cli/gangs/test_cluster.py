"""Gangs of a cluster: what is read, with which rights, and that files of the same objects give the same output."""

from __future__ import annotations

import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

from aiohttp import web

from gangctl.api.scheduling import NEWEST
from gangctl.gang.plan import build_objects
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.rules.custom import custom_rules
from tests.cli.gangs import dump
from tests.cli.gangs.dump import NAMESPACE, RUNS, WAITS
from tests.cli.gangs.place import ALL, USER, place
from tests.cli.httpserver import ask as ask_server
from tests.cli.httpserver import listening
from tests.cli.kueueserver import Server, serving
from tests.cli.manifests import write
from tests.cli.run import fine, process
from tests.gang.pipeline import some_plan, stored
from tests.jobsets import jobset, rj
from tests.readiness.snapshots import rfc3339
from tests.rows import each
from tests.sandbox import faults
from tests.sandbox.faults import Match


async def test_a_cluster_and_its_dump_give_the_same_output(tmp_path: Path) -> None:
    dumped = fine("describe", WAITS, "-f", str(dump.STUCK), "-o", "json").json
    async with place(tmp_path, dump.objects()) as here:
        live = await here.ask("describe", WAITS, "-o", "json")
    assert (live.code, live.err) == (0, "")
    assert live.json["details"] == dumped["details"]
    for key in ("phase", "since", "ready", "reason", "pods", "groups"):
        assert live.json["status"][key] == dumped["status"][key]


async def test_read_commands_write_nothing(tmp_path: Path) -> None:
    async with place(tmp_path, dump.objects()) as here:
        assert (await here.ask("get", "-A")).code == 0
        assert (await here.ask("why", WAITS)).code == 1
        assert (await here.ask("top", "-A")).code == 0
        assert here.requests("list")
        assert here.sandbox.audit.writes_by(USER) == []


async def test_a_webhook_for_jobs_that_does_not_answer_is_no_error_of_the_command(tmp_path: Path) -> None:
    """Then Jobs are refused, and one asks why: the command's own dry run is refused, too."""
    async with place(tmp_path, dump.objects()) as here:
        jobs = Match(USER, frozenset({"create"}), "jobs.batch", dry_run=True)
        here.sandbox.faults.add(jobs, faults.error(500, "InternalError", "failed calling webhook"), times=ALL)
        answer = await here.ask("why", RUNS)
    assert answer.out.startswith(f"Gang {NAMESPACE}/{RUNS}: ")


async def test_a_name_that_is_no_value_of_a_label_is_not_found(tmp_path: Path) -> None:
    async with place(tmp_path, dump.objects()) as here:
        answer = await here.ask("why", "x" * 64)
    assert answer.code == 1
    assert "not found in namespace" in answer.err


async def test_one_namespace_is_shown_by_default_and_all_on_request(tmp_path: Path) -> None:
    other = jobset("other", rj("w"), mode="Gang", namespace="elsewhere", uid="u-1")
    async with place(tmp_path, [*dump.objects(), other]) as here:
        own = await here.ask("get", "-o", "name")
        everything = await here.ask("get", "-A", "-o", "name")
        there = await here.ask("get", "-n", "elsewhere", "-o", "name")
    assert own.out.split() == [f"gang.gangctl.dev/{WAITS}", f"gang.gangctl.dev/{RUNS}"]
    assert len(everything.out.split()) == 3
    assert there.out.split() == ["gang.gangctl.dev/other"]


async def test_a_namespace_without_gangs_is_named_and_one_that_does_not_exist(tmp_path: Path) -> None:
    empty = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "empty"}}
    async with place(tmp_path, [*dump.objects(), empty]) as here:
        there = [await here.ask(*verb, "-n", "empty") for verb in (("get",), ("why",), ("top", "--once"))]
        absent = [await here.ask(*verb, "-n", "emtpy") for verb in (("get",), ("why",), ("top", "--once"))]
    assert {(answer.code, answer.out, answer.err) for answer in there} == {
        (0, "", "No gangs found in namespace empty; -A shows those of all namespaces.\n")
    }
    assert {(answer.code, answer.out, answer.err) for answer in absent} == {
        (0, "", "No gangs found: namespace emtpy does not exist.\n")
    }


async def test_a_namespace_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    async with place(tmp_path, dump.objects(), forbidden=["namespaces"]) as here:
        answer = await here.ask("why", "-n", "emtpy")
    assert answer.err == "No gangs found in namespace emtpy; -A shows those of all namespaces.\n"


async def test_a_jobset_that_gangctl_does_not_read_leaves_the_others(tmp_path: Path) -> None:
    """JobSet's definition has no minimum of maxRestarts."""
    odd = jobset("odd", rj("w"), namespace=NAMESPACE, uid="u-1", failurePolicy={"maxRestarts": -1})
    file = write(tmp_path / "odd.yaml", odd)
    async with place(tmp_path, [*dump.objects(), odd]) as here:
        listed = await here.ask("get", "-o", "name")
        named = await here.ask("why", "odd")
        report = await here.ask("doctor", "-o", "json")
    why = f"JobSet {NAMESPACE}/odd: spec.failurePolicy.maxRestarts: must be between 0 and 2147483647, got -1"
    for answer in listed, fine("get", "-f", str(dump.STUCK), "-f", str(file), "-o", "name"):
        assert answer.out.split() == [f"gang.gangctl.dev/{WAITS}", f"gang.gangctl.dev/{RUNS}"]
        assert answer.err == f"note: {why}: it is left out, and the controller makes no gang of it\n"
    assert (named.code, named.err) == (2, f"error: {why}\n")
    assert report.json["checks"]


async def test_label_selectors_are_evaluated_by_the_server(tmp_path: Path) -> None:
    found = dump.changed("JobSet", RUNS, lambda each: each["metadata"].update(labels={"team": "red"}))
    async with place(tmp_path, found) as here:
        answer = await here.ask("get", "-l", "team in (red)", "-o", "name")
    assert answer.out.split() == [f"gang.gangctl.dev/{RUNS}"]


async def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    async with place(tmp_path, dump.objects()) as here:
        answers = [await here.ask(verb, "trian") for verb in ("get", "describe", "why", "wait")]
    for answer in answers:
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.splitlines() == [
            f'error: jobsets.jobset.x-k8s.io "trian" not found in namespace "{NAMESPACE}"',
            f"hint: did you mean {RUNS}?",
        ]


async def test_a_pod_name_selects_its_gang(tmp_path: Path) -> None:
    pod = next(each["metadata"]["name"] for each in dump.objects("Pod") if RUNS in each["metadata"]["labels"].values())
    async with place(tmp_path, dump.objects()) as here:
        answer = await here.ask("get", f"pod/{pod}", f"jobset/{WAITS}", "-o", "name")
        nothing = await here.ask("get", "pod/nothing")
    assert answer.out.split() == [f"gang.gangctl.dev/{WAITS}", f"gang.gangctl.dev/{RUNS}"]
    assert (nothing.code, nothing.err) == (1, f'error: pods "nothing" not found in namespace "{NAMESPACE}"\n')


@each(("kept", "forbidden", "missing"), [(False, [], True), (True, [], False), (False, ["compositepodgroups"], False)])
async def test_a_missing_parent_of_groups_is_found(
    kept: bool, forbidden: list[str], missing: bool, tmp_path: Path
) -> None:
    options = '{"composite": true}'
    raw = stored(jobset("js", rj("w", 2, 1, 1, mode="ReplicatedGang"), namespace=NAMESPACE, options=options, uid="u-1"))
    raw["metadata"]["creationTimestamp"] = dump.AT
    parents = ResourceKind("scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup")
    objects = build_objects(some_plan(raw), NEWEST)
    closed = [f"{resource}.scheduling.k8s.io" for resource in forbidden]
    async with place(tmp_path, [raw], forbidden=closed) as here:
        here.sandbox.api.registry.add(parents, custom_rules(parents, {"type": "object"}))
        here.put(item for item in objects if kept or item["kind"] != parents.kind)
        answer = await here.ask("why", "js", "-o", "json")
    evidence = [line for cause in answer.json["status"]["causes"] for line in cause["evidence"]]
    assert any("there is no CompositePodGroup" in line for line in evidence) is missing, evidence
    assert ("compositepodgroups.scheduling.k8s.io may not be read" in answer.err) is bool(forbidden)


class TestRights:
    @each(
        ("resource", "reported"),
        [
            ("nodes", "nodes may not be read"),
            ("events.events.k8s.io", "events.events.k8s.io may not be read"),
            ("podgroups.scheduling.k8s.io", "podgroups.scheduling.k8s.io may not be read"),
            ("pods", "pods may not be read, and phases follow from the status of JobSets"),
        ],
    )
    async def test_forbidden_objects_are_left_out(self, resource: str, reported: str, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects(), forbidden=[resource]) as here:
            answer = await here.ask("get", RUNS, "-o", "json")
        assert answer.code == 0
        assert answer.err.startswith("note: left out: ")
        assert reported in answer.err

    async def test_forbidden_groups_are_not_reported_as_missing(self, tmp_path: Path) -> None:
        groups = ["podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io"]
        async with place(tmp_path, dump.objects(), forbidden=groups) as here:
            answer = await here.ask("why", WAITS, "-o", "json")
        reasons = [cause["reason"] for cause in answer.json["status"]["causes"]]
        assert "PodGroupMissing" not in reasons
        assert reasons[0] == "Unschedulable"

    async def test_forbidden_pods_are_not_reported_as_missing(self, tmp_path: Path) -> None:
        def ready(raw: dict[str, Any]) -> None:
            raw["status"] = {"replicatedJobsStatus": [{"name": "driver", "ready": 1}, {"name": "workers", "ready": 2}]}

        async with place(tmp_path, dump.changed("JobSet", RUNS, ready), forbidden=["pods"]) as here:
            waits = await here.ask("why", WAITS, "-o", "json")
            runs = await here.ask("describe", RUNS, "-o", "json")
            shown = await here.ask("describe", RUNS)
        (cause,) = waits.json["status"]["causes"]
        assert (cause["reason"], cause["blocking"]) == ("Unknown", False)
        assert "its pods are not known" in cause["message"]
        assert runs.json["status"]["phase"] == "Ready"
        details = runs.json["details"]
        assert (details["costs"]["resources"], details["groups"], details["nodes"]) == ([], [], [])
        assert shown.out.startswith(f"Gang {NAMESPACE}/{RUNS}: Ready, 5 of 5 pods ready\n")
        assert "not known: the time of its pods: they may not be read" in shown.out

    async def test_priority_classes_that_may_not_be_read_are_not_reported_as_missing(self, tmp_path: Path) -> None:
        found = dump.queued()
        for raw in found:
            if (raw["kind"], raw["metadata"]["name"]) == ("JobSet", WAITS):
                raw["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
        forbidden = ["clusterqueues.kueue.x-k8s.io", "workloadpriorityclasses.kueue.x-k8s.io"]
        async with place(tmp_path, found, forbidden=forbidden, kueue=True) as here:
            answer = await here.ask("why", WAITS, "-o", "json")
        assert [cause["reason"] for cause in answer.json["status"]["causes"]] == ["WorkloadMissing"]

    async def test_without_the_right_to_read_jobsets_it_is_an_error(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects(), forbidden=["jobsets.jobset.x-k8s.io"]) as here:
            answer = await here.ask("get")
        assert (answer.code, answer.out) == (3, "")
        assert "is forbidden" in answer.err

    async def test_without_the_right_to_create_jobs_the_proof_is_skipped(self, tmp_path: Path) -> None:
        async with place(tmp_path, dump.objects(), forbidden=["jobs.batch"]) as here:
            answer = await here.ask("why", RUNS)
        assert answer.out.startswith(f"Gang {NAMESPACE}/{RUNS}: ")


async def test_a_cluster_without_the_scheduling_api_is_reported(tmp_path: Path) -> None:
    async with place(tmp_path, dump.objects(but=["PodGroup", "Workload"]), gangs=False) as here:
        answer = await here.ask("why", WAITS, "-o", "json")
    assert answer.code == 1
    assert "GangAPIUnavailable" in [cause["reason"] for cause in answer.json["status"]["causes"]]


async def test_a_cluster_without_jobsets_is_an_error(tmp_path: Path) -> None:
    async with serving(kueue=False) as (server, url):
        server.forbidden = ()
        server.objects = []
        answer = await ask_server(tmp_path, f"{url}/nothing", "get")
    assert (answer.code, answer.out) == (3, "")
    assert "does not serve JobSets" in answer.err


def test_an_unreachable_server_is_exit_code_3(tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    for verb in (["get"], ["wait", "x"], ["top"]):
        answer = process(*verb, "--kubeconfig", write(tmp_path / "config", config))
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith("error: ")


async def test_ages_are_those_of_the_clusters_clock(tmp_path: Path) -> None:
    """This machine is ten minutes ahead: what the scheduler and controllers are about to do would count as late."""
    raw = jobset("js", rj("w"), mode="Gang", namespace="t", uid="u-1")
    created = time.time() - 610
    raw["metadata"]["creationTimestamp"] = rfc3339(int(created))
    server = Server([raw], (), (), kueue=False)

    async def behind(request: web.Request) -> web.StreamResponse:
        answer = await server.answer(request)
        answer.headers["Date"] = formatdate(created + 10, usegmt=True)
        return answer

    async with listening(behind) as url:
        answer = await ask_server(tmp_path, url, "get", "-n", "t")
    assert "m" not in answer.out.splitlines()[1].split()[-1], answer

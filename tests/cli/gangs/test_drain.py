"""``gangctl drain --dry-run``: which gangs stop, what they lose, and whether they fit elsewhere."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gangctl.client.client import Client
from tests.cli.conftest import Golden
from tests.cli.gangs import dump
from tests.cli.gangs.dump import NAMESPACE, RUNS, WAITS, Object, ask, ask_about
from tests.cli.gangs.place import USER, place
from tests.cli.kueueobjects import CONFIGURATION, QUEUE, cluster_queue, flavor, local_queue, workload
from tests.cli.publishedschemas import schema_of
from tests.cli.schema import violations
from tests.rows import each

HERE = Path(__file__).parents[1]


def test_schema_is_published(golden: Golden) -> None:
    golden(HERE.parents[1] / "docs" / "drain.schema.json", json.dumps(schema_of("drain"), indent=2) + "\n")


def test_a_gang_that_loses_one_pod_stops_as_a_whole(golden: Golden) -> None:
    answer = ask("drain", "node-0", "--dry-run")
    assert (answer.code, answer.err) == (0, "")
    golden(HERE / "golden" / "drain.txt", answer.out)


@each(
    ("nodes", "pods", "fits"),
    [
        (("node-0",), 1, "fits"),
        (("node-3", "node-3"), 2, "fits"),
        (("node-0", "no/node-3"), 3, "never"),
    ],
)
def test_the_other_nodes_are_asked(nodes: tuple[str, ...], pods: int, fits: str) -> None:
    plan = ask("drain", *nodes, "--dry-run", "-o", "json").json
    (gang,) = plan["gangs"]
    assert violations(plan, schema_of("drain")) == []
    assert (gang["name"], gang["podsOnNodes"], gang["pods"], gang["fits"]) == (RUNS, pods, 5, fits)
    assert gang["lostPodSeconds"] == 5 * (4 * 60 + 11)


@each(("succeeded", "restarts", "fits"), [(0, 0, "never"), (1, 0, "fits"), (1, 3, "unknown")])
def test_jobs_that_have_succeeded_need_no_other_node(succeeded: int, restarts: int, fits: str, tmp_path: Path) -> None:
    def change(raw: Object) -> None:
        raw["spec"]["failurePolicy"] = {"maxRestarts": restarts}
        raw["status"] = {"replicatedJobsStatus": [{"name": "workers", "succeeded": succeeded}]}

    found = dump.changed("JobSet", RUNS, change)
    (gang,) = ask_about(tmp_path, found, "drain", "node-0", "node-3", "--dry-run", "-o", "json").json["gangs"]
    assert gang["fits"] == fits


@each(("jobs", "restarts", "fits"), [(0, 0, "never"), (2, 0, "fits"), (2, 3, "unknown")])
def test_indexes_that_have_succeeded_need_no_other_node(jobs: int, restarts: int, fits: str, tmp_path: Path) -> None:
    found = dump.changed("JobSet", RUNS, lambda raw: raw["spec"].update(failurePolicy={"maxRestarts": restarts}))
    made = [raw for raw in found if raw["kind"] == "Job" and raw["metadata"]["name"].startswith(f"{RUNS}-workers")]
    for raw in made[:jobs]:
        raw["status"] = {**raw.get("status", {}), "succeeded": 1}
    (gang,) = ask_about(tmp_path, found, "drain", "node-0", "node-3", "--dry-run", "-o", "json").json["gangs"]
    assert gang["fits"] == fits


def policy(action: str, **pattern: str) -> Object:
    """A podFailurePolicy with one rule about disruptions, behind one that is about something else."""
    other = {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]}
    rule = {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True", **pattern}]}
    return {"podFailurePolicy": {"rules": [other, rule]}}


@each(
    ("nodes", "job", "failed", "stops"),
    [
        (1, {}, 0, False),
        (2, {}, 0, True),
        (1, {"backoffLimit": 1}, 0, False),
        # An evicted pod has failed for its Job.
        (1, {"backoffLimit": 0}, 0, True),
        (1, {"backoffLimit": 1}, 1, True),
        (1, {}, 6, True),
        (1, {"backoffLimitPerIndex": 0}, 7, False),
        (1, {"backoffLimit": 0, "backoffLimitPerIndex": 1}, 0, True),
        (1, {"backoffLimit": 0, **policy("Ignore")}, 0, False),
        (1, {"backoffLimit": 0, **policy("Ignore", status="False")}, 0, True),
        (1, {"backoffLimit": 0, **policy("Count")}, 0, True),
        (1, policy("FailJob"), 0, True),
    ],
)
def test_a_gang_that_keeps_its_min_count_continues(
    nodes: int, job: Object, failed: int, stops: bool, tmp_path: Path
) -> None:
    """It has 4 pods, each on a node of its own, and needs 3; its Job must not fail either."""
    found, pods = dump.elastic(4), 4 if stops else nodes
    for raw in found:
        if (raw["kind"], raw["metadata"]["name"]) == ("JobSet", WAITS):
            spec = raw["spec"]["replicatedJobs"][0]["template"]["spec"]
            del spec["backoffLimit"]
            spec |= job
        elif (raw["kind"], raw["metadata"]["name"]) == ("Job", f"{WAITS}-workers-0"):
            raw["status"] = {**raw.get("status", {}), "failed": failed}
    drained = [f"node-{number}" for number in range(nodes)]
    plan = ask_about(tmp_path, found, "drain", *drained, "--dry-run", "-o", "json").json
    (gang,) = [gang for gang in plan["gangs"] if gang["name"] == WAITS]
    assert (gang["podsOnNodes"], gang["pods"], bool(gang["groups"])) == (nodes, pods, stops)
    printed = ask_about(tmp_path, found, "drain", *drained, "--dry-run").out
    assert (f"Continues with its minCount: {NAMESPACE}/{WAITS}" in printed) is not stops


def test_a_pod_that_is_already_on_its_way_out_stops_nothing(tmp_path: Path) -> None:
    """Its node is dead, and its Job has made another one elsewhere: the gang is whole."""
    found = dump.objects()
    first = next(pod for pod in dump.pods_of(found, RUNS) if pod["spec"]["nodeName"] == "node-0")
    left = json.loads(json.dumps(first))
    left["metadata"] |= {"name": "left", "uid": "left", "deletionTimestamp": "2026-11-21T15:09:00Z"}
    first["spec"]["nodeName"] = "node-1"
    plan = ask_about(tmp_path, [*found, left], "drain", "node-0", "--dry-run", "-o", "json").json
    assert (plan["gangs"], plan["otherPods"]) == ([], 0)
    both = ask_about(tmp_path, [*found, left], "drain", "node-0", "node-1", "--dry-run", "-o", "json").json
    here = sum(pod["spec"]["nodeName"] == "node-1" for pod in dump.pods_of(found, RUNS))
    assert ([gang["podsOnNodes"] for gang in both["gangs"]], both["otherPods"]) == ([here], 0)


def test_gangs_that_fit_elsewhere_come_first(tmp_path: Path) -> None:
    """Both are on the node: the one that has room elsewhere is first, though it has run for longer."""
    found = dump.objects()
    for number, pod in enumerate(dump.pods_of(found, WAITS)):
        pod["spec"]["nodeName"] = f"node-{number % 4}"
        pod["status"]["conditions"] = [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T15:09:50Z"}
            for kind in ("PodScheduled", "Ready")
        ]
    for pod in [*dump.pods_of(found, RUNS), *dump.pods_of(found, WAITS)]:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    for raw in found:
        if (raw["kind"], raw["metadata"]["name"]) == ("JobSet", WAITS):
            raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"room": "none"}
        elif raw["kind"] == "JobSet":
            for entry in raw["spec"]["replicatedJobs"]:
                resources = entry["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]
                resources["requests"]["cpu"] = "1"
    for pod in dump.pods_of(found, WAITS):
        pod["spec"]["nodeSelector"] = {"room": "none"}
    plan = ask_about(tmp_path, found, "drain", "node-0", "--dry-run", "-o", "json").json
    assert [(gang["name"], gang["fits"]) for gang in plan["gangs"]] == [(RUNS, "fits"), (WAITS, "never")]
    assert plan["gangs"][0]["lostPodSeconds"] > plan["gangs"][1]["lostPodSeconds"]


def test_pods_of_no_gang_are_counted(tmp_path: Path) -> None:
    daemon = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "daemon", "namespace": "kube-system"},
        "spec": {"nodeName": "node-0", "containers": []},
        "status": {"phase": "Running"},
    }
    plan = ask_about(tmp_path, [*dump.objects(), daemon], "drain", "node-0", "--dry-run", "-o", "json").json
    assert plan["otherPods"] == 1


def test_the_queue_is_asked_too(tmp_path: Path) -> None:
    def queue(raw: Object) -> None:
        raw["metadata"]["labels"] = {QUEUE: "q"}

    queues = [flavor(), cluster_queue("cq", {"f": {"cpu": "4"}}), local_queue("q", "cq", NAMESPACE), CONFIGURATION]
    found = [*dump.changed("JobSet", RUNS, queue), *queues]
    (gang,) = ask_about(tmp_path, found, "drain", "node-0", "--dry-run", "-o", "json").json["gangs"]
    assert gang["reason"] == "NeverExceedsQuota"
    # As before a maintenance: what is admitted keeps its quota while its pods are started again.
    queues[1]["spec"]["stopPolicy"] = "Hold"
    admitted = workload(RUNS, "q", namespace=NAMESPACE, held={"f": {"cpu": "4"}})
    (jobset,) = (each_one for each_one in dump.objects("JobSet") if each_one["metadata"]["name"] == RUNS)
    admitted["metadata"]["ownerReferences"][0]["uid"] = jobset["metadata"]["uid"]
    (gang,) = ask_about(tmp_path, [*found, admitted], "drain", "node-0", "--dry-run", "-o", "json").json["gangs"]
    assert (gang["fits"], gang["reason"]) == ("fits", "Fits")


@each(
    ("arguments", "code", "words"),
    [
        (("node-0",), 2, "gangctl drains no node: add --dry-run"),
        (("--dry-run",), 2, "Missing argument 'NODE...'"),
        (("node-9", "--dry-run"), 1, 'nodes "node-9" not found'),
        (("pod/x", "--dry-run"), 2, "has another type"),
    ],
)
def test_bad_input_is_one_error(arguments: tuple[str, ...], code: int, words: str) -> None:
    answer = ask("drain", *arguments)
    assert (answer.code, answer.out) == (code, "")
    assert words in answer.err


async def test_a_cluster_gives_the_same_plan_and_is_not_written_to(tmp_path: Path) -> None:
    dumped = ask("drain", "node-0", "--dry-run", "-o", "json").json
    async with place(tmp_path, dump.objects()) as here:
        live = await here.ask("drain", "node-0", "--dry-run", "-o", "json")
        assert here.sandbox.audit.writes_by(USER) == []
    assert (live.code, live.err) == (0, "")
    (gang,), (known,) = live.json["gangs"], dumped["gangs"]
    for key in ("name", "groups", "podsOnNodes", "pods", "fits", "runningSince"):
        assert gang[key] == known[key], key


async def test_running_times_are_those_of_the_clusters_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumped = ask("drain", "node-0", "--dry-run", "-o", "json").json["gangs"][0]
    since = datetime.fromisoformat(dumped["runningSince"])
    monkeypatch.setattr(Client, "server_time", lambda _: since + timedelta(minutes=7))
    async with place(tmp_path, dump.objects()) as here:
        counted = await here.ask("drain", "node-0", "--dry-run", "-o", "json")
        shown = await here.ask("drain", "node-0", "--dry-run")
    assert counted.json["gangs"][0]["lostPodSeconds"] == 7 * 60 * dumped["pods"]
    assert " 7m " in shown.out, shown.out


async def test_without_the_right_to_read_pods_nothing_is_said_to_stop(tmp_path: Path) -> None:
    async with place(tmp_path, dump.objects(), forbidden=["pods"]) as here:
        answer = await here.ask("drain", "node-0", "--dry-run")
    assert (answer.code, answer.out) == (3, "")
    assert "error: what is on the nodes is not known: pods may not be read\n" in answer.err


@each(("kind", "hint"), [("Node", "kubectl get nodes -o yaml"), ("Pod", "kubectl get pods -A -o yaml")])
def test_of_files_without_nodes_or_pods_nothing_is_said_to_stop(kind: str, hint: str, tmp_path: Path) -> None:
    answer = ask_about(tmp_path, dump.objects(but=[kind]), "drain", "node-0", "--dry-run")
    assert (answer.code, answer.out) == (2, "")
    assert f"error: the files have no {kind}\n" in answer.err
    assert hint in answer.err


_CLAIMS: Object = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
_HIGH: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1,
}
_QUOTA: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": NAMESPACE}}
_BOUND: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": NAMESPACE},
    "spec": {"volumeName": "disk", "accessModes": ["ReadWriteMany"]},
}
_DISK: Object = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {"nfs": {}}}


@each(
    ("pod", "more", "reason"),
    [
        ({"priorityClassName": "high"}, [_HIGH], "Fits"),
        ({}, [{**_QUOTA, "spec": {"hard": {"pods": "2"}}, "status": {}}], "PodsRefused"),
        (_CLAIMS, [_BOUND, _DISK], "Fits"),
    ],
    ids=("class", "quota", "claim"),
)
async def test_a_cluster_is_read_as_fit_reads_it(pod: Object, more: list[Object], reason: str, tmp_path: Path) -> None:
    def change(jobset: Object) -> None:
        for entry in jobset["spec"]["replicatedJobs"]:
            entry["template"]["spec"]["template"]["spec"] |= pod

    found = dump.changed("JobSet", RUNS, change)
    for own in dump.pods_of(found, RUNS):
        own["spec"] |= pod
    async with place(tmp_path, [*found, *more]) as here:
        (gang,) = (await here.ask("drain", "node-0", "--dry-run", "-o", "json")).json["gangs"]
        fit = (await here.ask("fit", RUNS, "--fixed-nodes", "-o", "json")).json
    assert (gang["reason"], fit["reason"]) == (reason, reason)

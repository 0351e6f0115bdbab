"""``gangctl describe``: from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gangctl.cli.gangs.costs import BEFORE_SUSPENSION, ENDED_READY, GONE, NO_CAUSE, NO_LOSS
from tests.cli.conftest import Golden
from tests.cli.gangs import dump
from tests.cli.gangs.dump import GROUP_OF_SWEEP, RUNS, WAITS, Object, ask, ask_about
from tests.cli.gangs.place import place
from tests.cli.publishedschemas import schema_of
from tests.cli.schema import violations

GOLDEN = Path(__file__).parents[1] / "golden"
SCHEMA = Path(__file__).parents[3] / "docs" / "describe.schema.json"


def tree_of(text: str) -> list[str]:
    """The lines of the tree."""
    return text.partition("Groups, Jobs and pods\n")[2].partition("\n\n")[0].splitlines()


def test_a_running_gang_is_described(golden: Golden) -> None:
    answer = ask("describe", RUNS)
    assert (answer.code, answer.err) == (0, "")
    golden(GOLDEN / "gangs-describe.txt", answer.out)


def costs_of(tmp_path: Path, found: list[Object], name: str = RUNS) -> Any:
    return ask_about(tmp_path, found, "describe", name, "-o", "json").json["details"]["costs"]


def test_the_time_of_present_pods_is_counted_by_resource(tmp_path: Path) -> None:
    found = dump.objects()
    *others, last = dump.pods_of(found, RUNS)
    for pod in (*others, last):
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    (ready,) = (one for one in last["status"]["conditions"] if one["type"] == "Ready")
    ready["status"] = "False"
    costs = costs_of(tmp_path, found)
    by_resource = {held["resource"]: held for held in costs["resources"]}
    pods, gpus = by_resource["pods"], by_resource["nvidia.com/gpu"]
    assert gpus["allocatedSeconds"] == 8 * pods["allocatedSeconds"] > 0
    assert gpus["readySeconds"] == 8 * pods["readySeconds"]
    assert 0 < pods["readySeconds"] < pods["allocatedSeconds"]
    assert costs["attempts"] == 1


def test_an_unknown_loss_is_listed_as_unknown(tmp_path: Path) -> None:
    costs = costs_of(tmp_path, dump.objects(but=["Event"]))
    assert costs["lastLoss"] == {"time": "", "cause": ""}
    assert costs["unknown"] == [NO_LOSS]


def test_nothing_is_unknown_of_a_young_gang_that_lost_nothing(tmp_path: Path) -> None:
    assert costs_of(tmp_path, dump.objects())["unknown"] == []


def test_pods_before_a_suspension_are_unknown(tmp_path: Path) -> None:
    def resume(raw: Object) -> None:
        condition = {"type": "Suspended", "status": "False", "lastTransitionTime": "2026-11-21T15:07:00Z"}
        raw["status"]["conditions"] = [condition]

    assert costs_of(tmp_path, dump.changed("JobSet", RUNS, resume))["unknown"] == [BEFORE_SUSPENSION]


def finished(pods: list[Object]) -> None:
    """End pods four minutes after they got their nodes, the last at an unknown time."""
    for pod in pods:
        (placed,) = (one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled")
        placed["lastTransitionTime"] = "2026-11-21T15:05:00Z"
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
        ended = {"exitCode": 0, "finishedAt": "2026-11-21T15:09:00Z"}
        pod["metadata"]["creationTimestamp"] = "2026-11-21T15:06:00Z"
        pod["status"] |= {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": ended}}]}
    pods[-1]["status"]["containerStatuses"] = []


def test_pods_that_have_finished_are_counted_until_they_did(tmp_path: Path) -> None:
    found = dump.changed("JobSet", RUNS, lambda raw: dump.finish(raw, "Completed"))
    pods = dump.pods_of(found, RUNS)
    finished(pods)
    costs = costs_of(tmp_path, found)
    allocated = {held["resource"]: held["allocatedSeconds"] for held in costs["resources"]}
    assert allocated == {"pods": 4 * 240, "nvidia.com/gpu": 8 * 4 * 240}
    assert costs["unknown"] == ["when 1 pod ended, whose containers have no finishedAt", ENDED_READY]
    text = ask_about(tmp_path, found, "describe", RUNS).out
    assert "  pods             16m" in text
    assert "100%" not in text
    missing = [one for one in found if one is not pods[0]]
    assert costs_of(tmp_path, missing)["unknown"][-1] == GONE


async def test_a_cluster_counts_pods_that_have_finished(tmp_path: Path) -> None:
    found = dump.changed("JobSet", RUNS, lambda raw: dump.finish(raw, "Completed"))
    finished(dump.pods_of(found, RUNS))
    async with place(tmp_path, found) as here:
        costs = (await here.ask("describe", RUNS, "-o", "json")).json["details"]["costs"]
    assert costs["resources"] == costs_of(tmp_path, found)["resources"]


def loss(minute: int, reason: str, note: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "team-a", "name": f"lost-{minute}"},
        "regarding": {"kind": "JobSet", "namespace": "team-a", "name": "train"},
        "type": "Warning",
        "reason": reason,
        "note": note,
        "eventTime": f"2026-03-01T10:0{minute}:00Z",
    }


def test_a_restart_is_a_loss(tmp_path: Path) -> None:
    said = "applying RestartJobSet failure policy action (first failed job: train-w-0)"
    events = loss(1, "GangDegraded", "not ready any more: a"), loss(2, "RestartJobSetFailurePolicyAction", said)
    costs = costs_of(tmp_path, [*dump.objects(), *events])
    assert costs["lastLoss"] == {"time": "2026-03-01T10:02:00Z", "cause": said}


def test_the_last_loss_is_that_of_the_latest_event(tmp_path: Path) -> None:
    found = dump.objects()
    for minute, cause in ((1, ": node-1 is gone"), (2, ": node-2 is gone"), (3, "")):
        found.append(loss(minute, "GangDegraded", f"It was ready and is not any more{cause}"))
        costs = costs_of(tmp_path, found)
        assert costs["lastLoss"] == {"time": f"2026-03-01T10:0{minute}:00Z", "cause": cause[2:]}
    assert costs["unknown"] == [GONE, NO_CAUSE]


def test_events_of_an_earlier_jobset_of_the_name_are_left_out(tmp_path: Path) -> None:
    """Neither shown, nor a loss of this one."""
    earlier = loss(1, "GangDegraded", "It was ready and is not any more: node-1 is gone")
    earlier["regarding"]["uid"] = "of-an-earlier-one"
    found = [*dump.objects(), earlier]
    details = ask_about(tmp_path, found, "describe", RUNS, "-o", "json").json["details"]
    assert [event["reason"] for event in details["events"]] == ["WorkloadCreated"]
    assert details["costs"]["lastLoss"] == {"time": "", "cause": ""}
    text = ask_about(tmp_path, found, "describe", RUNS).out
    assert "Last events\n  left out: 1 event of an earlier JobSet of this name\n" in text
    alone = ask_about(tmp_path, [*dump.objects(but=["Event"]), earlier], "describe", RUNS).out
    assert alone.endswith("Last events\n  left out: 1 event of an earlier JobSet of this name\n")


def test_a_gang_with_three_attempts_prints_them_and_what_is_not_known(tmp_path: Path) -> None:
    def restart(raw: Object) -> None:
        begun = {"type": "RestartingJobSet", "status": "True", "lastTransitionTime": "2026-03-01T10:00:00Z"}
        raw["status"] = {**raw.get("status", {}), "restarts": 2, "conditions": [begun]}

    text = ask_about(tmp_path, dump.changed("JobSet", RUNS, restart), "describe", RUNS).out
    lines = text.partition("Attempts and time on nodes\n")[2].partition("\n\n")[0].splitlines()
    assert lines[0] == "  attempt 3, 2 restarts"
    assert lines[1].startswith("  last loss ")
    assert lines[1].endswith(" ago: the cause is not known")
    assert lines[2:4] == [f"  not known: {GONE}", f"  not known: {NO_CAUSE}"]


def test_equal_pods_are_counted() -> None:
    tree = tree_of(ask("describe", WAITS).out)
    assert tree[0] == "  JobSet sweep"
    assert tree[1].startswith(f"  └─ group {GROUP_OF_SWEEP}: Unschedulable for ")
    assert tree[2:] == [
        "     └─ Job sweep-workers-0: 0 of 6 ready",
        "        └─ 6 pods: Unschedulable for up to 4m5s",
    ]


def test_unusual_pods_are_named(tmp_path: Path) -> None:
    found = dump.objects()
    *pods, odd = dump.pods_of(found, WAITS)
    for pod in pods:
        dump.ready(pod)
    dump.ready(odd, node="node-3")
    odd["status"]["conditions"][1]["status"] = "False"
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    odd["status"]["containerStatuses"] = [{"name": "main", "ready": False, "restartCount": 0, "state": waiting}]
    tree = tree_of(ask_about(tmp_path, found, "describe", WAITS).out)
    assert tree[-2:] == [
        "        ├─ 5 pods: Ready on 1 node for up to 1m",
        f"        └─ {odd['metadata']['name']}: ImagePullBackOff on node-3 for 1m",
    ]


def test_equal_jobs_are_counted(tmp_path: Path) -> None:
    def widen(each: Object) -> None:
        each["spec"]["replicatedJobs"][0]["replicas"] = 12

    tree = tree_of(ask_about(tmp_path, dump.changed("JobSet", WAITS, widen), "describe", WAITS).out)
    assert tree[-1] == "     └─ 11 Jobs sweep-workers-1 ... sweep-workers-11: each not there, 6 pods missing"


@pytest.mark.parametrize(
    ("completions", "status", "gone", "progress"),
    [
        (2, {}, 1, "1 of 2 ready, 1 missing"),
        (2, {"succeeded": 1}, 1, "1 of 1 ready, 1 succeeded"),
        # One pod is left to be made in place of another, however many have succeeded.
        (9, {"succeeded": 3}, 1, "1 of 2 ready, 3 succeeded, 1 missing"),
        (
            2,
            {"succeeded": 1, "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]},
            2,
            "0 of 0 ready, 1 succeeded",
        ),
    ],
)
def test_missing_pods_are_those_that_should_exist(
    completions: int, status: Object, gone: int, progress: str, tmp_path: Path
) -> None:
    found = dump.objects()
    for item in found:
        match item["kind"], item["metadata"]["name"]:
            case "JobSet", dump.RUNS:
                (workers,) = (rj for rj in item["spec"]["replicatedJobs"] if rj["name"] == "workers")
                workers["template"]["spec"]["completions"] = completions
            case "Job", "train-workers-1":
                item["spec"]["completions"] = completions
                item["status"] |= status
    pods = [pod for pod in dump.pods_of(found, RUNS) if pod["metadata"]["name"].startswith("train-workers-1-")][:gone]
    kept = [item for item in found if item not in pods]
    tree = tree_of(ask_about(tmp_path, kept, "describe", RUNS).out)
    (line,) = (line for line in tree if "Job train-workers-1: " in line)
    assert line.partition(": ")[2] == progress


def test_a_jobset_that_has_failed_misses_no_pods(tmp_path: Path) -> None:
    found = dump.changed("JobSet", RUNS, lambda raw: dump.finish(raw, "Failed"))
    pods = [id(pod) for pod in dump.pods_of(found, RUNS)]
    kept = [item for item in found if id(item) not in pods]
    assert "missing" not in ask_about(tmp_path, kept, "describe", RUNS).out


def test_pods_without_a_gang_are_described(tmp_path: Path) -> None:
    def loosen(item: Object) -> None:
        del item["spec"]["replicatedJobs"][0]["template"]["metadata"]

    found = dump.changed("JobSet", RUNS, loosen)
    tree = tree_of(ask_about(tmp_path, found, "describe", RUNS).out)
    assert "  └─ in no gang, scheduled one by one" in tree
    details = ask_about(tmp_path, found, "describe", RUNS, "-o", "json").json["details"]
    assert [(each["name"], [job["name"] for job in each["jobs"]]) for each in details["groups"]] == [
        ("train-44489185-cd2f-0", ["train-workers-0", "train-workers-1"]),
        ("", ["train-driver-0"]),
    ]


def test_unhealthy_nodes_come_first(tmp_path: Path) -> None:
    def lose(each: Object) -> None:
        each["status"]["conditions"][0] |= {"status": "Unknown", "reason": "NodeStatusUnknown"}

    nodes = ask_about(tmp_path, dump.changed("Node", "node-3", lose), "describe", RUNS, "-o", "json").json["details"][
        "nodes"
    ]
    assert [(each["name"], each["pods"], each["ready"], each["state"]) for each in nodes] == [
        ("node-3", 2, 2, "NodeStatusUnknown"),
        ("node-0", 1, 1, "Ready"),
        ("node-1", 1, 1, "Ready"),
        ("node-2", 1, 1, "Ready"),
    ]


def test_without_nodes_their_state_is_unknown(tmp_path: Path) -> None:
    details = ask_about(tmp_path, dump.objects(but=["Node"]), "describe", RUNS, "-o", "json").json["details"]
    assert {each["state"] for each in details["nodes"]} == {""}


def test_json_is_the_gang_with_details() -> None:
    described = ask("describe", WAITS, "-o", "json").json
    details = described.pop("details")
    assert described == ask("why", WAITS, "-o", "json").json
    (group,) = details["groups"]
    assert [(job["name"], job["wanted"], len(job["pods"])) for job in group["jobs"]] == [("sweep-workers-0", 6, 6)]
    assert {pod["state"] for pod in group["jobs"][0]["pods"]} == {"Unschedulable"}
    assert [(each["object"], each["reason"]) for each in details["events"]] == [("JobSet/sweep", "WorkloadCreated")]


def test_schema_is_published(golden: Golden) -> None:
    golden(SCHEMA, json.dumps(schema_of("describe"), indent=2) + "\n")


def test_descriptions_match_the_schema_of_gangs(tmp_path: Path) -> None:
    def loosen(each: Object) -> None:
        del each["spec"]["replicatedJobs"][0]["template"]["metadata"]

    partly = ask_about(tmp_path, dump.changed("JobSet", RUNS, loosen), "describe", RUNS, "-o", "json")
    assert all(partly.json["details"].values())
    for answer in (ask("describe", RUNS, "-o", "json"), ask("describe", WAITS, "-o", "json"), partly):
        described = answer.json
        assert violations(described, schema_of("describe")) == []
        del described["details"]
        assert violations(described, schema_of("describe"))
        assert violations(described, schema_of("gang")) == []


class TestGroup:
    def test_a_group_is_selected_by_name_or_template(self) -> None:
        by_name = ask("describe", WAITS, "--group", GROUP_OF_SWEEP, "-o", "json")
        by_template = ask("describe", WAITS, "--group", "jobset", "-o", "json")
        assert by_name.out == by_template.out
        assert [each["name"] for each in by_name.json["details"]["groups"]] == [GROUP_OF_SWEEP]

    def test_an_unknown_group_is_an_error(self) -> None:
        answer = ask("describe", WAITS, "--group", "other")
        assert (answer.code, answer.out) == (2, "")
        assert f"there is no group other in JobSet team-a/{WAITS}" in answer.err
        assert f"--group takes one of: {GROUP_OF_SWEEP}" in answer.err


def test_the_result_of_a_finished_gang_is_described(tmp_path: Path) -> None:
    found = dump.changed("JobSet", RUNS, lambda each: dump.finish(each, "Failed", "job train-workers-0 failed"))
    answer = ask_about(tmp_path, found, "describe", RUNS)
    assert answer.code == 0
    assert "FailedJobs: job train-workers-0 failed." in answer.out
    assert answer.out.startswith("Gang team-a/train: Failed for 1m\n")

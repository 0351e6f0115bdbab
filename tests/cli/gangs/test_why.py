"""``gangctl why``: from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Golden
from tests.cli.gangs import dump
from tests.cli.gangs.dump import RUNS, WAITS, Object, ask, ask_about
from tests.cli.gangs.place import place
from tests.cli.kueueobjects import CONFIGURATION, condition

GOLDEN = Path(__file__).parents[1] / "golden"


def test_a_blocked_gang_is_explained(golden: Golden) -> None:
    answer = ask("why", WAITS)
    assert (answer.code, answer.err) == (1, "")
    golden(GOLDEN / "gangs-why.txt", answer.out)


def test_json_is_the_gang() -> None:
    answer = ask("why", WAITS, "-o", "json")
    assert answer.code == 1
    first = answer.json["status"]["causes"][0]
    assert (first["reason"], first["blocking"], first["pods"]) == ("Unschedulable", True, 6)
    assert first["evidence"]
    assert first["remedy"]


def test_without_a_name_gangs_that_need_attention_are_listed(golden: Golden) -> None:
    answer = ask("why")
    assert (answer.code, answer.err) == (1, "")
    golden(GOLDEN / "gangs-why-all.txt", answer.out)
    assert [gang["metadata"]["name"] for gang in ask("why", "-o", "json").json["items"]] == [WAITS]


def test_without_a_name_nothing_blocks_gangs_that_run(tmp_path: Path) -> None:
    found = [each for each in dump.objects() if each["metadata"]["name"] != WAITS]
    answer = ask_about(tmp_path, found, "why")
    assert (answer.code, answer.out) == (0, "Nothing blocks the gang.\n")
    answer = ask_about(tmp_path, found, "why", "-n", "elsewhere")
    assert (answer.code, answer.out, answer.err) == (0, "", "No gangs found in namespace elsewhere.\n")


def test_without_a_name_a_jobset_that_runs_and_is_no_gang_is_listed(tmp_path: Path) -> None:
    """It is ready, so nothing blocks it; get has the reason, too."""
    found = _without_condition()
    answer = ask_about(tmp_path, found, "why")
    assert f"Gang team-a/{RUNS}: Ready" in answer.out
    assert "\n  SchedulingGateOff: " in answer.out
    row = next(line for line in ask_about(tmp_path, found, "get").out.splitlines() if f" {RUNS} " in line)
    assert row.split()[2:5] == ["Ready", "5/5", "SchedulingGateOff"]


def test_files_of_1_35_without_their_workloads_are_known_by_their_pods(tmp_path: Path) -> None:
    objects = dump.objects(but=("Workload", "PodGroup"))
    for obj in objects:
        if obj["kind"] in {"Pod", "Job"}:
            spec = obj["spec"] if obj["kind"] == "Pod" else obj["spec"]["template"]["spec"]
            name = spec.pop("schedulingGroup")["podGroupName"].removesuffix("-0")
            spec["workloadRef"] = {"name": name, "podGroup": "jobset", "podGroupReplicaKey": "0"}
    answer = ask_about(tmp_path, objects, "why", WAITS)
    assert "FieldDropped" not in answer.out
    assert f"Gang team-a/{WAITS}" in answer.out


def test_several_gangs_are_explained() -> None:
    answer = ask("why", RUNS, WAITS)
    assert answer.code == 1
    assert [line for line in answer.out.splitlines() if line.startswith("Gang ")] == [
        f"Gang team-a/{RUNS}: Ready for 4m11s, 5 of 5 pods ready",
        f"Gang team-a/{WAITS}: Unschedulable for 4m5s, 0 of 6 pods ready",
    ]


def test_a_running_gang_has_nothing_to_explain() -> None:
    answer = ask("why", RUNS)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("Nothing blocks it.\n")


def test_a_jobset_that_is_being_deleted_is_reported(tmp_path: Path) -> None:
    objects = dump.objects()
    jobset = next(raw for raw in objects if raw["kind"] == "JobSet" and raw["metadata"]["name"] == RUNS)
    jobset["metadata"] |= {"deletionTimestamp": jobset["metadata"]["creationTimestamp"], "finalizers": ["a.example/x"]}
    answer = ask_about(tmp_path, objects, "why", RUNS)
    assert "Nothing blocks it" not in answer.out
    assert f"Gang team-a/{RUNS}: Terminating for 4m" in answer.out
    assert "The JobSet is being deleted, and waits for 1 finalizer: a.example/x." in answer.out
    assert "- a.example/x: the controller that set it removes it" in answer.out
    row = next(
        line for line in ask_about(tmp_path, objects, "get", "-o", "wide").out.splitlines() if f" {RUNS} " in line
    )
    assert row.split()[2:5] == ["Terminating", "5/5", "PodsTerminating"]
    assert "waits for 1 finalizer: a.example/x" in row


def test_a_deletion_in_the_foreground_names_what_it_waits_for_also_of_a_finished_jobset(tmp_path: Path) -> None:
    def delete(raw: Object) -> None:
        raw["metadata"] |= {"deletionTimestamp": "2026-11-21T15:06:00Z", "finalizers": ["foregroundDeletion"]}

    running = ask_about(tmp_path, dump.changed("JobSet", RUNS, delete), "why", RUNS).out
    finished = dump.changed("JobSet", RUNS, delete)
    dump.finish(
        next(raw for raw in finished if raw["kind"] == "JobSet" and raw["metadata"]["name"] == RUNS), "Completed"
    )
    over = ask_about(tmp_path, finished, "why", RUNS).out
    jobs = "Job train-driver-0, Job train-workers-0, Job train-workers-1"
    for answer in (running, over):
        assert "waits for 1 finalizer: foregroundDeletion." in answer
        assert f"- foregroundDeletion: the garbage collector removes it once what it owns is gone: {jobs}\n" in answer
    assert "Its deletion was asked for 4m ago, and waits" in over
    assert "the deletion was asked for 4m ago" in running


def _without_condition() -> list[Object]:
    """All pods of a gang have nodes, and the scheduler has written no condition of its group."""
    found = dump.objects()
    for each in found:
        if each["kind"] == "PodGroup" and each["metadata"]["name"].startswith(RUNS):
            del each["status"]
    return found


def test_a_gang_without_the_guarantee_is_reported(tmp_path: Path) -> None:
    answer = ask_about(tmp_path, _without_condition(), "why", RUNS)
    assert (answer.code, answer.err) == (0, "")
    assert "Nothing blocks it" not in answer.out
    assert "Ready, but without the all-or-nothing guarantee" in answer.out
    assert "(SchedulingGateOff, blocks nothing" in answer.out


@pytest.mark.parametrize(("outcome", "code"), [("Completed", 0), ("Failed", 1)])
def test_a_finished_gang_has_its_result(outcome: str, code: int, tmp_path: Path) -> None:
    found = dump.changed("JobSet", RUNS, lambda each: dump.finish(each, outcome, "that was it"))
    answer = ask_about(tmp_path, found, "why", RUNS)
    assert answer.code == code
    assert "that was it." in answer.out


def test_pods_that_a_ready_gang_does_not_need_are_explained(tmp_path: Path) -> None:
    answer = ask_about(tmp_path, dump.elastic(4), "why", WAITS)
    assert (answer.code, answer.err) == (0, "")
    needs, others, *refusals, placed, command = answer.out.partition("Pods that wait\n")[2].splitlines()
    assert needs == "  It needs 3 of its 6 pods (minCount), and 4 are ready."
    assert others == "  Of the others 2 have no node."
    assert any(line.startswith("  - kube-scheduler of 1 pod: 0/4 nodes are available") for line in refusals)
    assert placed == "  The scheduler places them once nodes have room. The gang does not wait for them."
    assert command == f"  $ gangctl describe {WAITS} -n team-a"


def failed_objects(restarts: int) -> list[Object]:
    """A JobSet of which two pods of one Job failed, the later named one first."""

    def fail(raw: Object) -> None:
        dump.finish(
            raw, "Failed", "jobset failed due to reaching max number of restarts (first failed job: train-workers-0)"
        )
        raw["status"] |= {"restarts": restarts, "restartsCountTowardsMax": restarts}
        raw["spec"]["failurePolicy"] = {"maxRestarts": restarts}

    found = dump.changed("JobSet", RUNS, fail)
    for second, pod in enumerate(reversed(dump.pods_of(found, RUNS))):
        pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] = str(restarts)
        ended = {"reason": "Error", "exitCode": second, "finishedAt": f"2026-11-21T15:08:0{second}Z"}
        pod["status"] |= {"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]}
    return found


@pytest.mark.parametrize(("restarts", "said"), [(0, "allows no restart"), (2, "used all 2 restarts")])
def test_why_of_a_failed_gang_names_its_pod_its_logs_and_what_to_do(restarts: int, said: str, tmp_path: Path) -> None:
    answer = ask_about(tmp_path, failed_objects(restarts), "why", RUNS)
    job, pod, logs, policy, again, delete = answer.out.partition("What to do\n")[2].splitlines()
    assert job == "  Job train-workers-0 failed first."
    assert pod == "  Pod train-workers-0-1-tf42f on node-3 failed first: Error, exit code 2; 1 other pod failed, too."
    assert logs == "  $ kubectl logs train-workers-0-1-tf42f -n team-a --all-containers --ignore-errors"
    assert said in policy
    assert "does not start again" in again
    assert delete == f"  $ kubectl delete jobset {RUNS} -n team-a"


@pytest.mark.parametrize(
    "status",
    [
        {"restarts": 5, "restartsCountTowardsMax": 1},
        {"restarts": 0, "replicatedJobsStatus": [{"name": "workers", "jobRestartsCountTowardsMax": [1, 0]}]},
    ],
    ids=["restarts that do not count", "restarts of one Job"],
)
def test_the_restarts_that_count_are_those_of_the_failure_policy(status: Object, tmp_path: Path) -> None:
    objects = failed_objects(2)
    raw = next(item for item in objects if item["kind"] == "JobSet" and item["metadata"]["name"] == RUNS)
    raw["status"] = {"conditions": raw["status"]["conditions"], **status}
    answer = ask_about(tmp_path, objects, "why", RUNS)
    assert "It has used 1 of 2 restarts of failurePolicy.maxRestarts." in answer.out


def test_why_of_a_failed_gang_names_no_logs_of_a_pod_that_its_kubelet_did_not_admit(tmp_path: Path) -> None:
    objects = failed_objects(0)
    for pod in dump.pods_of(objects, RUNS):
        del pod["status"]["containerStatuses"]
        pod["status"] |= {"reason": "TopologyAffinityError", "message": "Pod was rejected: no locality"}
    answer = ask_about(tmp_path, objects, "why", RUNS)
    assert "kubectl logs" not in answer.out
    assert "  $ kubectl describe pod train-workers-0-" in answer.out


def test_restarts_in_place_that_reached_the_limit_are_all_used(tmp_path: Path) -> None:
    """JobSet counts them in annotations of pods, and not in its status."""
    objects = failed_objects(2)
    raw = next(item for item in objects if item["kind"] == "JobSet" and item["metadata"]["name"] == RUNS)
    (ended,) = raw["status"]["conditions"]
    raw["status"] = {"conditions": [{**ended, "reason": "ReachedMaxRestarts"}]}
    assert "used all 2 restarts" in ask_about(tmp_path, objects, "why", RUNS).out


def test_why_of_a_failed_gang_notes_missing_pods(tmp_path: Path) -> None:
    found = [each for each in failed_objects(0) if each["kind"] != "Pod"]
    answer = ask_about(tmp_path, found, "why", RUNS)
    assert "  No pod that failed is left: " in answer.out
    assert f"  $ kubectl get jobs,pods -n team-a -l jobset.sigs.k8s.io/jobset-name={RUNS}" in answer.out


async def test_why_reads_the_pods_of_a_failed_gang_from_a_cluster(tmp_path: Path) -> None:
    async with place(tmp_path, failed_objects(0)) as here:
        answer = await here.ask("why", RUNS)
    assert "  Pod train-workers-0-1-tf42f on node-3 failed first: Error, exit code 2; " in answer.out


def one_pod_failed(code: int) -> list[Object]:
    """A pod with restartPolicy Never has failed, and its Job has not made another one."""
    found = dump.objects()
    first = min(dump.pods_of(found, RUNS), key=lambda pod: str(pod["metadata"]["name"]))
    ended = {"reason": "OOMKilled", "exitCode": code, "finishedAt": "2026-11-21T15:09:30Z", "message": "no more"}
    first["spec"]["restartPolicy"] = "Never"
    first["status"] |= {
        "phase": "Failed",
        "containerStatuses": [{"name": "main", "ready": False, "state": {"terminated": ended}}],
    }
    first["status"]["conditions"] = [
        {**each, "status": "False"} if each["type"] == "Ready" else each for each in first["status"]["conditions"]
    ]
    return found


FAILED_POD = '1 pod failed: container main: OOMKilled, exit code 137 (SIGKILL), "no more".'


async def test_why_has_the_exit_code_and_the_logs_of_a_pod_that_is_never_restarted(tmp_path: Path) -> None:
    found = one_pod_failed(137)
    name = next(pod["metadata"]["name"] for pod in dump.pods_of(found, RUNS) if pod["status"]["phase"] == "Failed")
    async with place(tmp_path, found) as here:
        online = await here.ask("why", RUNS)
    for answer in (online, ask_about(tmp_path, found, "why", RUNS)):
        assert answer.code == 1
        assert FAILED_POD in answer.out
        assert f" -n team-a logs {name} --all-containers --ignore-errors\n" in answer.out


async def test_every_command_finds_a_pod_that_failed(tmp_path: Path) -> None:
    async with place(tmp_path, one_pod_failed(137)) as here:
        answers = [await here.ask(*asked) for asked in (("get", RUNS), ("describe", RUNS), ("why",))]
    assert ["CrashLoop" in answer.out for answer in answers] == [True] * 3, answers


def test_a_cause_that_ends_by_itself_is_exit_code_0(tmp_path: Path) -> None:
    found = dump.objects()
    for pod in dump.pods_of(found, WAITS):
        dump.ready(pod, at="2026-11-21T15:09:59Z")
        pod["status"]["conditions"][1]["status"] = "False"
        pod["status"]["phase"] = "Pending"
    answer = ask_about(tmp_path, found, "why", WAITS)
    assert (answer.code, "Starting" in answer.out) == (0, True)


def test_free_capacity_is_computed_from_the_nodes(tmp_path: Path) -> None:
    """Once the other gang is gone its nodes have room for this one: the scheduler only has to look again."""

    def reasons(found: list[Object]) -> list[str]:
        causes = ask_about(tmp_path, found, "why", WAITS, "-o", "json").json["status"]["causes"]
        return [cause["reason"] for cause in causes]

    everything = dump.objects()
    running = {id(pod) for pod in dump.pods_of(everything, RUNS)}
    assert reasons(everything)[0] == "Unschedulable"
    assert reasons([each for each in everything if id(each) not in running])[0] != "Unschedulable"


class TestQueues:
    """A JobSet that Kueue keeps suspended."""

    def causes(self, directory: Path, found: list[Object]) -> list[tuple[str, str]]:
        answer = ask_about(directory, found, "why", WAITS, "-o", "json")
        return [(cause["reason"], cause["message"]) for cause in answer.json["status"]["causes"]]

    def test_a_stopped_queue_is_reported(self, tmp_path: Path) -> None:
        found = dump.queued(dump.queued_workload(), cpu="100")
        for each in found:
            if each["kind"] == "LocalQueue":
                each["spec"]["stopPolicy"] = "Hold"
        reason, message = self.causes(tmp_path, found)[0]
        assert (reason, "is stopped" in message) == ("QueueBlocked", True)

    def test_a_gang_that_never_fits_is_reported(self, tmp_path: Path) -> None:
        found = dump.queued(dump.queued_workload(), CONFIGURATION, cpu="8")
        found.append({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "none"}})
        assert self.causes(tmp_path, found)[0][0] == "NeverFits"

    def test_without_flavors_in_the_dump_an_active_queue_is_no_reason_never_to_start(self, tmp_path: Path) -> None:
        found = dump.queued(dump.queued_workload(), CONFIGURATION, cpu="100")
        found = [one for one in found if one["kind"] != "ResourceFlavor"]
        found.append({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "none"}})
        for one in found:
            if one["kind"] == "ClusterQueue":
                one["status"] = {"conditions": [condition("Active")]}
        assert "NeverFits" not in [reason for reason, _ in self.causes(tmp_path, found)]

    def test_the_queue_of_a_gang_is_printed(self, tmp_path: Path) -> None:
        found = dump.queued(dump.queued_workload(), cpu="100")
        status = ask_about(tmp_path, found, "get", WAITS, "-o", "json").json["status"]
        assert (status["phase"], status["localQueue"], status["clusterQueue"]) == ("Queued", "q", "cq")


@pytest.mark.parametrize(
    ("reason", "at", "words"),
    [
        ("TriggeredScaleUp", "2026-11-21T15:08:00Z", "an autoscaler adds nodes for 1 pod of 6, and it knows no gangs"),
        ("Nominated", "2026-11-21T15:08:00Z", "an autoscaler adds nodes for 1 pod of 6"),
        ("TriggeredScaleUp", "2026-11-21T14:08:00Z", "more than 15 minutes ago (TriggeredScaleUp)"),
        ("NotTriggerScaleUp", "2026-11-21T15:08:00Z", "adds no node for 1 pod: 2 max node group size reached"),
    ],
    ids=["triggered", "nominated", "late", "refused"],
)
def test_an_autoscaler_is_quoted(reason: str, at: str, words: str, tmp_path: Path) -> None:
    found = dump.objects()
    pod = dump.pods_of(found, WAITS)[0]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": dump.NAMESPACE},
        "involvedObject": {"kind": "Pod", "namespace": dump.NAMESPACE, "name": pod["metadata"]["name"]},
        "reason": reason,
        "message": "2 max node group size reached",
        "lastTimestamp": at,
    }
    answer = ask_about(tmp_path, [*found, event], "why", WAITS)
    assert words in " ".join(answer.out.split())
    assert "autoscaler adds" not in ask("why", WAITS).out


@pytest.mark.parametrize(
    ("reason", "note", "controller"),
    [
        ("NotTriggerScaleUp", "2 max node group size reached", "cluster-autoscaler"),
        ("FailedScaleUp", "Node scale up in zones a failed: GCE out of resources", "cluster-autoscaler"),
        ("FailedScheduling", "Failed to schedule pod, no instance type has enough resources", "karpenter"),
    ],
    ids=["not-triggered", "failed", "karpenter"],
)
async def test_an_autoscaler_of_a_cluster_is_quoted(reason: str, note: str, controller: str, tmp_path: Path) -> None:
    found = dump.objects()
    pod = dump.pods_of(found, WAITS)[0]
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": dump.NAMESPACE},
        "regarding": {"kind": "Pod", "namespace": dump.NAMESPACE, "name": pod["metadata"]["name"]},
        "reason": reason,
        "note": note,
        "type": "Normal",
        "action": "ScaleUp",
        "eventTime": "2026-11-21T15:08:00.000000Z",
        "reportingController": controller,
        "reportingInstance": "a",
    }
    async with place(tmp_path, [*found, event]) as here:
        answer = await here.ask("why", WAITS)
    assert note in " ".join(answer.out.split())

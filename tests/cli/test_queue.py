"""``gangctl queue list`` and ``gangctl queue describe``."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gangctl.cli.queue.report import POSITIONS, WITHOUT_WORKLOAD
from gangctl.client.client import Client
from gangctl.cluster.stock import Stock
from tests.cli.conftest import Golden
from tests.cli.httpserver import ask
from tests.cli.kueueobjects import (
    CONFIGURATION,
    GPU,
    LATER,
    Object,
    cluster,
    cluster_queue,
    condition,
    flavor,
    local_queue,
    queued,
    workload,
)
from tests.cli.kueueserver import config_map, labelled, serving
from tests.cli.manifests import write
from tests.cli.publishedschemas import schema_of
from tests.cli.run import Answer, gangctl
from tests.cli.schema import answer_violations, violations
from tests.rows import each

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


def ask_files(directory: Path, objects: list[Object], *arguments: str) -> Answer:
    return gangctl("queue", *arguments, "--queues", write(directory / "queues.yaml", *objects))


def waiting(name: str, queue: str = "q", message: str = "", *, reason: str = "Pending", **fields: Any) -> Object:
    return workload(name, queue, condition("QuotaReserved", False, reason, message or "insufficient quota"), **fields)


def busy() -> list[Object]:
    """A cohort in which one borrows and others wait."""
    return [
        flavor("a100"),
        cluster_queue("cq", {"a100": {GPU: {"nominalQuota": 8, "borrowingLimit": 8}, "cpu": 100}}, cohortName="all"),
        cluster_queue(
            "strict",
            {"a100": {GPU: 16, "cpu": 100}},
            cohortName="all",
            queueingStrategy="StrictFIFO",
        ),
        local_queue("q", "cq"),
        local_queue("r", "cq"),
        local_queue("s", "strict"),
        CONFIGURATION,
        workload("runs", "q", held={"a100": {GPU: "12", "cpu": "4"}}, pods=4),
        waiting("second", created=LATER),
        waiting("first", pods=8),
        waiting("urgent", "r", priority=100, created=LATER),
        waiting("index", kind="Job", created=LATER, priority=-1),
        workload("gated", "q", condition("QuotaReserved", False, "AdmissionGated")),
        waiting("head", "s"),
        waiting("behind", "s", created=LATER),
    ]


class TestList:
    def test_the_table_of_queues_is_as_recorded(self, tmp_path: Path, golden: Golden) -> None:
        answer = ask_files(tmp_path, busy(), "list", "-A")
        assert (answer.code, answer.err) == (0, "")
        golden(HERE / "golden" / "queue-list.txt", answer.out)

    def test_all_workloads_are_not_listed_for_each_queue(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Stock, "live_workloads", None)
        assert ask_files(tmp_path, busy(), "list", "-A").code == 0

    def test_cluster_queues_are_listed(self, tmp_path: Path) -> None:
        answer = ask_files(tmp_path, busy(), "list", "--cluster-queues", "-o", "json")
        reports: list[Object] = answer.json["items"]
        assert [(r["metadata"]["name"], r["queue"], r["strategy"], r["pending"], r["admitted"]) for r in reports] == [
            ("cq", "ClusterQueue", "BestEffortFIFO", 5, 1),
            ("strict", "ClusterQueue", "StrictFIFO", 2, 0),
        ]
        assert reports[0]["quotas"][0] == {
            "flavor": "a100",
            "resource": GPU,
            "used": "12",
            "nominal": "8",
            "borrowed": "4",
            "borrowable": "8",
            "free": "4",
        }
        assert [quota["free"] for quota in reports[1]["quotas"]] == ["12", "196"]

    def test_queues_are_selected_by_namespace(self, tmp_path: Path) -> None:
        objects = [*busy(), local_queue("elsewhere", "cq", "u"), local_queue("d", "cq", "default")]

        def names(*arguments: str) -> list[str]:
            return ask_files(tmp_path, objects, "list", *arguments, "-o", "name").out.splitlines()

        assert names("-n", "u") == ["localqueue.kueue.x-k8s.io/elsewhere"]
        assert names() == names("-A")
        assert len(names("-A")) == 5
        assert names("--cluster-queues") == [f"clusterqueue.kueue.x-k8s.io/{name}" for name in ("cq", "strict")]
        none = ask_files(tmp_path, objects, "list", "-n", "nowhere")
        assert (none.code, none.out, none.err) == (0, "", "No LocalQueues found in namespace nowhere.\n")
        none = ask_files(tmp_path, [flavor()], "list")
        assert (none.code, none.out, none.err) == (0, "", "No LocalQueues found.\n")

    def test_labels_order_and_quota(self, tmp_path: Path) -> None:
        objects = busy()
        for queue in objects:
            if queue.get("metadata", {}).get("name") in {"q", "s", "strict"}:
                queue["metadata"]["labels"] = {"team": "a"}

        def rows(*arguments: str) -> list[list[str]]:
            answer = ask_files(tmp_path, objects, "list", *arguments, "--no-headers")
            return [line.split() for line in answer.out.splitlines()]

        assert [row[1] for row in rows("-A", "-l", "team=a")] == ["q", "s"]
        assert [row[0] for row in rows("--cluster-queues", "-l", "team")] == ["strict"]
        assert [row[1] for row in rows("-A", "--sort-by", ".pending")] == ["r", "s", "q"]
        assert rows("--cluster-queues", "-o", "wide")[0][7] == f"a100/{GPU}=12/8,a100/cpu=4/100"

    def test_the_oldest_is_of_those_that_are_pending(self, tmp_path: Path) -> None:
        waiters = [waiting("later", created=LATER), waiting("last", created="2026-01-01T02:00:00Z")]
        objects = [*cluster("8"), workload("runs", "q", held={"a100": {GPU: "4"}})]
        for pending, oldest in (([], ""), (waiters, LATER)):
            (report,) = ask_files(tmp_path, [*objects, *pending], "list", "-A", "-o", "json").json["items"]
            assert (report["pending"], report["admitted"], report["oldest"]) == (len(pending), 1, oldest)

    @pytest.mark.parametrize(
        ("change", "state", "reason"),
        [
            ({}, "active", ""),
            ({"stopPolicy": "Hold"}, "stopped", "ClusterQueueStopped"),
            ({"namespaceSelector": None}, "inactive", "NamespaceNotSelected"),
        ],
    )
    def test_queues_have_their_states(self, change: Object, state: str, reason: str, tmp_path: Path) -> None:
        (report,) = ask_files(tmp_path, cluster("8", **change), "list", "-A", "-o", "json").json["items"]
        assert (report["state"], report["reason"]) == (state, reason)
        assert bool(report["message"]) == bool(reason)
        answer = ask_files(tmp_path, cluster("8", **change), "list", "--cluster-queues", "-o", "json")
        (of_cluster_queue,) = answer.json["items"]
        assert (of_cluster_queue["state"], of_cluster_queue["reason"]) == (state, reason)

    def test_states_that_a_file_of_one_object_shows(self, tmp_path: Path) -> None:
        door = local_queue("q", "cq", stopPolicy="HoldAndDrain")
        inactive = cluster_queue("cq", {"f": {"cpu": 1}})
        inactive["status"] = {"conditions": [condition("Active", False, "FlavorNotFound", "Can't admit: f is missing")]}
        stopped, missing, broken = (
            ask_files(tmp_path, objects, "list", "-A", "-o", "json").json["items"][0]
            for objects in ([door, flavor(), inactive], [local_queue("q", "cq")], [local_queue("q", "cq"), inactive])
        )
        assert [(each["state"], each["reason"], each["clusterQueue"]) for each in (stopped, missing, broken)] == [
            ("stopped", "LocalQueueStopped", "cq"),
            ("missing", "ClusterQueueMissing", "cq"),
            ("inactive", "ClusterQueueInactive", "cq"),
        ]
        assert "f is missing" in broken["message"]

    def test_yaml_is_the_same(self, tmp_path: Path) -> None:
        yaml = ask_files(tmp_path, busy(), "list", "-A", "-o", "yaml").documents
        assert yaml == [ask_files(tmp_path, busy(), "list", "-A", "-o", "json").json]

    @pytest.mark.parametrize(
        "arguments", [("-n", "t", "-A"), ("-n", "t", "--cluster-queues"), ("--queues", "x", "--context", "c")]
    )
    def test_bad_usage_is_exit_code_2(self, arguments: tuple[str, ...]) -> None:
        answer = gangctl("queue", "list", *arguments)
        assert (answer.code, answer.out) == (2, "")


def describe(directory: Path, objects: list[Object], *arguments: str) -> Object:
    answer = ask_files(directory, objects, "describe", *arguments, "-o", "json")
    assert answer.code == 0, answer.err
    report: Object = answer.json
    return report


class TestDescribe:
    def test_the_description_is_as_recorded(self, tmp_path: Path, golden: Golden) -> None:
        answer = ask_files(tmp_path, busy(), "describe", "cq", "--cluster-queue")
        golden(HERE / "golden" / "queue-describe.txt", _without_ages(answer.out))

    def test_workloads_are_in_the_order_of_admission(self, tmp_path: Path) -> None:
        members = describe(tmp_path, busy(), "cq", "--cluster-queue")["members"]
        assert [(each["position"], each["kind"], each["name"], each["phase"]) for each in members] == [
            (None, "JobSet", "runs", "Admitted"),
            (1, "JobSet", "urgent", "Pending"),
            (2, "JobSet", "first", "Pending"),
            (3, "JobSet", "second", "Pending"),
            (4, "Job", "index", "Pending"),
            (None, "JobSet", "gated", "Gated"),
        ]
        assert [each["pods"] for each in members] == [4, 1, 8, 1, 1, 1]

    def test_a_local_queue_shows_the_positions_of_its_workloads_among_all(self, tmp_path: Path) -> None:
        report = describe(tmp_path, busy(), "q", "-n", "t")
        assert [(each["position"], each["name"]) for each in report["members"]] == [
            (None, "runs"),
            (2, "first"),
            (3, "second"),
            (4, "index"),
            (None, "gated"),
        ]
        assert (report["pending"], report["admitted"], report["metadata"]) == (4, 1, {"name": "q", "namespace": "t"})

    def test_what_came_through_a_stopped_local_queue_has_no_position(self, tmp_path: Path) -> None:
        stopped = local_queue("stopped", "cq", stopPolicy="Hold"), waiting("held", "stopped")
        report = describe(tmp_path, cluster("8", *stopped, waiting("next", created=LATER)), "cq", "--cluster-queue")
        assert [(each["position"], each["name"]) for each in report["members"]] == [(1, "next"), (None, "held")]

    @each(("timestamp", "first"), [("Creation", "evicted"), ("Eviction", "new")])
    def test_kueue_may_keep_the_place_of_what_it_evicts_as_not_ready(
        self, timestamp: str, first: str, tmp_path: Path
    ) -> None:
        strategy = {"waitForPodsReady": {"requeuingStrategy": {"timestamp": timestamp}}}
        others = [each for each in busy() if each is not CONFIGURATION and each["kind"] != "Workload"]
        evicted = condition("Evicted", True, "PodsReadyTimeout", since="2026-07-01T00:00:00Z")
        both = (
            workload("new", "s", condition("QuotaReserved", False, "Pending", "no quota"), created=LATER),
            workload("evicted", "s", condition("QuotaReserved", False, "Pending", "no quota"), evicted),
        )
        report = describe(tmp_path, [*others, {**CONFIGURATION, **strategy}, *both], "strict", "--cluster-queue")
        assert next(member["name"] for member in report["members"]) == first
        assert f'"t/{first}" does not fit now, and is the head' in report["stuck"][0]

    def test_worker_clusters_of_multikueue_are_a_column_where_there_are_any(self, tmp_path: Path) -> None:
        away = workload("train", "q", pods=4, held={"f": {"cpu": "4"}})
        away["status"]["clusterName"] = "west"
        waits = workload("waits", "q")
        lines = ask_files(tmp_path, cluster("8", away, waits), "describe", "q", "-n", "t").out.splitlines()
        header, row, other = lines[lines.index("In order of admission") + 1 :]
        at = header.index("CLUSTER")
        assert (row[at:].split()[0], other[at:].split()[0]) == ("west", "-")
        assert "  CLUSTER " not in ask_files(tmp_path, cluster("8", waits), "describe", "q", "-n", "t").out

    def test_borrowing_queues_are_shown(self, tmp_path: Path) -> None:
        expected = [{"clusterQueue": "cq", "flavor": "a100", "resource": GPU, "borrowed": "4"}]
        assert describe(tmp_path, busy(), "s", "-n", "t")["borrowers"] == expected
        assert describe(tmp_path, busy(), "cq", "--cluster-queue")["borrowers"] == expected

    def test_the_blocking_head_of_a_strict_queue_is_shown(self, tmp_path: Path) -> None:
        (stuck,) = describe(tmp_path, busy(), "strict", "--cluster-queue")["stuck"]
        assert '"t/head" does not fit now, and is the head of StrictFIFO ClusterQueue "strict"' in stuck
        assert "  ! " in ask_files(tmp_path, busy(), "describe", "strict", "--cluster-queue").out
        assert describe(tmp_path, busy(), "cq", "--cluster-queue")["stuck"] == []

    @each(("configured", "blocks"), [({}, True), ({"admissionFairSharing": {"usageHalfLifeTime": "5m"}}, False)])
    def test_no_head_is_known_where_the_usage_of_local_queues_decides(
        self, configured: Object, blocks: bool, tmp_path: Path
    ) -> None:
        objects = [each for each in busy() if each is not CONFIGURATION]
        (strict,) = [each for each in objects if each["metadata"]["name"] == "strict"]
        strict["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        report = describe(tmp_path, [*objects, {**CONFIGURATION, **configured}], "strict", "--cluster-queue")
        assert bool(report["stuck"]) is blocks
        unknown = "positions, and the head of the queue: in which order Kueue tries what waits (admissionScope)"
        assert report["unknown"] == ([] if blocks else [unknown])
        assert [member["position"] for member in report["members"]] == ([1, 2] if blocks else [None, None])

    @each("reason", ["Pending", "ExceedsMaxQuota"])
    def test_both_reasons_of_waiting_give_the_same_phase(self, reason: str, tmp_path: Path) -> None:
        message = "couldn't assign flavors to pod set w: insufficient quota for cpu in flavor f"
        (member,) = describe(tmp_path, cluster("8", waiting("a", "q", message, reason=reason)), "q", "-n", "t")[
            "members"
        ]
        assert (member["phase"], member["reason"], member["message"]) == ("Pending", reason, message)

    def test_a_new_workload_has_no_conditions(self, tmp_path: Path) -> None:
        objects = cluster("8", workload("new", "q"))
        (member,) = describe(tmp_path, objects, "q", "-n", "t")["members"]
        assert (member["position"], member["phase"], member["reason"]) == (1, "Pending", "")
        assert "Kueue has not" in ask_files(tmp_path, objects, "describe", "q", "-n", "t").out

    def test_stuck_workloads_are_shown(self, tmp_path: Path) -> None:
        rejected = workload("rejected", "q", condition("Evicted", True, "DeactivatedDueToAdmissionCheck", "no room"))
        rejected["spec"]["active"] = False
        report = describe(tmp_path, cluster("8", rejected), "q", "-n", "t")
        (member,) = report["members"]
        assert (member["phase"], member["trouble"]) == ("Deactivated", "Deactivated")
        assert "set spec.active of its Workload to true" in member["stuck"]
        assert "! rejected: evicted" in ask_files(tmp_path, cluster("8", rejected), "describe", "q", "-n", "t").out

    def test_a_stopped_queue_blocks_its_waiting_workloads(self, tmp_path: Path) -> None:
        objects = cluster("8", waiting("a"), workload("b", "q", held={"f": {"cpu": "1"}}), stopPolicy="Hold")
        report = describe(tmp_path, objects, "q", "-n", "t")
        assert report["state"] == "stopped"
        assert [(each["name"], each["phase"], each["trouble"]) for each in report["members"]] == [
            ("b", "Admitted", ""),
            ("a", "Blocked", "QueueBlocked"),
        ]

    def test_finished_workloads_are_not_shown(self, tmp_path: Path) -> None:
        over = workload("over", "q", condition("Finished", True, "Succeeded"), held={"f": {"cpu": "8"}})
        report = describe(tmp_path, cluster("8", over), "q", "-n", "t")
        assert (report["members"], report["quotas"][0]["used"]) == ([], "0")

    def test_names_are_those_of_jobs(self, tmp_path: Path) -> None:
        lines = ask_files(tmp_path, busy(), "describe", "q", "-n", "t", "-o", "name").out.splitlines()
        assert lines[0] == "jobset.jobset.x-k8s.io/runs"
        assert "job.batch/index" in lines

    def test_a_workload_without_an_owner_is_shown(self, tmp_path: Path) -> None:
        alone = waiting("alone")
        del alone["metadata"]["ownerReferences"]
        (member,) = describe(tmp_path, cluster("8", alone), "q", "-n", "t")["members"]
        assert (member["kind"], member["name"]) == ("Workload", alone["metadata"]["name"])

    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            (("nothing", "-n", "t"), 1, 'localqueues.kueue.x-k8s.io "nothing" not found in namespace "t"'),
            (("nothing", "--cluster-queue"), 1, 'clusterqueues.kueue.x-k8s.io "nothing" not found'),
            (("clusterqueue/nothing",), 1, 'clusterqueues.kueue.x-k8s.io "nothing" not found'),
            (("cq", "-n", "t", "--cluster-queue"), 2, "--namespace is about LocalQueues"),
            (("clusterqueue/cq", "-n", "t"), 2, "--namespace is about LocalQueues"),
            (("q", "-n", "t/localqueues"), 2, '"t/localqueues" is not the name of a namespace'),
        ],
    )
    def test_bad_input_is_exit_code_2(self, arguments: tuple[str, ...], code: int, words: str, tmp_path: Path) -> None:
        answer = ask_files(tmp_path, busy(), "describe", *arguments)
        assert (answer.code, answer.out) == (code, "")
        assert words in answer.err


class TestSchemas:
    def test_schema_is_published_of_a_list(self, golden: Golden) -> None:
        golden(DOCS / "queue-list.schema.json", json.dumps(schema_of("queue-list"), indent=2) + "\n")

    def test_schema_is_published_of_a_description(self, golden: Golden) -> None:
        golden(DOCS / "queue-describe.schema.json", json.dumps(schema_of("queue-describe"), indent=2) + "\n")

    @each("place", [("-A",), ("--cluster-queues",), ("-n", "t"), ("-n", "nowhere")])
    def test_lists_match_the_schema(self, place: tuple[str, ...], tmp_path: Path) -> None:
        objects = [*busy(), local_queue("astray", "missing", "u")]
        listed = ask_files(tmp_path, objects, "list", *place, "-o", "json").json
        assert answer_violations(listed, schema_of("queue-list")) == []
        assert listed["items"] or place == ("-n", "nowhere")

    @pytest.mark.parametrize("queue", [("cq", "--cluster-queue"), ("strict", "--cluster-queue"), ("q", "-n", "t")])
    def test_descriptions_match_the_schema(self, queue: tuple[str, ...], tmp_path: Path) -> None:
        described = describe(tmp_path, busy(), *queue)
        assert violations(described, schema_of("queue-describe")) == []
        assert described["members"]
        assert violations({**described, "kind": "QueueSummary"}, schema_of("queue-describe"))

    def test_an_empty_queue_matches_the_schema(self, tmp_path: Path) -> None:
        described = describe(tmp_path, [local_queue("astray", "missing", "u")], "astray", "-n", "u")
        assert violations(described, schema_of("queue-describe")) == []
        assert (described["members"], described["quotas"]) == ([], [])

    def test_a_negative_priority_matches_the_schema(self, tmp_path: Path) -> None:
        described = describe(tmp_path, busy(), "q", "-n", "t")
        assert min(each["priority"] for each in described["members"]) == -1
        assert violations(described, schema_of("queue-describe")) == []


def _without_ages(text: str) -> str:
    """How long ago the first of January was does not stay the same."""
    return re.sub(r" {2,}", "  ", re.sub(r"\b\d+d(\d+h)?\b", "AGE", text))


class TestCluster:
    """The same of an API server."""

    def there(self, *more: Object) -> list[Object]:
        objects = [each for each in busy() if each is not CONFIGURATION]
        return [*objects, config_map(CONFIGURATION), labelled("t"), labelled("u"), *more]

    async def test_queues_of_a_cluster_are_listed(self, tmp_path: Path) -> None:
        async with serving(*self.there(local_queue("elsewhere", "cq", "u"))) as (server, url):
            mine = await ask(tmp_path, url, "queue", "list", "-o", "json")
            everybody = await ask(tmp_path, url, "queue", "list", "-A", "-o", "name")
            queues = await ask(tmp_path, url, "queue", "list", "--cluster-queues", "-o", "name")
        assert [each["metadata"]["name"] for each in mine.json["items"]] == ["q", "r", "s"]
        assert len(everybody.out.splitlines()) == 4
        assert len(queues.out.splitlines()) == 2
        assert {method for method, _ in server.asked} == {"GET"}

    async def test_ages_are_those_of_the_clusters_clock(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Client, "server_time", lambda _: datetime.fromisoformat(LATER) + timedelta(minutes=7))
        waits = [*cluster("8"), waiting("waits", created=LATER)]
        async with serving(*(item for item in waits if item is not CONFIGURATION)) as (_, url):
            answer = await ask(tmp_path, url, "queue", "list", "-o", "wide")
        header, row = answer.out.splitlines()[:2]
        assert row[header.index("OLDEST") :].split()[0] == "7m", answer.out

    async def test_positions_count_workloads_of_other_namespaces(self, tmp_path: Path) -> None:
        others = (local_queue("v", "cq", "u"), waiting("important", "v", namespace="u", priority=1000))
        async with serving(*self.there(*others)) as (_, url):
            answer = await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")
        async with serving(*self.there(*others), forbidden={f"{KUEUE}/localqueues", f"{KUEUE}/workloads"}) as (_, url):
            alone = await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")
        assert [each["position"] for each in answer.json["members"]] == [None, 3, 4, 5, None]
        # In their order, and none of them by its number among the others.
        assert [each["position"] for each in alone.json["members"]] == [None] * 5
        assert [each["name"] for each in alone.json["members"]] == [each["name"] for each in answer.json["members"]]
        assert POSITIONS.format("what waits in other namespaces may not be read") in alone.json["unknown"]
        async with serving(*self.there(), forbidden={f"{KUEUE}/localqueues"}) as (_, url):
            strict = await ask(tmp_path, url, "queue", "describe", "s", "-o", "json")
        assert strict.json["stuck"] == []

    async def test_a_never_fitting_head_of_a_strict_queue_is_shown(self, tmp_path: Path) -> None:
        stored = queued("head", cpu="500", queue="s", uid="uid-head")
        async with serving(*self.there(stored)) as (_, url):
            answer = await ask(tmp_path, url, "queue", "describe", "s", "-o", "json")
        (stuck,) = answer.json["stuck"]
        assert '"t/head" can never fit' in stuck

    async def test_a_jobset_without_a_workload_is_shown(self, tmp_path: Path) -> None:
        stored = queued("forgotten", uid="uid-forgotten")
        stored["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        stored["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "gold"
        stored["spec"]["suspend"] = True
        async with serving(*self.there(stored)) as (_, url):
            answer = await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")
            other = await ask(tmp_path, url, "queue", "describe", "r", "-o", "json")
        (stuck,) = answer.json["stuck"]
        assert stuck.startswith('JobSet t/forgotten: WorkloadPriorityClass "gold" of its label does not exist')
        assert other.json["stuck"] == []

    async def test_a_jobset_that_kueue_could_not_start_is_shown(self, tmp_path: Path) -> None:
        jobsets = [queued(name, uid=f"uid-{name}", suspend=True) for name in ("refused", "over")]
        for stored in jobsets:
            stored["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        ends = {"refused": ("FailedToStart", "conflict for labels"), "over": ("Succeeded", "")}
        finished = [workload(name, "q", condition("Finished", True, *end)) for name, end in ends.items()]
        async with serving(*self.there(*jobsets, *finished)) as (_, url):
            answer = await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")
        (stuck,) = answer.json["stuck"]
        assert stuck.startswith(
            "JobSet t/refused: Kueue could not start it, and does not try again: conflict for labels"
        )

    async def test_quota_that_an_evicted_gang_without_pods_holds(self, tmp_path: Path) -> None:
        evicted = workload("evicted", "q", condition("Evicted", True, "Preempted"), held={"a100": {GPU: "1"}})
        stored = queued("evicted", uid="uid-evicted")
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "t", "labels": {"jobset.sigs.k8s.io/jobset-uid": "uid-evicted"}},
            "status": {"phase": "Succeeded"},
        }
        async with serving(*self.there(evicted, stored, pod)) as (_, url):
            over = await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")
        pod["status"]["phase"] = "Running"
        async with serving(*self.there(evicted, stored, pod)) as (_, url):
            running = await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")
        troubles = [
            {each["name"]: each["trouble"] for each in answer.json["members"]}["evicted"] for answer in (over, running)
        ]
        assert troubles == ["EvictedHoldsQuota", ""]

    async def test_a_cluster_without_kueue_is_an_error(self, tmp_path: Path) -> None:
        async with serving(kueue=False) as (_, url):
            answer = await ask(tmp_path, url, "queue", "list")
        assert (answer.code, answer.out) == (3, "")
        assert "error: the cluster does not have Kueue" in answer.err

    async def test_forbidden_objects_are_noted(self, tmp_path: Path) -> None:
        jobsets = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/t/jobsets"
        async with serving(*self.there(), forbidden={jobsets}) as (_, url):
            answer = await ask(tmp_path, url, "queue", "describe", "q")
        assert (answer.code, f"! not known: {WITHOUT_WORKLOAD}" in answer.out) == (0, True)
        async with serving(*self.there(), forbidden={f"{KUEUE}/workloads"}) as (_, url):
            everywhere = await ask(tmp_path, url, "queue", "list", "-A")
            here = await ask(tmp_path, url, "queue", "list")
        assert (everywhere.code, everywhere.out) == (3, "")
        assert here.code == 0
        assert "note: who holds quota in other namespaces is not known" in here.err

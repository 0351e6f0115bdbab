"""``gangctl fit``, on files."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gangctl.api.meta import EXPECTED_DURATION
from gangctl.cli import queuefiles
from gangctl.cluster.kinds import READERS
from gangctl.cluster.stock import Stock
from tests.cli.conftest import Golden
from tests.cli.kueueobjects import (
    CONFIGURATION,
    GPU,
    KUEUE,
    LATER,
    QUEUE,
    WITH_TRAINJOBS,
    Object,
    cluster,
    cluster_queue,
    condition,
    flavor,
    local_queue,
    of_trainjob,
    queued,
    workload,
)
from tests.cli.manifests import SERVICE, write
from tests.cli.publishedschemas import schema_of
from tests.cli.run import Answer, gangctl
from tests.cli.schema import violations
from tests.jobsets import jobset, rj
from tests.rows import each

HERE = Path(__file__).parent
SCHEMA = HERE.parents[1] / "docs" / "fit.schema.json"


def fit(directory: Path, jobsets: Object | list[Object], queues: list[Object], *arguments: str) -> Answer:
    found = jobsets if isinstance(jobsets, list) else [jobsets]
    files = write(directory / "jobsets.yaml", *found), write(directory / "queues.yaml", *queues)
    return gangctl("fit", "-f", files[0], "--queues", files[1], *arguments)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("pods", "used", "verdict", "codes"),
        [(8, "0", "fits", (0, 0)), (8, "4", "not-now", (0, 1)), (9, "0", "never", (1, 1))],
    )
    def test_the_exit_code_follows_the_verdict(
        self, pods: int, used: str, verdict: str, codes: tuple[int, int], tmp_path: Path
    ) -> None:
        queues = cluster("8", workload("other", "q", held={"f": {"cpu": used}}))
        answer = fit(tmp_path, queued(pods=pods), queues, "-o", "json")
        assert answer.json["verdict"] == verdict
        assert (answer.code, fit(tmp_path, queued(pods=pods), queues, "--now").code) == codes

    @pytest.mark.parametrize(("uid", "reason"), [("uid-train", "NotQueued"), ("", "WaitsForQuota")])
    def test_the_quota_of_a_trainjob_does_not_count_against_its_jobset(
        self, uid: str, reason: str, tmp_path: Path
    ) -> None:
        """Of a new one Kueue has not decided yet, and anyone can write an ownerReference."""
        holds = workload("job", "q", kind="TrainJob", held={"f": {"cpu": "8"}})
        queues = [*(held for held in cluster("8", holds) if held is not CONFIGURATION), WITH_TRAINJOBS]
        answer = fit(tmp_path, of_trainjob(queued(uid=uid)), queues, "-o", "json")
        assert answer.json["reason"] == reason
        assert ("Kueue queues the TrainJob" in answer.json["message"]) is bool(uid)

    def test_a_missing_configuration_makes_the_verdict_unknown(self, tmp_path: Path) -> None:
        queues = [each for each in cluster("8") if each is not CONFIGURATION]
        answer = fit(tmp_path, queued(pods=9), queues, "-o", "json")
        assert (answer.code, answer.json["verdict"]) == (0, "unknown")
        assert answer.json["unknown"]
        assert fit(tmp_path, queued(pods=9), queues, "--now").code == 1
        assert "! not known: " in fit(tmp_path, queued(pods=9), queues).out

    def test_flavors_absent_from_the_files_are_unknown(self, tmp_path: Path) -> None:
        queues = [each for each in cluster("8") if each["kind"] != "ResourceFlavor"]
        answer = fit(tmp_path, queued(), queues, "-o", "json")
        assert (answer.code, answer.json["verdict"]) != (1, "never")
        assert "ResourceFlavors (the files have none)" in answer.json["unknown"]

    def test_the_configuration_is_read_from_its_config_map(self, tmp_path: Path) -> None:
        text = json.dumps({**CONFIGURATION, "integrations": {"frameworks": ["batch/job"]}})
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
            "data": {"controller_manager_config.yaml": text},
        }
        queues = [*(each for each in cluster("8") if each is not CONFIGURATION), config_map]
        answer = fit(tmp_path, queued(pods=9), queues, "-o", "json")
        assert (answer.json["verdict"], answer.json["reason"]) == ("fits", "NotQueued")

    def test_a_namespace_that_the_queue_does_not_select_is_blocked(self, tmp_path: Path) -> None:
        selector = {"matchLabels": {"team": "a"}}
        place: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t", "labels": {"team": "b"}}}
        answer = fit(tmp_path, queued(), cluster("8", place, namespaceSelector=selector), "-o", "json")
        assert (answer.code, answer.json["verdict"], answer.json["reason"]) == (0, "not-now", "QueueBlocked")
        place["metadata"]["labels"] = {"team": "a"}
        assert fit(tmp_path, queued(), cluster("8", place, namespaceSelector=selector), "--now").code == 0

    def test_limit_ranges_and_runtime_classes_are_counted(self, tmp_path: Path) -> None:
        raw = jobset(
            "train", rj("w", 1, 4, 4, pod={"runtimeClassName": "heavy", "containers": [{"name": "m", "image": "i"}]})
        )
        raw["metadata"]["labels"] = {QUEUE: "q"}
        limits = {"type": "Container", "defaultRequest": {"cpu": "2"}}
        more = (
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "l", "namespace": "t"},
                "spec": {"limits": [limits]},
            },
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": "heavy"},
                "handler": "h",
                "overhead": {"podFixed": {"cpu": "500m"}},
            },
        )
        answer = fit(tmp_path, raw, cluster("9", *more), "-o", "json")
        assert [each["requests"] for each in answer.json["podSets"]] == [{"cpu": "2500m"}]
        assert (answer.json["verdict"], answer.json["limits"][0]["missing"]) == ("never", "1")


class TestSubjects:
    def test_quota_held_by_the_jobset_itself_counts_as_free(self, tmp_path: Path) -> None:
        own = workload("train", "q", held={"f": {"cpu": "8"}})
        answer = fit(tmp_path, queued(pods=8), cluster("8", own), "--now")
        assert answer.code == 0
        assert "  Kueue: Admitted for " in answer.out
        stranger = workload("train", "q", held={"f": {"cpu": "8"}}, namespace="u")
        assert fit(tmp_path, queued(pods=8), cluster("8", stranger), "--now").code == 1

    def test_the_queue_flag_selects_another_queue(self, tmp_path: Path) -> None:
        more = (cluster_queue("large", {"f": {"cpu": "99"}}), local_queue("l", "large"))
        answer = fit(tmp_path, queued(pods=9), cluster("8", *more), "--queue", "l", "-o", "json")
        assert (answer.code, answer.json["queue"], answer.json["clusterQueue"]) == (0, "l", "large")

    def test_the_default_queue_is_used(self, tmp_path: Path) -> None:
        answer = fit(tmp_path, queued(queue=""), cluster("8", local_queue("default", "cq")), "-o", "json")
        assert (answer.json["queue"], answer.json["verdict"]) == ("default", "fits")

    def test_the_namespace_has_a_default(self, tmp_path: Path) -> None:
        raw = queued()
        del raw["metadata"]["namespace"]
        door = local_queue("q", "cq")
        del door["metadata"]["namespace"]
        queues = [*(each for each in cluster("8") if each["kind"] != "LocalQueue"), door]
        assert fit(tmp_path, raw, queues, "-o", "json").json["metadata"] == {"name": "train", "namespace": "default"}
        assert fit(tmp_path, raw, queues, "-o", "json").json["verdict"] == "fits"
        # -n is that of all files, as it is of kubectl apply -n.
        elsewhere = fit(tmp_path, raw, queues, "-n", "t", "-o", "json").json
        assert (elsewhere["metadata"]["namespace"], elsewhere["verdict"]) == ("t", "fits")
        apart = fit(tmp_path, {**raw, "metadata": {**raw["metadata"], "namespace": "u"}}, queues, "-o", "json")
        assert apart.json["reason"] == "QueueBlocked"

    def test_several_jobsets_are_a_list_and_one_never_is_exit_code_1(self, tmp_path: Path) -> None:
        answer = fit(tmp_path, [queued("a"), queued("b", pods=9)], cluster("8"), "-o", "json")
        assert (answer.code, answer.json["kind"]) == (1, "List")
        assert [each["verdict"] for each in answer.json["items"]] == ["fits", "never"]
        documents = fit(tmp_path, [queued("a"), queued("b", pods=9)], cluster("8"), "-o", "yaml").documents
        assert documents == answer.json["items"]

    def test_other_kinds_are_skipped_with_a_note(self, tmp_path: Path) -> None:
        kustomization = {"kind": "Kustomization", "resources": []}
        answer = fit(tmp_path, [queued(), SERVICE], [*cluster("8"), SERVICE, kustomization])
        assert answer.err.splitlines() == ["note: skipped 1 Kustomization, 1 Service", "note: skipped 1 Service"]


class TestStart:
    """At one o'clock, when those admitted ``LONG_AGO`` have run for an hour."""

    HELD: Final = {"f": {"cpu": "4"}}

    @pytest.fixture(autouse=True)
    def _clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queuefiles, "Stock", partial(Stock, lambda: datetime.fromisoformat(LATER)))

    def test_a_maximum_execution_time_limits_the_start(self, tmp_path: Path) -> None:
        held = workload("other", "q", held=self.HELD, maximumExecutionTimeSeconds=7200)
        answer = fit(tmp_path, queued(pods=8), cluster("8", held))
        why = '"t/other" may run for 2h at most and has run for 1h'
        assert f"\n  Starts: within 1h1m, if nothing new goes before it ({why})\n" in answer.out
        found = fit(tmp_path, queued(pods=8), cluster("8", held), "-o", "json").json
        assert found["starts"] == {"earliest": 0, "latest": 3630, "why": [why]}

    def test_a_jobset_declares_how_long_it_runs(self, tmp_path: Path) -> None:
        held = workload("other", "q", held=self.HELD)
        other = queued("other", annotations={EXPECTED_DURATION: "90m"})
        answer = fit(tmp_path, queued(pods=8), [*cluster("8", held), other])
        assert answer.err == ""
        assert "\n  Starts: not within 30m (" in answer.out

    def test_nothing_is_said_if_nothing_is_known(self, tmp_path: Path) -> None:
        answer = fit(tmp_path, queued(pods=8), cluster("8", workload("other", "q", held=self.HELD)))
        assert "does not fit now" in answer.out
        assert "Starts" not in answer.out


class TestTable:
    def test_the_table_of_never_is_as_recorded(self, tmp_path: Path, golden: Golden) -> None:
        raw = jobset(
            "train",
            rj("leader", cpu="500m"),
            rj(
                "workers",
                2,
                4,
                4,
                pod={"containers": [{"name": "m", "image": "i", "resources": {"limits": {GPU: 4, "memory": "6Gi"}}}]},
            ),
            mode="Gang",
        )
        raw["metadata"]["labels"] = {QUEUE: "q"}
        quotas: dict[str, dict[str, Any]] = {
            "a100": {"cpu": 100, "memory": "400Gi", GPU: {"nominalQuota": 8, "borrowingLimit": 8}},
            "h100": {"cpu": 100, "memory": "400Gi", GPU: 64},
        }
        queues = [
            flavor("a100"),
            flavor("h100", nodeTaints=[{"key": "expensive", "effect": "NoSchedule"}]),
            cluster_queue("cq", quotas, cohortName="all", queueingStrategy="StrictFIFO"),
            cluster_queue("teaching", {"a100": {GPU: 16}}, cohortName="all"),
            local_queue("q", "cq"),
            CONFIGURATION,
        ]
        answer = fit(tmp_path, raw, queues)
        assert answer.code == 1
        golden(HERE / "golden" / "fit-never.txt", answer.out)

    def test_the_table_of_not_now_is_as_recorded(self, tmp_path: Path, golden: Golden) -> None:
        held = workload("other", "q", held={"f": {"cpu": "6"}}, priority=7)
        job = workload("index", "q", held={"f": {"cpu": "1"}}, kind="Job")
        own = workload("train", "q", condition("QuotaReserved", False, "Pending", "couldn't assign flavors"))
        answer = fit(tmp_path, queued(pods=4), cluster("8", held, job, own))
        assert answer.code == 0
        shown = "".join(line for line in answer.out.splitlines(keepends=True) if "Kueue: " not in line)
        golden(HERE / "golden" / "fit-not-now.txt", shown)
        assert "  Kueue: Pending for " in answer.out

    def test_an_unlimited_quota_is_printed(self, tmp_path: Path) -> None:
        lines = fit(tmp_path, queued(), cluster("9223372036854775807")).out.splitlines()
        assert any("no bound" in line for line in lines)

    def test_control_characters_are_escaped(self, tmp_path: Path) -> None:
        answer = fit(tmp_path, queued(), cluster("8"), "--queue", "\x1b[2J")
        assert "\x1b" not in answer.out


class TestFormats:
    def test_schema_is_published(self, golden: Golden) -> None:
        golden(SCHEMA, json.dumps(schema_of("fit"), indent=2) + "\n")

    @pytest.mark.parametrize("pods", [0, 8, 9])
    def test_reports_match_the_schema(self, pods: int, tmp_path: Path) -> None:
        queues = cluster("8", workload("other", "q", held={"f": {"cpu": "2"}}))
        assert violations(fit(tmp_path, queued(pods=pods), queues, "-o", "json").json, schema_of("fit")) == []

    def test_a_holder_of_negative_priority_matches_the_schema(self, tmp_path: Path) -> None:
        queues = cluster("8", workload("other", "q", held={"f": {"cpu": "8"}}, priority=-5))
        answer = fit(tmp_path, queued(), queues, "-o", "json").json
        assert [each["priority"] for each in answer["holders"]] == [-5]
        assert violations(answer, schema_of("fit")) == []


class TestBadInput:
    @each(
        ("arguments", "words"),
        [
            ((), "give the NAME of a JobSet, or files with -f"),
            (("train", "-f", "x"), "give the NAME of a JobSet, or files with -f"),
            (("-f", "x"), "name a cluster by --context (kubectl config current-context prints yours)"),
            # As with kubectl, an empty flag is none.
            (("-f", "x", "--kubeconfig", ""), "name a cluster by --context"),
            (("-f", "x", "--context", ""), "name a cluster by --context"),
            (("train", "--queues", "x"), "--queues stands in for a cluster"),
            (("-f", "x", "--queues", "y", "--context", "c"), "--queues stands in for a cluster"),
            (("-f", "-", "--queues", "-"), "stdin can be only one"),
            (("-f", "nothing.yaml", "--queues", "nothing.yaml"), "nothing.yaml: no such file or directory"),
        ],
    )
    def test_bad_usage_is_exit_code_2(self, arguments: tuple[str, ...], words: str) -> None:
        answer = gangctl("fit", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err

    def test_jobsets_are_checked(self, tmp_path: Path) -> None:
        answer = fit(tmp_path, queued(cpu="plenty"), cluster("8"))
        assert (answer.code, answer.out) == (2, "")
        assert "jobsets.yaml:" in answer.err

    @each(
        ("wrong", "words"),
        [
            ({"apiVersion": "kueue.x-k8s.io/v1beta1"}, "kubectl get clusterqueue.v1beta2.kueue.x-k8s.io -o "),
            ({"spec": {"cohort": "all"}}, "spec.cohort: ClusterQueue of kueue.x-k8s.io/v1beta2 has no such field"),
            ({"spec": []}, "spec: has the wrong type"),
            ({"metadata": {}}, "a ClusterQueue without metadata.name"),
        ],
    )
    def test_queues_are_checked(self, wrong: Object, words: str, tmp_path: Path) -> None:
        answer = fit(tmp_path, queued(), [{**cluster_queue("a", {"f": {"cpu": 1}}), **wrong}, *cluster("8")])
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err
        assert "queues.yaml:" in answer.err

    def test_labels_of_a_flavor_must_be_strings(self, tmp_path: Path) -> None:
        flavor = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "f"}}
        answer = fit(tmp_path, queued(), [{**flavor, "spec": {"nodeLabels": {"pool": True}}}, *cluster("8")[1:]])
        assert (answer.code, answer.out) == (2, "")
        assert "queues.yaml:7:5: spec.nodeLabels.pool: true is not a string; put it in quotes" in answer.err

    def test_every_error_is_reported_with_its_place(self, tmp_path: Path) -> None:
        second = cluster({"nominalQuota": 1, "lendingLimit": []})
        next(raw for raw in second if raw["kind"] == "LocalQueue")["metadata"]["uid"] = "another"
        answer = fit(tmp_path, queued(), [*cluster("many"), *second])
        assert answer.code == 2
        assert 'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: "many" is not a quantity' in answer.err
        assert "resources[0].lendingLimit: a list is not a quantity" in answer.err
        assert "LocalQueue t/q is there already, at " in answer.err

    @each(
        "kind",
        [
            *(kind for _, kind in READERS),
            "LimitRange",
            "ResourceQuota",
            "RuntimeClass",
            "Namespace",
            "Node",
            "Pod",
            "ConfigMap",
        ],
    )
    @each("odd", [None, 7, "text", [], [7], {}, {"a": 7}, [{"a": [{}]}]])
    def test_invalid_objects_are_one_error_or_ignored(self, kind: str, odd: Any, tmp_path: Path) -> None:
        others = {"RuntimeClass": "node.k8s.io/v1", "PriorityClass": "scheduling.k8s.io/v1"}
        version = others.get(kind, KUEUE if ("kueue.x-k8s.io", kind) in READERS else "v1")
        name = "kueue-manager-config" if kind == "ConfigMap" else "odd"
        for parts in (
            {"metadata": odd},
            {"metadata": {"name": odd}},
            {"metadata": {"name": name, "labels": odd, "namespace": odd, "ownerReferences": odd}},
            {"metadata": {"name": name}, "spec": odd, "status": odd, "data": odd, "overhead": odd},
            {"metadata": {"name": name}, "spec": dict.fromkeys(_ODD, odd), "status": dict.fromkeys(_ODD, odd)},
        ):
            queues = [*cluster("8"), {"apiVersion": version, "kind": kind, **parts}]
            answer = fit(tmp_path, queued(), queues, "-o", "json")
            assert answer.code in {0, 2}, (parts, answer.err)
            assert "internal error" not in answer.err
            assert answer.code == 0 or not answer.out


_ODD = (
    *(
        "resourceGroups",
        "namespaceSelector",
        "admissionChecksStrategy",
        "nodeLabels",
        "nodeTaints",
        "podSets",
        "limits",
    ),
    *("hard", "scopes", "scopeSelector", "used"),
    *("admission", "conditions", "allocatable", "taints", "containers", "nodeName", "clusterQueue", "queueName"),
)


GPUS: Object = {
    "containers": [{"name": "m", "image": "i", "resources": {"limits": {"nvidia.com/gpus": "1"}}}],
    "restartPolicy": "Never",
}


class TestMistakes:
    """What people type, and the name that they mean."""

    def test_a_wrong_queue_is_answered_with_those_that_take_the_namespace(self, tmp_path: Path) -> None:
        nobody = (cluster_queue("nobody", {"f": {"cpu": 8}}, namespaceSelector=None), local_queue("nobody", "nobody"))
        more = (local_queue("research", "cq"), local_queue("held", "cq", stopPolicy="Hold"), *nobody)
        answer = fit(tmp_path, queued(), cluster("8", *more), "--queue", "reserch")
        assert answer.code == 1
        assert (
            'LocalQueue "reserch" does not exist in namespace "t"; create it, or name another queue: q, research.'
            in (answer.out)
        )

    def test_a_queue_of_another_namespace_is_answered_with_where_it_is(self, tmp_path: Path) -> None:
        there = local_queue("research", "cq")
        there["metadata"]["namespace"] = "ml"
        answer = fit(tmp_path, queued(), cluster("8", there), "--queue", "research")
        assert (
            'LocalQueue "research" does not exist in namespace "t"; create it, or name another queue: q; '
            'namespace "ml" has one of this name.' in answer.out
        )

    def test_a_resource_that_no_queue_has_is_answered_with_the_nearest_name(self, tmp_path: Path) -> None:
        raw = jobset("train", rj("w", 1, 2, 2, pod=GPUS))
        raw["metadata"]["labels"] = {QUEUE: "q"}
        queues = cluster("8", cluster_queue("gpus", {"f": {"nvidia.com/gpu": 8}}), local_queue("gpus", "gpus"))
        answer = fit(tmp_path, raw, queues, "--queue", "gpus")
        assert answer.code == 1
        assert 'no resource group of ClusterQueue "gpus" has (did you mean nvidia.com/gpu?).' in answer.out


class TestBlocked:
    def test_a_stopped_queue_means_not_now_and_not_never(self, tmp_path: Path) -> None:
        closed = cluster_queue("inactive", {"f": {"cpu": 8}})
        closed["status"] = {"conditions": [condition("Active", False, "FlavorNotFound", "f is missing")]}
        more = (
            local_queue("stopped", "cq", stopPolicy="Hold"),
            cluster_queue("nobody", {"f": {"cpu": 8}}, namespaceSelector=None),
            local_queue("nobody", "nobody"),
            closed,
            local_queue("inactive", "inactive"),
        )
        printed = {
            queue: fit(tmp_path, queued(pods=9), cluster("8", *more), "--queue", queue, "-o", "json")
            for queue in ("missing", "stopped", "nobody", "inactive")
        }
        assert {(each.json["verdict"], each.json["reason"]) for each in printed.values()} == {
            ("not-now", "QueueBlocked")
        }
        # Waiting helps where a queue exists.
        assert {queue for queue, each in printed.items() if each.code} == {"missing"}
        assert len({each.json["blocked"] for each in printed.values()}) == 4

"""``gangctl plan``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gangctl.api.meta import GANGS
from gangctl.api.scheduling import Generation
from gangctl.cli import plan
from tests.cases import CASES, Case
from tests.cli.conftest import Golden
from tests.cli.gangs.place import place
from tests.cli.manifests import EXAMPLES, PLACEHOLDER, gang, write
from tests.cli.publishedschemas import schema_of
from tests.cli.run import fine, gangctl
from tests.cli.schema import violations
from tests.gang.pipeline import stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each

HERE = Path(__file__).parent
SCHEMA = HERE.parents[1] / "docs" / "plan.schema.json"


class TestExamples:
    @each("example", EXAMPLES, ids=lambda path: path.stem)
    def test_the_tables_of_examples_are_as_recorded(self, example: Path, golden: Golden) -> None:
        answer = fine("plan", "-f", str(example))
        golden(HERE / "golden" / f"{example.stem}.txt", answer.out)

    @each("example", EXAMPLES, ids=lambda path: path.stem)
    def test_the_json_of_examples_is_as_recorded(self, example: Path, golden: Golden) -> None:
        answer = fine("plan", "-f", str(example), "-o", "json")
        assert violations(answer.json, schema_of("plan")) == []
        golden(HERE / "golden" / f"{example.stem}.json", answer.out)

    @each("example", EXAMPLES, ids=lambda path: path.stem)
    def test_the_plan_is_the_same_on_every_minor(self, example: Path) -> None:
        """Offline, the generations differ in what they can express, not in the gangs."""
        plans = [gangctl("plan", "-f", str(example), "-o", "json", "--kube", g.kubernetes) for g in Generation]
        groups = [plan.json["groups"] for plan in plans if plan.code == 0]
        assert all(group == groups[0] for group in groups)
        assert len(groups) == len(Generation) - ("topologyKey" in example.read_text())

    def test_the_index_names_all_eight_examples(self) -> None:
        index = EXAMPLES[0].parent.joinpath("README.md").read_text()
        assert [example.name[:2] for example in EXAMPLES] == [f"0{i}" for i in range(1, 9)]
        assert [example.name for example in EXAMPLES if f"]({example.name})" not in index] == []


class TestFormats:
    def test_schema_is_published(self, golden: Golden) -> None:
        golden(SCHEMA, json.dumps(schema_of("plan"), indent=2) + "\n")

    @each("case", [case for case in CASES if not case.rejected], ids=lambda c: c.id)
    def test_conformance_cases_match_the_schema(self, case: Case, tmp_path: Path) -> None:
        raw = {**case.jobset, "metadata": {**case.jobset["metadata"], "uid": FIXTURE_UID}}
        plan = fine("plan", "-f", write(tmp_path / "a.yaml", raw), "-o", "json").json
        assert violations(plan, schema_of("plan")) == []
        assert [(t["name"], t["minCount"]) for t in plan["templates"]] == list(case.templates.items())

    def test_one_plan_is_an_object_and_several_are_a_list(self, tmp_path: Path) -> None:
        assert fine("plan", "-f", write(tmp_path / "a.yaml", gang()), "-o", "json").json["kind"] == "GangPlan"
        several = fine("plan", "-f", write(tmp_path / "a.yaml", gang("a"), gang("b")), "-o", "json").json
        assert (several["apiVersion"], several["kind"], len(several["items"])) == ("v1", "List", 2)

    def test_yaml_is_a_stream_of_the_same(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang("a"), gang("b"))
        assert fine("plan", "-f", file, "-o", "yaml").documents == fine("plan", "-f", file, "-o", "json").json["items"]

    def test_names_are_those_of_the_objects(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", jobset("js", rj("w", 2, mode="ReplicatedGang"), uid=FIXTURE_UID))
        plan = fine("plan", "-f", file, "-o", "json").json
        answer = fine("plan", "-f", file, "-o", "name")
        lines = answer.out.splitlines()
        assert answer.err == ""
        assert lines == [f"podgroup.scheduling.k8s.io/{group['name']}" for group in plan["groups"]]
        workload = f"workload.scheduling.k8s.io/{plan['workload']}\n"
        assert fine("plan", "-f", file, "-o", "name", "--kube", "1.35").out == workload

    @each("form", ["name", "json", "jsonpath={.workload}"])
    def test_a_placeholder_uid_is_noted(self, form: str, tmp_path: Path) -> None:
        answer = fine("plan", "-f", write(tmp_path / "a.yaml", jobset("js", rj("a", mode="Gang"))), "-o", form)
        assert "00000000-0000" in answer.out
        assert answer.err == PLACEHOLDER

    def test_a_jobset_without_a_gang_is_reported(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", jobset("js", rj("a", 2, 3, 3)))
        assert "  6 pods, no gang: none is asked for\n" in fine("plan", "-f", file).out
        assert fine("plan", "-f", file, "-o", "name").out == ""

    def test_a_requested_gang_that_is_not_possible_is_reported(self, tmp_path: Path) -> None:
        raw = jobset("js", rj("a", 2, 3, 3), mode="Gang", managedBy="kueue.x-k8s.io/multikueue")
        out = fine("plan", "-f", write(tmp_path / "a.yaml", raw)).out
        assert "  6 pods, no gang\n" in out
        assert "! NotGanged: " in out
        assert "spec.managedBy" in out

    def test_a_misspelt_key_gives_a_warning(self, tmp_path: Path) -> None:
        raw = jobset("js", rj("a"), annotations={"gangctl.dev/gang-modes": "Gang"})
        out = fine("plan", "-f", write(tmp_path / "a.yaml", raw)).out
        assert "no gang: none is asked for" in out
        assert "! UnknownKey: " in out


class TestKube:
    @pytest.mark.parametrize("generation", Generation)
    def test_kube_selects_the_api_version(self, generation: Generation, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang())
        plan = fine("plan", "-f", file, "--kube", generation.kubernetes, "-o", "json").json
        assert (plan["kubernetes"], plan["apiGeneration"]) == (generation.kubernetes, generation.api_version)

    def test_the_newest_minor_is_the_default(self, tmp_path: Path) -> None:
        assert fine("plan", "-f", write(tmp_path / "a.yaml", gang()), "-o", "json").json["kubernetes"] == "1.37"

    def test_rules_differ_between_minors(self, tmp_path: Path) -> None:
        mixed = jobset("js", rj("a", pod={"priorityClassName": "high"}), rj("b"), mode="Gang")
        file = write(tmp_path / "a.yaml", mixed)
        assert "MixedPriority" in fine("plan", "-f", file, "--kube", "1.36").out
        assert gangctl("plan", "-f", file, "--kube", "1.37").code == 2


def test_a_gang_that_exists_may_be_smaller_than_its_min_count(tmp_path: Path) -> None:
    notes = {GANGS: '[{"name": "w", "replicatedJobs": ["w"], "minCount": 4}]'}
    resized, new = (jobset("js", rj("w", 1, 3, 3), annotations=notes, uid=uid) for uid in (FIXTURE_UID, None))
    report = fine("plan", "-f", write(tmp_path / "js.yaml", resized), "-o", "json").json
    assert [group["minCount"] for group in report["groups"]] == [3]
    assert gangctl("plan", "-f", write(tmp_path / "js.yaml", new)).code == 2


def test_a_gang_that_exists_is_the_one_that_was_decided(tmp_path: Path) -> None:
    """Kubernetes 1.36 accepted it, and 1.37 would refuse it."""
    mixed = jobset("js", rj("a", pod={"priorityClassName": "high"}), rj("b"), mode="Gang", uid=FIXTURE_UID)
    before = write(tmp_path / "js.yaml", stored(mixed, Generation.V1ALPHA2))
    for command in ("plan", "translate"):
        answer = fine(command, "-f", before, "--kube", "1.37")
        assert f"js-{FIXTURE_UID[:13]}-0" in answer.out
        assert "ConfigIgnored" in answer.out + answer.err
    del mixed["metadata"]["uid"]
    again = write(tmp_path / "again.yaml", stored(mixed, Generation.V1ALPHA2))
    assert gangctl("plan", "-f", again, "--kube", "1.37").code == 2


def test_the_minimum_of_other_schedulers_is_named_as_gangctl_has_it(tmp_path: Path) -> None:
    raw = jobset("js", rj("a"))
    raw["spec"]["minAvailable"] = raw["spec"]["replicatedJobs"][0]["minMember"] = 2
    err = fine("plan", "-f", write(tmp_path / "a.yaml", raw)).err
    assert err.count("drops it; a gang that starts with fewer than all of its pods has minCount in annotation") == 2
    for field, hint in (("minAvailable", "minCount"), ("minMember", "minCount"), ("topologKey", "topologyKey")):
        gangs = [{"name": "g", "replicatedJobs": ["a"], field: 2}]
        raw["metadata"]["annotations"] = {"gangctl.dev/gangs": json.dumps(gangs)}
        answer = gangctl("plan", "-f", write(tmp_path / "a.yaml", raw))
        assert answer.code == 2
        assert f"[gangctl.dev/gangs][0].{field}: unknown field; did you mean {hint}?" in answer.err


@each(
    ("field", "key", "noted"),
    [
        ("labels", "kueue.x-k8s.io/queue", True),
        ("labels", "kueue.k8s.io/queue-name", True),
        ("labels", "kueue.x-k8s.io/queuename", True),
        ("annotations", "kueue.x-k8s.io/queue-name", True),
        ("labels", "kueue.x-k8s.io/queue-name", False),
        ("labels", "kueue.x-k8s.io/priority-class", False),
        ("annotations", "kueue.x-k8s.io/podset-group-name", False),
        ("labels", "example.com/queue", False),
    ],
)
def test_a_key_that_looks_like_the_queue_is_noted(field: str, key: str, noted: bool, tmp_path: Path) -> None:
    raw = jobset("js", rj("a"))
    raw["metadata"][field] = {key: "research"}
    err = fine("plan", "-f", write(tmp_path / "a.yaml", raw)).err
    text = f"metadata.{field}[{key}]: Kueue does not read it, so that the JobSet names no queue; did you mean label"
    assert (text in err) is noted
    raw["metadata"].setdefault("labels", {})["kueue.x-k8s.io/queue-name"] = "research"
    assert "did you mean" not in fine("plan", "-f", write(tmp_path / "a.yaml", raw)).err


class TestTable:
    def lines(self, tmp_path: Path, raw: dict[str, Any], *args: str) -> list[str]:
        return fine("plan", "-f", write(tmp_path / "a.yaml", raw), *args).out.splitlines()

    def test_every_gang_has_a_row(self, tmp_path: Path) -> None:
        lines = self.lines(tmp_path, jobset("js", rj("w", 100, mode="ReplicatedGang")))
        assert sum("js-w-" in line for line in lines) == 100

    def test_long_lists_stay_on_their_line(self, tmp_path: Path) -> None:
        raw = jobset("distributed-training", *(rj(f"replicated-job-{i}") for i in range(6)), mode="Gang")
        lines = self.lines(tmp_path, raw)
        assert [line.count("replicated-job-") for line in lines if "replicated-job-" in line] == [6]

    def test_constraints_and_priority_are_printed(self, tmp_path: Path) -> None:
        pod = {"priorityClassName": "high"}
        raw = jobset("js", rj("a", mode="Gang", pod=pod), options='{"topologyKey":"rack","disruption":"single"}')
        assert "  all pods of a gang on one rack, preempted pod by pod, priority high" in self.lines(tmp_path, raw)

    def test_amounts_of_a_gang_with_a_minimum_are_of_all_pods(self, tmp_path: Path) -> None:
        raw = jobset("js", rj("a", parallelism=6, completions=6))
        for count, lines in ((2, 1), (6, 0)):
            gangs = [{"name": "g", "replicatedJobs": ["a"], "minCount": count}]
            raw["metadata"]["annotations"] = {"gangctl.dev/gangs": json.dumps(gangs)}
            line = "  a gang of g starts with 2 of its 6 pods (minCount); its amounts in the table are of all 6"
            assert self.lines(tmp_path, raw).count(line) == lines

    def test_storage_and_huge_pages_are_bytes(self, tmp_path: Path) -> None:
        amounts = {"cpu": 0, "ephemeral-storage": "10Gi", "hugepages-2Mi": "4Mi", "example.com/fpga": 2}
        pod = {"containers": [{"name": "c", "image": "c", "resources": {"limits": amounts}}]}
        header, row = self.lines(tmp_path, jobset("js", rj("a", pod=pod, mode="Gang")))[:2]
        assert header.split() == [
            "JOBSET",
            "GANG",
            "MINPODS",
            "CPU",
            "MEMORY",
            "ephemeral-storage",
            "example.com/fpga",
            "hugepages-2Mi",
            "JOBS",
        ]
        assert row.split()[2:] == ["1", "0", "0", "10Gi", "2", "4Mi", "a", "1x1"]

    def test_schedulers_can_be_named(self, tmp_path: Path) -> None:
        raw = jobset("js", rj("a", pod={"schedulerName": "mine"}), mode="Gang")
        assert any("UnsupportedScheduler" in line for line in self.lines(tmp_path, raw))
        assert "  1 of 1 pod in 1 gang" in self.lines(tmp_path, raw, "--gang-scheduler", "mine")

    def test_control_characters_are_escaped(self, tmp_path: Path) -> None:
        raw = gang()
        raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q\x1b[31m"}
        answer = gangctl("plan", "-f", write(tmp_path / "a.yaml", raw))
        assert answer.code == 2
        assert "metadata.labels: Invalid value" in answer.err
        assert "\x1b" not in answer.err


def of_gpus(count: int, **node: Any) -> list[dict[str, Any]]:
    """Nodes with GPUs, and one with more that the pods may not use."""
    status = {"capacity": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(count)}}
    more = {"capacity": {**status["capacity"], "nvidia.com/gpu": "16"}}
    taint = {"key": "reserved", "value": "yes", "effect": "NoSchedule"}
    made = [("a", {}, status), ("b", {"unschedulable": True}, status), ("c", {"taints": [taint]}, more)]
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    return [home] + [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {**own, **node}}
        for name, spec, own in made
    ]


LARGE = 'a pod of "a" asks for more than any of the 2 nodes has that would take it: 16 nvidia.com/gpu of at most 8'


class TestNodesOfACluster:
    def asking(self, tmp_path: Path, gpus: str) -> str:
        raw = gang("train")
        (container,) = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
        return write(tmp_path / "jobset.yaml", raw)

    async def test_a_pod_that_is_larger_than_any_node_is_noted_with_what_the_largest_has(self, tmp_path: Path) -> None:
        async with place(tmp_path, of_gpus(8)) as here:
            large = await here.ask("plan", "-f", self.asking(tmp_path, "16"))
            fits = await here.ask("plan", "-f", self.asking(tmp_path, "8"))
        assert (large.code, f"train: {LARGE}" in large.err) == (0, True), large.err
        assert (fits.code, "asks for more" in fits.err) == (0, False)

    async def test_devices_of_a_class_that_may_not_be_read_are_not_missing(self, tmp_path: Path) -> None:
        raw = gang("train")
        (container,) = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"limits": {"x.com/gpu": "1"}}
        file = write(tmp_path / "jobset.yaml", raw)
        for forbidden in ((), ("deviceclasses.resource.k8s.io",)):
            async with place(tmp_path, of_gpus(8), forbidden=forbidden) as here:
                answer = await here.ask("plan", "-f", file)
            assert ("1 x.com/gpu of at most 0" in answer.err) is (not forbidden)

    async def test_nodes_that_may_not_be_read_are_noted(self, tmp_path: Path) -> None:
        async with place(tmp_path, of_gpus(8), forbidden=["nodes"]) as here:
            answer = await here.ask("plan", "-f", self.asking(tmp_path, "16"))
        assert (answer.code, "whether a node is large enough is not known" in answer.err) == (0, True)


def test_the_names_that_jobset_makes_have_the_namespace_of_the_command(tmp_path: Path) -> None:
    placed = ("alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector")
    raw = jobset("js", rj("workers", 2, 4, 4), mode="Gang", annotations=dict.fromkeys(placed, "true"))
    del raw["metadata"]["namespace"]
    file = write(tmp_path / "jobset.yaml", raw)
    assert gangctl("plan", "-f", file, "-n", "a").code == 0
    answer = gangctl("plan", "-f", file, "-n", "a" * 63)
    assert answer.code == 2
    assert "nodeSelector" in answer.err


class Listed(list[Any]):
    """A list that counts how often it is read."""

    read = 0

    def __iter__(self) -> Iterator[Any]:
        self.read += 1
        return super().__iter__()


def test_the_jobs_are_not_read_for_each_gang() -> None:
    jobs = Listed({"group": f"g{number}", "replicatedJob": "w", "pods": 1, "index": number} for number in range(9))
    groups = [{"name": f"g{number}", "minCount": 1, "resources": {}} for number in range(9)]
    preview: Any = SimpleNamespace(report={"jobs": jobs, "groups": groups}, manifest=SimpleNamespace(title="js"))
    table = plan._table([preview])
    assert table.rows[3] == ("js", "g3", "1", "0", "0", "w[3] 1x1")
    assert jobs.read == 1

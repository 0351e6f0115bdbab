"""``gangctl pathways validate``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.cli.httpserver import HERE, kubeconfig
from tests.cli.kueueobjects import CONFIGURATION, QUEUE, cluster_queue, flavor, local_queue
from tests.cli.kueueserver import config_map, labelled, serving
from tests.cli.manifests import CONFIG_MAP, gang, write
from tests.cli.pathways.server import Cluster, ask
from tests.cli.run import Answer, gangctl
from tests.pathways.samples import UNUSED_CLAIM, annotated, container, pathways_job, template

Object = dict[str, Any]

BROKEN = pathways_job(workers={"numSlices": 0, "topology": "9x9"})


def validate(directory: Path, *documents: Object, args: tuple[str, ...] = ()) -> Answer:
    return gangctl("pathways", "validate", "-f", write(directory / "a.yaml", *documents), *args)


class TestFiles:
    def test_a_valid_file_passes(self, tmp_path: Path) -> None:
        answer = validate(tmp_path, pathways_job())
        assert (answer.code, answer.err) == (0, "")
        lines = answer.out.splitlines()
        assert lines[:3] == [
            "PathwaysJob t/pw: valid",
            "  2 x tpuv5:2x2x2, 4 worker pods",
            "  The head's pod requests 24 cpu and ~122.9Gi memory.",
        ]
        assert any(line.startswith("  ! GangDisabledExclusivePlacement: ") for line in lines[3:])

    def test_every_problem_of_every_document_is_reported(self, tmp_path: Path) -> None:
        answer = validate(tmp_path, BROKEN, gang(), pathways_job(), pathways_job("b", workers={"type": "x"}))
        assert answer.code == 2
        printed, *lines, summary = answer.err.splitlines()
        assert printed == "note: skipped 1 JobSet"
        assert summary == "error: 3 errors in 2 PathwaysJobs"
        text = (tmp_path / "a.yaml").read_text().splitlines()
        for line, reason in zip(lines, ("InvalidTopology", "InvalidNumSlices", "UnknownAccelerator"), strict=True):
            place, path = line.split(": ")[:2]
            assert place.startswith(f"{tmp_path / 'a.yaml'}:")
            assert path.rpartition(".")[2] in text[int(place.split(":")[1]) - 1]
            assert line.endswith(f"({reason})")
        assert "PathwaysJob t/pw: valid" in answer.out

    def test_problems_are_printed_as_json(self, tmp_path: Path) -> None:
        answer = validate(tmp_path, BROKEN, pathways_job("b"), args=("-o", "json"))
        assert answer.code == 2
        first, second = answer.json["items"]
        assert (first["valid"], second["valid"]) == (False, True)
        assert [(each["path"], each["reason"]) for each in first["problems"]] == [
            ("spec.workers[0].topology", "InvalidTopology"),
            ("spec.workers[0].numSlices", "InvalidNumSlices"),
        ]
        assert first["problems"][0]["file"] == str(tmp_path / "a.yaml")
        assert all(each["line"] > 1 and each["column"] > 1 for each in first["problems"])
        assert second["headRequests"] == {"cpu": "24", "memory": "128906250Ki"}
        assert set(first) == set(second)
        assert validate(tmp_path, BROKEN, args=("-o", "yaml")).documents[0]["problems"] == first["problems"]

    def test_problems_of_the_jobset_are_reported_at_the_pathwaysjob(self, tmp_path: Path) -> None:
        answer = validate(tmp_path, pathways_job(metadata=annotated(gangs=UNUSED_CLAIM)))
        assert answer.code == 2
        assert ": metadata.annotations[gangctl.dev/gangs]: " in answer.err
        assert "(InvalidJobSet)" in answer.err

    @pytest.mark.parametrize(("strict", "code"), [((), 0), (("--fail-on-warnings",), 1)])
    def test_warnings_fail_if_requested(self, strict: tuple[str, ...], code: int, tmp_path: Path) -> None:
        assert validate(tmp_path, pathways_job(), args=strict).code == code

    def test_input_without_a_pathwaysjob_is_an_error(self, tmp_path: Path) -> None:
        answer = validate(tmp_path, CONFIG_MAP, gang())
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: no PathwaysJob in the input: found 1 ConfigMap, 1 JobSet\n")

    def test_options_that_the_annotation_does_not_choose(self, tmp_path: Path) -> None:
        long = pathways_job("a" * 30)
        assert validate(tmp_path, long).code == 2
        assert validate(tmp_path, long, args=("--subdomain", "auto")).code == 0


def queues(**quota: str) -> list[Object]:
    amounts = {"cpu": "100", "memory": "1000Gi", "google.com/tpu": "16"} | quota
    return [CONFIGURATION, flavor("f"), cluster_queue("cq", {"f": amounts}), local_queue("q", "cq")]


class TestQueues:
    def ask(self, directory: Path, stock: list[Object], *args: str, **labels: str) -> Answer:
        job = pathways_job(metadata={"labels": labels or {QUEUE: "q"}})
        return validate(directory, job, args=("--queues", write(directory / "queues.yaml", *stock), *args))

    @pytest.mark.parametrize(
        ("quota", "verdict", "code"),
        [({}, "unknown", 0), ({"cpu": "23"}, "never", 1), ({"memory": "131G"}, "never", 1)],
    )
    def test_the_head_is_counted(self, quota: dict[str, str], verdict: str, code: int, tmp_path: Path) -> None:
        answer = self.ask(tmp_path, queues(**quota), "-o", "json")
        assert (answer.code, answer.json["fit"]["verdict"], answer.json["valid"]) == (code, verdict, True)

    def test_uncovered_resources_are_named(self, tmp_path: Path) -> None:
        only_tpus = [CONFIGURATION, flavor("f"), cluster_queue("cq", {"f": {"google.com/tpu": "16"}})]
        answer = self.ask(tmp_path, [*only_tpus, local_queue("q", "cq")])
        assert answer.code == 1
        assert "JobSet t/pw: never fits" in answer.out
        assert "cpu" in answer.out

    def test_queue_can_be_named(self, tmp_path: Path) -> None:
        answer = self.ask(tmp_path, queues(cpu="1"), "--local-queue", "q", "-o", "json", team="a")
        assert (answer.code, answer.json["fit"]["queue"]) == (1, "q")

    def test_errors_are_reported_before_queues_are_read(self, tmp_path: Path) -> None:
        place = write(tmp_path / "queues.yaml", *queues(cpu="1"))
        answer = validate(tmp_path, BROKEN, args=("--queues", place, "-o", "json"))
        assert (answer.code, answer.json["fit"]) == (2, None)

    def test_queues_can_be_read_from_files(self, tmp_path: Path) -> None:
        answer = self.ask(tmp_path, queues(), "--context", "here")
        assert (answer.code, answer.out) == (2, "")
        assert "--queues stands in for a cluster" in answer.err

    def test_stdin_is_read_once(self) -> None:
        answer = gangctl("pathways", "validate", "-f", "-", "--queues", "-", stdin="")
        assert answer.code == 2
        assert "stdin can be only one of -f and --queues" in answer.err


def discovery(*resources: str) -> dict[str, Object]:
    """What a cluster with gangs answers, and one with Kueue where its ``resources`` are named."""
    scheduling = {"resources": [{"name": "workloads"}, {"name": "podgroups"}]}
    return {
        "/apis/scheduling.k8s.io": {"kind": "APIGroup", "versions": [{"version": "v1beta1"}]},
        "/apis/scheduling.k8s.io/v1beta1": {"kind": "APIResourceList", **scheduling},
        "/apis/kueue.x-k8s.io/v1beta2": {"resources": [{"name": each} for each in resources]},
    }


def node(name: str, cpu: str, **labels: str) -> Object:
    amounts = {"cpu": cpu, "memory": "400Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": amounts, "allocatable": amounts}}


class TestCluster:
    async def asked(self, directory: Path, cluster: Cluster, job: Object, *args: str) -> Answer:
        file = write(directory / "a.yaml", job)
        return await ask(directory, cluster, "pathways", "validate", "-f", file, "-o", "json", *args)

    def served(self, *nodes: Object) -> Cluster:
        return Cluster({"/api/v1/nodes": list(nodes)}, answers=discovery())

    async def reasons(self, directory: Path, cluster: Cluster, job: Object) -> set[str]:
        answer = await self.asked(directory, cluster, job)
        assert answer.code == 0, answer.err
        return {each["reason"] for each in answer.json["notices"]}

    async def test_a_head_larger_than_every_node_is_reported(self, tmp_path: Path) -> None:
        small = self.served(node("a", "16"), node("b", "23"))
        answer = await self.asked(tmp_path, small, pathways_job(), "--fail-on-warnings")
        (notice,) = [each for each in answer.json["notices"] if each["reason"] == "HeadDoesNotFit"]
        assert notice["warning"] is True
        assert "24 cpu" in notice["message"]
        assert "The nearest, b, has 23 cpu" in notice["message"]
        assert answer.code == 1

    async def test_a_head_that_fits_a_node_passes(self, tmp_path: Path) -> None:
        assert "HeadDoesNotFit" not in await self.reasons(
            tmp_path, self.served(node("a", "16"), node("b", "24")), pathways_job()
        )

    async def test_unselected_nodes_are_ignored(self, tmp_path: Path) -> None:
        job = pathways_job(controller={"template": template(container(), nodeSelector={"pool": "cpu"})})
        assert "HeadDoesNotFit" not in await self.reasons(tmp_path, self.served(node("a", "16")), job)
        assert "HeadDoesNotFit" in await self.reasons(tmp_path, self.served(node("a", "16", pool="cpu")), job)

    async def test_a_cluster_without_gangs_gives_a_note(self, tmp_path: Path) -> None:
        answer = await self.asked(tmp_path, Cluster({"/api/v1/nodes": []}), pathways_job())
        assert answer.code == 0
        assert "note: rendered for a cluster without gangs: " in answer.err
        assert "the cluster does not have Kueue" in answer.err

    async def test_nodes_that_may_not_be_read(self, tmp_path: Path) -> None:
        cluster = Cluster({"/api/v1/nodes": []}, forbidden={"/api/v1/nodes"}, answers=discovery())
        answer = await self.asked(tmp_path, cluster, pathways_job())
        assert answer.code == 0
        assert "whether a node is large enough for the head is not known" in answer.err

    @pytest.mark.parametrize(("cpu", "verdict", "code"), [("24", "fits", 0), ("23", "never", 1)])
    async def test_queues_of_the_cluster_are_read(self, cpu: str, verdict: str, code: int, tmp_path: Path) -> None:
        objects = [each for each in queues(cpu=cpu) if each is not CONFIGURATION]
        file = write(tmp_path / "a.yaml", pathways_job(metadata={"labels": {QUEUE: "q"}, "namespace": None}))
        async with serving(*objects, config_map(CONFIGURATION), labelled(HERE)) as (server, url):
            config = kubeconfig(tmp_path, url)
            arguments = ("pathways", "validate", "-f", file, "-o", "json", "--kubeconfig", config)
            answer = await asyncio.to_thread(gangctl, *arguments)
        assert (answer.code, answer.json["fit"]["verdict"]) == (code, verdict), answer.err
        assert answer.json["fit"]["metadata"]["namespace"] == HERE
        assert {method for method, _ in server.asked} == {"GET"}

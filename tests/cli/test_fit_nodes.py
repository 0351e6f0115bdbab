"""``gangctl fit --fixed-nodes``: what the nodes can hold, with Kueue and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.httpserver import ask
from tests.cli.kueueobjects import (
    CONFIGURATION,
    Object,
    cluster,
    cluster_queue,
    condition,
    flavor,
    kueue,
    local_queue,
    queued,
)
from tests.cli.kueueserver import config_map, labelled, serving
from tests.cli.manifests import write
from tests.cli.publishedschemas import schema_of
from tests.cli.run import Answer, gangctl
from tests.cli.schema import violations
from tests.jobsets import OPTIONS, jobset, rj
from tests.rows import each


def node(name: str, cpu: str = "4", **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }


def pod(name: str, on: str, cpu: str, phase: str = "Running", jobset: str = "") -> Object:
    labels = {"jobset.sigs.k8s.io/jobset-name": jobset} if jobset else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "t", "labels": labels},
        "spec": {"nodeName": on, "containers": [{"name": "m", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": phase},
    }


def fit(directory: Path, raw: Object, objects: list[Object], *arguments: str) -> Answer:
    files = write(directory / "jobsets.yaml", raw), write(directory / "queues.yaml", *objects)
    return gangctl("fit", "-f", files[0], "--queues", files[1], "--fixed-nodes", "-o", "json", *arguments)


NODES = [node("a"), node("b")]


class TestMistakes:
    @each(
        ("name", "count", "words"),
        [
            ("nvidia.com/gpu", 9, "has that would take it: 9 nvidia.com/gpu of at most 8; ask for less."),
            ("nvidia.com/gpus", 1, "would take it: 1 nvidia.com/gpus of at most 0 (did you mean nvidia.com/gpu?)."),
            ("google.com/tpu", 4, "would take it: 4 google.com/tpu of at most 0; ask for less."),
        ],
    )
    def test_what_no_node_has_is_named_with_the_largest_there_is(
        self, name: str, count: int, words: str, tmp_path: Path
    ) -> None:
        limits = {"limits": {name: str(count)}}
        raw = jobset("train", rj("w", 1, 2, 2, pod={"containers": [{"name": "m", "image": "i", "resources": limits}]}))
        nodes = [node("a"), node("b")]
        for there in nodes:
            there["status"]["allocatable"]["nvidia.com/gpu"] = "8"
        answer = fit(tmp_path, raw, nodes)
        assert (answer.code, answer.json["reason"]) == (1, "NeverNoNode")
        assert words in answer.json["message"]


def test_the_nodes_of_a_manager_of_multikueue_do_not_decide(tmp_path: Path) -> None:
    status = {"conditions": [condition("Active")]}
    check = kueue("AdmissionCheck", "m", spec={"controllerName": "kueue.x-k8s.io/multikueue"}, status=status)
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "m"}]}}
    answer = fit(tmp_path, queued(cpu="2"), [*cluster("100", check, **checks), node("a", "1")])
    assert (answer.code, answer.json["verdict"]) == (0, "fits")


class TestNodesAlone:
    @each(
        ("pods", "cpu", "on", "expected"),
        [
            (8, "1", "1", ("not-now", "WaitsForNodes", 0)),
            (7, "1", "1", ("fits", "Fits", 0)),
            (9, "1", "1", ("never", "NeverExceedsNodes", 1)),
            (1, "5", "1", ("never", "NeverNoNode", 1)),
        ],
    )
    def test_nodes_give_the_expected_verdicts(
        self, pods: int, cpu: str, on: str, expected: tuple[str, str, int], tmp_path: Path
    ) -> None:
        answer = fit(tmp_path, queued(pods=pods, cpu=cpu), [*NODES, pod("p", "a", on)])
        assert (answer.json["verdict"], answer.json["reason"], answer.code) == expected
        assert violations(answer.json, schema_of("fit")) == []

    def test_finished_and_own_pods_do_not_count(self, tmp_path: Path) -> None:
        over, own = pod("over", "a", "4", "Succeeded"), pod("own", "b", "4", jobset="train")
        assert fit(tmp_path, queued(pods=8), [*NODES, over, own]).json["verdict"] == "fits"
        others = pod("others", "b", "4", jobset="other")
        assert fit(tmp_path, queued(pods=8), [*NODES, over, others]).json["verdict"] == "not-now"

    def test_without_pods_the_usage_of_nodes_is_unknown(self, tmp_path: Path) -> None:
        answer = fit(tmp_path, queued(pods=8), NODES)
        assert (answer.code, answer.json["verdict"]) == (0, "unknown")
        assert answer.json["unknown"] == ["what is in use on the nodes"]

    @pytest.mark.parametrize(("objects", "flag"), [(cluster("8"), True), (NODES, False)])
    def test_files_without_the_needed_kind_are_an_error(
        self, objects: list[Object], flag: bool, tmp_path: Path
    ) -> None:
        files = write(tmp_path / "a.yaml", queued()), write(tmp_path / "b.yaml", *objects)
        answer = gangctl("fit", "-f", files[0], "--queues", files[1], *(["--fixed-nodes"] if flag else []))
        assert (answer.code, answer.out) == (2, "")
        assert f"the files of --queues have no {'Node' if flag else 'ClusterQueue'}" in answer.err


@each(
    ("jobs", "there", "verdict"),
    [
        # One of four pods is made again: the scheduler takes no other rack for it than that of the three.
        (1, {"0": 3}, "unknown"),
        (1, {"0": 4}, "fits"),
        (1, {}, "fits"),
        # Each Job is a gang: of one all pods are there, and of the other one some, or none.
        (2, {"0": 2, "1": 1}, "unknown"),
        (2, {"0": 2}, "fits"),
    ],
)
def test_pods_of_a_gang_join_the_domain_of_those_that_are_on_nodes(
    jobs: int, there: dict[str, int], verdict: str, tmp_path: Path
) -> None:
    """GeneratePlacements of TopologyPlacement."""
    size = 4 // jobs
    entry = rj("w", jobs, size, size, cpu="4", mode="Gang" if jobs == 1 else "ReplicatedGang")
    raw = jobset("train", entry, uid="uid-train", annotations={OPTIONS: '{"topologyKey": "rack"}'})
    racks = [node(f"{rack}{job}{n}", rack=rack) for rack in "abc" for job in range(jobs) for n in range(size)]
    placed = [pod("p", f"a0{size - 1}", "4")]
    for job, pods in there.items():
        for n in range(pods):
            own = pod(f"train-w-{job}-{n}", f"a{job}{n}", "4", jobset="train")
            labels = {"replicatedjob-name": "w", "job-index": job}
            own["metadata"]["labels"] |= {f"jobset.sigs.k8s.io/{key}": value for key, value in labels.items()}
            placed.append(own)
    answer = fit(tmp_path, raw, [*racks, *placed], "--now")
    assert (answer.json["verdict"], answer.code) == (verdict, int(verdict != "fits")), answer.json["message"]
    assert ("the others must join them" in answer.json["message"]) is (verdict == "unknown")
    # The largest gang is asked without the JobSet's own pods.
    files = str(tmp_path / "jobsets.yaml"), str(tmp_path / "queues.yaml")
    assert "not known" not in gangctl("fit", "-f", files[0], "--queues", files[1], "--largest").out


def classed(value: int, name: str = "usual", *, default: bool = False) -> Object:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**kind, "value": value, "globalDefault": default}


@each(
    ("classes", "chosen", "verdict"),
    [
        # Each Job of the other JobSet has a rack, with priority 1000.
        ([classed(1000, default=True)], "", "not-now"),
        ([classed(9, default=True)], "", "fits"),
        ([classed(9)], "", "fits"),
        ([classed(9)], "usual", "fits"),
        ([classed(1000)], "usual", "not-now"),
        ([], "", "unknown"),
    ],
)
def test_exclusive_jobs_keep_away_from_those_of_the_same_priority(
    classes: list[Object], chosen: str, verdict: str, tmp_path: Path
) -> None:
    spec = {"priorityClassName": chosen} if chosen else {}
    entry = rj("w", 1, 2, 2, mode="ReplicatedGang", pod={"containers": [{"name": "m", "image": "i"}], **spec})
    raw = jobset("train", entry, annotations={"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"})
    flags = ("convert", "--to", "annotations", "--replace-exclusive-topology", "--kube", "1.37", "-f")
    (converted,) = gangctl(*flags, write(tmp_path / "old.yaml", raw)).documents
    others = [pod(name, name, "1", jobset="other") for name in ("a", "b")]
    for one in others:
        one["metadata"]["labels"] |= {"jobset.sigs.k8s.io/priority": "1000", "jobset.sigs.k8s.io/job-key": "k"}
    racks = [node(name, rack=name) for name in ("a", "b")]
    answer = fit(tmp_path, converted, [*racks, *others, *classes])
    assert answer.json["verdict"] == verdict, answer.json["message"]


@each(
    ("there", "spec", "preempts"),
    [
        ([0, 0], {"priorityClassName": "usual"}, True),
        ([9000, 0], {"priorityClassName": "usual"}, False),
        ([None, None], {"priorityClassName": "usual"}, False),
        ([0, 0], {"priorityClassName": "polite"}, False),
        ([0, 0], {}, False),
        ([-1, -1], {}, True),
    ],
)
def test_pods_of_a_lower_priority_may_be_preempted(
    there: list[int | None], spec: Object, preempts: bool, tmp_path: Path
) -> None:
    others = [pod(name, name, "4") for name in ("a", "b")]
    for one, priority in zip(others, there, strict=True):
        one["spec"] |= {} if priority is None else {"priority": priority}
    polite = {**classed(9000, "polite"), "preemptionPolicy": "Never"}
    raw = queued(pods=8)
    raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] |= spec
    report = fit(tmp_path, raw, [*NODES, *others, classed(9000), polite]).json
    assert (report["verdict"], report["reason"]) == ("not-now", "WaitsForNodes")
    words = "whether kube-scheduler preempts pods of a priority below"
    assert any(why.startswith(words) for why in report["unknown"]) is preempts


class TestWithQueues:
    @each(
        ("quota", "pods", "expected"),
        [
            ("99", 8, ("not-now", "WaitsForNodes")),
            ("99", 7, ("fits", "Fits")),
            ("99", 9, ("never", "NeverExceedsNodes")),
            ("8", 9, ("never", "NeverExceedsQuota")),
        ],
    )
    def test_the_worse_of_both_verdicts_counts(
        self, quota: str, pods: int, expected: tuple[str, str], tmp_path: Path
    ) -> None:
        objects = [*cluster(quota), *NODES, pod("p", "a", "1")]
        report = fit(tmp_path, queued(pods=pods), objects).json
        assert (report["verdict"], report["reason"]) == expected
        assert report["clusterQueue"] == "cq"
        assert [(each["flavor"], each["resource"]) for each in report["limits"]] == [
            ("f", "cpu"),
            ("", "pods"),
            ("", "cpu"),
        ]
        assert violations(report, schema_of("fit")) == []

    def test_a_jobset_without_a_queue_is_checked_on_the_nodes_only(self, tmp_path: Path) -> None:
        report = fit(tmp_path, queued(pods=9, queue=""), [*cluster("99"), *NODES]).json
        assert (report["verdict"], report["reason"]) == ("never", "NeverExceedsNodes")


class TestCluster:
    async def test_a_cluster_without_kueue_is_evaluated_by_its_nodes(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", queued(pods=9))
        async with serving(*NODES, kueue=False) as (server, url):
            answer = await ask(tmp_path, url, "fit", "-f", file, "--fixed-nodes")
        assert (answer.code, answer.err) == (1, "")
        assert "never fits (NeverExceedsNodes)" in answer.out
        assert {method for method, _ in server.asked} == {"GET"}

    async def test_a_cluster_with_kueue_is_evaluated_by_queues_and_nodes(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", queued(pods=8))
        objects = [each for each in cluster("99") if each is not CONFIGURATION]
        there = [*objects, config_map(CONFIGURATION), labelled("t"), *NODES, pod("p", "a", "1")]
        async with serving(*there) as (_, url):
            quota = await ask(tmp_path, url, "fit", "-f", file, "--now")
            nodes = await ask(tmp_path, url, "fit", "-f", file, "--now", "--fixed-nodes", "-o", "json")
        assert quota.code == 0
        assert (nodes.code, nodes.json["reason"]) == (1, "WaitsForNodes")
        async with serving(*there, forbidden={"/api/v1/pods"}) as (_, url):
            unsure = await ask(tmp_path, url, "fit", "-f", file, "--fixed-nodes", "-o", "json")
        assert (unsure.code, unsure.json["verdict"]) == (0, "unknown")
        assert "what is in use on the nodes" in unsure.json["unknown"]
        assert "note: what is in use on the nodes is not known: " in unsure.err
        async with serving(*there, forbidden={"/api/v1/nodes"}) as (_, url):
            refused = await ask(tmp_path, url, "fit", "-f", file, "--fixed-nodes")
        assert (refused.code, refused.out) == (3, "")


SPOT = {"key": "spot", "value": "true", "effect": "NoSchedule"}
TOLERATED = {"tolerations": [{"key": "spot", "operator": "Exists"}]}
TOPOLOGY = kueue("Topology", "hosts", spec={"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})


def tainted(raw: Object) -> Object:
    return {**raw, "spec": {"taints": [SPOT]}}


def hosts(*names: str) -> list[Object]:
    return [node(name, **{"kubernetes.io/hostname": name}) for name in names]


def alone() -> Object:
    """Two pods that keep each other from a node."""
    made = queued(pods=2)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"app": "a"}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    template["spec"]["affinity"] = {"podAntiAffinity": required}
    return made


class TestAsKueueStartsThem:
    """The scheduler sees the pods with what Kueue adds to them: node labels and tolerations of their flavors."""

    @each(
        ("flavors", "nodes", "expected"),
        [
            # Its flavor sends it to nodes without room, while there is room on others.
            ([flavor("f", nodeLabels={"zone": "a"})], [node("a", zone="a"), node("b")], ("not-now", "WaitsForNodes")),
            ([flavor("f", nodeLabels={"zone": "b"})], [node("a", zone="a"), node("b", zone="b")], ("fits", "Fits")),
            ([flavor("f", nodeLabels={"zone": "c"})], NODES, ("never", "NeverNoNode")),
            # With the second flavor it would be somewhere else, once the first one is in use.
            (
                [flavor("f", nodeLabels={"zone": "c"}), flavor("g", nodeLabels={"zone": "b"})],
                [node("a"), node("b", zone="b")],
                ("not-now", "NeedsNodes"),
            ),
            # Its flavor lets it onto tainted nodes.
            ([flavor("f")], [node("a"), tainted(node("b"))], ("not-now", "WaitsForNodes")),
            ([flavor("f", **TOLERATED)], [node("a"), tainted(node("b"))], ("fits", "Fits")),
        ],
    )
    def test_flavors_decide_on_which_nodes_pods_can_be(
        self, flavors: list[Object], nodes: list[Object], expected: tuple[str, str], tmp_path: Path
    ) -> None:
        quotas = {raw["metadata"]["name"]: {"cpu": "8"} for raw in flavors}
        queues = [*flavors, cluster_queue("cq", quotas), local_queue("q", "cq"), CONFIGURATION]
        answer = fit(tmp_path, queued(pods=4), [*queues, *nodes, pod("p", "a", "2")])
        assert (answer.json["verdict"], answer.json["reason"]) == expected

    def test_a_closed_queue_proves_nothing_of_nodes_that_its_flavor_opens(self, tmp_path: Path) -> None:
        verdicts = []
        for raw in (flavor("f"), flavor("f", **TOLERATED)):
            queue = cluster_queue("cq", {"f": {"cpu": "8"}}, stopPolicy="Hold")
            objects = [raw, queue, local_queue("q", "cq"), CONFIGURATION, tainted(node("a")), pod("p", "a", "1")]
            verdicts.append(fit(tmp_path, queued(pods=4), objects).json["verdict"])
        assert verdicts == ["never", "not-now"]

    def test_the_message_names_what_adds_to_the_pods(self, tmp_path: Path) -> None:
        queues = [
            flavor("f", nodeLabels={"zone": "c"}),
            *(cluster_queue("cq", {"f": {"cpu": "8"}}), local_queue("q", "cq"), CONFIGURATION),
        ]
        answer = fit(tmp_path, queued(), [*queues, *NODES, pod("p", "a", "1")])
        assert answer.json["message"].endswith('Its pods have the nodeLabels and tolerations of ResourceFlavor "f".')

    def test_where_kueue_chooses_nodes_what_it_does_not_look_at_is_unknown(self, tmp_path: Path) -> None:
        there = hosts("a", "b", "c")
        for more, verdict in (({}, "fits"), ({"topologyName": "hosts"}, "unknown")):
            queue = cluster_queue("cq", {"f": {"cpu": "8"}})
            objects = [flavor("f", **more), TOPOLOGY, queue, local_queue("q", "cq"), CONFIGURATION]
            answer = fit(tmp_path, alone(), [*objects, *there, pod("p", "a", "1")])
            assert answer.json["verdict"] == verdict, answer.json["message"]
        assert "affinity.podAntiAffinity: which nodes Kueue chooses, by resources" in answer.json["unknown"][0]

    @each(("level", "verdict"), [("kubernetes.io/hostname", "fits"), ("rack", "unknown")])
    def test_domains_without_nodes_are_not_known_to_have_room_on_each(
        self, level: str, verdict: str, tmp_path: Path
    ) -> None:
        racks = kueue("Topology", "racks", spec={"levels": [{"nodeLabel": level}]})
        nodes = [node(name, rack="r", **{"kubernetes.io/hostname": name}) for name in "ab"]
        queue = cluster_queue("cq", {"f": {"cpu": "8"}})
        objects = [flavor("f", topologyName="racks"), racks, queue, local_queue("q", "cq"), CONFIGURATION]
        answer = fit(tmp_path, queued(pods=2), [*objects, *nodes, pod("p", "a", "1")])
        assert answer.json["verdict"] == verdict, answer.json["message"]

    @each(
        ("note", "selector", "verdict"),
        [
            ("podset-unconstrained-topology", {}, "fits"),
            ("podset-unconstrained-topology", {"kubernetes.io/hostname": "a"}, "never"),
            ("other", {}, "never"),
        ],
    )
    def test_the_node_that_kueue_chose_for_a_pod_is_not_that_of_all(
        self, note: str, selector: dict[str, str], verdict: str, tmp_path: Path
    ) -> None:
        """Of a JobSet whose pods run: Kueue's topology ungater selects a node in each of them."""
        raw = queued(pods=4, uid="uid-train")
        raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = selector
        placed = pod("train-w-0-0", "a", "1", jobset="train")
        placed["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "w"
        placed["metadata"]["annotations"] = {f"kueue.x-k8s.io/{note}": "true"}
        placed["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "a"}
        nodes = [node(name, "2", **{"kubernetes.io/hostname": name}) for name in "ab"]
        quota = cluster_queue("cq", {"f": {"cpu": "8"}}), local_queue("q", "cq")
        answer = fit(tmp_path, raw, [flavor(topologyName="hosts"), TOPOLOGY, *quota, CONFIGURATION, *nodes, placed])
        assert answer.json["verdict"] == verdict, answer.json["message"]

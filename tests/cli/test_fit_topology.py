"""``gangctl fit`` for JobSets that need a domain of nodes: by a topology request to Kueue, or by topologyKey."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.cli.httpserver import ask
from tests.cli.kueueobjects import CONFIGURATION, Object, cluster, flavor, queued
from tests.cli.kueueserver import config_map, labelled, serving
from tests.cli.manifests import write
from tests.cli.publishedschemas import schema_of
from tests.cli.run import Answer, gangctl
from tests.cli.schema import violations
from tests.cli.topologyobjects import BLOCK, HOST, IDLE, RACK, TWO_RACKS, asking, node, placed, pod, racks, topology
from tests.jobsets import OPTIONS
from tests.rows import each


def fit(directory: Path, jobset: Object, objects: list[Object], *arguments: str) -> Answer:
    files = write(directory / "jobsets.yaml", jobset), write(directory / "queues.yaml", *objects)
    answer = gangctl("fit", "-f", files[0], "--queues", files[1], "-o", "json", *arguments)
    if answer.code in {0, 1}:
        assert violations(answer.json, schema_of("fit")) == []
    return answer


def gist(answer: Answer) -> tuple[str, str, int]:
    return answer.json["verdict"], answer.json["reason"], answer.code


class TestKueue:
    def test_a_level_that_the_topology_lacks_never_fits(self, tmp_path: Path) -> None:
        answer = fit(tmp_path, asking(1, required_topology="example.com/zone"), racks(*TWO_RACKS, IDLE))
        assert gist(answer) == ("never", "NeverNoFlavor", 1)
        assert "its topology has no level example.com/zone (it has levels" in answer.json["message"]

    def test_a_domain_too_small_never_fits_only_if_the_nodes_are_fixed(self, tmp_path: Path) -> None:
        gang = asking(4, required_topology=RACK)
        fixed = fit(tmp_path, gang, racks(*TWO_RACKS, IDLE), "--fixed-nodes")
        assert gist(fixed) == ("never", "NeverExceedsTopology", 1)
        answer = fit(tmp_path, gang, racks(*TWO_RACKS, IDLE))
        assert gist(answer) == ("not-now", "NeedsNodes", 0)
        assert f'No domain of {RACK} has room for 4 pods of "w"' in answer.json["message"]
        assert '"x/a" has room for 2, 2 short' in answer.json["message"]
        assert [(row["domain"], row["maximum"]) for row in answer.json["domains"]] == [("x/a", 2), ("x/b", 2)]

    def test_a_domain_whose_device_plugins_are_down_is_no_proof(self, tmp_path: Path) -> None:
        gpus = {"nvidia.com/gpu": "1"}
        container = {"name": "m", "image": "i", "resources": {"limits": gpus}}
        gang = asking(2, pod={"containers": [container]}, required_topology=RACK)
        objects = racks(*deepcopy(TWO_RACKS), IDLE)
        queue = next(raw for raw in objects if raw["kind"] == "ClusterQueue")
        (group,) = queue["spec"]["resourceGroups"]
        group["coveredResources"] = list(gpus)
        group["flavors"][0]["resources"] = [{"name": name, "nominalQuota": 9} for name in gpus]
        for raw in (raw for raw in objects if raw["kind"] == "Node"):
            silent = {**raw["status"]["allocatable"], "nvidia.com/gpu": "0"}
            raw["status"] |= {"allocatable": silent, "capacity": silent}
        answer = fit(tmp_path, gang, objects, "--fixed-nodes")
        assert answer.json["verdict"] == "not-now", answer.json["message"]

    @each("mode", ["required_topology", "preferred_topology", "unconstrained_topology"])
    def test_unknown_nodes_qualify_the_verdict(self, mode: str, tmp_path: Path) -> None:
        notes = {mode: "true" if mode.startswith("un") else RACK}
        answer = fit(tmp_path, asking(4, **notes), racks())
        assert gist(answer) == ("unknown", "MayFit", 0)
        assert 'as far as is known; not known: the nodes of flavor "f"' in answer.json["message"]
        assert answer.json["unknown"] == ['the nodes of flavor "f", and what is free on them']
        partly = fit(tmp_path, asking(2, **notes), racks(*TWO_RACKS))
        assert partly.json["unknown"] == ["what other pods use on the nodes"]

    def test_an_unknown_topology_qualifies_the_verdict(self, tmp_path: Path) -> None:
        objects = [each for each in racks(*TWO_RACKS, IDLE) if each["kind"] != "Topology"]
        answer = fit(tmp_path, asking(4, required_topology=RACK), objects)
        assert gist(answer) == ("unknown", "MayFit", 0)
        assert answer.json["unknown"] == ['the topology of flavor "f"']

    def test_a_missing_topology_blocks_the_queue(self, tmp_path: Path) -> None:
        objects = [topology(RACK, name="other") if each["kind"] == "Topology" else each for each in racks()]
        answer = fit(tmp_path, asking(1, required_topology=RACK), objects)
        assert gist(answer) == ("not-now", "QueueBlocked", 0)
        assert 'ClusterQueue "cq" is inactive: Topology "racks" does not exist; create it' in answer.json["blocked"]

    @each(
        ("pods", "notes", "domains", "words"),
        [
            (2, {"required_topology": RACK}, {"x/a": 2}, f'"w" in "x/a" ({RACK})'),
            (4, {"required_topology": BLOCK}, {"x": 4}, f'"w" in "x" ({BLOCK})'),
            (3, {"preferred_topology": RACK}, {"x/a": 2, "x/b": 1}, f'"w" in 2 domains of {RACK}'),
            (1, {"unconstrained_topology": "true"}, {"x/a/a0": 1}, f'"w" in "x/a/a0" ({HOST})'),
            (
                4,
                {"slice_required_topology": RACK, "slice_size": "2"},
                {"x/a": 2, "x/b": 2},
                f'"w" in 2 domains of {RACK}',
            ),
            (1, {}, {"x/a/a0": 1}, f'"w" in "x/a/a0" ({HOST})'),
        ],
    )
    def test_the_report_names_the_domains(
        self, pods: int, notes: dict[str, str], domains: dict[str, int], words: str, tmp_path: Path
    ) -> None:
        answer = fit(tmp_path, asking(pods, **notes), racks(*TWO_RACKS, IDLE))
        assert gist(answer) == ("fits", "Fits", 0)
        assert {row["domain"]: row["assigned"] for row in answer.json["domains"]} == domains
        assert words in answer.json["message"]
        assert answer.json["unknown"] == []

    def test_pods_beyond_whole_slices_are_reported(self, tmp_path: Path) -> None:
        """Kueue admits it, and leaves these pods gated."""
        answer = fit(tmp_path, asking(3, slice_required_topology=RACK, slice_size="2"), racks(*TWO_RACKS, IDLE))
        assert gist(answer) == ("unknown", "MayFit", 0)
        assert "but 1 pod, beyond slices of 2, on no node: not all of it starts" in answer.json["message"]

    def test_a_gang_waits_for_a_domain_and_the_report_names_who_is_in_it(self, tmp_path: Path) -> None:
        used = [placed("other", {"a0": 1}), pod("system", "b0")]
        answer = fit(tmp_path, asking(2, required_topology=RACK), racks(*TWO_RACKS, *used))
        assert gist(answer) == ("not-now", "WaitsForTopology", 0)
        assert f'There is quota, but no domain of {RACK} has room for 2 pods of "w" now' in answer.json["message"]
        assert '"x/a" has room for 1, 1 short, in use by "t/other"' in answer.json["message"]
        assert [(each["name"], each["resources"]) for each in answer.json["holders"]] == [("other", {"cpu": "1"})]
        assert [(row["domain"], row["free"], row["maximum"]) for row in answer.json["domains"]] == [
            ("x/a", 1, 2),
            ("x/b", 1, 2),
        ]
        assert fit(tmp_path, asking(1, required_topology=RACK), racks(*TWO_RACKS, *used), "--now").code == 0

    def test_pods_that_kueue_placed_count_once_by_their_workload(self, tmp_path: Path) -> None:
        note = {"kueue.x-k8s.io/podset-required-topology": RACK}
        used = [placed("other", {"a0": 1}), pod("other-0", "a0", owner="other", **note)]
        roomy = [node("a0", "x/a", "2"), node("a1", "x/a")]
        assert fit(tmp_path, asking(2, required_topology=RACK), racks(*roomy, *used), "--now").code == 0

    def test_the_usage_of_the_jobset_itself_does_not_count(self, tmp_path: Path) -> None:
        own = placed("train", {"a0": 1, "a1": 1})
        assert fit(tmp_path, asking(4, required_topology=BLOCK), racks(*TWO_RACKS, IDLE, own), "--now").code == 0

    @each(
        ("changed", "gang"),
        [
            (node("a0", "x/a", ready=False), {}),
            (node("a0", "x/a", spec={"unschedulable": True}), {}),
            (node("a0", "x/a", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}), {}),
            (node("a0", "x/a", pool="other"), {}),
            (node("a0", "x/a", disk="slow"), {"nodeSelector": {"disk": "fast"}}),
        ],
    )
    def test_nodes_that_kueue_does_not_use_have_no_room(
        self, changed: Object, gang: dict[str, Any], tmp_path: Path
    ) -> None:
        others = [node("a1", "x/a", disk="fast")]
        answer = fit(tmp_path, asking(2, pod=gang, required_topology=RACK), racks(changed, *others, IDLE), "--now")
        assert (answer.json["verdict"], answer.code) == ("not-now", 1)
        whole = [node("a0", "x/a", disk="fast"), *others]
        assert fit(tmp_path, asking(2, pod=gang, required_topology=RACK), racks(*whole, IDLE), "--now").code == 0

    def test_a_taint_is_tolerated_by_the_pods_or_by_the_flavor(self, tmp_path: Path) -> None:
        tainted = node("a0", "x/a", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
        tolerations = [{"key": "k", "operator": "Exists"}]
        gang = asking(1, pod={"tolerations": tolerations}, required_topology=RACK)
        assert fit(tmp_path, gang, racks(tainted, IDLE), "--now").code == 0
        plain = asking(1, required_topology=RACK)
        assert fit(tmp_path, plain, racks(tainted, IDLE, tolerations=tolerations), "--now").code == 0
        assert fit(tmp_path, plain, racks(tainted, IDLE), "--now").code == 1

    def test_without_host_names_a_domain_is_the_sum_of_its_nodes(self, tmp_path: Path) -> None:
        objects = racks(*TWO_RACKS, IDLE, levels=(BLOCK, RACK))
        answer = fit(tmp_path, asking(2, required_topology=RACK), objects)
        assert gist(answer) == ("fits", "Fits", 0)
        # Kueue admits it, and no node holds the pod.
        answer = fit(tmp_path, asking(1, cpu="2", required_topology=RACK), objects)
        assert gist(answer) == ("unknown", "MayFit", 0)

    def test_a_leader_and_its_workers_share_a_domain(self, tmp_path: Path) -> None:
        gang = asking(2, required_topology=RACK, group_name="g")
        leader = asking(1, required_topology=RACK, group_name="g")["spec"]["replicatedJobs"][0]
        gang["spec"]["replicatedJobs"].append({**leader, "name": "leader"})
        assert gist(fit(tmp_path, gang, racks(*TWO_RACKS, IDLE))) == ("not-now", "NeedsNodes", 0)
        three = [*TWO_RACKS, node("b2", "x/b")]
        answer = fit(tmp_path, gang, racks(*three, IDLE))
        assert gist(answer) == ("fits", "Fits", 0)
        assert f'"w" and its leader "leader" in "x/b" ({RACK})' in answer.json["message"]

    def test_podsets_are_placed_one_beside_the_other(self, tmp_path: Path) -> None:
        gang = asking(2, required_topology=RACK)
        gang["spec"]["replicatedJobs"].append(
            {**asking(3, required_topology=BLOCK)["spec"]["replicatedJobs"][0], "name": "v"}
        )
        answer = fit(tmp_path, gang, racks(*TWO_RACKS, IDLE))
        assert gist(answer) == ("not-now", "NeedsNodes", 0)
        assert "beside the podsets before it" in answer.json["message"]

    @each(
        ("gang", "words"),
        [
            (asking(2, required_topology=RACK, preferred_topology=RACK), "exclude each other; keep one"),
            (asking(2, slice_required_topology=RACK, slice_size="3"), "a slice has 3 pods, and the podset 2"),
            (asking(2, required_topology=RACK, group_name="g"), "is not of two podsets"),
        ],
    )
    def test_a_request_that_kueue_rejects_never_fits(self, gang: Object, words: str, tmp_path: Path) -> None:
        answer = fit(tmp_path, gang, racks(*TWO_RACKS, IDLE))
        assert gist(answer) == ("never", "NeverMisconfigured", 1)
        assert words in answer.json["message"]

    @each("count", [1, 4])
    def test_kueue_gives_no_domains_if_the_last_podset_requests_nothing_of_the_queue(
        self, count: int, tmp_path: Path
    ) -> None:
        """``assignFlavors`` returns before it looks for domains, and the Workload is admitted without any."""
        lenient = {**CONFIGURATION, "resources": {"quotaCheckStrategy": "IgnoreUndeclared"}}
        objects = [each for each in racks(*TWO_RACKS, IDLE) if each is not CONFIGURATION]
        gang = asking(count, required_topology=RACK)
        launcher = deepcopy(asking(1)["spec"]["replicatedJobs"][0]) | {"name": "launcher"}
        (container,) = launcher["template"]["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"requests": {"memory": "1Gi"}}
        gang["spec"]["replicatedJobs"].append(launcher)
        answer = fit(tmp_path, gang, [*objects, lenient])
        assert gist(answer) == ("unknown", "MayFit", 0)
        assert 'gives none of them a domain, because "launcher", the last of them, requests' in answer.json["message"]
        assert gist(fit(tmp_path, asking(1), [*objects, lenient])) == ("fits", "Fits", 0)

    def test_pods_without_requests_get_no_domain(self, tmp_path: Path) -> None:
        gang = asking(1, required_topology=RACK)
        container = gang["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
        del container["resources"]
        answer = fit(tmp_path, gang, racks(*TWO_RACKS, IDLE))
        assert gist(answer) == ("never", "NeverNoFlavor", 1)
        assert "requests nothing that the queue has" in answer.json["message"]

    def test_the_gate_of_kueue_turns_topologies_off(self, tmp_path: Path) -> None:
        off = {**CONFIGURATION, "featureGates": {"TopologyAwareScheduling": False}}
        objects = [each for each in racks(*TWO_RACKS, IDLE) if each is not CONFIGURATION]
        answer = fit(tmp_path, asking(4, required_topology=RACK), [*objects, off])
        assert gist(answer) == ("fits", "Fits", 0)
        assert answer.json["domains"] == []

    @pytest.mark.parametrize(
        ("levels", "words"),
        [
            ([], "spec.levels: needs 1 to 16 objects with nodeLabel"),
            ([{"label": "x"}], "spec.levels[0]: needs nodeLabel"),
            ([{"nodeLabel": RACK}, {"nodeLabel": RACK}], f'spec.levels[1].nodeLabel: "{RACK}" is a level already'),
            (
                [{"nodeLabel": HOST}, {"nodeLabel": RACK}],
                f"spec.levels[0].nodeLabel: {HOST} can only be the last level",
            ),
        ],
        ids=["none", "no label", "twice", "host name"],
    )
    def test_a_malformed_topology_is_an_error_with_its_place(
        self, levels: list[Object], words: str, tmp_path: Path
    ) -> None:
        objects = racks()
        objects[1]["spec"]["levels"] = levels
        answer = fit(tmp_path, asking(1, required_topology=RACK), objects)
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err
        assert "queues.yaml:" in answer.err

    def test_an_unknown_field_of_a_topology_is_an_error(self, tmp_path: Path) -> None:
        objects = racks()
        objects[1]["spec"] = {"level": [{"nodeLabel": RACK}]}
        answer = fit(tmp_path, asking(1), objects)
        assert answer.code == 2
        assert "spec.level: Topology of kueue.x-k8s.io/v1beta2 has no such field" in answer.err

    def test_the_domains_are_a_table(self, tmp_path: Path) -> None:
        files = (
            write(tmp_path / "a.yaml", asking(3, preferred_topology=RACK)),
            write(tmp_path / "b.yaml", *racks(*TWO_RACKS, IDLE)),
        )
        lines = gangctl("fit", "-f", files[0], "--queues", files[1]).out.splitlines()
        start = lines.index("Domains")
        assert [line.split() for line in lines[start + 1 : start + 4]] == [
            ["PODSET", "FLAVOR", "LEVEL", "DOMAIN", "PODS", "MAXIMUM", "FREE", "ASSIGNED"],
            ["w", "f", RACK, "x/a", "3", "2", "2", "2"],
            ["w", "f", RACK, "x/b", "3", "2", "2", "1"],
        ]


class TestTopologyKey:
    def gang(self, pods: int) -> Object:
        return queued(pods=pods, annotations={OPTIONS: f'{{"topologyKey": "{RACK}"}}'})

    def test_a_gang_with_quota_waits_for_a_domain(self, tmp_path: Path) -> None:
        objects = cluster("99", *TWO_RACKS)
        assert gist(fit(tmp_path, self.gang(4), [*objects, IDLE])) == ("not-now", "NeedsNodes", 0)
        fixed = fit(tmp_path, self.gang(4), [*objects, IDLE], "--fixed-nodes")
        assert gist(fixed) == ("never", "NeverExceedsTopology", 1)
        busy = fit(tmp_path, self.gang(2), [*objects, pod("p", "a0"), pod("q", "b0")])
        assert gist(busy) == ("not-now", "WaitsForTopology", 0)
        answer = fit(tmp_path, self.gang(2), [*objects, pod("p", "a0")])
        assert gist(answer) == ("fits", "Fits", 0)
        assert f'"w" in "b" ({RACK})' in answer.json["message"]
        assert [(row["domain"], row["assigned"], row["free"]) for row in answer.json["domains"]] == [
            ("b", 2, 2),
            ("a", 0, 1),
        ]

    def test_kueue_may_choose_nodes_of_several_domains_for_it(self, tmp_path: Path) -> None:
        """In a queue whose flavors all have a topology it chooses them for podsets that ask for none, too."""
        answer = fit(tmp_path, self.gang(2), racks(*TWO_RACKS, pod("p", "a0")))
        assert gist(answer) == ("unknown", "MayFit", 0)
        assert any("the topologyKey of its gang" in why for why in answer.json["unknown"])
        answer = fit(tmp_path, queued(pods=2), racks(*TWO_RACKS, pod("p", "a0")))
        assert gist(answer) == ("fits", "Fits", 0)

    def test_unknown_nodes_qualify_the_verdict(self, tmp_path: Path) -> None:
        answer = fit(tmp_path, self.gang(2), cluster("99"))
        assert gist(answer) == ("unknown", "MayFit", 0)
        why = "whether one domain of the topologyKey has room for all pods of a gang"
        assert answer.json["unknown"] == [why]
        assert answer.json["message"].endswith(f"Not known: {why}.")


class TestCluster:
    def objects(self, *more: Object) -> list[Object]:
        there = [each for each in racks(*TWO_RACKS, *more) if each is not CONFIGURATION]
        return [*there, config_map(CONFIGURATION), labelled("t")]

    async def test_nodes_are_read_if_a_flavor_has_a_topology(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", asking(2, required_topology=RACK))
        async with serving(*self.objects(placed("other", {"a0": 1}))) as (server, url):
            answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
            assert ("GET", "/api/v1/nodes") in [(method, path.partition("?")[0]) for method, path in server.asked]
        assert gist(answer) == ("fits", "Fits", 0)
        assert answer.json["domains"][0]["domain"] == "x/b"

    async def test_defaults_of_other_namespaces_count_for_what_is_placed(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", asking(2, required_topology=RACK))
        limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}
        ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "u"}, "spec": limits}
        other = placed("other", {"a0": 1, "b0": 1})
        other["metadata"]["namespace"] = "u"
        del other["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]
        async with serving(*self.objects(other, ranges)) as (_, url):
            answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
        assert gist(answer) == ("not-now", "WaitsForTopology", 0)
        async with serving(*self.objects(other, ranges), forbidden={"/api/v1/limitranges"}) as (_, url):
            answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
        assert gist(answer) == ("unknown", "MayFit", 0)
        unknown = ["what pods use that Kueue has placed: LimitRanges of other namespaces may not be read"]
        assert answer.json["unknown"] == unknown

    async def test_nodes_are_not_read_without_a_topology(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", asking(2))
        plain = [flavor("f") if each["kind"] == "ResourceFlavor" else each for each in self.objects()]
        async with serving(*plain) as (server, url):
            answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
            assert not [path for _, path in server.asked if path.startswith("/api/v1/nodes")]
        assert gist(answer) == ("fits", "Fits", 0)

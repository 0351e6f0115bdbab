"""Which flavors pods may use, and which nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from gangctl.api.pods import tolerates
from gangctl.fit.demands import all_with_topology, refusal
from gangctl.fit.floor import affinity_allows, untolerated
from gangctl.fit.requests import Counted, PodSet, podsets_of
from gangctl.kueue.objects import ClusterQueue, ResourceFlavor
from gangctl.kueue.topology import Layer, TopologyRequest
from tests.fit.queues import group
from tests.rows import each
from tests.strategies import PROPERTY, hostile_jobsets

NODE_LABELS = {"type": "a", "cores": "8"}
NO_SCHEDULE = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def podset(topology: TopologyRequest | None = None, **spec: Any) -> PodSet:
    return PodSet("w", 0, 1, {"spec": spec}, topology=topology)


def selecting(**labels: str) -> PodSet:
    return podset(nodeSelector=labels)


def required(*terms: object) -> dict[str, Any]:
    """A pod's spec with required node affinity: any of these terms."""
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": affinity}}


def term(*requirements: object) -> dict[str, Any]:
    return {"matchExpressions": list(requirements)}


def need(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


TYPE_A = ResourceFlavor("f1", {"type": "a"})


class TestRefusal:
    @each(
        ("pods", "flavor", "words"),
        [
            pytest.param(podset(), None, "is not known", id="missing"),
            pytest.param(podset(), ResourceFlavor("f1"), "", id="plain"),
            pytest.param(
                selecting(type="b"), TYPE_A, "its node labels do not match: these pods ask for type=b", id="19"
            ),
            pytest.param(selecting(zone="b"), TYPE_A, "", id="20"),
            pytest.param(
                podset(),
                ResourceFlavor("f1", taints=(NO_SCHEDULE,)),
                "its taint gpu=yes:NoSchedule is not tolerated",
                id="21",
            ),
            pytest.param(
                podset(), ResourceFlavor("f1", taints=({**NO_SCHEDULE, "effect": "PreferNoSchedule"},)), "", id="22"
            ),
            pytest.param(
                podset(),
                ResourceFlavor("f1", taints=(NO_SCHEDULE,), tolerations=({"key": "gpu", "operator": "Exists"},)),
                "",
                id="23",
            ),
            pytest.param(
                podset(tolerations=[{"key": "gpu", "value": "yes"}]),
                ResourceFlavor("f1", taints=(NO_SCHEDULE, {"key": "x", "effect": "NoExecute"})),
                "its taint x:NoExecute is not tolerated",
                id="second taint",
            ),
            pytest.param(
                podset(**required(term(need("type", "NotIn", "a"), need("zone", "Exists")))),
                TYPE_A,
                "its node labels do not match: these pods ask for others of type",
                id="affinity",
            ),
        ],
    )
    def test_a_flavor_is_refused_for_its_taints_labels_or_absence(
        self, pods: PodSet, flavor: ResourceFlavor | None, words: str
    ) -> None:
        found = refusal(pods, flavor)
        assert (found == "") is (words == "")
        assert words in found

    @each(
        ("terms", "allowed"),
        [
            ([], True),
            ([term(need("zone", "In", "z"))], True),
            ([term(need("type", "In", "b"))], False),
            ([term(need("type", "In", "b"), need("zone", "In", "z"))], False),
            ([term(need("type", "In", "b")), term(need("zone", "In", "z"))], True),
            ([term(need("type", "In", "b")), {"matchFields": [need("metadata.name", "In", "n")]}], True),
            ([term(need("type", "In", "b")), {}], True),
            ([term(need("type", "In", "b")), term(need("type", "In", "a"))], True),
        ],
    )
    def test_node_affinity_counts_only_for_label_keys_of_the_flavor(
        self, terms: list[object], *, allowed: bool
    ) -> None:
        assert (refusal(podset(**required(*terms)), TYPE_A) == "") is allowed


class TestTopology:
    TAS = ResourceFlavor("f1", topology="racks")
    ASKING = podset(TopologyRequest("required", "rack"))
    CPU = group({"f1": {"cpu": 1}})
    COUNTED = Counted({"credits": 1}, asked={"cpu": 1})

    def test_a_flavor_without_topology_is_refused_for_pods_that_request_one(self) -> None:
        plain = ResourceFlavor("f2")
        assert "has no topology" in refusal(self.ASKING, plain, counted=self.COUNTED, group=self.CPU)
        made = group({"f2": {"credits": 1}})
        assert refusal(self.ASKING, plain, counted=self.COUNTED, group=made) == ""
        assert refusal(self.ASKING, plain) == ""
        assert refusal(self.ASKING, plain, counted=self.COUNTED, group=self.CPU, topology_aware=False) == ""

    def test_a_flavor_with_topology_is_for_pods_that_request_one_or_if_all_flavors_have_one(self) -> None:
        assert "only for pods that ask" in refusal(podset(), self.TAS, tas_only=False)
        assert refusal(podset(), self.TAS, tas_only=True) == ""
        assert refusal(podset(), self.TAS) == ""
        assert refusal(podset(), self.TAS, tas_only=False, topology_aware=False) == ""

    def test_a_requested_level_must_exist_if_the_levels_are_known(self) -> None:
        assert refusal(self.ASKING, self.TAS, levels=["block", "rack"]) == ""
        assert (
            refusal(self.ASKING, self.TAS, levels=["block"]) == "its topology has no level rack (it has levels block)"
        )
        assert refusal(self.ASKING, self.TAS, levels=None) == ""

    @each(
        ("request_", "refused"),
        [
            (TopologyRequest("required", "block", (Layer("rack", 4),)), False),
            (TopologyRequest("required", "rack", (Layer("rack", 4),)), False),
            (TopologyRequest("required", "host", (Layer("rack", 4),)), True),
            (TopologyRequest("slices", layers=(Layer("block", 4), Layer("rack", 2))), False),
            (TopologyRequest("slices", layers=(Layer("rack", 4), Layer("block", 2))), True),
            (TopologyRequest("preferred", "rack", (Layer("rack", 4), Layer("host", 2))), False),
        ],
    )
    def test_slices_are_of_the_level_of_the_podset_or_below_and_smaller_ones_further_below(
        self, request_: TopologyRequest, *, refused: bool
    ) -> None:
        words = refusal(podset(request_), self.TAS, levels=["block", "rack", "host"])
        assert ("is not below" in words) is refused

    def test_a_queue_is_topology_only_if_all_its_flavors_have_a_topology(self) -> None:
        flavors = {"f1": self.TAS, "f2": ResourceFlavor("f2")}
        for names, all_have in ((["f1"], True), (["f1", "f2"], False), (["f1", "missing"], False)):
            queue = ClusterQueue("a", groups=(group({name: {"cpu": 1} for name in names}),))
            assert all_with_topology(queue, flavors.get) is all_have


class TestTolerations:
    @each(
        ("toleration", "tolerated"),
        [
            ({}, False),
            ({"operator": "Exists"}, True),
            ({"key": "gpu", "operator": "Exists"}, True),
            ({"key": "cpu", "operator": "Exists"}, False),
            ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
            ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
            ({"key": "gpu", "operator": "Equal", "value": "5"}, True),
            ({"key": "gpu", "value": "5"}, True),
            ({"key": "gpu", "value": "6"}, False),
            ({"key": "gpu", "operator": "Gt", "value": "4"}, True),
            ({"key": "gpu", "operator": "Gt", "value": "5"}, False),
            ({"key": "gpu", "operator": "Lt", "value": "6"}, True),
            ({"key": "gpu", "operator": "Lt", "value": "x"}, False),
            ({"key": "gpu", "operator": "Odd"}, False),
        ],
    )
    def test_a_toleration_matches_a_taint(self, toleration: dict[str, Any], *, tolerated: bool) -> None:
        assert tolerates(toleration, {"key": "gpu", "value": "5", "effect": "NoSchedule"}) is tolerated

    def test_the_first_untolerated_taint_is_found(self) -> None:
        taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
        assert untolerated(taints, [{"key": "a", "operator": "Exists"}]) == taints[1]
        assert untolerated(taints, [{"operator": "Exists"}]) is None
        assert untolerated([{"key": "a", "effect": "PreferNoSchedule"}], []) is None


class TestNodes:
    @each(
        ("spec", "allowed"),
        [
            ({}, True),
            ({"nodeSelector": {"type": "a"}}, True),
            ({"nodeSelector": {"zone": "z"}}, False),
            ({"nodeSelector": {"type": 5}}, True),
            (required(), True),
            (required({}), False),
            (required({}, term(need("type", "In", "a"))), True),
            (required(term(need("zone", "Exists"))), False),
            (required(term(need("zone", "DoesNotExist"))), True),
            (required(term(need("zone", "NotIn", "z"))), True),
            (required(term(need("cores", "Gt", "7"), need("cores", "Lt", "9"))), True),
            (required(term(need("cores", "Gt", "8"))), False),
            (required(term(need("type", "Lt", "8"))), False),
            (required({"matchFields": [need("metadata.name", "In", "n")]}), True),
        ],
    )
    def test_node_affinity_counts_for_every_key(self, spec: dict[str, Any], *, allowed: bool) -> None:
        assert affinity_allows(spec, NODE_LABELS) is allowed

    @each(
        "requirement",
        [
            need("type", "In"),
            need("type", "Odd", "b"),
            need("cores", "Gt", "many"),
            need("cores", "Gt"),
            {"key": 5},
            {"key": "type", "operator": "In", "values": "b"},
        ],
    )
    def test_an_invalid_affinity_requirement_refuses_no_pods(self, requirement: dict[str, Any]) -> None:
        assert affinity_allows(required(term(requirement)), NODE_LABELS)
        assert refusal(podset(**required(term(requirement))), ResourceFlavor("f1", NODE_LABELS)) == ""


@PROPERTY
@given(hostile_jobsets())
def test_eligibility_has_a_result_for_any_jobset(raw: dict[str, Any]) -> None:
    flavor = ResourceFlavor("f1", {"type": "a"}, ({"effect": "NoSchedule"},), ({"key": []},), "racks")
    for item in podsets_of(raw):
        assert isinstance(refusal(item, flavor, tas_only=False, levels=["rack"]), str)
        assert isinstance(affinity_allows(item.pod_spec, {"type": "a"}), bool)

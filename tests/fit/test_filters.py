"""Each filter of kube-scheduler: gangs that it lets in, that it keeps out now, and that it keeps out for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from gangctl.cli.fitting import FitSubject, answer_of
from gangctl.cluster.stock import Stock
from gangctl.fit.floor import NodeShape
from gangctl.fit.limits import of_labels
from gangctl.fit.members import Neighbours
from gangctl.fit.placedpods import PlacedPod, PodTerm, placed_pods
from gangctl.fit.report import FitReport
from gangctl.fit.requests import podsets_of
from gangctl.fit.scheduling import Floor
from tests.fit.asking import NAMESPACE, pods
from tests.jobsets import jobset
from tests.rows import each
from tests.steps import steps

HOST, ZONE, GPU = "kubernetes.io/hostname", "zone", "x.com/gpu"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
SPEC: Final = "spec.replicatedJobs[0].template.spec.template.spec"
Raw = dict[str, Any]


def node(name: str, *, cpu: str = "4", zone: str = "", **spec: Any) -> Raw:
    amounts = {"cpu": cpu, "pods": "110", GPU: "8"}
    labels = {HOST: name, **({ZONE: zone} if zone else {})}
    ready = spec.pop("ready", "True")
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": ready}]}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def other(node: str, *, app: str = "x", namespace: str = NAMESPACE, **spec: Any) -> Raw:
    metadata = {"name": f"other-{node}-{app}", "namespace": namespace, "labels": {"app": app}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [], **spec},
    }


def term(app: str, key: str = HOST, **more: Any) -> Raw:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: Raw) -> Raw:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: Raw) -> Raw:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def ports(port: int, **more: Any) -> Raw:
    return {
        "containers": [{"name": "main", "image": "none", "ports": [{"containerPort": port, "hostPort": port, **more}]}]
    }


def even(key: str = ZONE, **more: Any) -> Raw:
    constraint = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **more}
    return {"topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"app": "w"}}, **constraint}]}


def claim(zone: str, *modes: str) -> list[Raw]:
    requirement = {"key": ZONE, "operator": "In", "values": [zone]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    bound = {"metadata": {"name": "data", "namespace": NAMESPACE}, "spec": {"volumeName": "v"}}
    volume = {"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": terms}, "accessModes": [*modes]}}
    return [
        {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **bound},
        {"kind": "PersistentVolume", "apiVersion": "v1", **volume},
    ]


DATA: Final[Raw] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
TWO: Final = [node("a", zone="a"), node("b", zone="b")]
GPUS: Final = {"key": GPU, "value": "present", "effect": "NoSchedule"}
CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def asked(
    count: int,
    spec: Mapping[str, Any],
    others: Sequence[Raw],
    *,
    uid: str = "",
    mode: str = "",
    **requests: str,
) -> FitReport:
    """The report on one replicated job; with an access ``mode`` JobSet makes claim data-js for volume data."""
    entry = pods("w", count, spec, **requests)
    entry["template"]["spec"]["template"]["metadata"] = {"labels": {"app": "w"}}
    stock = Stock()
    for raw in others:
        stock.take_raw(raw)
    stock.pods = stock.pods or []
    stock.take_runtime_classes([])
    raw = jobset("js", entry, mode="Gang", namespace=NAMESPACE)
    raw["metadata"] |= {"uid": uid} if uid else {}
    made = {"metadata": {"name": "data"}, "spec": {"accessModes": [mode]}}
    raw["spec"] |= {"volumeClaimPolicies": [{"templates": [made]}]} if mode else {}
    return answer_of(FitSubject(raw, "js", NAMESPACE, "", uid), stock, fixed_nodes=True).report


@pytest.mark.parametrize(
    ("verdict", "count", "spec", "others"),
    [
        pytest.param("fits", 2, ports(80), TWO, id="a port of each node"),
        pytest.param("never", 3, ports(80), TWO, id="more pods than nodes with the port"),
        pytest.param("not-now", 2, ports(80), [*TWO, other("a", **ports(80))], id="a port in use"),
        pytest.param("fits", 2, ports(80), [*TWO, other("a", **ports(80, protocol="UDP"))], id="another protocol"),
        pytest.param(
            "fits", 2, ports(80, hostIP="10.0.0.1"), [*TWO, other("a", **ports(80, hostIP="10.0.0.2"))], id="an address"
        ),
        pytest.param("not-now", 2, ports(80), [*TWO, other("a", **ports(80, hostIP="10.0.0.2"))], id="any address"),
        pytest.param("fits", 2, apart(term("w")), TWO, id="one pod a node"),
        pytest.param("never", 3, apart(term("w")), TWO, id="more pods than nodes"),
        pytest.param("never", 3, apart(term("w", ZONE)), [*TWO, node("c", zone="b")], id="more pods than zones"),
        pytest.param("not-now", 2, apart(term("x")), [*TWO, other("a"), other("b")], id="apart from others"),
        pytest.param("fits", 2, apart(term("x")), [*TWO, other("a", namespace="o")], id="another namespace"),
        pytest.param("not-now", 8, {}, [*TWO, other("a", **apart(term("w")))], id="others stay apart"),
        pytest.param("not-now", 1, near(term("x")), TWO, id="nobody to join"),
        pytest.param("fits", 4, near(term("x")), [*TWO, other("a")], id="room beside the other"),
        pytest.param("not-now", 5, near(term("x")), [*TWO, other("a")], id="no room beside the other"),
        pytest.param("fits", 4, near(term("w", ZONE)), TWO, id="all in any zone"),
        pytest.param("not-now", 5, near(term("w", ZONE)), TWO, id="all in one zone"),
        pytest.param(
            "unknown", 5, near(term("w", ZONE)), [node("a", zone="a"), node("b", cpu="8", zone="b")], id="in one of two"
        ),
        pytest.param("fits", 8, even(), TWO, id="even zones"),
        pytest.param("fits", 8, even(maxSkew="two", minDomains=[1]), TWO, id="no numbers"),
        pytest.param("not-now", 6, even(), [node("a", cpu="2", zone="a"), node("b", cpu="8", zone="b")], id="uneven"),
        pytest.param(
            "fits",
            6,
            even(labelSelector={}),
            [node("a", cpu="2", zone="a"), node("b", cpu="8", zone="b"), other("b", app="w")],
            id="uneven, with a selector that counts nothing",
        ),
        pytest.param("not-now", 1, even(minDomains=3), [*TWO, other("a", app="w"), other("b", app="w")], id="domains"),
        pytest.param("not-now", 1, even("rack"), TWO, id="no domains"),
        pytest.param("fits", 2, DATA, [*TWO, *claim("a")], id="a volume"),
        pytest.param("never", 5, DATA, [*TWO, *claim("a")], id="a volume in a small zone"),
        pytest.param("unknown", 1, DATA, TWO, id="an unknown volume"),
        pytest.param("never", 9, DATA, TWO, id="too much, with an unknown volume"),
        pytest.param("unknown", 1, {"resourceClaims": [{"name": "c"}]}, TWO, id="devices"),
        pytest.param("never", 9, {"resourceClaims": [{"name": "c"}]}, TWO, id="too much, with devices"),
        pytest.param("unknown", 1, {"schedulerName": "mine"}, TWO, id="another scheduler"),
        pytest.param("unknown", 1, {"schedulingGates": [{"name": "g"}]}, TWO, id="gates"),
        pytest.param(
            "unknown", 9, apart(term("w", matchLabelKeys=["job-name"])), TWO, id="a label of the Job controller"
        ),
        pytest.param(
            "unknown", 1, near(term("w", matchLabelKeys=["kueue.x-k8s.io/podset"])), TWO, id="a label of Kueue"
        ),
        pytest.param("unknown", 1, {"nodeName": "a"}, TWO, id="a node's name"),
        pytest.param("fits", 4, {"resources": {"limits": {"cpu": "8"}}}, [node("a")], id="a limit of the pod"),
        pytest.param("never", 2, {"resources": {"requests": {"cpu": "3"}}}, [node("a")], id="a request of the pod"),
        pytest.param("not-now", 1, {}, [node("a", unschedulable=True, taints=[CORDON])], id="cordoned"),
        pytest.param(
            "fits",
            1,
            {"tolerations": [{"operator": "Exists"}]},
            [node("a", unschedulable=True, taints=[CORDON])],
            id="cordoned, and tolerated",
        ),
        pytest.param("unknown", 1, {}, [node("a", ready="False")], id="not ready, without its taint"),
        pytest.param(
            "unknown",
            1,
            apart(term("x", namespaceSelector={"matchLabels": {"a": "b"}})),
            [*TWO, other("a"), other("b")],
            id="labels of a namespace",
        ),
    ],
)
def test_a_filter_decides(verdict: str, count: int, spec: Mapping[str, Any], others: Sequence[Raw]) -> None:
    spec = {**spec}
    containers = spec.pop("containers", [{"name": "main", "image": "none"}])
    spec["containers"] = [{**containers[0], "resources": {"requests": {"cpu": "1"}}}]
    assert asked(count, spec, others)["verdict"] == verdict


@each(("labels", "unknown"), [({}, True), ({"kueue.x-k8s.io/podset": "w"}, False)])
def test_a_label_of_kueue_in_the_template_is_known(labels: Mapping[str, str], unknown: bool) -> None:
    entry = pods("w", 1, near(term("w", matchLabelKeys=["kueue.x-k8s.io/podset"])))
    entry["template"]["spec"]["template"]["metadata"] = {"labels": labels}
    (podset,) = podsets_of(jobset("js", entry))
    assert bool([*of_labels(podset, Neighbours(None))]) is unknown


NEW_ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"


@each(
    ("verdict", "of_volume", "of_node"),
    [
        ("fits", {NEW_ZONE: "a"}, {NEW_ZONE: "a"}),
        ("never", {NEW_ZONE: "a"}, {NEW_ZONE: "b"}),
        ("fits", {NEW_ZONE: "a__b"}, {NEW_ZONE: "b"}),
        ("fits", {NEW_ZONE: "a"}, {}),
        ("never", {NEW_ZONE: "a"}, {"topology.kubernetes.io/region": "r"}),
        ("fits", {NEW_ZONE: "a__"}, {NEW_ZONE: "b"}),
        ("fits", {BETA_ZONE: "a"}, {NEW_ZONE: "a"}),
        ("never", {BETA_ZONE: "a"}, {NEW_ZONE: "b"}),
        ("never", {BETA_ZONE: "a"}, {NEW_ZONE: "a", BETA_ZONE: "b"}),
        ("never", {NEW_ZONE: "a"}, {BETA_ZONE: "a"}),
        ("never", {NEW_ZONE: "a", BETA_ZONE: "b"}, {NEW_ZONE: "a"}),
    ],
)
def test_the_zones_of_a_volume_are_those_of_nodes_with_zones(
    verdict: str, of_volume: Mapping[str, str], of_node: Mapping[str, str]
) -> None:
    raw = node("a")
    raw["metadata"]["labels"] |= of_node
    bound, volume = claim("a")
    volume |= {"metadata": {"name": "v", "labels": dict(of_volume)}, "spec": {}}
    assert asked(1, DATA, [raw, bound, volume], cpu="1")["verdict"] == verdict


def test_a_pod_that_restarts_all_its_containers_needs_a_node_that_declares_it() -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    spec = {"containers": [{**container, "restartPolicy": "Never", "restartPolicyRules": [rule]}]}
    declaring = node("b")
    declaring["status"]["declaredFeatures"] = ["RestartAllContainersOnContainerExits"]
    report = asked(1, spec, [node("a")])
    assert (report["verdict"], report["reason"]) == ("never", "NeverNoNode")
    assert "no node declares RestartAllContainersOnContainerExits" in report["message"]
    assert asked(4, spec, [node("a"), declaring])["verdict"] == "fits"
    assert asked(5, spec, [node("a"), declaring])["verdict"] == "never"


@each(
    ("verdict", "wanted", "given", "condition"),
    [
        ("not-now", "3", "1", {"type": "PodResizePending", "reason": "Deferred"}),
        ("fits", "3", "1", {"type": "PodResizePending", "reason": "Infeasible"}),
        ("not-now", "1", "3", {"type": "PodResizeInProgress"}),
        ("fits", "1", "1", {"type": "PodResizeInProgress"}),
    ],
)
def test_a_pod_that_is_resized_has_what_it_may_have(
    verdict: str, wanted: str, given: str, condition: Mapping[str, str]
) -> None:
    resources = {"requests": {"cpu": wanted}}
    pod = other("a", containers=[{"name": "main", "resources": resources}])
    reported = {"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": given}}}
    pod["status"] = {"conditions": [{"status": "True", **condition}], "containerStatuses": [reported]}
    assert asked(3, {}, [node("a"), pod], cpu="1")["verdict"] == verdict


@each(("verdict", "count"), [("fits", 1), ("not-now", 2)])
def test_a_container_grows_by_what_another_gives_up(verdict: str, count: int) -> None:
    pod = other("a", containers=[{"name": n, "resources": {"requests": {"cpu": n}}} for n in "12"])
    reported = [{"name": n, "allocatedResources": {"cpu": m}} for n, m in ("12", "21")]
    pod["status"] = {"conditions": [{"status": "True", "type": "PodResizeInProgress"}], "containerStatuses": reported}
    assert asked(count, {}, [node("a"), pod], cpu="1")["verdict"] == verdict


def test_pods_beyond_a_limit_range_are_never_created() -> None:
    limits = [{"type": "Container", "max": {"cpu": "2"}}, {"type": "Pod", "min": {"cpu": "1"}}]
    raw = {"kind": "LimitRange", "apiVersion": "v1", "metadata": {"name": "l", "namespace": NAMESPACE}}
    held = [*TWO, {**raw, "spec": {"limits": limits}}]
    assert asked(1, {}, held, cpu="2")["verdict"] == "fits"
    report = asked(1, {}, held, cpu="3")
    assert (report["verdict"], report["reason"]) == ("never", "NeverMisconfigured")
    assert '"w": container "main" is above the max of a LimitRange of cpu' in report["message"]
    assert asked(1, {}, held, cpu="500m")["verdict"] == "never"


SOLE: Final = [*TWO, *claim("a", "ReadWriteOncePod")]


def test_a_claim_for_one_pod_at_a_time_is_used_by_one_pod() -> None:
    assert asked(1, DATA, SOLE, cpu="1")["verdict"] == "fits"
    assert asked(1, DATA, [*SOLE, other("b", **DATA, namespace="o")], cpu="1")["verdict"] == "fits"
    taken = asked(1, DATA, [*SOLE, other("b", **DATA)], cpu="1")
    assert (taken["verdict"], taken["reason"]) == ("not-now", "WaitsForNodes")
    assert taken["message"].startswith("Another pod uses claim data, and only one pod at a time may")
    assert asked(2, DATA, [*TWO, *claim("a", "ReadWriteMany"), other("b", **DATA)], cpu="1")["verdict"] == "fits"
    report = asked(2, DATA, SOLE, cpu="1")
    assert (report["verdict"], report["reason"]) == ("never", "NeverExceedsNodes")
    assert "2 of its pods use claim data, and only one pod at a time may (ReadWriteOncePod)" in report["message"]


def named(operator: str, host: str, *also: Raw) -> Raw:
    own = [{"key": "metadata.name", "operator": operator, "values": [host]}]
    terms = {"nodeSelectorTerms": [{"matchFields": own, "matchExpressions": [*also]}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


@each(
    ("verdict", "count", "spec"),
    [
        ("fits", 4, named("In", "a")),
        ("never", 5, named("In", "a")),
        ("fits", 4, named("NotIn", "a")),
        ("never", 5, named("NotIn", "a")),
        ("fits", 8, named("NotIn", "c")),
        ("never", 1, named("In", "c")),
        ("fits", 4, named("In", "a", {"key": ZONE, "operator": "In", "values": ["a"]})),
        ("never", 1, named("In", "a", {"key": ZONE, "operator": "In", "values": ["b"]})),
    ],
)
def test_required_fields_of_nodes_choose_them_by_name(verdict: str, count: int, spec: Raw) -> None:
    assert asked(count, spec, TWO, cpu="1")["verdict"] == verdict


MOUNTING: Final[Raw] = {"containers": [{"name": "main", "image": "none", "volumeMounts": [{"name": "data"}]}]}


def test_pods_have_the_claims_that_jobset_makes() -> None:
    assert asked(2, {}, TWO, mode="ReadWriteOncePod")["verdict"] == "fits"
    report = asked(2, MOUNTING, TWO, mode="ReadWriteOncePod")
    assert (report["verdict"], report["reason"]) == ("never", "NeverExceedsNodes")
    assert "2 of its pods use claim data-js, and only one pod at a time may (ReadWriteOncePod)" in report["message"]
    initial = {"initContainers": MOUNTING["containers"]}
    assert asked(2, initial, TWO, mode="ReadWriteOncePod")["verdict"] == "never"
    report = asked(2, MOUNTING, TWO, mode="ReadWriteMany")
    assert report["verdict"] == "unknown"
    assert [why.partition(":")[0] for why in report["unknown"]] == ["spec.volumeClaimPolicies"]
    assert "data-js" in report["unknown"][0]


def test_a_claim_of_jobset_that_is_there_decides_and_not_its_template() -> None:
    bound, volume = claim("a", "ReadWriteMany")
    bound["metadata"]["name"] = "data-js"
    there = [node("a", zone="a"), node("b", zone="b", cpu="9"), bound, volume]
    asking = {"containers": [{**MOUNTING["containers"][0], "resources": {"requests": {"cpu": "2"}}}]}
    assert asked(2, asking, there, mode="ReadWriteOncePod")["verdict"] == "fits"
    assert asked(3, asking, there, mode="ReadWriteOncePod")["verdict"] == "never"


@each(
    ("part", "change"),
    [("metadata", {"deletionTimestamp": "2026-11-30T00:00:00Z"}), ("status", {"phase": "Lost"})],
)
def test_a_claim_that_ends_or_has_lost_its_volume_takes_no_new_pod(part: str, change: Raw) -> None:
    bound, volume = claim("a")
    bound = {**bound, part: {**bound.get(part, {}), **change}}
    report = asked(1, DATA, [*TWO, bound, volume], cpu="1")
    assert report["verdict"] == "unknown"
    assert [why.partition(":")[0] for why in report["unknown"]] == [f"{SPEC}.volumes[0].persistentVolumeClaim"]


def test_admission_may_add_the_toleration_of_an_extended_resource() -> None:
    tainted = [node("a", taints=[GPUS]), node("b", taints=[GPUS])]
    report = asked(2, {}, tainted, **{GPU: "8"})
    assert report["verdict"] == "unknown"
    assert any(f"{SPEC}.tolerations: " in why and "ExtendedResourceToleration" in why for why in report["unknown"])
    assert asked(3, {}, tainted, **{GPU: "8"})["verdict"] == "never"
    assert asked(2, {}, [*tainted, other("a", **gpus("8"))], **{GPU: "8"})["verdict"] == "not-now"
    tolerant = {"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]}
    assert asked(2, tolerant, tainted, **{GPU: "8"})["verdict"] == "fits"
    assert asked(2, {}, tainted, cpu="1")["verdict"] == "never"


def gpus(count: str) -> Raw:
    return {"containers": [{"name": "main", "resources": {"requests": {GPU: count}}}]}


def test_what_is_not_looked_at_has_its_field() -> None:
    report = asked(1, {"resourceClaims": [{"name": "c"}]}, TWO)
    assert [why.partition(":")[0] for why in report["notLookedAt"][:1]] == [f"{SPEC}.resourceClaims"]
    assert report["notLookedAt"][:1] == report["unknown"]
    assert f"not known: {report['notLookedAt'][0]}" in report["message"]


def test_what_nodes_must_have_for_a_volume_is_named() -> None:
    (why,) = (why for why in asked(1, DATA, [*TWO, *claim("a")])["notLookedAt"] if "volumes" in why)
    assert "how many volumes the nodes can attach" in why
    assert "the driver of each" in why


def test_an_order_that_fails_is_named_with_the_rules_that_make_it() -> None:
    report = asked(
        5, {**near(term("w", ZONE)), **gpus("1")}, [node("a", zone="a"), *[node(f"b{n}", zone="b") for n in "01"]]
    )
    assert report["verdict"] == "fits"
    report = asked(
        9, {**near(term("w", ZONE)), **gpus("1")}, [node("a", zone="a"), *[node(f"b{n}", zone="b") for n in "01"]]
    )
    assert report["unknown"][0].startswith(f"{SPEC}.affinity.podAffinity: in which order kube-scheduler takes its pods")


def test_pods_that_are_there_outrank_the_template() -> None:
    labels = {"app": "w", "jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
    tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": NAMESPACE, "labels": labels}}
    tainted = [node("a", taints=[GPUS])]
    tolerant = {**pod, "spec": {**gpus("8"), "tolerations": tolerations}}
    assert asked(1, {}, [*tainted, tolerant], uid="1", **{GPU: "8"})["verdict"] == "fits"
    assert asked(1, {}, [*tainted, {**pod, "spec": gpus("8")}], uid="1", **{GPU: "8"})["verdict"] == "never"
    # One that is not made yet may ask for something else than the one of its name that is there.
    assert asked(1, {}, [node("a"), {**pod, "spec": gpus("8")}], **{GPU: "9"})["verdict"] == "never"


@pytest.mark.parametrize("field", ["namespaces", "matchLabelKeys", "mismatchLabelKeys", "labelSelector"])
@pytest.mark.parametrize("odd", [7, "text", [7], [{}], {"a": 7}])
def test_an_invalid_term_of_a_pod_on_a_node_is_no_error(field: str, odd: Any) -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, field: odd}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    (pod,) = placed_pods({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "affinity": affinity}})
    assert [repelling.key for repelling in pod.repels] == ["zone"]


def test_the_work_for_pods_that_keep_others_away_grows_linearly_with_them() -> None:
    away = PodTerm(HOST, (), frozenset({NAMESPACE}))

    def work(count: int) -> int:
        names = [f"n{number}" for number in range(count)]
        floor = [NodeShape(name, {HOST: name}, (), {"cpu": 4000}) for name in names]
        others = [PlacedPod(NAMESPACE, "", name, {}, in_topology=False, labels={}, repels=(away,)) for name in names]
        podsets = podsets_of(jobset("js", pods("w", 1, cpu="1")))
        return steps(lambda: Floor(podsets, [{"cpu": 1000}], floor, Neighbours(others, NAMESPACE)).takers_now(0))

    assert work(600) < 2.5 * work(300)

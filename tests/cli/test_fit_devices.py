"""`fit --fixed-nodes` with the devices of a cluster (ResourceSlices), from files and from an API server."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Final

from gangctl.api.meta import GANGS
from gangctl.cluster.stock import Stock
from tests.cli.httpserver import ask
from tests.cli.kueueobjects import CONFIGURATION, Object, cluster_queue, flavor, local_queue, queued
from tests.cli.kueueserver import config_map, serving
from tests.cli.manifests import write
from tests.cli.run import gangctl
from tests.cli.test_fit_nodes import fit, node, pod
from tests.jobsets import OPTIONS
from tests.rows import each

API: Final = "resource.k8s.io/v1"
OLDER: Final = "resource.k8s.io/v1beta1"
DRIVER: Final = "gpu.example.com"
CLAIM: Final = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]}


def resource(kind: str, name: str, namespace: str | None = None, **fields: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, **fields}


def devices(node_name: str, count: int) -> Object:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    own = [{"name": f"gpu-{number}"} for number in range(count)]
    spec = {"driver": DRIVER, "nodeName": node_name, "pool": pool, "devices": own}
    return resource("ResourceSlice", f"{node_name}-gpus", spec=spec)


def claim(node_name: str, device: str, user: str) -> Object:
    results = [{"driver": DRIVER, "pool": node_name, "device": device, "request": "r"}]
    reserved = [{"resource": "pods", "name": user, "uid": "u"}]
    return resource(
        "ResourceClaim",
        f"{user}-gpu",
        "t",
        status={"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
    )


def asked(pods: int = 2) -> Object:
    made = queued(pods=pods, queue="")
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].update(CLAIM)
    return made


CLASS: Final = resource(
    "DeviceClass", "gpus", spec={"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
)
TEMPLATE: Final = resource(
    "ResourceClaimTemplate",
    "two",
    "t",
    spec={"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus", "count": 2}}]}}},
)
NODES: Final = [node("a"), node("b")]
THERE: Final = [*NODES, CLASS, TEMPLATE, devices("a", 2), devices("b", 2), pod("p", "a", "1")]


def using(made: Object) -> Object:
    made["spec"] |= CLAIM
    return made


class TestFiles:
    def test_devices_are_counted(self, tmp_path: Path) -> None:
        assert fit(tmp_path, asked(), THERE).json["verdict"] == "fits"
        assert fit(tmp_path, asked(3), THERE).json["reason"] == "NeverExceedsNodes"
        assert fit(tmp_path, asked(), [*THERE, claim("b", "gpu-0", "p")]).json["reason"] == "WaitsForNodes"

    def test_devices_of_its_own_pods_are_free_for_it(self, tmp_path: Path) -> None:
        own = using(pod("js-w-0", "b", "1", jobset="js"))
        made = asked()
        made["metadata"]["name"] = "js"
        assert fit(tmp_path, made, [*THERE, own, claim("b", "gpu-0", "js-w-0")]).json["verdict"] == "fits"
        assert fit(tmp_path, made, [*THERE, own, claim("b", "gpu-0", "p")]).json["reason"] == "WaitsForNodes"

    def test_without_the_claims_of_pods_that_have_some_it_is_unknown(self, tmp_path: Path) -> None:
        report = fit(tmp_path, asked(), [*THERE, using(pod("q", "b", "1"))]).json
        assert report["verdict"] == "unknown"
        assert "which devices other claims have" in report["message"]

    def test_slices_of_an_older_version_are_not_read(self, tmp_path: Path) -> None:
        older = [{**raw, "apiVersion": OLDER} if raw["kind"] == "ResourceSlice" else raw for raw in THERE]
        answer = fit(tmp_path, asked(), older)
        assert answer.json["verdict"] == "unknown"
        assert "resourceClaims: devices that are free on the nodes" in answer.json["message"]


def test_the_most_pods_of_each_place_have_the_devices_that_they_claim(tmp_path: Path) -> None:
    one = copy.deepcopy(TEMPLATE)
    one["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 1
    nodes = [node("a", "64"), node("b", "64")]
    for there in nodes:
        there["status"]["allocatable"]["pods"] = "110"
    objects = [*nodes, CLASS, one, devices("a", 2), devices("b", 3), claim("b", "gpu-0", "p"), pod("p", "b", "1")]
    files = write(tmp_path / "jobsets.yaml", asked()), write(tmp_path / "queues.yaml", *objects)
    answer = gangctl("fit", "-f", files[0], "--queues", files[1], "--largest", "-o", "json")
    (shape,) = answer.json["podSets"]
    assert {room["scope"]: room["pods"] for room in shape["rooms"]} == {"node": 2, "cluster": 4, "gang": 4}
    unread = [raw for raw in objects if raw["kind"] != "ResourceSlice"]
    files = files[0], write(tmp_path / "unread.yaml", *unread)
    answer = gangctl("fit", "-f", files[0], "--queues", files[1], "--largest", "-o", "json")
    assert any("resourceClaims" in why for why in answer.json["podSets"][0]["unknown"])


@each(
    ("gang", "unknown"),
    [
        ({"resourceClaims": CLAIM["resourceClaims"], "topologyKey": "rack"}, True),
        ({"resourceClaims": CLAIM["resourceClaims"], "minCount": 2, "perReplica": True}, True),
        ({}, False),
    ],
)
def test_the_largest_gang_shares_the_claims_of_its_gang(gang: Object, unknown: bool, tmp_path: Path) -> None:
    made = asked()
    made["metadata"]["annotations"] = {GANGS: json.dumps([{"name": "g", "replicatedJobs": ["w"], **gang}])}
    racks = [node(name, rack="r") for name in "ab"]
    files = write(tmp_path / "jobsets.yaml", made), write(tmp_path / "queues.yaml", *racks, *THERE[2:])
    for largest in ((), ("--largest",)):
        answer = gangctl("fit", "-f", files[0], "--queues", files[1], "-o", "json", *(largest or ("--fixed-nodes",)))
        report = answer.json["podSets"][0] if largest else answer.json
        assert any("which of them a gang shares" in why for why in report["unknown"]) is unknown
    (room,) = (room for room in report["rooms"] if room["scope"] == "gang")
    assert (room["pods"], room["possible"] > room["pods"]) == (0 if unknown else 2, unknown)
    assert any(room["scope"] == "domain" for room in report["rooms"]) is ("topologyKey" in gang)


class TestCluster:
    async def test_devices_are_listed_only_for_pods_with_claims(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", asked())
        async with serving(*THERE, kueue=False) as (server, url):
            answer = await ask(tmp_path, url, "fit", "-f", file, "--fixed-nodes", "-o", "json")
            assert (answer.json["verdict"], answer.err) == ("fits", "")
            asked_for = {path for _, path in server.asked if "resource.k8s.io" in path}
            asked_for -= {"/apis/resource.k8s.io", f"/apis/{API}"}
            names = {"resourceslices", "deviceclasses", "devicetaintrules", "resourceclaims"}
            place = f"/apis/{API}/namespaces/t/resourceclaimtemplates"
            assert asked_for == {*(f"/apis/{API}/{name}" for name in names), place}
            server.asked.clear()
            plain = write(tmp_path / "b.yaml", queued(pods=2, queue=""))
            await ask(tmp_path, url, "fit", "-f", plain, "--fixed-nodes")
            # Classes may serve extended resources.
            only = [path for _, path in server.asked if "resource.k8s.io" in path]
            assert only == [f"/apis/{API}/deviceclasses"]

    @each(
        ("more", "forbidden", "words"),
        [
            ((resource("DeviceClass", "x", spec={"extendedResourceName": "x.com/gpu"}),), False, "x.com/gpu"),
            ((), True, "x.com/gpu"),
            ((), False, ""),
        ],
    )
    async def test_devices_may_serve_the_extended_resource_of_a_gang_with_a_topology_key(
        self, more: tuple[Object, ...], forbidden: bool, words: str, tmp_path: Path
    ) -> None:
        raw = queued(pods=2, annotations={OPTIONS: '{"topologyKey": "rack"}'})
        (container,) = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"limits": {"x.com/gpu": "1", "cpu": "1"}}
        file = write(tmp_path / "a.yaml", raw)
        racks = [
            {**one, "metadata": {**one["metadata"], "labels": {"rack": "r"}}} for one in THERE if one["kind"] == "Node"
        ]
        unread = {f"/apis/{API}/deviceclasses"} if forbidden else set()
        quotas = cluster_queue("cq", {"f": {"cpu": "8", "x.com/gpu": "8"}})
        objects = (*racks, flavor(), quotas, local_queue("q", "cq"), config_map(CONFIGURATION), *more)
        async with serving(*objects, forbidden=unread) as (_, url):
            answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
        assert bool(words) is (answer.json["verdict"] == "unknown"), answer.json["message"]
        assert any(words in why for why in answer.json["unknown"]) is bool(words)

    async def test_what_may_not_be_read_is_unknown(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", asked())
        for name, words in (
            ("resourceslices", "devices that are free on the nodes"),
            ("devicetaintrules", "which devices DeviceTaintRules taint"),
            ("deviceclasses", "which devices DeviceClass gpus selects"),
        ):
            async with serving(*THERE, kueue=False, forbidden={f"/apis/{API}/{name}"}) as (_, url):
                answer = await ask(tmp_path, url, "fit", "-f", file, "--fixed-nodes", "-o", "json")
            assert answer.json["verdict"] == "unknown"
            assert words in answer.json["message"]

    @each(
        ("older", "rules", "verdict"),
        [
            (False, [], "fits"),
            (True, [], "fits"),
            (True, [{**resource("DeviceTaintRule", "r"), "apiVersion": "resource.k8s.io/v1alpha3"}], "unknown"),
        ],
    )
    async def test_taint_rules_are_of_the_version_that_is_served(
        self, older: bool, rules: list[Object], verdict: str, tmp_path: Path
    ) -> None:
        """Before 1.37 they are not served, or in an earlier version; what is not served is forbidden, too."""
        rule = "devicetaintrules"
        newest, alpha = f"/apis/{API}/{rule}", f"/apis/resource.k8s.io/v1alpha3/{rule}"
        file = write(tmp_path / "a.yaml", asked())
        unserved = {newest} if older else {newest, alpha}
        async with serving(*THERE, *rules, kueue=False, forbidden={newest}, unserved=unserved) as (_, url):
            answer = await ask(tmp_path, url, "fit", "-f", file, "--fixed-nodes", "-o", "json")
        assert (answer.json["verdict"], answer.err) == (verdict, "")


def test_each_claim_is_not_copied_with_all_before_it() -> None:
    stock = Stock()
    stock.take_raw(claim("n1", "gpu-0", "a"))
    first = stock.resource_claims
    stock.take_raw(claim("n1", "gpu-1", "b"))
    assert stock.resource_claims is first
    assert len(first or ()) == 2

"""Nodes whose device plugin is not registered: the kubelet reports that they have none of its resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangctl.fit.floor import NodeShape, read_node
from tests.fit.asking import pods
from tests.fit.test_nodes import RACK, ask, gang, gist
from tests.rows import each

GPU = "nvidia.com/gpu"


def gpus(name: str, count: str | None, rack: str = "a", **more: str) -> NodeShape:
    amounts = {"cpu": "8", "pods": "9", **({} if count is None else {GPU: count}), **more}
    metadata = {"name": name, "labels": {RACK: rack}}
    return read_node({"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}})


@each(
    ("counts", "asked", "expected"),
    [
        (("0", "0"), {"cpu": "1", GPU: "8"}, ("not-now", "WaitsForNodes")),
        (("8", "0"), {"cpu": "1", GPU: "8"}, ("not-now", "WaitsForNodes")),
        (("8", "8"), {"cpu": "1", GPU: "8"}, ("fits", "Fits")),
        # A node that never had the resource does not have its name either.
        (("8", None), {"cpu": "1", GPU: "8"}, ("never", "NeverExceedsNodes")),
        ((None, None), {"cpu": "1", GPU: "8"}, ("never", "NeverNoNode")),
        # The device plugin does not change what else the node has.
        (("0", "0"), {"cpu": "9", GPU: "8"}, ("never", "NeverNoNode")),
        (("0", "0"), {"cpu": "1"}, ("fits", "Fits")),
    ],
)
def test_what_no_device_plugin_reports_now_is_waited_for(
    counts: tuple[str | None, ...], asked: Mapping[str, str], expected: tuple[str, str]
) -> None:
    report = ask(gang(pods("w", 2, **asked)), [gpus(f"n{n}", count) for n, count in enumerate(counts)], used={})
    assert gist(report) == expected, report["message"]
    silent = sum(count == "0" for count in counts)
    said = f"No device plugin reports {GPU} on {silent} of 2 nodes now (capacity 0): see the pods of its DaemonSet."
    assert (said in report["message"]) is (expected[0] == "not-now"), report["message"]


def test_a_domain_whose_device_plugins_are_down_is_no_proof() -> None:
    raw: dict[str, Any] = gang(pods("w", 2, cpu="1", **{GPU: "8"}), options=f'{{"topologyKey": "{RACK}"}}')
    floor = [gpus("n0", "8", "a"), gpus("n1", "8", "b"), gpus("n2", "0", "b")]
    assert ask(raw, floor, used={})["verdict"] == "not-now"
    assert ask(raw, floor[:2], used={})["verdict"] == "never"

"""Devices that pods claim (dynamic resource allocation): counted where any of them will do, else unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.devices import Devices, claimed
from gangctl.fit.limits import ADMISSION
from gangctl.fit.members import Neighbours
from gangctl.fit.nodes import node_fit
from gangctl.fit.report import FitReport
from gangctl.fit.requests import podsets_of
from tests.fit.asking import NAMESPACE
from tests.fit.test_nodes import PLAIN, cpu, gang, gist, nodes
from tests.rows import each
from tests.steps import steps

DRIVER: Final = "gpu.example.com"
MODEL: Final = f'device.attributes["{DRIVER}"].model'


def device(name: str, model: str = "a", memory: str = "80Gi", **more: Any) -> dict[str, Any]:
    attributes = {"model": {"string": model}, f"{DRIVER}/driver": {"version": "1.2.3"}, "index": {"int": 1}}
    attributes |= {
        "roots": {"strings": ["r0", "r1"]},
        "levels": {"ints": [1]},
        "releases": {"versions": ["1.0.0", "2.0.0"]},
    }
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}


def pool(node: str, *devices: dict[str, Any], generation: int = 1, slices: int = 1, **more: Any) -> dict[str, Any]:
    name = {"name": node, "generation": generation, "resourceSliceCount": slices}
    return {"spec": {"driver": DRIVER, "nodeName": node, "pool": name, "devices": list(devices), **more}}


def pools(*counts: int) -> list[dict[str, Any]]:
    return [pool(f"n{node}", *(device(f"d{number}") for number in range(count))) for node, count in enumerate(counts)]


def chosen(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def template(*requests: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    written = [{"name": f"r{n}", "exactly": {"deviceClassName": "gpus", **raw}} for n, raw in enumerate(requests)]
    return {"spec": {"spec": {"devices": {"requests": written, **more}}}}


GPUS: Final = {"gpus": {"spec": {"selectors": chosen(f'device.driver == "{DRIVER}"')}}}
CLAIMS: Final = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}


def known(slices: Sequence[Mapping[str, Any]], *requests: Mapping[str, Any], **more: Any) -> Devices:
    return replace(Devices(slices, GPUS, {"t": template(*requests or ({"count": 1},))}, taken=()), **more)


def ask(devices: Devices, *entries: dict[str, Any], spec: Mapping[str, Any] = CLAIMS, count: int = 2) -> FitReport:
    raw = gang(*(entries or (cpu(4, 1, spec=spec),)))
    neighbours = Neighbours([], NAMESPACE, devices=devices)
    return node_fit(FitRequest(raw, NAMESPACE, None, "", fixed_nodes=True), nodes(count, 16), PLAIN, neighbours)


def test_a_gang_fits_if_each_pod_has_its_devices() -> None:
    report = ask(known(pools(4, 4), {"count": 2}))
    assert gist(report) == ("fits", "Fits")
    assert report["podSets"][0]["requests"] == {"cpu": 1000, "devices of gpus": 2}
    assert report["notLookedAt"] == [ADMISSION]


def test_a_gang_of_more_devices_than_there_are_never_fits() -> None:
    report = ask(known(pools(4, 3), {"count": 2}))
    assert gist(report) == ("never", "NeverExceedsNodes")
    assert "8 devices of gpus" in report["message"] or "hold 3 of that size" in report["message"]
    assert gist(ask(known(pools(1, 1), {"count": 2}))) == ("never", "NeverNoNode")


def test_devices_that_others_have_make_it_wait() -> None:
    taken = {(DRIVER, "n0", "d0")}
    assert gist(ask(known(pools(4, 4), {"count": 2}, taken=taken))) == ("not-now", "WaitsForNodes")
    assert gist(ask(known(pools(5, 4), {"count": 2}, taken=taken))) == ("fits", "Fits")
    assert gist(ask(known(pools(4, 4), {"count": 2}, taken={(DRIVER, "n9", "d0")}))) == ("fits", "Fits")


@each(
    ("expression", "fits"),
    [
        (f'{MODEL} == "a"', True),
        (f'{MODEL} == "b"', False),
        (f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0', True),
        (f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("80Gi"))', False),
        (f'device.attributes["{DRIVER}"].driver.isGreaterThan(semver("1.2.0"))', True),
        (f'device.attributes["{DRIVER}"].index > 0 && !device.allowMultipleAllocations', True),
        (f'has(device.attributes["{DRIVER}"].serial)', False),
        (f'"r1" in device.attributes["{DRIVER}"].roots', True),
        (f'device.attributes["{DRIVER}"].levels.exists(each, each > 2)', False),
        (f'device.attributes["{DRIVER}"].releases[1].isGreaterThan(semver("1.9.0"))', True),
        # An unknown domain is an empty map (newStringInterfaceMapWithDefault).
        ('has(device.attributes["other.com"].model)', False),
        ('device.capacity["other.com"].?memory.hasValue()', False),
        ('"other.com" in device.attributes', False),
        (f'"{DRIVER}" in device.capacity', True),
    ],
)
def test_selectors_of_a_request_and_of_its_class_are_evaluated(expression: str, fits: bool) -> None:
    of_request = known(pools(4, 4), {"selectors": chosen(expression)})
    of_class = known(pools(4, 4), classes={"gpus": {"spec": {"selectors": chosen(expression)}}})
    expected = ("fits", "Fits") if fits else ("never", "NeverNoNode")
    assert gist(ask(of_request)) == gist(ask(of_class)) == expected


def test_selectors_are_evaluated_once_for_equal_requests() -> None:
    devices = known(pools(*[8] * 20), {"selectors": chosen(f'{MODEL} == "a"')})

    def work(jobs: int) -> int:
        podsets = podsets_of(gang(*(cpu(1, 1, f"w{number}", CLAIMS) for number in range(jobs))))
        return steps(lambda: claimed(podsets, nodes(20), devices, shared=False))

    work(1)
    assert work(8) < 2 * work(1)


def test_requests_that_select_other_devices_are_counted_apart() -> None:
    mixed = [pool(f"n{n}", device("a0"), device("a1"), device("b0", "b"), device("b1", "b")) for n in range(2)]
    first, second = ({"selectors": chosen(f'{MODEL} == "{model}"')} for model in "ab")
    assert gist(ask(known(mixed, first, second))) == ("fits", "Fits")
    assert gist(ask(known(mixed, {**first, "count": 2}, second))) == ("never", "NeverExceedsNodes")
    report = ask(known(mixed, first, {}))
    assert gist(report) == ("unknown", "Unknown")
    assert "which request gets the devices that two of them select" in report["message"]


def test_all_devices_of_a_node_are_for_one_pod() -> None:
    every = {"allocationMode": "All"}
    assert gist(ask(known(pools(4, 2), every), cpu(2, 1, spec=CLAIMS))) == ("fits", "Fits")
    assert gist(ask(known(pools(4, 2), every), cpu(3, 1, spec=CLAIMS)))[0] == "never"
    assert gist(ask(known(pools(4, 0), every), cpu(2, 1, spec=CLAIMS)))[0] == "never"
    taken = {(DRIVER, "n0", "d3")}
    assert gist(ask(known(pools(4, 2), every, taken=taken), cpu(2, 1, spec=CLAIMS)))[0] == "not-now"
    assert gist(ask(known(pools(4, 4), every, {"count": 1})))[0] == "unknown"


PATH: Final = "spec.replicatedJobs[0].template.spec.template.spec.resourceClaims"
EITHER: Final[dict[str, Any]] = {"spec": {"spec": {"devices": {"requests": [{"firstAvailable": [{}]}]}}}}


@each(
    ("devices", "field"),
    [
        (Devices(), f"{PATH}: devices that are free on the nodes (kubectl get resourceslices,resourceclaims)"),
        (known(pools(4, 4), taken=None), f"{PATH}[0]: which devices other claims have"),
        (known(pools(4, 4), rules=True), f"{PATH}[0]: which devices DeviceTaintRules taint"),
        (known(pools(4, 4), templates={}), f"{PATH}[0]: what ResourceClaimTemplate t asks for"),
        (known(pools(4, 4), classes={}), f"{PATH}[0]: which devices DeviceClass gpus selects"),
        (known(pools(4, 4), {"adminAccess": True}), f"{PATH}[0]: devices.requests[r0].adminAccess"),
        (known(pools(4, 4), {"capacity": {"requests": {}}}), f"{PATH}[0]: devices.requests[r0].capacity"),
        (known(pools(4, 4), {"count": 33}), f"{PATH}[0]: devices.requests: more than 32 devices"),
        (known(pools(4, 4), {"selectors": chosen("device.x.y == 1")}), f"{PATH}[0]: which devices a selector"),
        (
            known(pools(4, 4), {"selectors": chosen('device.attributes["other.com"].model == "a"')}),
            f"{PATH}[0]: which devices a selector",
        ),
        (known(pools(4, 4), {"selectors": chosen("device.")}), f"{PATH}[0]: which devices a selector"),
        (
            known(pools(4, 4), templates={"t": template({}, constraints=[{"matchAttribute": f"{DRIVER}/model"}])}),
            f"{PATH}[0]: devices.constraints",
        ),
        (
            known(pools(4, 4), templates={"t": EITHER}),
            f"{PATH}[0]: devices.requests[].firstAvailable",
        ),
        (known([pool("n0", device("d0"), slices=2)]), f"{PATH}[0]: all ResourceSlices of pool n0"),
        (
            known([pool("n0", device("d0", taints=[{"key": "a"}]))]),
            "ResourceSlices whose devices have taints",
        ),
        (known([pool("n0", device("d0", attributes={"driver": {"version": "1"}}))]), f"{PATH}[0]: what devices have"),
        (known([pool("n0", device("d0", memory="much"))]), f"{PATH}[0]: what devices have"),
        (known([pool("n0", device("d0", consumesCounters=[{}]))]), "have consumesCounters"),
        (known([pool("", device("d0"), allNodes=True)]), "have allNodes"),
    ],
)
def test_what_a_count_leaves_open_is_unknown_with_its_field(devices: Devices, field: str) -> None:
    report = ask(devices)
    assert gist(report) == ("unknown", "Unknown")
    assert field in report["message"]
    assert any(field in why for why in report["notLookedAt"])


def test_claims_that_pods_or_a_gang_share_are_unknown() -> None:
    shared = {"resourceClaims": [{"name": "c", "resourceClaimName": "one"}]}
    assert "which pods share" in ask(known(pools(4, 4)), spec=shared)["message"]
    raw = gang(cpu(4, 1, spec=CLAIMS))
    gangs = [{"name": "g", "replicatedJobs": ["w"], "resourceClaims": CLAIMS["resourceClaims"]}]
    raw["metadata"]["annotations"] = {"gangctl.dev/gangs": json.dumps(gangs)}
    neighbours = Neighbours([], NAMESPACE, devices=known(pools(4, 4)))
    report = node_fit(FitRequest(raw, NAMESPACE, None, "", fixed_nodes=True), nodes(2, 16), PLAIN, neighbours)
    assert f"{PATH}: which of them a gang shares" in report["message"]


def test_the_newest_slices_of_a_pool_count() -> None:
    older, newer = pool("n0", *(device(f"d{n}") for n in range(9))), pool("n0", device("d0"), generation=2)
    assert gist(ask(known([older, newer]), count=1))[0] == "never"
    assert gist(ask(known([older]), count=1)) == ("fits", "Fits")


@pytest.mark.parametrize("name", ["example.com/gpu", "deviceclass.resource.kubernetes.io/gpus"])
def test_an_extended_resource_that_a_class_serves_is_unknown(name: str) -> None:
    raw = cpu(1)
    raw["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][name] = "1"
    assert gist(ask(Devices(), raw))[0] == ("never" if name == "example.com/gpu" else "unknown")
    assert gist(ask(Devices(unread=True), raw)) == ("unknown", "Unknown")
    report = ask(Devices(classes={"gpus": {"spec": {"extendedResourceName": name}}}), raw)
    assert gist(report) == ("unknown", "Unknown")
    assert "as devices of a DeviceClass" in report["message"]


def test_what_is_no_device_is_evaluated_beside_it() -> None:
    assert gist(ask(Devices(), cpu(99, 16, spec=CLAIMS)))[0] == "never"

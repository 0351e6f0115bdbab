from __future__ import annotations

import pytest

from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.rules import KindRules
from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.sandbox.wire import Wire

MERGE = "application/merge-patch+json"


def test_an_unknown_minor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown minor '1\.2'"):
        Sandbox(SandboxOptions(minor="1.2"))


async def test_1_38_serves_gangs_in_v1_and_on_request_in_v1beta1() -> None:
    for beta in (False, True):
        config = {"scheduling.k8s.io/v1beta1": beta}
        options = SandboxOptions(minor="1.38", tls=False, runtime_config=config)
        async with Sandbox(options) as sandbox, Wire(sandbox.url, sandbox.token()) as wire:
            group = (await wire.get("/apis/scheduling.k8s.io")).json
            assert [each["version"] for each in group["versions"]] == (["v1", "v1beta1"] if beta else ["v1"])
            names = [each["name"] for each in (await wire.get("/apis/scheduling.k8s.io/v1")).json["resources"]]
            assert names == ["podgroups", "podgroups/status", "priorityclasses", "workloads"]


async def test_a_group_is_one_object_in_both_versions() -> None:
    paths = [f"/apis/scheduling.k8s.io/{version}/namespaces/default/podgroups" for version in ("v1beta1", "v1")]
    options = SandboxOptions(minor="1.38", tls=False, runtime_config={"scheduling.k8s.io/v1beta1": True})
    async with Sandbox(options) as sandbox, Wire(sandbox.url, sandbox.token()) as wire:
        body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
        made = (await wire.send("POST", paths[0], body)).json
        patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        changed = (await wire.send("PATCH", f"{paths[1]}/g", patch, content_type=MERGE)).json
        assert (made["apiVersion"], changed["apiVersion"]) == ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1")
        read = (await wire.get(f"{paths[0]}/g")).json
        assert read == {**changed, "apiVersion": made["apiVersion"]}
        assert read["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_disabled_version_is_not_served() -> None:
    options = SandboxOptions(tls=False, runtime_config={"scheduling.k8s.io/v1beta1": False})
    async with Sandbox(options) as sandbox, Wire(sandbox.url, sandbox.token()) as wire:
        assert (await wire.get("/apis/scheduling.k8s.io/v1beta1")).status == 404
        assert (await wire.get("/apis/scheduling.k8s.io/v1beta1/podgroups")).status == 404


async def test_versions_of_a_group_are_ordered_by_stability_and_number(sandbox: Sandbox) -> None:
    ordered = ["v10", "v2", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "foo1", "foo10"]
    for name in sorted(ordered):
        sandbox.api.registry.add(ResourceKind("example.com", name, "things", "Thing", custom=True), KindRules())
    async with Wire(sandbox.url, sandbox.token()) as wire:
        group = (await wire.get("/apis/example.com")).json
    assert [version["version"] for version in group["versions"]] == ordered
    assert group["preferredVersion"]["version"] == "v10"

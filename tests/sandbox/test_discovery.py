from __future__ import annotations

from typing import Any

import pytest

from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.rows import each
from tests.sandbox.wire import Wire


@each(("minor", "release"), [("1.35", "v1.35.4"), ("1.36", "v1.36.3"), ("1.37", "v1.37.2")])
async def test_each_minor_reports_its_version(minor: str, release: str) -> None:
    async with (
        Sandbox(SandboxOptions(minor=minor, tls=False)) as sandbox,
        Wire(sandbox.url, sandbox.token()) as wire,
    ):
        response = (await wire.get("/version")).json
    assert (response["gitVersion"], f"{response['major']}.{response['minor']}") == (release, minor)


def test_an_unknown_minor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown minor '1\.2'"):
        Sandbox(SandboxOptions(minor="1.2"))


async def test_discovery_lists_groups_and_resources(wire: Wire) -> None:
    groups = {group["name"]: group for group in (await wire.get("/apis")).json["groups"]}
    scheduling = groups["scheduling.k8s.io"]
    assert [each["version"] for each in scheduling["versions"]] == ["v1", "v1beta1"]
    assert scheduling["preferredVersion"]["version"] == "v1"
    assert (await wire.get("/apis/scheduling.k8s.io")).json["name"] == "scheduling.k8s.io"
    listed = (await wire.get("/apis/scheduling.k8s.io/v1beta1")).json
    assert listed["groupVersion"] == "scheduling.k8s.io/v1beta1"
    assert [each["name"] for each in listed["resources"]] == ["podgroups", "podgroups/status", "workloads"]
    core: dict[str, Any] = {each["name"]: each for each in (await wire.get("/api/v1")).json["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["pods/binding"]["kind"] == "Binding"
    assert "deletecollection" not in core["namespaces"]["verbs"]


async def test_a_disabled_version_is_not_served() -> None:
    options = SandboxOptions(tls=False, runtime_config={"scheduling.k8s.io/v1beta1": False})
    async with Sandbox(options) as sandbox, Wire(sandbox.url, sandbox.token()) as wire:
        assert (await wire.get("/apis/scheduling.k8s.io/v1beta1")).status == 404
        assert (await wire.get("/apis/scheduling.k8s.io/v1beta1/podgroups")).status == 404

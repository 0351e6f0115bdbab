from __future__ import annotations

import base64
import ssl
from pathlib import Path

import aiohttp
import pytest
import yaml

from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.resources import NAMESPACES
from gangctl.client.transport import Transport
from gangctl.errors import UnauthorizedError
from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.sandbox.faults import FaultySandbox
from tests.sandbox.wire import CONFIGMAPS, Wire


async def test_the_client_of_gangctl_reaches_the_sandbox_by_kubeconfig(tmp_path: Path) -> None:
    async with FaultySandbox() as sandbox:
        path = tmp_path / "kubeconfig"
        path.write_text(sandbox.kubeconfig("gangctl"))
        async with Transport(await load_cluster(kubeconfig=path)) as transport:
            client = Client(transport)
            names = [item["metadata"]["name"] for item in (await client.list(NAMESPACES)).items]
            assert names == ["default", "kube-public", "kube-system"]
            sandbox._tokens.clear()
            with pytest.raises(UnauthorizedError):
                await client.list(NAMESPACES)
    assert {record.user for record in sandbox.audit} == {"gangctl"}


async def test_the_certificate_is_valid_for_loopback() -> None:
    async with Sandbox() as sandbox:
        context = ssl.create_default_context(cadata=sandbox.ca_pem.decode())
        headers = {"Authorization": f"Bearer {sandbox.token()}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{sandbox.url}/version", ssl=context) as response,
        ):
            assert response.status == 200
        cluster = yaml.safe_load(sandbox.kubeconfig())["clusters"][0]["cluster"]
        assert base64.b64decode(cluster["certificate-authority-data"]) == sandbox.ca_pem


async def test_stored_objects_survive_a_restart_on_the_same_address() -> None:
    sandbox = Sandbox(SandboxOptions(tls=False))
    async with sandbox:
        url, token = sandbox.url, sandbox.token()
        async with Wire(url, token) as wire:
            await wire.configmap("a")
    with pytest.raises(RuntimeError, match="not open"):
        _ = sandbox.url
    async with sandbox:
        assert sandbox.url == url
        async with Wire(url, token) as wire:
            assert (await wire.get(f"{CONFIGMAPS}/a")).status == 200


async def test_each_user_has_one_token() -> None:
    async with Sandbox(SandboxOptions(tls=False)) as sandbox:
        assert sandbox.token("a") == sandbox.token("a")
        assert sandbox.token("a") != sandbox.token("b")


async def test_sandboxes_of_a_process_share_a_certificate() -> None:
    async with Sandbox() as first, Sandbox() as second:
        assert first.ca_pem == second.ca_pem != b""

"""The process refuses to start with one clear error, never a traceback."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

import gangctl.manager.process
from gangctl.errors import ConfigError
from gangctl.manager.process import SWITCH_SECONDS, prepared, run
from gangctl.manager.settings import load_settings
from gangctl.manager.webhooks import listening
from gangctl.runtime.server import Listener
from tests.client.server import ScriptedServer, status
from tests.controlplane.wait import wait_for
from tests.faults import virtual_time
from tests.rows import each


def controller(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gangctl", "controller", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def kubeconfig(directory: Path, server: str = "http://127.0.0.1:1") -> Path:
    """A cluster; by default its address refuses connections."""
    path = directory / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "none",
                "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
                "clusters": [{"name": "none", "cluster": {"server": server}}],
                "users": [{"name": "none", "user": {}}],
            }
        )
    )
    return path


def test_a_missing_kubeconfig_is_one_error() -> None:
    done = controller("--kubeconfig", "/nowhere/config")
    assert done.returncode == 2
    assert "/nowhere/config" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_in_use_is_one_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = ("--webhook-registration", "none", "--metrics-bind-address", address)
        done = controller("--kubeconfig", str(kubeconfig(tmp_path)), *flags)
    assert done.returncode == 2
    assert f"--metrics-bind-address {address}: cannot listen" in done.stderr
    assert "Traceback" not in done.stderr


def test_outside_of_a_cluster_a_missing_webhook_url_is_one_error(tmp_path: Path) -> None:
    done = controller("--kubeconfig", str(kubeconfig(tmp_path)))
    assert done.returncode == 2
    assert "webhook-url is missing: outside of a cluster (context none of " in done.stderr
    assert "give --webhook-url https://HOST:PORT" in done.stderr
    assert "Traceback" not in done.stderr


@each(
    "flags",
    [
        {"webhook_url": "https://127.0.0.1:9443"},
        {"webhook_service": "gangctl-webhook"},
        {"webhook_registration": "ca-only"},
        {"webhook_registration": "none"},
    ],
)
async def test_outside_of_a_cluster_a_webhook_address_can_be_chosen(flags: dict[str, str], tmp_path: Path) -> None:
    async with prepared(load_settings({"kubeconfig": str(kubeconfig(tmp_path)), **flags}, None)):
        pass


def test_a_namespace_that_may_not_be_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedServer() as server:
            refusals = status(403, "Forbidden", "no"), status(401, "Unauthorized", "who"), status(404, "NotFound")
            server.on("GET", "/api/v1/namespaces/gangctl-system", *refusals)
            flags = {"kubeconfig": str(kubeconfig(tmp_path, server.url)), "webhook_registration": "none"}
            async with prepared(load_settings(flags, None)) as process:
                with capture_logs() as logs:
                    assert await process._own_namespace() == "default"
        assert [(entry["error"], "--own-namespace" in entry["event"]) for entry in logs] == [
            ("no", True),
            ("who", True),
        ]

    virtual_time.run(main())


async def test_every_check_of_what_is_set_up_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the labels of namespaces, gangctl would serve none of them, and be ready."""
    listeners: list[Listener] = []

    def noting(listener: Listener, flag: str) -> AbstractAsyncContextManager[None]:
        listeners.append(listener)
        return listening(listener, flag)

    monkeypatch.setattr(gangctl.manager.process, "listening", noting)
    flags = {
        "kubeconfig": str(kubeconfig(tmp_path)),
        "own_namespace": "gangctl-system",
        "webhook_registration": "none",
        "metrics_bind_address": "127.0.0.1:0",
        "namespace_selector": "gangctl.dev/managed=true",
        "policies": "off",
    }
    async with prepared(load_settings(flags, None)) as process:
        assert [check() for check in process._ready().values()] == ["starting", None]
        running = asyncio.create_task(process.run())

        async def checks() -> dict[str, str]:
            """The answers by name, once everything is set up."""
            if process._manager is None or process._webhooks is None:
                return {}
            url = "http://{}:{}/readyz?verbose".format(*listeners[0].address)
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                *lines, _ = (await response.text()).splitlines()
            return {line.removeprefix("[-]").removeprefix("[+]").split()[0]: line for line in lines}

        answers = await wait_for(checks)
        assert answers["namespaces"] == "[-]namespaces failed: waiting for namespaces"
        assert process._manager is not None
        assert {*answers} == {*process._manager.checks, "shutdown"}
        process.stop()
        await running


def test_an_invalid_value_of_a_flag_is_one_error() -> None:
    done = controller("--unavailable", "ignore")
    assert done.returncode == 2
    assert "'reject', 'allow'" in done.stderr


async def test_a_thread_that_loads_policies_does_not_block_the_event_loop() -> None:
    before, thresholds = sys.getswitchinterval(), gc.get_threshold()
    try:
        with pytest.raises(ConfigError):
            await run(load_settings({"kubeconfig": "/nowhere/config"}, None))
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    finally:
        sys.setswitchinterval(before)
        gc.set_threshold(*thresholds)

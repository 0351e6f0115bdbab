"""Credentials of exec plugins: how they are run, and what they are given of the cluster."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from gangctl.errors import ConfigError
from tests.client.clock import VirtualClock
from tests.client.kubeconfigs import headers_of, load, plugin, write
from tests.rows import each
from tests.runtime.authority import bundle, pair


class TestExecPlugin:
    async def test_an_exec_token_is_renewed_before_it_expires(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        expiry = (clock.wall() + dt.timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
        user = plugin(tmp_path, f'{{"token":"tok@N@","expirationTimestamp":"{expiry}"}}')
        config = await load(write(tmp_path / "config", user=user), clock=clock)
        assert await headers_of(config) == [("Authorization", "Bearer tok1")]
        clock.tick(28 * 60)
        assert await headers_of(config) == [("Authorization", "Bearer tok1")]
        clock.tick(61)
        assert await headers_of(config) == [("Authorization", "Bearer tok2")]

    async def test_a_refused_exec_token_is_renewed(self, tmp_path: Path) -> None:
        config = await load(write(tmp_path / "config", user=plugin(tmp_path, '{"token":"tok@N@"}')))
        refused = await config.access()
        assert await asyncio.gather(*(config.refresh(refused) for _ in range(3))) == [True] * 3
        assert await headers_of(config) == [("Authorization", "Bearer tok2")]

    async def test_a_failed_exec_plugin_is_an_error_without_its_output(self, tmp_path: Path) -> None:
        """They may be anything; a person sees them on the terminal."""
        user = plugin(tmp_path, "{}", code=3)
        with pytest.raises(ConfigError, match=r"plugin\.sh: process returned 3$") as caught:
            await load(write(tmp_path / "config", user=user))
        assert caught.value.hint == f"run {tmp_path}/plugin.sh to see why"

    async def test_a_missing_exec_plugin_is_an_error_with_its_install_hint(self, tmp_path: Path) -> None:
        user = {"exec": {"command": "./absent", "apiVersion": "v1", "installHint": "apt install it"}}
        with pytest.raises(ConfigError) as caught:
            await load(write(tmp_path / "config", user=user))
        assert caught.value.hint == "apt install it"

    @staticmethod
    def given(directory: Path) -> dict[str, Any]:
        """``spec`` of what the plugin was given, which it writes to a file."""
        return dict(json.loads((directory / "given").read_text())["spec"])

    async def test_a_plugin_that_asks_for_the_cluster_is_given_it(self, tmp_path: Path) -> None:
        """GKE's kubeconfigs ask for it, and plugins that use LoadExecCredentialFromEnv fail without it."""
        user = plugin(tmp_path, '{"token":"tok@N@"}', body=f'printf %s "$KUBERNETES_EXEC_INFO" > {tmp_path}/given')
        (tmp_path / "ca.pem").write_bytes(bundle("ca"))
        cluster = {
            "certificate-authority": "ca.pem",
            "tls-server-name": "other",
            "proxy-url": "http://proxy:3128",
            "extensions": [
                {"name": "else", "extension": {}},
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
            ],
        }
        await load(write(tmp_path / "config", user=user, cluster=cluster))
        assert "cluster" not in self.given(tmp_path)
        user["exec"]["provideClusterInfo"] = True
        await load(write(tmp_path / "config", user=user, cluster=cluster))
        assert self.given(tmp_path)["cluster"] == {
            "server": "https://127.0.0.1:1",
            "tls-server-name": "other",
            "certificate-authority-data": base64.b64encode(bundle("ca")).decode(),
            "proxy-url": "http://proxy:3128",
            "config": {"audience": "a"},
        }
        await load(write(tmp_path / "config", user=user, cluster={"disable-compression": True}))
        assert self.given(tmp_path)["cluster"] == {"server": "https://127.0.0.1:1", "disable-compression": True}

    async def test_a_plugin_gets_the_terminal_by_its_interactive_mode(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        user = plugin(tmp_path, '{"token":"tok@N@"}', body=f'printf %s "$KUBERNETES_EXEC_INFO" > {tmp_path}/given')
        monkeypatch.setattr("gangctl.client.credentials._is_terminal", lambda stream: stream == "stdin")
        await load(write(tmp_path / "config", user=user))
        assert self.given(tmp_path)["interactive"] is True
        user["exec"]["interactiveMode"] = "Never"
        await load(write(tmp_path / "config", user=user))
        assert self.given(tmp_path)["interactive"] is False
        user["exec"]["interactiveMode"] = "Always"
        monkeypatch.setattr("gangctl.client.credentials._is_terminal", lambda _: False)
        with pytest.raises(ConfigError, match=r"interactiveMode Always: standard input is not a terminal$"):
            await load(write(tmp_path / "config", user=user))

    @each(
        ("beside", "header"),
        [
            ({"token": "t"}, [("Authorization", "Bearer t")]),
            ({"tokenFile": "token"}, [("Authorization", "Bearer of-file")]),
            ({"username": "me", "password": "pw"}, [("Authorization", "Basic bWU6cHc=")]),
            (
                {
                    f"client-{part}-data": base64.b64encode(content).decode()
                    for part, content in (("certificate", pair("ca").chain), ("key", pair("ca").key))
                },
                [],
            ),
        ],
    )
    async def test_a_user_with_other_credentials_needs_no_plugin(
        self, tmp_path: Path, beside: dict[str, str], header: list[tuple[str, str]]
    ) -> None:
        (tmp_path / "token").write_text("of-file\n")
        user = plugin(tmp_path, '{"token":"tok@N@"}')
        assert await headers_of(await load(write(tmp_path / "config", user=user | beside))) == header
        assert not (tmp_path / "runs").exists()

    async def test_a_null_section_is_no_plugin(self, tmp_path: Path) -> None:
        config = await load(write(tmp_path / "config", user={"exec": None, "token": "t"}))
        assert await headers_of(config) == [("Authorization", "Bearer t")]

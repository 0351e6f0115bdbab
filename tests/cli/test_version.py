"""``gangctl version``: of the program, and of the API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from gangctl import __version__
from tests.cli.httpserver import ask, kubeconfig, listening
from tests.cli.run import fine, gangctl, process

OURS = f"v{__version__}"


def test_the_client_version_needs_no_cluster() -> None:
    assert fine("version", "--client").out == f"Client Version: {OURS}\n"
    assert fine("version", "--client", "-o", "json").json == {"clientVersion": {"gitVersion": OURS}}


async def test_the_server_version_is_that_of_the_api_server(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/version"
        return web.json_response({"gitVersion": "v1.37.2", "minor": "37"})

    async with listening(answer) as url:
        assert (await ask(tmp_path, url, "version")).out == f"Client Version: {OURS}\nServer Version: v1.37.2\n"
        report = (await ask(tmp_path, url, "version", "-o", "json")).json
        assert report["serverVersion"] == {"gitVersion": "v1.37.2", "minor": "37"}


def test_without_a_cluster_the_client_version_and_the_error_are_printed(tmp_path: Path) -> None:
    answer = gangctl("version", "--kubeconfig", str(tmp_path / "none"))
    assert (answer.code, answer.out) == (2, f"Client Version: {OURS}\n")
    assert "no cluster is configured" in answer.err


async def test_a_request_ends_at_its_timeout(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        del request
        await asyncio.Event().wait()
        raise AssertionError

    async with listening(answer) as url:
        done = await ask(tmp_path, url, "version", "--request-timeout", "1s")
        # The demo handles signals, which only the main thread of a process can.
        options = ("--kubeconfig", kubeconfig(tmp_path, url), "--request-timeout", "1s")
        demo = await asyncio.to_thread(process, "demo", *options)
    for ended in (done, demo):
        assert ended.code == 3
        assert "no answer within 1 s" in ended.err
    for time in ("soon", f"{'9' * 400}h"):
        assert f'"{time}" is no time such as 90s' in gangctl("version", "--request-timeout", time).err

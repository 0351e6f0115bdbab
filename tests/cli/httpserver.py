"""A small HTTP server in place of an API server, and gangctl run against it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from aiohttp import web

from tests.cli import run
from tests.cli.run import Answer

HERE = "t"
"""Namespace of the context."""


@asynccontextmanager
async def listening(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The URL at which ``answer`` answers whatever is asked."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    # One that never answers is waited for no longer: the default is a minute.
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site.name
    finally:
        await runner.cleanup()


def kubeconfig(directory: Path, url: str) -> str:
    """A kubeconfig for the server at that URL, with a context in namespace :data:`HERE`."""
    path = directory / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": HERE}}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def ask(directory: Path, url: str, *arguments: str) -> Answer:
    """Run gangctl against the server at that URL."""
    return await run.ask(*arguments, "--kubeconfig", kubeconfig(directory, url))

"""Chromium without a window, by its DevTools protocol: what pages log, and what is in them after their scripts ran."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.controlplane.wait import NotYet, wait_for

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_LISTENS: Final = re.compile(rb"DevTools listening on (ws://\S+)")
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)


def find_browser() -> str | None:
    """The program, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Tab:
    """One page at a time; ``errors`` are what its console had as errors, and requests that failed."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self.errors: list[str] = []
        self._socket = socket
        self._session = session
        self._numbers = itertools.count(2)
        self._loaded = False

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command; events that come before it are noted."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters, "sessionId": self._session})
        while True:
            message = await self._socket.receive_json()
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    async def open(self, url: str) -> None:
        """Load a page with all that it loads itself."""
        self._loaded = False
        await self.call("Page.navigate", url=url)
        while not self._loaded:
            self._note(await self._socket.receive_json())

    async def text(self, expression: str) -> str:
        """The text that a script returns, once it is not empty."""

        async def there() -> str:
            value = (await self.call("Runtime.evaluate", expression=expression))["result"].get("value")
            if not value:
                raise NotYet(expression)
            return str(value)

        return await wait_for(there, expression)

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"), message.get("params", {}):
            case "Page.loadEventFired", _:
                self._loaded = True
            case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                self.errors.append(json.dumps(details))
            case "Log.entryAdded", {"entry": {"level": "error"} as entry}:
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")
            case "Runtime.consoleAPICalled", {"type": "error", "args": said}:
                self.errors.append(json.dumps(said))


@asynccontextmanager
async def browser(program: str, profile: Path) -> AsyncIterator[Tab]:
    """A browser with a new profile and one tab, until the end of the block."""
    process = await asyncio.create_subprocess_exec(program, *_FLAGS, f"--user-data-dir={profile}", stderr=PIPE)
    try:
        address = await _address(process)
        async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
            yield await _tab(socket)
    finally:
        process.terminate()
        await process.wait()


async def _address(process: Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if found := _LISTENS.search(line):
            return found[1].decode()
    raise AssertionError(f"the browser ended with {await process.wait()}")


async def _tab(socket: aiohttp.ClientWebSocketResponse) -> Tab:
    await socket.send_json({"id": 0, "method": "Target.createTarget", "params": {"url": "about:blank"}})
    target = (await _answer(socket, 0))["targetId"]
    attach = {"targetId": target, "flatten": True}
    await socket.send_json({"id": 1, "method": "Target.attachToTarget", "params": attach})
    tab = Tab(socket, (await _answer(socket, 1))["sessionId"])
    for domain in ("Page", "Runtime", "Log"):
        await tab.call(f"{domain}.enable")
    return tab


async def _answer(socket: aiohttp.ClientWebSocketResponse, number: int) -> dict[str, Any]:
    while (message := await socket.receive_json()).get("id") != number:
        pass
    result: dict[str, Any] = message["result"]
    return result

"""A terminal session: one shell, into which commands are typed one after the other, and the output of each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECONDS: Final = 300.0
"""For one command; what has to be downloaded and installed is the longest."""

_END_SECONDS: Final = 300.0


class CommandFailed(Exception):  # noqa: N818 - it states what happened
    """A command that ended with another code than 0, or has not ended; the message is its output."""


@dataclass(frozen=True)
class Terminal:
    """A shell that is open; a shell that a command opens takes what is typed next."""

    shell: asyncio.subprocess.Process

    async def types(self, line: str, seconds: float = SECONDS) -> str:
        """Run a line to its end, or until it is in the background; what it printed, errors and all."""
        assert self.shell.stdin is not None
        mark = f"end-{secrets.token_hex(8)}"
        # The mark is put together by the shell, so that it is not in the echo of the line.
        self.shell.stdin.write(f"{line}\nprintf '\\n%s %s\\n' end-'{mark[4:]}' $?\n".encode())
        said: list[str] = []
        try:
            async with asyncio.timeout(seconds):
                code = await self._until(mark, said)
        except TimeoutError as error:
            raise CommandFailed(f"`{line}` has not ended after {seconds:g} s:\n{''.join(said)}") from error
        if code != "0":
            raise CommandFailed(f"`{line}` ended with {code}:\n{''.join(said)}")
        return "".join(said)

    async def _until(self, mark: str, said: list[str]) -> str:
        """Collect lines until the one with the mark; the exit code that stands behind it."""
        assert self.shell.stdout is not None
        async for line in self.shell.stdout:
            text = line.decode()
            if text.startswith(mark):
                return text.split()[1]
            said.append(text)
        return "the shell"

    async def close(self) -> None:
        """End the shell and what runs in it, which is a session of its own."""
        with contextlib.suppress(ProcessLookupError):  # it has ended, and all that it started
            os.killpg(self.shell.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self.shell.communicate()
        except TimeoutError:
            os.killpg(self.shell.pid, signal.SIGKILL)
            await self.shell.communicate()


@asynccontextmanager
async def terminal(directory: Path, environment: Mapping[str, str]) -> AsyncIterator[Terminal]:
    """A shell in a directory, with these variables and no others."""
    opened = Terminal(
        await asyncio.create_subprocess_exec(
            *("bash", "--noprofile", "--norc"),
            cwd=directory,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    )
    try:
        yield opened
    finally:
        await opened.close()

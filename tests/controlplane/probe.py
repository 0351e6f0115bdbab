"""Asks a component whether it is up, over HTTP, and takes every kind of no for an answer."""

import ssl
from pathlib import Path

import aiohttp

_SECONDS = 2


async def answers(url: str, *, ca: Path | None = None) -> bool:
    """Whether a GET is answered with 200."""
    context = True if ca is None else ssl.create_default_context(cafile=str(ca))
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS), trust_env=False) as session,
            session.get(url, ssl=context) as response,
        ):
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False

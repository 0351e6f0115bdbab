"""etcd, the API server's store: one member, on loopback, without waiting for the disk."""

import base64
import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

import aiohttp

from tests.controlplane.probe import answers
from tests.controlplane.process import Process
from tests.controlplane.site import Site

_MOST_PUTS = 128
"""Of one transaction; etcd's own limit."""


def etcd(site: Site, port: int) -> Process:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{site.ports.take()}"
    command = [
        site.binary("etcd"),
        f"--data-dir={site.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    return Process("etcd", command, site.log("etcd"), ready=lambda: answers(f"{client}/health"))


async def put(port: int, objects: Iterable[tuple[str, bytes]]) -> int:
    """Write values under keys, many at a time; how many those were."""
    url, count, rest = f"http://127.0.0.1:{port}/v3/kv/txn", 0, iter(objects)
    async with aiohttp.ClientSession(trust_env=False) as session:
        while puts := [
            {"requestPut": {"key": _base64(key), "value": base64.b64encode(value).decode()}}
            for key, value in islice(rest, _MOST_PUTS)
        ]:
            async with session.post(url, data=json.dumps({"success": puts}), raise_for_status=True) as response:
                await response.read()
            count += len(puts)
    return count


async def erase(port: int, prefix: str) -> int:
    """Delete every key under a prefix through the JSON gateway, as `etcdctl del --prefix` does; how many those were."""
    last = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    body = {"key": _base64(prefix), "range_end": _base64(last)}
    url = f"http://127.0.0.1:{port}/v3/kv/deleterange"
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.post(url, data=json.dumps(body), raise_for_status=True) as response,
    ):
        answer: dict[str, Any] = await response.json(content_type=None)
        return int(answer.get("deleted", 0))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

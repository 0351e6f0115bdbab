"""Degraded replicas of gangctl beside the leader: one with an expiring certificate, one without an API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import aiohttp

from gangctl.runtime.tls import found, issue
from gangctl.webhooks.configurations import MUTATE_JOBSETS
from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.jobsets import jobset, rj
from tests.live.faultyproxy import FaultyProxy
from tests.live.gangctl import OWN_NAMESPACE, USER, Gangctl
from tests.policy.test_agreement import request_for

HOUR: Final = timedelta(hours=1)
_FLAGS: Final = (
    *("--leader-elect=true", "--webhook-registration=none"),
    *("--policies=off", "--kueue=off", "--readiness=off"),
)


@dataclass
class Sick:
    """``old`` knew the cluster once, and has a certificate that ends; ``new`` has never learned of what gangs are
    made."""

    old: Gangctl
    new: Gangctl
    network: FaultyProxy
    """Between ``old`` and the API server."""

    async def ask_new(self) -> None:
        """Have ``new`` admit JobSets, again and again; until cancelled."""
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        body = request_for(jobset("js", rj("w", 1, 1, 1), mode="Gang"))
        timeout = aiohttp.ClientTimeout(total=20)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            url, headers = self.new.webhook_url + MUTATE_JOBSETS, {"Content-Type": "application/json"}

            async def ask() -> None:
                while True:
                    await asyncio.sleep(0.2)
                    try:
                        async with session.post(url, data=body, headers=headers, ssl=trusting) as answer:
                            await answer.read()
                    except (aiohttp.ClientError, OSError, TimeoutError):
                        continue

            async with asyncio.TaskGroup() as group:
                for _ in range(4):
                    group.create_task(ask())
                    await asyncio.sleep(1)


@asynccontextmanager
async def sick_replicas(plane: ControlPlane, directory: Path) -> AsyncIterator[Sick]:
    """Both, launched and not waited for; neither ever leads, as an unknown holder has the Lease."""
    await _hold_lease(plane)
    certificates = _certificates(directory / "certificates")
    async with AsyncExitStack() as stack:
        replicas, proxies = [], []
        for name in ("old", "new"):
            proxy = await stack.enter_async_context(FaultyProxy(plane, USER))
            if name == "new":
                proxy.fails = _scheduling
            config = proxy.kubeconfig(directory / f"{name}.json")
            # One of two shards has no leader, either: no replica has a right to its Lease.
            shards = "--shards=2" if name == "old" else "--shards=1"
            flags = (*_FLAGS, shards, "--cert-dir", str(certificates))
            replica = Gangctl(plane, *flags, name=f"gangctl-{name}", kubeconfig=config)
            stack.push_async_callback(replica.close)
            await replica.process.launch()
            replicas.append(replica)
            proxies.append(proxy)
        yield Sick(replicas[0], replicas[1], proxies[0])


def _certificates(directory: Path) -> Path:
    """A certificate that ends within the hour, as files."""
    directory.mkdir()
    now = datetime.now(UTC)
    authority = found(now, HOUR)
    pair = issue(authority, ["127.0.0.1"], now, HOUR)
    (directory / "ca.crt").write_bytes(authority.certificate)
    (directory / "tls.crt").write_bytes(pair.chain)
    (directory / "tls.key").write_bytes(pair.key)
    return directory


def _scheduling(_method: str, path: str) -> bool:
    return path.startswith("/apis/scheduling.k8s.io")


async def _hold_lease(plane: ControlPlane) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "nobody", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    body: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "gangctl"}}
    path = path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE)
    await plane.api.create(path, {**body, "spec": spec})

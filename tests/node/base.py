"""gangctl as `kubectl apply -k manifests/base` installs it on real nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.manifests.files import MANIFESTS
from tests.node.cluster import RealCluster

BASE = ("-k", str(MANIFESTS / "base"))


@asynccontextmanager
async def base(real: RealCluster) -> AsyncIterator[None]:
    """manifests/base, applied, ready, and deleted at the end without a trace."""
    before = await real.objects()
    await real.kubectl("apply", *BASE)
    try:
        await real.rolled_out()
        yield
    finally:
        await real.kubectl("delete", "--ignore-not-found", *BASE)
        await real.leaves_nothing(before)

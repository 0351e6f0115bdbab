"""gangctl as `kubectl apply -k manifests/base` installs it on real nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.manifests.files import MANIFESTS
from tests.manifests.overlays import write_overlay
from tests.node.cluster import RealCluster


@asynccontextmanager
async def base(real: RealCluster, *components: str) -> AsyncIterator[None]:
    """manifests/base with components, applied, ready, and deleted at the end without a trace."""
    before = await real.objects()
    place = write_overlay(real.home / "overlay", components, "base", {}) if components else MANIFESTS / "base"
    applied = ("-k", str(place))
    await real.kubectl("apply", *applied)
    try:
        await real.rolled_out()
        yield
    finally:
        await real.kubectl("delete", "--ignore-not-found", *applied)
        await real.leaves_nothing(before)

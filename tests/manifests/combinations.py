"""Which components are rendered together in tests: each alone, all, and those that patch the same object."""

from __future__ import annotations

from gangctl.cli.install.components import NAMES

COMBINATIONS: tuple[tuple[str, ...], ...] = (
    (),
    *((name,) for name in NAMES if name != "policies/native/deny"),
    ("policies/native", "policies/native/deny"),
    ("monitoring", "monitoring/secured"),
    ("high-availability", "shards"),
    ("cert-manager", "monitoring/secured"),
    ("kueue-check", "tenants", "tenants/managed"),
    NAMES,
)


def title(components: tuple[str, ...]) -> str:
    return "all" if components == NAMES else "+".join(components) or "base"

"""Result of rendering, and its inputs besides the PathwaysJob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gangctl.api.scheduling import Feature
from gangctl.gang.reasons import Notice
from gangctl.gang.resolve import ClusterRules
from gangctl.pathways.origins import Origin


class Profile(StrEnum):
    """Which conventions a rendering follows."""

    GANG = "gang"
    """gangctl's own: gangs, affinity instead of exclusive placement where a gang would deadlock."""
    XPK = "xpk"
    """Those of AI-Hypercomputer/xpk: no gang, exclusive placement, host settings."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Inputs of a rendering besides the PathwaysJob."""

    profile: Profile = Profile.GANG
    gangs: bool = True
    """Whether the cluster has an API for gangs; without one the workers keep exclusive placement."""
    topology: bool = True
    """Whether a gang can require one node pool, which needs Kubernetes 1.36 or later."""
    composite: bool = False
    """Whether several gangs can start together, each placed as a whole (CompositePodGroups)."""


def setting_for(rules: ClusterRules, profile: Profile = Profile.GANG, *, gangs: bool = True) -> Setting:
    """The setting for a cluster, or for a Kubernetes minor."""
    topology = rules.generation.capabilities.constraints and Feature.TOPOLOGY not in rules.lacks
    return Setting(profile, gangs, topology, composite=rules.known and rules.composite)


@dataclass(frozen=True, slots=True)
class Rendering:
    """The JobSet, and notices for the user."""

    jobset: Mapping[str, Any]
    origins: Mapping[str, Origin]
    """By field path of the JobSet, for every leaf."""
    notices: tuple[Notice, ...]
    head_requests: Mapping[str, int]
    """What the head's pod asks of its node: milli-CPU, bytes, counts."""
    proxy_address: str
    """``grpc://HOST:PORT`` of the proxy, as pods of the cluster reach it."""

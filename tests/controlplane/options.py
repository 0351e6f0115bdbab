"""What a control plane is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.controlplane.api import Object
from tests.controlplane.binaries import JOBSETS
from tests.controlplane.minors import MINORS, NEWEST

ADDONS = ("jobset", "kueue", "kwok", "lws", "trainer")


@dataclass(frozen=True)
class Options:
    """
    What a plane is made of.

    The audit log has the request and response bodies of `audit_bodies`, which are resources by API group. `gates` and
    `runtime_config` are laid over what the minor needs for gangs: `gates={"GenericWorkload": False}` switches one off.
    `crds` are created before the controller-manager starts. `server_flags` are further arguments of the API server.
    `kueue_configuration` and `scheduler_configuration` are fields of their configurations, laid over the plane's.
    `jobset` is one of the JOBSETS. `nodes` is how many real nodes there are, and `images` are archives that they have.
    """

    minor: str = NEWEST
    components: tuple[str, ...] = ("jobset",)
    audit: bool = True
    audit_bodies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    scheduler: bool = True
    controller_manager: bool = True
    jobset: str = JOBSETS[0]
    jobset_gates: Mapping[str, bool] = field(default_factory=dict)
    kueue_gates: Mapping[str, bool] = field(default_factory=dict)
    kueue_metrics: bool = False
    kueue_fair_sharing: bool = False
    kueue_configuration: Mapping[str, Any] = field(default_factory=dict)
    scheduler_configuration: Mapping[str, Any] = field(default_factory=dict)
    kwok_stages: Sequence[Object] | None = None
    crds: Sequence[Object] = ()
    server_flags: Sequence[str] = ()
    nodes: int = 0
    images: Sequence[Path] = ()

    def __post_init__(self) -> None:
        if self.minor not in MINORS:
            raise ValueError(f"unknown minor {self.minor!r}: have {', '.join(MINORS)}")
        if unknown := set(self.components) - set(ADDONS):
            raise ValueError(f"unknown components {sorted(unknown)}: have {', '.join(ADDONS)}")
        for each in {"kueue", "trainer"} & {*self.components}:
            if "jobset" not in self.components:
                raise ValueError(f"{each} needs the JobSet CRD: name jobset too")

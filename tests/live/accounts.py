"""What Kueue has left to do, by its own metrics; the plane is started with ``kueue_metrics``."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp

from tests.controlplane.components import kueue
from tests.controlplane.plane import ControlPlane
from tests.live.monitored import scraper_token

_SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Account:
    """One answer."""

    samples: tuple[tuple[str, Mapping[str, str], float], ...]

    def total(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples that have these labels."""
        return sum(value for each, own, value in self.samples if each == name and labels.items() <= {**own}.items())

    @property
    def idle(self) -> bool:
        """Whether its controllers have nothing in hand and nothing before them."""
        return self.total("workqueue_depth") == self.total("controller_runtime_active_workers") == 0

    @property
    def cycles(self) -> float:
        """How often its scheduler has looked at the head of every queue."""
        return self.total("kueue_admission_attempts_total")

    @property
    def waiting(self) -> float:
        """Workloads whose turn it is, or that come up again and again."""
        return self.total("kueue_pending_workloads", status="active")

    @property
    def reserving(self) -> float:
        """Workloads with quota."""
        return self.total("kueue_reserving_active_workloads")

    @property
    def known(self) -> float:
        """Workloads that wait or have quota."""
        return self.total("kueue_pending_workloads") + self.reserving


class Accounts:
    """Asks a plane's Kueue."""

    def __init__(self, plane: ControlPlane, token: str) -> None:
        self._url = f"https://{kueue.metrics_address(plane.site)}/metrics"
        self._headers = {"Authorization": f"Bearer {token}"}
        # Kueue serves with whatever certificate the machine has for it.
        self._ssl = ssl.create_default_context()
        self._ssl.check_hostname, self._ssl.verify_mode = False, ssl.CERT_NONE

    @classmethod
    async def of(cls, plane: ControlPlane) -> Accounts:
        return cls(plane, await scraper_token(plane.api))

    async def ask(self) -> Account:
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(self._url, headers=self._headers, ssl=self._ssl) as response,
        ):
            assert response.ok, await response.text()
            text = await response.text()
        return Account(
            tuple((name, dict(_LABEL.findall(labels)), float(value)) for name, labels, value in _SAMPLE.findall(text))
        )

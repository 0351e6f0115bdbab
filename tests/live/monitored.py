"""A control plane that Prometheus watches as it would in a cluster: gangctl, Kueue, the scheduler, the API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.controlplane.api import UNREACHABLE, ApiClient, Object, path_of
from tests.controlplane.components import kueue
from tests.controlplane.components.prometheus import Prometheus, Series
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live import placing
from tests.monitoring.scaled import write_scaled

SCALE: Final = 60
SCALES: Final[Mapping[str, float]] = {
    # A quiet watch is opened anew after 90 seconds.
    "GangctlInformerStale": 3,
    # It compares with the day before.
    "GangPolicyViolationsRising": 3600,
}
"""Rules that have a scale of their own."""
RBAC: Final = "rbac.authorization.k8s.io/v1"


def write_rules(directory: Path) -> list[Path]:
    """The shipped rules, with durations divided."""
    directory.mkdir()
    return write_scaled(directory, SCALE, factors=SCALES)


async def scraper_token(api: ApiClient) -> str:
    """A token of a ServiceAccount that may get /metrics, and nothing else."""
    where = kueue.NAMESPACE
    await api.create(path_of("v1", "serviceaccounts", namespace=where), {"metadata": {"name": "prometheus"}})
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    role: Object = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "prometheus"}, "rules": rules}
    binding: Object = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "prometheus"},
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": where}],
        "roleRef": {"kind": "ClusterRole", "name": "prometheus", "apiGroup": "rbac.authorization.k8s.io"},
    }
    await api.create(path_of(RBAC, "clusterroles"), role)
    await api.create(path_of(RBAC, "clusterrolebindings"), binding)
    path = path_of("v1", "serviceaccounts", namespace=where, name="prometheus")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await api.create(f"{path}/token", request)
    return str(answer["status"]["token"])


def of_gangctl(addresses: Sequence[str]) -> Object:
    """How gangctl is scraped; those that do not run are down."""
    return {"job_name": "gangctl", "static_configs": [{"targets": list(addresses)}]}


def of_others(plane: ControlPlane, token: str) -> list[Object]:
    """How Kueue, the scheduler and the API server are scraped."""
    server = _secure("kube-apiserver", plane.url.removeprefix("https://"), token)
    # Of its thousands of series only these are asked for.
    keep = {"source_labels": ["__name__"], "regex": "apiserver_admission_webhook_.+_count", "action": "keep"}
    server |= {"scrape_interval": "2s", "metric_relabel_configs": [keep]}
    return [
        _secure("kueue", kueue.metrics_address(plane.site), token),
        _secure("kube-scheduler", placing.metrics_address(plane), token),
        server,
    ]


def _secure(job: str, address: str, token: str) -> Object:
    return {
        "job_name": job,
        "scheme": "https",
        "authorization": {"credentials": token},
        # Kueue serves with whatever certificate the machine has for it.
        "tls_config": {"insecure_skip_verify": True},
        "static_configs": [{"targets": [address]}],
    }


def configuration(*jobs: Object) -> dict[str, Any]:
    """Everything is scraped and evaluated every second."""
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "scrape_configs": list(jobs),
    }


@dataclass
class Watcher:
    """Looks at the alerts of some Prometheus, and records which have fired, with their texts."""

    sources: list[Prometheus] = field(default_factory=list)
    fired: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    values: dict[frozenset[tuple[str, str]], float] = field(default_factory=dict)
    """The highest value of each, by its labels."""

    async def look(self) -> None:
        """Look once."""
        for source in list(self.sources):
            for alert in await source.alerts("firing"):
                name = alert["labels"]["alertname"]
                value = float(alert["value"])
                labels = frozenset(alert["labels"].items())
                self.values[labels] = max(value, self.values.get(labels, value))
                known = self.fired.setdefault(name, [])
                if alert["labels"] not in [each["labels"] for each in known]:
                    known.append(alert)

    async def run(self) -> None:
        """Look until cancelled, also when a look had no answer: the machine has other things to do."""
        while True:
            with contextlib.suppress(*UNREACHABLE):
                await self.look()
            await asyncio.sleep(0.5)

    def forget(self, names: Sequence[str]) -> None:
        """Forget that they have fired, so that they can be waited for once more."""
        for name in names:
            self.fired.pop(name, None)

    async def until(self, names: Sequence[str]) -> None:
        """Wait until all of them have fired; those that never do are missing in :attr:`fired`."""

        async def all_fired() -> bool:
            if missing := [name for name in names if name not in self.fired]:
                raise NotYet(", ".join(missing))
            return True

        with contextlib.suppress(TimeoutError):
            await wait_for(all_fired, "alerts to fire", interval=0.2)


async def until_series(prometheus: Prometheus, expression: str, *, gone: bool = False) -> list[Series]:
    """Wait until an expression has an answer, or has none any more."""

    async def answered() -> bool:
        found.clear()
        found.extend(await prometheus.query(expression))
        if bool(found) is gone:
            raise NotYet(f"{len(found)} series, {[dict(each.labels) for each in found[:3]]}")
        return True

    found: list[Series] = []
    await wait_for(answered, expression, interval=0.2, tolerate=UNREACHABLE)
    return found

"""
A Prometheus on loopback: what it scrapes and which rules it evaluates are the test's, and its HTTP API is read here.

    async with Prometheus(directory, config, rules=[path]) as prometheus:
        await prometheus.query("up == 1")

It is no part of a plane: it looks at one from outside.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import NEWEST
from tests.controlplane.ports import Ports
from tests.controlplane.probe import answers
from tests.controlplane.process import Process

_SECONDS = 300


class QueryRefused(Exception):  # noqa: N818 - it states what happened
    """Prometheus did not take a request; the message is its own."""


@dataclass(frozen=True)
class Series:
    """One series of an answer: labels (the name among them, as `__name__`) and (Unix time, value) pairs."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def value(self) -> float:
        """The last value."""
        return self.points[-1][1]


class Prometheus:
    """
    One Prometheus process with its data in `directory`; the same object before, between and after its runs.

    `config` is a configuration as prometheus.yml has it, without `rule_files`: those are `rules`.
    """

    def __init__(self, directory: Path, config: Mapping[str, Any], *, rules: Sequence[Path] = ()) -> None:
        self._ports = Ports()
        address = f"127.0.0.1:{self._ports.take()}"
        self.url = f"http://{address}"
        self._config = directory / "prometheus.yml"
        self.configure(config, rules=rules)
        command = [
            str(ensure_binary("prometheus", NEWEST)),
            f"--config.file={self._config}",
            f"--storage.tsdb.path={directory / 'prometheus-data'}",
            f"--web.listen-address={address}",
            "--web.enable-lifecycle",
            # An alert that was about to fire before a restart fires when its time is over, and not ten minutes later.
            "--rules.alert.for-grace-period=0s",
            "--log.level=info",
        ]
        ready = f"{self.url}/-/ready"
        self.process = Process("prometheus", command, directory / "prometheus.log", ready=lambda: answers(ready))

    async def __aenter__(self) -> Self:
        try:
            await self.process.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the process and give its port back."""
        await self.process.stop()
        self._ports.release()

    def configure(self, config: Mapping[str, Any], *, rules: Sequence[Path] = ()) -> None:
        """Write another configuration; :meth:`reload` has it read."""
        whole = {**config, "rule_files": [str(path.resolve()) for path in rules]}
        self._config.write_text(yaml.safe_dump(whole), encoding="utf-8")

    async def reload(self) -> None:
        """Have the configuration and the rules read again; an error in them is raised, and the old ones stay."""
        async with self._session() as session, session.post(f"{self.url}/-/reload") as response:
            if response.status != 200:
                raise QueryRefused(f"reload: {await response.text()}")

    async def query(self, expression: str, *, at: float | None = None, lookback: str = "") -> list[Series]:
        """The value of an expression, now or at a Unix time; `lookback` is how long a sample counts (5m)."""
        given = {"query": expression} if at is None else {"query": expression, "time": repr(at)}
        given |= _lookback(lookback)
        return _series(await self._get("query", given))

    async def query_range(
        self, expression: str, start: float, end: float, step: float, *, lookback: str = ""
    ) -> list[Series]:
        """The values of an expression from `start` to `end` (Unix times), `step` seconds apart."""
        given = {"query": expression, "start": repr(start), "end": repr(end), "step": repr(step)}
        given |= _lookback(lookback)
        return _series(await self._get("query_range", given))

    async def parse(self, expression: str) -> dict[str, Any]:
        """The syntax tree of an expression: `type` (aggregation, binaryExpr ...) and what belongs to it."""
        tree: dict[str, Any] = await self._get("parse_query", {"query": expression})
        return tree

    async def rules(self) -> list[dict[str, Any]]:
        """Every rule of every group: `name`, `query`, `health`, `lastError`, and of alerts `state` and `alerts`."""
        data = await self._get("rules", {})
        return [rule for group in data["groups"] for rule in group["rules"]]

    async def alerts(self, state: str | None = None) -> list[dict[str, Any]]:
        """Alerts that are pending or firing: `labels`, `annotations`, `state`, `activeAt`, `value`."""
        found: list[dict[str, Any]] = (await self._get("alerts", {}))["alerts"]
        return [alert for alert in found if state in {None, alert["state"]}]

    async def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {alert["labels"]["alertname"] for alert in await self.alerts("firing")}

    async def targets(self) -> list[dict[str, Any]]:
        """What is scraped: `labels`, `health` (up, down, unknown), `lastError`, `scrapeUrl`."""
        found: list[dict[str, Any]] = (await self._get("targets", {"state": "active"}))["activeTargets"]
        return found

    async def _get(self, what: str, given: Mapping[str, str]) -> Any:
        url = f"{self.url}/api/v1/{what}"
        async with self._session() as session, session.get(url, params=given) as response:
            answer = await response.json()
        if answer["status"] != "success":
            raise QueryRefused(f"{what} {dict(given)}: {answer['errorType']}: {answer['error']}")
        return answer["data"]

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            yield session


def _lookback(given: str) -> dict[str, str]:
    return {"lookback_delta": given} if given else {}


def _series(data: Any) -> list[Series]:
    if data["resultType"] in {"scalar", "string"}:
        return [Series({}, (_point(data["result"]),))]
    return [
        Series(each["metric"], tuple(map(_point, each["values"] if "values" in each else [each["value"]])))
        for each in data["result"]
    ]


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])

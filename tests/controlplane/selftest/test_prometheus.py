"""Prometheus as a component: what it scrapes can be asked for, rules fire, and nothing of it is left behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from tests.controlplane.components.prometheus import Prometheus, QueryRefused
from tests.controlplane.probe import answers
from tests.controlplane.wait import NotYet, wait_for

pytestmark = pytest.mark.usefixtures("prometheus_binary")

RULES = {"groups": [{"name": "test", "interval": "1s", "rules": [{"alert": "TooMuch", "expr": "things > 1"}]}]}


@pytest.fixture
async def target() -> AsyncIterator[str]:
    """The address of something to scrape."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text='# TYPE things gauge\nthings{kind="a"} 2\n')

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    yield f"127.0.0.1:{port}"
    await runner.cleanup()


async def test_scraped_metrics_can_be_queried(target: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(RULES))
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [{"job_name": "test", "static_configs": [{"targets": [target]}]}],
    }
    async with Prometheus(tmp_path, config, rules=[rules]) as prometheus:

        async def fires() -> bool:
            """Everything that comes of a scrape: while this process stands still, there are none, and it is gone."""
            seen: list[object] = [
                [(series.labels["kind"], series.value) for series in await prometheus.query("things")],
                await prometheus.firing(),
                [alert["labels"]["kind"] for alert in await prometheus.alerts("firing")],
                await prometheus.alerts("pending"),
                [(rule["name"], rule["health"]) for rule in await prometheus.rules()],
                [target["health"] for target in await prometheus.targets()],
            ]
            if seen != [[("a", 2)], {"TooMuch"}, ["a"], [], [("TooMuch", "ok")], ["up"]]:
                raise NotYet(str(seen))
            return True

        await wait_for(fires, "the alert to fire")
        (over_time,) = await prometheus.query_range("vector(1)", 100, 110, 5)
        assert list(over_time.points) == [(100, 1), (105, 1), (110, 1)]
        (scalar,) = await prometheus.query("scalar(vector(3))")
        assert scalar.value == 3
    assert not await answers(f"{prometheus.url}/-/ready")


async def test_other_rules_are_read_while_it_runs(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(RULES))
    async with Prometheus(tmp_path, {}) as prometheus:
        assert await prometheus.rules() == []
        prometheus.configure({}, rules=[rules])
        await prometheus.reload()
        assert [rule["name"] for rule in await prometheus.rules()] == ["TooMuch"]
        rules.write_text("groups: 1")
        with pytest.raises(QueryRefused, match="reload"):
            await prometheus.reload()


async def test_a_wrong_expression_is_refused_with_prometheus_message(tmp_path: Path) -> None:
    async with Prometheus(tmp_path, {}) as prometheus:
        with pytest.raises(QueryRefused, match="parse error"):
            await prometheus.query("sum(")

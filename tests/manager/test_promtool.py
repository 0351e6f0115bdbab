"""What is exported passes the checks of Prometheus itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

from prometheus_client import generate_latest

from tests.faults import policies, virtual_time
from tests.faults.world import world
from tests.jobsets import jobset, rj


def test_promtool_accepts_the_metrics_of_a_process(promtool: Path, tmp_path: Path) -> None:
    async def story() -> bytes:
        async with world("1.37", tmp_path, about=policies.ABOUT) as here:
            await here.start_gangctl()
            await here.create(jobset("js", rj("w", 2, 2, 2, mode="Gang")))
            await here.rest()
            assert here._process is not None
            return generate_latest(here._process._metrics.registry)

    text = virtual_time.run(story())
    assert b"gangctl_gang_time_to_ready_seconds_bucket" in text
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()

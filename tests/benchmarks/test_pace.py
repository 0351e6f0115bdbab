"""The pace of a core beside a benchmark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.pace import Sampler

ROOT = Path(__file__).parent.parent.parent


def test_the_pace_of_a_block_has_at_least_one_sample() -> None:
    with Sampler() as sampler:
        pass
    assert 0 < sampler.pace.low <= sampler.pace.median <= sampler.pace.high


def test_samples_end_with_the_block_that_fails() -> None:
    sampler = Sampler()
    with pytest.raises(TimeoutError), sampler:
        raise TimeoutError
    assert sampler.pace.median > 0


def test_an_interrupt_does_not_end_the_samples_with_a_traceback() -> None:
    """Nobody reads any more: so it is when the benchmark was killed."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.pace"], stdout=write, stderr=subprocess.PIPE, cwd=ROOT, text=True
    )
    os.close(write)
    os.close(read)
    assert process.communicate()[1] == ""
    assert process.returncode != -signal.SIGKILL

"""A long run of these tests: ``python -m tests.hostile --minutes 30``, for a nightly job or an idle machine.

It repeats the suites with new examples until the time is up, and ends with 1 at the first round that fails; what
failed is kept by hypothesis in ``.hypothesis`` and tried first from then on. Put it into the suite as an ``@example``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.hostile.profiles import LONG

HERE = Path(__file__).parent


def main() -> int:
    """Run rounds; the exit code of the last one."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("suites", nargs="*", help="names of suites such as webhooks (default: all)")
    options = parser.parse_args()
    suites = [str(HERE / f"test_{name}.py") for name in options.suites] or [str(HERE)]
    end = time.monotonic() + options.minutes * 60
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        sys.stderr.write(f"round {rounds}, {max(0.0, end - time.monotonic()) / 60:.1f} minutes left\n")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout", "3600", *suites],
                env={**os.environ, LONG: "1"},
                timeout=max(1.0, end - time.monotonic()),
                check=False,
            )
        except subprocess.TimeoutExpired:
            break
        if done.returncode:
            return done.returncode
    sys.stderr.write("the time is up, and nothing was found\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.faults [SCENARIO ...]``: every fault at every request, which takes most of an hour on one core.

The tests give every request one fault, the kinds taking turns; this gives it each of them.
"""

from __future__ import annotations

import argparse
import logging
import sys

import structlog

from tests.faults.matrix import every, verdict
from tests.faults.scenarios import SCENARIOS


def main() -> int:
    """Run the scenarios, print the failures, and return whether there are any."""
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Every fault at every request.")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"any of: {', '.join(names)} (default: all)")
    chosen = parser.parse_args().scenarios or names
    if unknown := sorted(set(chosen) - set(names)):
        parser.error(f"unknown scenario {', '.join(unknown)}: have {', '.join(names)}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    failed = 0
    for scenario in SCENARIOS:
        for minor in scenario.minors if scenario.name in chosen else ():
            wrong = verdict(scenario, minor, every)
            failed += len(wrong)
            print("\n".join([f"{scenario.name} {minor}: {len(wrong)} went wrong", *wrong]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

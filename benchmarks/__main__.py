"""``python -m benchmarks [NAME ...] [--no-write]``: run benchmarks and write their tables to ``benchmarks/results``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from benchmarks import admission, burst, fit, hostile, readiness, scrape, soak, translate
from benchmarks.table import Table

BENCHMARKS: dict[str, Callable[[], Table]] = {
    "translate": translate.main,
    "burst": burst.main,
    "admission": admission.main,
    "soak": soak.main,
    "hostile": hostile.main,
    "fit": fit.main,
    "scrape": scrape.main,
    "readiness": readiness.main,
}


def main() -> None:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure gangctl against its budgets.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--no-write", action="store_true", help="print the table only")
    parser.add_argument(
        "--jobsets", type=int, default=readiness.JOBSETS_COUNT, help="size of readiness (default: %(default)s)"
    )
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - BENCHMARKS.keys()):
        parser.error(f"unknown benchmark {', '.join(unknown)}: have {', '.join(BENCHMARKS)}")
    benchmarks = BENCHMARKS | {"readiness": partial(readiness.main, arguments.jobsets)}
    for name in arguments.names or BENCHMARKS:
        table = benchmarks[name]()
        print(f"\n{name}\n\n{table.markdown()}")
        if not arguments.no_write:
            print(f"\nwritten to {table.write()}")


if __name__ == "__main__":
    main()

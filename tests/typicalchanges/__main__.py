"""``python -m tests.typicalchanges``: what fails after each typical change."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.typicalchanges.clone import Clone
from tests.typicalchanges.table import CHANGES


def main() -> int:
    """0 if nothing fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.typicalchanges")
    parser.add_argument("names", nargs="*", choices=[*CHANGES, []], metavar="NAME", help=", ".join(CHANGES))
    parser.add_argument("--wide", action="store_true", help="run make test-pure instead of make test-for")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        clone = Clone(Path(directory) / "clone")
        for name in options.names or CHANGES:
            outcome = clone.try_change(name, CHANGES[name], wide=options.wide)
            wrong = [*outcome.unnamed, *outcome.failures]
            failures += len(wrong)
            seconds = f"{outcome.cpu_seconds:.0f} s of CPU"
            sys.stdout.write(f"{name}: {outcome.files} files, {seconds}, {len(wrong)} in places that are not named\n")
            sys.stdout.writelines(f"  {place}\n" for place in wrong)
            sys.stdout.flush()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m grafana.generate``: write the dashboards; with ``--check`` only say whether they are up to date."""

from __future__ import annotations

import sys

from grafana.generate.files import stale, write


def main(arguments: list[str]) -> int:
    """Exit code: 1 where a file is not what the code makes of it, 2 for anything else that was asked."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python -m grafana.generate [--check]\n")
        return 2
    if not arguments:
        write()
        return 0
    found = stale()
    for path in found:
        sys.stderr.write(f"{path} is not up to date: run make dashboards\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

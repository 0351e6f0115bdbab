"""`python -m tests.conformance list` prints the names of the behaviours, one a line."""

import argparse
import sys
from collections.abc import Sequence

from tests.conformance.behaviours import CollectionFailed, behaviours


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="What API servers have in common.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="print the named behaviours")
    parser.parse_args(arguments)
    try:
        names = behaviours()
    except CollectionFailed as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.writelines(f"{name}\n" for name in names)
    return 0


if __name__ == "__main__":
    sys.exit(main())

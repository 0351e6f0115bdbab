"""``python -m gangctl``."""

import sys

# Before any other import: an older Python would fail there with a traceback.
if not (3, 11) <= sys.version_info[:2] <= (3, 14):
    sys.stderr.write("error: gangctl needs Python 3.11 to 3.14, and this is %d.%d\n" % sys.version_info[:2])  # noqa: UP031 - any Python
    sys.exit(2)

from gangctl.cli import main

if __name__ == "__main__":
    main()

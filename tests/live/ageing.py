"""``gangctl`` for which it is later than it is, by the seconds in a file; and that looks at certificates often.

Nothing else about it differs: a test cannot wait until a certificate is old. What its clock says it asks anew each
time, so that a test moves it while gangctl runs. The first argument is the file.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from unittest.mock import patch

from gangctl import cli

POLL_SECONDS: Final = 0.5

if __name__ == "__main__":
    later = Path(sys.argv.pop(1))

    def _wall(_clock: object) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=float(later.read_text(encoding="utf-8")))

    with (
        patch("gangctl.client.pacing.Clock.wall", _wall),
        patch("gangctl.manager.webhooks.POLL_SECONDS", POLL_SECONDS),
    ):
        cli.main()

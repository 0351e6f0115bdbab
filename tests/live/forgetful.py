"""``gangctl`` that caches the review of a token for a second or two, the shipped one for up to thirty.

Nothing else about it differs: a test would wait for that long whenever a token or a right has changed.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from unittest.mock import patch

from gangctl import cli
from gangctl.runtime.metricsserver import ReviewOptions

ALLOWED_SECONDS: Final = 2.0
REFUSED_SECONDS: Final = 1.0

if __name__ == "__main__":
    options = partial(ReviewOptions, allowed_seconds=ALLOWED_SECONDS, refused_seconds=REFUSED_SECONDS)
    with patch("gangctl.runtime.metricsserver.ReviewOptions", options):
        cli.main()

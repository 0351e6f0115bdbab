"""``gangctl`` on a machine that is far too slow: readiness takes long to evaluate. Nothing else about it differs."""

from __future__ import annotations

import time
from typing import Any, Final
from unittest.mock import patch

from gangctl import cli
from gangctl.readiness.evaluate import evaluate

EVALUATION_SECONDS: Final = 0.15


def _slow(*arguments: Any, **further: Any) -> Any:
    time.sleep(EVALUATION_SECONDS)
    return evaluate(*arguments, **further)


if __name__ == "__main__":
    with patch("gangctl.manager.wiring.evaluate", _slow):
        cli.main()

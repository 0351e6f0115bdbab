"""``gangctl`` on a machine that is far too slow, in a cluster with far too many gangs.

Its readiness takes long to evaluate, and a few gangs are more than it has series for. Nothing else about it differs: a
test cannot make thousands of gangs.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from gangctl import cli
from gangctl.manager.readinessmetrics import ReadinessMetrics
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.metrics import Limits

GANGS: Final = 20
"""More have no series of their own."""
EVALUATION_SECONDS: Final = 0.15


def _slow(*arguments: Any, **further: Any) -> Any:
    time.sleep(EVALUATION_SECONDS)
    return evaluate(*arguments, **further)


if __name__ == "__main__":
    few = partial(ReadinessMetrics, limits=Limits(gangs=GANGS))
    with (
        patch("gangctl.manager.wiring.evaluate", _slow),
        patch("gangctl.manager.wiring.ReadinessMetrics", few),
    ):
        cli.main()

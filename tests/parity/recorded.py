"""What kube-apiserver answered when it was asked (`python -m tests.parity record`)."""

import functools
import json
from pathlib import Path
from typing import Final

from tests.parity.outcomes import Outcome

MINOR: Final = "1.37"
FILE: Final = Path(__file__).parent / "recorded.json"


class NotRecordedError(LookupError):
    """A case without the server's answer."""


class Answers(dict[str, Outcome]):
    """Outcomes by expression."""

    def __missing__(self, expression: str) -> Outcome:
        raise NotRecordedError(
            f"no kube-apiserver was asked about {expression}: run python -m tests.parity record, which needs the "
            "control plane (make controlplane)"
        )


@functools.cache
def recorded() -> Answers:
    """What is recorded."""
    known: dict[str, tuple[str, str]] = json.loads(FILE.read_text())
    return Answers({expression: Outcome(*outcome) for expression, outcome in known.items()})

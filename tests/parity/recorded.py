"""What kube-apiserver answered when it was asked (`python -m tests.parity record`)."""

import functools
import json
from pathlib import Path
from typing import Final

from tests.parity.outcomes import Outcome

MINOR: Final = "1.37"
FILE: Final = Path(__file__).parent / "recorded.json"


@functools.cache
def recorded() -> dict[str, Outcome]:
    """Outcomes by expression."""
    known: dict[str, tuple[str, str]] = json.loads(FILE.read_text())
    return {expression: Outcome(*outcome) for expression, outcome in known.items()}

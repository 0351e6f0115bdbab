"""PathwaysJobs that must be refused: each has one error, with its message."""

from __future__ import annotations

from typing import Final

from tests.pathways.refused.components import COMPONENTS
from tests.pathways.refused.forms import FORMS
from tests.pathways.refused.gangs import GANGS
from tests.pathways.refused.head import HEAD
from tests.pathways.refused.names import NAMES
from tests.pathways.refused.options import OPTIONS
from tests.pathways.refused.ports import PORTS
from tests.pathways.refused.workers import WORKERS

REFUSED: Final = (*WORKERS, *NAMES, *HEAD, *PORTS, *COMPONENTS, *OPTIONS, *GANGS, *FORMS)

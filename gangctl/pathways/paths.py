"""Field paths of a PathwaysJob that several modules speak of."""

from __future__ import annotations

from typing import Final

from gangctl.api.meta import GANG_MODE
from gangctl.pathways.words import OPTIONS, WORKER_MODE


def annotation(key: str) -> str:
    """The field path of an annotation."""
    return f"metadata.annotations[{key}]"


GANG_MODE_PATH: Final = annotation(GANG_MODE)
WORKER_MODE_PATH: Final = annotation(WORKER_MODE)
OPTIONS_PATH: Final = annotation(OPTIONS)


def option_path(name: str) -> str:
    """The field path of an option by its name in JSON: ``headResources.proxy``."""
    return f"{OPTIONS_PATH}.{name}"


TEMPLATE: Final = "spec.controller.template"
POD: Final = f"{TEMPLATE}.spec"
"""The user's."""
WORKERS: Final = "spec.workers[0]"
"""The one group there is."""

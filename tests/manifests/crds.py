"""Writes the definitions under manifests/ from the models.

python -m tests.manifests.crds
"""

from typing import Any

import yaml

from tests.manifests.definitions.admissionparameters import definitions as check_definitions
from tests.manifests.definitions.gangs import definitions as gang_definitions
from tests.manifests.definitions.pathwaysjobs import definitions as pathways_definitions
from tests.manifests.definitions.policies import definitions
from tests.manifests.files import MANIFESTS

PLACE = MANIFESTS / "policies" / "crds"
CHECK_PLACE = MANIFESTS / "kueue-check" / "crds"
GANG_PLACE = MANIFESTS / "gang-objects" / "crds"
PATHWAYS_PLACE = MANIFESTS / "pathways" / "crds"

_HEADER = "# Written by `python -m tests.manifests.crds` from gangctl/policy/model.py; a test compares the two.\n"
_CHECK_HEADER = _HEADER.replace("policy/model.py", "kueue/checks.py")
_GANG_HEADER = _HEADER.replace("policy/model.py", "readiness/report.py")
_PATHWAYS_HEADER = _HEADER.replace("gangctl/policy/model.py", "tests/manifests/definitions/pathwaysjobs.py")


class _Dumper(yaml.SafeDumper):
    """Without anchors: tables are shared by several places of a schema."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def render() -> dict[str, str]:
    return {name: _HEADER + _yaml(definition) for name, definition in definitions().items()}


def render_for_checks() -> dict[str, str]:
    return {name: _CHECK_HEADER + _yaml(definition) for name, definition in check_definitions().items()}


def render_for_gangs() -> dict[str, str]:
    return {name: _GANG_HEADER + _yaml(definition) for name, definition in gang_definitions().items()}


def render_for_pathways() -> dict[str, str]:
    return {name: _PATHWAYS_HEADER + _yaml(definition) for name, definition in pathways_definitions().items()}


def _yaml(definition: dict[str, Any]) -> str:
    return yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=116)


if __name__ == "__main__":
    written = (
        (PLACE, render()),
        (CHECK_PLACE, render_for_checks()),
        (GANG_PLACE, render_for_gangs()),
        (PATHWAYS_PLACE, render_for_pathways()),
    )
    for place, texts in written:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (place / name).write_text(text)

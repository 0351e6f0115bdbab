"""Writes manifests/policies/crds/ from the models of policies.

python -m tests.manifests.crds
"""

import yaml

from gangctl.policy.crd import definitions
from tests.manifests.files import MANIFESTS

PLACE = MANIFESTS / "policies" / "crds"

_HEADER = "# Written by `python -m tests.manifests.crds` from gangctl/policy/model.py; a test compares the two.\n"


class _Dumper(yaml.SafeDumper):
    """Without anchors: tables are shared by several places of a schema."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def render() -> dict[str, str]:
    return {
        name: _HEADER + yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=116)
        for name, definition in definitions().items()
    }


if __name__ == "__main__":
    PLACE.mkdir(parents=True, exist_ok=True)
    for name, text in render().items():
        (PLACE / name).write_text(text)

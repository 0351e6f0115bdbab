"""Writes the components manifests/policies/native and its deny from the pack, as ``gangctl policy export`` does.

python -m tests.manifests.nativepolicies
"""

from __future__ import annotations

from pathlib import Path

import yaml

from gangctl.api.emit import to_yaml
from gangctl.api.scheduling import TESTED
from gangctl.policy.export import export
from gangctl.policy.load import load_policy
from gangctl.policy.native import BINDING_KIND, POLICY_KIND
from tests.manifests.files import MANIFESTS
from tests.policies.pack import native

PLACE = MANIFESTS / "policies" / "native"
_HEADER = "# Written by `python -m tests.manifests.nativepolicies` from policies/; a test compares the two.\n"
_NATIVE = """\
# The policies of the pack that need nothing of gangctl's, as ValidatingAdmissionPolicies that warn: API servers
# evaluate them, also while gangctl is down (docs/howto/export.md). With deny they refuse what they warn of:
#
#   resources: [../base]
#   components: [../policies/native, ../policies/native/deny]
#
# `namespace:` in an overlay does not reach paramRef of the binding priority-classes: patch it there.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
resources: [policies.yaml]
"""
_DENY = """\
# What breaks a rule of ../native is refused, and so is what cannot be evaluated.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
"""


def render() -> dict[Path, str]:
    """Text by file."""
    exported = [export(load_policy(policy.document), minor=TESTED[0].kubernetes) for policy in native()]
    names = "|".join(one.name for one in exported)
    patches = [
        _patch(POLICY_KIND, names, "/spec/failurePolicy", "Fail"),
        _patch(BINDING_KIND, names, "/spec/validationActions", ["Deny"]),
    ]
    return {
        PLACE / "policies.yaml": _HEADER + to_yaml([native for one in exported for native in one.objects]),
        PLACE / "kustomization.yaml": _HEADER + _NATIVE,
        PLACE / "deny" / "kustomization.yaml": _HEADER + _DENY + yaml.safe_dump({"patches": patches}, width=116),
    }


def _patch(kind: str, names: str, path: str, value: object) -> dict[str, object]:
    patch = yaml.safe_dump([{"op": "replace", "path": path, "value": value}])
    return {"target": {"group": "admissionregistration.k8s.io", "kind": kind, "name": names}, "patch": patch}


if __name__ == "__main__":
    for file, text in render().items():
        file.write_text(text, encoding="utf-8")

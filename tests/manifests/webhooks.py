"""Writes the webhook configurations and the policy for Jobs under manifests/ from what the code describes.

python -m tests.manifests.webhooks
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations
from gangctl.webhooks.jobpolicy import build_job_policy
from tests.manifests.files import MANIFESTS

_SETTINGS = WebhookSettings(
    Endpoint(service="gangctl-webhook", namespace="gangctl-system"),
    excluded_namespaces=("kube-system", "gangctl-system"),
)
_WRITTEN = "# Written by `python -m tests.manifests.webhooks` from gangctl/webhooks/{}; a test compares the two.\n"
_BREAK_GLASS = "# Break-glass: label a namespace gangctl.dev/skip=true.\n"
_WEBHOOKS = """\
# There is no caBundle: gangctl fills it in (--webhook-registration=ca-only). Until then, and whenever gangctl is away,
# new JobSets that ask for a gang are refused, and every other request passes without a call; policies and
# exceptions pass unchecked. That for Jobs is called
# only where the policy in jobpolicy.yaml is not in effect; there, no Job of a gang is created while gangctl is away,
# and JobSet tries again.
"""
_POLICY = """\
# The API server itself writes the group of a gang into its Jobs: they do not wait for gangctl. Kubernetes 1.36 and
# newer serve MutatingAdmissionPolicy; in 1.35 gangctl-jobs in webhooks.yaml does the same, by a call to gangctl.
"""


def render() -> dict[Path, str]:
    """Text by path."""
    configured, decided = _WRITTEN.format("configurations.py"), _WRITTEN.format("jobpolicy.py")
    policy = build_job_policy(_SETTINGS)
    return {
        MANIFESTS / "base" / "webhooks.yaml": configured
        + _WEBHOOKS
        + _BREAK_GLASS
        + _stream(build_configurations(_SETTINGS, b"")),
        MANIFESTS / "base" / "jobpolicy.yaml": decided + _POLICY + _BREAK_GLASS + _stream(policy),
    }


def _stream(objects: Iterable[dict[str, Any]]) -> str:
    return yaml.safe_dump_all(objects, sort_keys=False, width=116, explicit_start=False)


if __name__ == "__main__":
    for path, text in render().items():
        path.write_text(text)

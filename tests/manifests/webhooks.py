"""Writes manifests/base/webhooks.yaml from the configurations that the code describes.

python -m tests.manifests.webhooks
"""

import yaml

from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations
from tests.manifests.files import MANIFESTS

PATH = MANIFESTS / "base" / "webhooks.yaml"

_HEADER = """\
# Written by `python -m tests.manifests.webhooks` from gangctl/webhooks/configurations.py; a test compares the two.
# There is no caBundle: gangctl fills it in (--webhook-registration=ca-only). Until then, and whenever gangctl is away,
# JobSets that ask for a gang are refused, and every other request passes without a call.
# Break-glass: label a namespace gangctl.dev/skip=true.
"""


def render() -> str:
    settings = WebhookSettings(
        Endpoint(service="gangctl-webhook", namespace="gangctl-system"),
        excluded_namespaces=("kube-system", "gangctl-system"),
    )
    configurations = build_configurations(settings, b"")
    return _HEADER + yaml.safe_dump_all(configurations, sort_keys=False, width=116, explicit_start=False)


if __name__ == "__main__":
    PATH.write_text(render())

"""docs/security.md: with its policy, gangctl's account cannot turn its webhooks against the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.controlplane.api import Object
from tests.controlplane.wait import NotYet, wait_for
from tests.docpages import Page
from tests.live.cluster import Cluster
from tests.manifests.files import MANIFESTS
from tests.manifests.kubectl import Kubectl, KubectlFailed

pytestmark = pytest.mark.controlplane

ACCOUNT: Final = "system:serviceaccount:gangctl-system:gangctl"
SECRETS: Final = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]}]
URL: Final = {"url": "https://127.0.0.1:1/"}
ELSEWHERE: Final = {"service": {"name": "gangctl-webhook", "namespace": "mine", "path": "/"}}
REFUSED: Final = {
    "another address": ("clientConfig", URL, "webhooks of gangctl are called through its Service"),
    "another Service": ("clientConfig", ELSEWHERE, "webhooks of gangctl are called through its Service"),
    "other objects": ("rules", SECRETS, "webhooks of gangctl are for JobSets, Jobs, GangPolicies"),
}


def titled(configuration: Object) -> str:
    return f"{configuration['kind']}/{configuration['metadata']['name']}"


async def test_webhooks_stay_gangctls_own(bare: Cluster, tmp_path: Path) -> None:
    kubectl = Kubectl(tmp_path, bare.plane.kubeconfig)
    policies = list(yaml.safe_load_all(Page("security.md").files["registrations.yaml"]))
    # No other test is to meet them: another name, and no namespace but this one.
    configurations = list(yaml.safe_load_all((MANIFESTS / "base" / "webhooks.yaml").read_text()))
    here = {"matchLabels": {"kubernetes.io/metadata.name": bare.namespace}}
    for each in configurations:
        each["metadata"]["name"] = f"{each['metadata']['name']}-{bare.namespace}"
        each["webhooks"] = [
            {**hook, "namespaceSelector": here} for hook in each["webhooks"] if "Namespaced" in str(hook)
        ]
    everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*policies, *configurations]})

    async def patch(title: str, field: str, value: object) -> None:
        operation = [{"op": "replace", "path": f"/webhooks/0/{field}", "value": value}]
        account = ("--as", ACCOUNT, "--as-group=system:masters")
        await kubectl.run("patch", title, *account, "--dry-run=server", "--type=json", "--patch", json.dumps(operation))

    await kubectl.run("apply", "-f", "-", given=everything)
    try:
        for configuration in configurations:
            own = configuration["webhooks"][0]
            for case, (field, value, message) in REFUSED.items():
                title = titled(configuration)

                async def refusal(title: str = title, field: str = field, value: object = value) -> str:
                    try:
                        await patch(title, field, value)
                    except KubectlFailed as failure:
                        return str(failure)
                    raise NotYet("admitted")

                assert message in await wait_for(refusal, what=case)
            await patch(titled(configuration), "clientConfig", {**own["clientConfig"], "caBundle": "LQ=="})
            await patch(titled(configuration), "rules", own["rules"])
    finally:
        await kubectl.run("delete", "--ignore-not-found", "-f", "-", given=everything)

"""The commands of docs/tenants.md, one after the other on a cluster of their own."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.files import MANIFESTS, ROOT
from tests.manifests.kubectl import Kubectl, KubectlFailed

TEXT = (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [
    (line.strip(), answer) for line, answer in re.findall(r"^ {4}(kubectl [^#\n]*)(?:# (\w+))?$", PROSE, re.MULTILINE)
]
OVERLAY = re.findall(r"^`manifests/cluster/kustomization.yaml`:\n\n```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_command_is_known_here() -> None:
    kinds = [shlex.split(line)[1:3] for line, _ in COMMANDS]
    assert kinds.count(["auth", "can-i"]) == len([answer for _, answer in COMMANDS if answer]) >= 10
    rest = [kind for kind in kinds if kind != ["auth", "can-i"]]
    assert rest == [
        ["apply", "-k"],
        ["create", "namespace"],
        ["label", "namespace"],
        ["create", "rolebinding"],
        ["create", "clusterrolebinding"],
        ["create", "clusterrolebinding"],
    ]
    assert {answer for _, answer in COMMANDS} == {"", "yes", "no"}


async def answer_of(kubectl: Kubectl, line: str) -> str:
    """What ``kubectl auth can-i`` prints: its exit code says the same, and warnings are no answer."""
    words = shlex.split(line)[1:]
    try:
        return (await kubectl.run(*words)).text.strip()
    except KubectlFailed as failure:
        said = str(failure).removeprefix(f"kubectl {' '.join(words)}:").strip()
        if not all(each.startswith("Warning:") for each in said.splitlines()):
            raise
        return "no"


@pytest.mark.controlplane
async def test_the_commands_do_what_is_promised(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    shutil.copytree(MANIFESTS, manifests)
    (manifests / "cluster").mkdir()
    (manifests / "cluster" / "kustomization.yaml").write_text(OVERLAY[0], encoding="utf-8")
    async with ControlPlane.start("1.37", ("jobset", "kueue")) as plane:
        kubectl = Kubectl(tmp_path, plane.kubeconfig)
        for line, expected in COMMANDS:
            if not expected:
                words = [
                    str(manifests / "cluster") if word == "manifests/cluster" else word for word in shlex.split(line)
                ]
                await kubectl.run(*words[1:])
                continue

            async def as_promised(line: str = line, expected: str = expected) -> bool:
                # Roles are put together and found by the authorizer a moment after they are written.
                if (said := await answer_of(kubectl, line)) != expected:
                    raise NotYet(said)
                return True

            await wait_for(as_promised, 20, f"{line} to say {expected}")
        webhooks = await plane.api.get(
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gangctl-gangs"
        )
        for webhook in webhooks["webhooks"]:
            terms = webhook["namespaceSelector"]["matchExpressions"]
            assert {"key": "gangctl.dev/managed", "operator": "In", "values": ["true"]} in terms

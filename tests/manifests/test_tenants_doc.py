"""The commands of docs/tenants.md, one after the other on a cluster of their own."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from tests.cli.run import Answer, process
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.kueue import configure
from tests.live.queued import QUEUE, Queued
from tests.manifests.files import MANIFESTS, ROOT
from tests.manifests.kubectl import Kubectl, KubectlFailed

TEXT = (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [
    (line.strip(), answer) for line, answer in re.findall(r"^ {4}(kubectl [^#\n]*)(?:# (\w+))?$", PROSE, re.MULTILINE)
]
OVERLAY = re.findall(r"^`manifests/cluster/kustomization.yaml`:\n\n```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_command_of_the_page_is_tested() -> None:
    kinds = [shlex.split(line)[1:3] for line, _ in COMMANDS]
    assert kinds.count(["auth", "can-i"]) == len([answer for _, answer in COMMANDS if answer]) >= 10
    rest = [kind for kind in kinds if kind != ["auth", "can-i"]]
    assert rest == [
        ["apply", "-k"],
        ["create", "namespace"],
        ["label", "namespace"],
        ["create", "rolebinding"],
        ["create", "clusterrolebinding"],
        ["create", "rolebinding"],
        ["create", "clusterrolebinding"],
        ["create", "quota"],
    ]
    assert {answer for _, answer in COMMANDS} == {"", "yes", "no"}


async def answer_of(kubectl: Kubectl, line: str) -> str:
    """What ``kubectl auth can-i`` prints: its exit code is consistent with it, and warnings are no answer."""
    words = shlex.split(line)[1:]
    try:
        return (await kubectl.run(*words)).text.strip()
    except KubectlFailed as failure:
        said = str(failure).removeprefix(f"kubectl {' '.join(words)}:").strip()
        if not all(each.startswith("Warning:") for each in said.splitlines()):
            raise
        return "no"


async def say(kubectl: Kubectl, manifests: Path, commands: Iterable[tuple[str, str]]) -> None:
    """Run these, and wait until questions are answered as promised."""
    for line, expected in commands:
        if not expected:
            words = [str(manifests / "cluster") if word == "manifests/cluster" else word for word in shlex.split(line)]
            await kubectl.run(*words[1:])
            continue

        async def as_promised(line: str = line, expected: str = expected) -> bool:
            # Roles are put together and found by the authorizer a moment after they are written.
            if (said := await answer_of(kubectl, line)) != expected:
                raise NotYet(said)
            return True

        await wait_for(as_promised, f"{line} to say {expected}")


async def fit(plane: ControlPlane, path: Path) -> Answer:
    """``gangctl fit``, run by a user of the team."""
    kubeconfig = plane.kubeconfig_for("ada", ["research"])
    arguments = ["fit", "-f", str(path), "--kubeconfig", str(kubeconfig)]
    return await asyncio.to_thread(process, *arguments)


@pytest.mark.controlplane
async def test_the_commands_do_what_the_page_describes(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    shutil.copytree(MANIFESTS, manifests)
    (manifests / "cluster").mkdir()
    (manifests / "cluster" / "kustomization.yaml").write_text(OVERLAY[0], encoding="utf-8")
    lines = [line for line, _ in COMMANDS]
    queues, config = (
        next(index for index, line in enumerate(lines) if f"--clusterrole={role} " in line)
        for role in ("gangctl-queues-view", "gangctl-queues-config")
    )
    async with ControlPlane.start("1.37", ("jobset", "kueue"), scheduler=False) as plane:
        kubectl = Kubectl(tmp_path, plane.kubeconfig)
        await say(kubectl, manifests, COMMANDS[:queues])
        team = Queued(plane, "research")
        await team.apply("ResourceFlavor", "research", {})
        await team.queue("4")
        await configure(plane)
        big = jobset("big", rj("w", 1, 1, 1, cpu="5"), namespace="research")
        big["metadata"]["labels"] = {QUEUE: "main"}
        path = tmp_path / "big.yaml"
        path.write_text(yaml.safe_dump(big), encoding="utf-8")
        blind = await fit(plane, path)
        assert blind.code == 3
        assert 'cannot list resource "clusterqueues"' in blind.err
        await say(kubectl, manifests, COMMANDS[queues:config])
        listed = next(each for each in COMMANDS if "list clusterqueues" in each[0])
        await say(kubectl, manifests, [listed])
        unsure = await fit(plane, path)
        assert (unsure.code, "unknown" in unsure.out) == (0, True)
        await say(kubectl, manifests, COMMANDS[config:])
        sure = await fit(plane, path)
        assert (sure.code, "never fits" in sure.out) == (1, True)
        assert "who holds quota in other namespaces is not known" in sure.out + sure.err
        webhooks = await plane.api.get(
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gangctl-gangs"
        )
        for webhook in webhooks["webhooks"]:
            terms = webhook["namespaceSelector"]["matchExpressions"]
            assert {"key": "gangctl.dev/managed", "operator": "In", "values": ["true"]} in terms

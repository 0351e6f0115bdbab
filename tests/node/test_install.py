"""What a user installs, on real nodes: the image of the Containerfile, the manifests, the chart, and what they run."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.run import fine
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.chart import CHART
from tests.manifests.helm import Helm
from tests.manifests.kubectl import KubectlFailed
from tests.node.base import base
from tests.node.cluster import OWN, RealCluster, example, finished

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.full("real nodes take minutes"),
    pytest.mark.xdist_group("real-node-install"),
]


async def remove(real: RealCluster) -> None:
    """Uninstall with the command of docs/install.md."""
    removal = fine("install", "--uninstall", "--everything").out
    await real.kubectl("delete", "--ignore-not-found", "-f", "-", given=removal)


async def test_pods_are_restricted_and_write_nowhere(real: RealCluster) -> None:
    async with base(real):
        (first, _) = await real.ready(2)
        assert {pod["spec"]["nodeName"] for pod in await real.replicas()} == {"node-1", "node-2"}
        name = first["metadata"]["name"]
        tell = (
            "import os, pathlib\n"
            "print(os.getuid(), 'Seccomp:\\t2' in pathlib.Path('/proc/self/status').read_text(),"
            " os.access('/', os.W_OK), os.access('/opt/gangctl', os.W_OK), os.access('/tmp', os.W_OK))"
        )
        printed = await real.kubectl("--namespace", OWN, "exec", name, "--", "python", "-c", tell)
        assert printed.split() == ["65532", "True", "False", "False", "True"]
        with pytest.raises(KubectlFailed, match="Read-only file system"):
            await real.kubectl("--namespace", OWN, "exec", name, "--", "python", "-c", "open('/opt/x', 'w')")


async def test_a_broken_image_and_too_little_memory_replace_nothing(real: RealCluster) -> None:
    async with base(real), real.namespace() as cluster:
        before = {pod["metadata"]["name"] for pod in await real.ready(2)}
        for change, reason in (
            ('{"image": "gangctl:none", "imagePullPolicy": "Never"}', "ErrImageNeverPull"),
            ('{"resources": {"limits": {"memory": "16Mi"}, "requests": {"memory": "16Mi"}}}', "OOMKilled"),
        ):
            patch = '{"spec": {"template": {"spec": {"containers": [{"name": "gangctl", ' + change[1:] + "]}}}}"
            await real.kubectl("--namespace", OWN, "patch", "deployment", "gangctl", "--patch", patch)

            async def failed(reason: str = reason) -> bool:
                states = str([pod["status"].get("containerStatuses") for pod in await real.replicas()])
                if reason not in states:
                    raise NotYet(states)
                return True

            await wait_for(failed, f"the new replica to fail with {reason}")
            await cluster.asked()
            await real.kubectl("--namespace", OWN, "rollout", "undo", "deployment/gangctl")
            await real.rolled_out()
        assert {pod["metadata"]["name"] for pod in await real.ready(2)} == before


async def test_the_chart_is_installed_upgraded_and_removed(real: RealCluster) -> None:
    helm = Helm(real.home, real.plane.kubeconfig)
    before = await real.objects()
    place = ("gangctl", str(CHART), "--namespace", OWN)
    image = "--set=image.repository=gangctl"
    await asyncio.to_thread(helm.run, "install", *place, image, "--create-namespace", "--wait", "--timeout=280s")
    try:
        old = {pod["metadata"]["name"] for pod in await real.ready(2)}
        async with real.namespace() as cluster:
            await cluster.asked()
            await cluster.create_jobset(example())
            change = ("--reuse-values", "--set=logLevel=debug")
            await asyncio.to_thread(helm.run, "upgrade", *place, *change, "--wait", "--timeout=280s")
            assert (await finished(cluster))["terminalState"] == "Completed"
            assert not old & {pod["metadata"]["name"] for pod in await real.ready(2)}
        assert "5 ok" in await asyncio.to_thread(helm.run, "test", "gangctl", "--namespace", OWN, "--logs")
    finally:
        await asyncio.to_thread(helm.run, "uninstall", "gangctl", "--namespace", OWN, "--wait", "--timeout=280s")
        # Helm keeps the definitions, the Secret and the namespace.
        await remove(real)
    await real.leaves_nothing(before)


async def test_the_command_installs_the_same(real: RealCluster) -> None:
    before = await real.objects()
    await real.kubectl("apply", "-f", "-", given=fine("install", "--image", "gangctl:0.1.0").out)
    try:
        await real.rolled_out()
        async with real.namespace() as cluster:
            await cluster.asked()
            await cluster.create_jobset(example())
            assert (await finished(cluster))["terminalState"] == "Completed"
    finally:
        await remove(real)
    await real.leaves_nothing(before)

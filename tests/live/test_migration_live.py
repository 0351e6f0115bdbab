"""docs/migration.md on a real cluster: converted JobSets are gangs, and what becomes of spec.scheduling."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangctl.api.documents import parse_documents
from tests.cases import object_name
from tests.controlplane.api import Object
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.docpages import Page
from tests.live.cluster import Cluster, reference_of
from tests.live.gangctl import Gangctl, create_namespaces, prepare, shared
from tests.live.observe import said
from tests.manifests.kubectl import Kubectl, KubectlFailed

pytestmark = [pytest.mark.controlplane]

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
PAGE = Page("migration-volcano.md", "migration-kai.md", "migration-coscheduling.md", "migration.md")


def shown(name: str, cluster: Cluster) -> Object:
    """A JobSet of the page, in the test's namespace."""
    (document,) = parse_documents(PAGE.files[name], name)
    return {**document.value, "metadata": {**document.value["metadata"], "namespace": cluster.namespace}}


async def test_converted_jobsets_are_gangs(cluster: Cluster) -> None:
    for name, pods in (("train", 9), ("sweep", 4)):
        created = await cluster.create_jobset(shown(f"{name}.yaml", cluster))
        workload = object_name(name, created["metadata"]["uid"], "workload")

        async def made(workload: str = workload) -> list[int]:
            gangs = await cluster.gangs()
            if workload not in gangs.workloads:
                raise NotYet(str(gangs.names))
            return list(gangs.min_counts(workload).values())

        assert await wait_for(made, what=f"the gang of {name}") == [pods]


async def test_a_jobset_controller_without_the_field_is_detected(cluster: Cluster, tmp_path: Path) -> None:
    (command,) = [line for line, code in PAGE.commands if line.startswith("kubectl") and code == 1]
    kubectl = Kubectl(tmp_path, cluster.plane.kubeconfig)
    with pytest.raises(KubectlFailed, match='field "scheduling" does not exist'):
        await kubectl.run(*command.split()[1:])
    with pytest.raises(KubectlFailed, match=re.escape('unknown field "spec.scheduling"')):
        await kubectl.run("apply", "-n", cluster.namespace, "-f", "-", given=PAGE.files["native.yaml"])


@pytest.fixture(scope="module")
def upstream() -> Iterator[ControlPlane]:
    """A cluster whose JobSet has the field: its definition keeps it, no webhook of JobSet takes it off again."""

    async def start() -> ControlPlane:
        started = await ControlPlane.start("1.37", ("jobset",), scheduler=False)
        await prepare(started)
        definition = await started.api.get(DEFINITION)
        for version in definition["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            spec["properties"]["scheduling"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        await started.api.update(DEFINITION, definition)
        return started

    yield from shared(start)


async def test_gangctl_defers_to_a_jobset_controller_with_the_field(upstream: ControlPlane) -> None:
    await create_namespaces(upstream, ["native"])
    cluster = Cluster(upstream, "native")
    async with Gangctl(upstream) as gangctl:
        raw = shown("pretrain.yaml", cluster)
        raw["spec"] |= {"scheduling": shown("native.yaml", cluster)["spec"]["scheduling"], "suspend": False}

        async def kept() -> bool:
            return "scheduling" in (await cluster.create_jobset(raw, dry_run=True))["spec"]

        await cluster.asked()
        await wait_for(kept, what="the field to be served")
        await cluster.create_jobset(raw)
        await said(cluster, "UpstreamSchedulingActive", "pretrain")

        assert {
            reference_of(job)
            for job in (await read_until(cluster.jobs, lambda jobs: len(jobs) == 4, "four Jobs")).values()
        } == {None}
        await gangctl.settle()
        assert (await cluster.gangs()).names == set()

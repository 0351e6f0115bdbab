"""gangctl itself as a process beside a sandbox does the same as beside a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gangctl.sandbox.api import Caller
from gangctl.sandbox.server import SandboxOptions
from tests.controlplane.wait import read_until
from tests.sandbox.faults import FaultySandbox
from tests.sandbox.gangctlprocess import controller

ADMIN = Caller("admin", ("system:masters",))
MINORS = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1", "1.38": "v1"}


def _jobset() -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    job = {"parallelism": 2, "completions": 2, "template": {"spec": pod}}
    return {
        "metadata": {"name": "a", "annotations": {"gangctl.dev/gang-mode": "Gang"}},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": job}}]},
    }


@pytest.mark.parametrize("minor", MINORS)
async def test_gangctl_makes_a_jobset_a_gang(minor: str, tmp_path: Path) -> None:
    async with FaultySandbox(SandboxOptions(minor=minor)) as sandbox:
        async with controller(sandbox, tmp_path):
            jobsets, workloads = (
                sandbox.api.kind("jobsets.jobset.x-k8s.io"),
                sandbox.api.kind("workloads.scheduling.k8s.io"),
            )
            created = await sandbox.api.create(jobsets, "default", _jobset(), ADMIN)
            template = created["spec"]["replicatedJobs"][0]["template"]
            assert "gangctl.dev/gang-ref" in template["metadata"]["annotations"]

            await read_until(
                lambda: sandbox.api.list(workloads, "default"), lambda listed: listed.items, "the Workload"
            )
            workload = (await sandbox.api.list(workloads, "default")).items[0]
            assert workload["apiVersion"] == f"scheduling.k8s.io/{MINORS[minor]}"
            assert workload["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
        refused = [record for record in sandbox.audit.by("gangctl") if record.code >= 400 and record.verb != "get"]
        assert refused == []

"""A GangPolicy beside what was exported from it: API servers evaluate requests, gangctl scans."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.controlplane.api import Object, path_of
from tests.controlplane.wait import read_until, wait_for
from tests.live.cluster import Cluster
from tests.live.policed import named, policing
from tests.policies.native import BINDINGS, POLICIES

pytestmark = pytest.mark.controlplane

TEAM: Final = {"expression": "'team' in object.metadata.?labels.orValue({})", "message": "a team is needed"}


async def webhooks(cluster: Cluster) -> list[Object]:
    live = await cluster.api.list(path_of("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"))
    return [
        hook for each in live if each["metadata"]["name"] == "gangctl-policies" for hook in each.get("webhooks", [])
    ]


def placed(cluster: Cluster, *jobsets: Object) -> list[Object]:
    """In the namespace of the cluster."""
    return [{**one, "metadata": {**one["metadata"], "namespace": cluster.namespace}} for one in jobsets]


async def test_an_exported_policy_is_not_evaluated_twice(bare: Cluster, tmp_path: Path) -> None:
    cluster = bare
    async with policing(cluster, "--policy-scan-period=1", defined=False) as policed:
        own = await policed.policy("team", validations=[TEAM])
        name = own.rpartition("/")[2]
        await policed.until(422, words=f"GangPolicy '{name}'")
        answer = await policed.ask("export")
        assert answer.code == 0, answer.err
        natives = answer.documents
        paths = [f"{place}/{name}" for place in (POLICIES, BINDINGS)]
        for path, native in zip(paths, natives, strict=True):
            await cluster.api.patch(path, native, kind="apply", fieldManager="test")
        await policed.in_force(own, reason="Exported")

        await read_until(lambda: webhooks(cluster), lambda hooks: not hooks, "the webhook to go")
        await policed.until(422, words=f"ValidatingAdmissionPolicy '{name}'")
        jobsets = tmp_path / "jobsets.yaml"
        jobsets.write_text(yaml.safe_dump_all(placed(cluster, named("a", team="a"), named("b"))))
        check = await policed.ask("export", "--check", str(jobsets), "-o", "name")
        assert check.err == "note: 2 verdicts compared, all the same; 1 violation among them\n"
        await policed.gangctl.process.stop()
        await policed.until(422, words=f"ValidatingAdmissionPolicy '{name}'")
        await policed.until(201, named("a", team="a"))
        await policed.gangctl.process.start()
        # It goes on scanning: a JobSet from before the policies would be reported.
        await cluster.create_jobset(named("a", team="a"))
        await policed.counted(own, pass_=1)
        assert not await webhooks(cluster)
        await policed.policy("team", validations=[{**TEAM, "message": "which team?"}])
        await policed.in_force(own, words="although it was exported: validations is not the same in both")
        await cluster.api.patch(paths[1], {"spec": {"validationActions": ["Warn"]}})
        await policed.until(422, words="which team?")

        async def warns() -> bool:
            return name in str((await policed.dry()).headers.getall("Warning", []))

        await wait_for(warns, "the API server to know the action")
        check = await policed.ask("export", "--check", str(jobsets), "-o", "name")
        assert (check.code, check.err) == (1, f"note: JobSet {cluster.namespace}/b, {name}: Deny; exported: Warn\n")
        await cluster.api.delete(paths[1])
        await cluster.api.delete(paths[0])

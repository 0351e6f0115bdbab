"""A policy that denies cannot be avoided by the tenant, and does not lock what existed before it."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Final

import pytest
import yaml

from tests.controlplane.api import Object, path_of
from tests.controlplane.wait import read_until
from tests.docpages import Page
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster
from tests.live.policed import Policed, policing
from tests.policies.pack import shipped

pytestmark = pytest.mark.controlplane

EVADED: Final = "GangPolicy '{}' denied request"
CONTAINERS: Final = "object.spec.replicatedJobs.map(rj, rj.template.spec.template.spec.containers).flatten()"
PAIRS: Final = f"{CONTAINERS}.all(a, {CONTAINERS}.all(b, size(a.name) + size(b.name) > 0))"


@pytest.fixture
async def policed(bare: Cluster) -> AsyncIterator[Policed]:
    """A namespace with policies of its own."""
    async with policing(bare, defined=False) as made:
        yield made


def gpus(*others: Object) -> Object:
    """Sixteen pods with GPUs and no gang."""
    workers = rj("workers", 1, 16, 16)
    container = workers["template"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": 8}}
    return jobset("js", workers, *others)


def negative(replicas: int = 0) -> Object:
    """A replicated job without pods that asks for less than nothing."""
    found = rj("none", replicas)
    container = found["template"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": "-1"}}
    return found


async def test_a_jobset_that_cannot_be_planned_is_refused(policed: Policed) -> None:
    (gang_required,) = (each for each in shipped() if each.name == "gang-required")
    spec = {**gang_required.spec, "validationActions": ["Deny"], "failurePolicy": "Fail"}
    name = (await policed.policy("gang-required", **spec)).rpartition("/")[2]
    await policed.until(422, gpus(), words="this JobSet has 16 pods")
    for evading in (gpus(negative()), gpus(rj("none", 0, -1)), gpus(rj("none", -1))):
        answer = await policed.dry(evading)
        assert answer.status == 422, answer.text
        assert EVADED.format(name) in answer.text
        assert "this JobSet cannot be planned: spec.replicatedJobs[1]" in answer.text
    assert (await policed.dry(gang_required.example)).status == 201


async def test_a_jobset_that_exceeds_the_limits_of_evaluation_is_refused(policed: Policed) -> None:
    rule = {"name": "pairs", "expression": PAIRS, "message": "no pair"}
    label = {"name": "label", "expression": "!has(object.metadata.labels)", "message": "no labels"}
    policy = await policed.policy("ignoring", validations=[rule, label], failurePolicy="Ignore")
    small = jobset("js", rj("w"))
    await policed.until(422, {**small, "metadata": {**small["metadata"], "labels": {"a": "b"}}}, words="no labels")
    assert (await policed.dry(small)).status == 201
    padding = rj("none", 0)
    pod = padding["template"]["spec"]["template"]["spec"]
    pod["containers"] = [{**pod["containers"][0], "name": f"c{number}"} for number in range(600)]
    answer = await policed.dry(jobset("js", rj("w"), padding))
    assert answer.status == 422, answer.text
    assert EVADED.format(policy.rpartition("/")[2]) in answer.text


async def test_the_first_policy_of_the_page_does_not_lock_what_exists(policed: Policed) -> None:
    cluster = policed.cluster
    files = Page("policies.md").files
    _, too_large = yaml.safe_load_all(files["jobsets.yaml"])
    raw = copy.deepcopy(too_large)
    raw["metadata"] |= {"namespace": cluster.namespace, "finalizers": ["example.org/held"]}
    await cluster.api.create(cluster.path(JOBSETS, "jobsets"), raw)
    limits = yaml.safe_load(files["limits.yaml"])
    maps = path_of("v1", "configmaps", namespace="gangctl-system")
    await cluster.api.patch(f"{maps}/gang-limits", limits, kind="apply", fieldManager="test", force=True)
    policy = yaml.safe_load(files["policy.yaml"])
    path = await policed.policy(policy["metadata"]["name"], **policy["spec"])
    new = {**too_large, "metadata": {**too_large["metadata"], "name": "new"}}
    await policed.until(422, new, words="a gang has at most 4 pods")
    # What a user, Kueue, kubectl and the garbage collector write.
    name = raw["metadata"]["name"]
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"suspend": True}}, {"spec": {"suspend": False}}):
        await cluster.patch_jobset(name, patch)
    stored = cluster.path(JOBSETS, "jobsets", name)
    await cluster.api.delete(stored, propagation="Foreground")
    assert "deletionTimestamp" in (await cluster.jobset(name))["metadata"]
    # Even with a rule for updates, what is being deleted is not evaluated.
    rules = [{"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "operations": ["*"], "resources": ["jobsets"]}]
    await policed.policy("never", matchConstraints={"resourceRules": rules}, validations=[{"expression": "false"}])
    await policed.until(422, jobset("plain", rj("w")), words="failed expression: false")
    await cluster.patch_jobset(name, {"metadata": {"finalizers": None}})
    await read_until(lambda: cluster.api.found(stored), lambda live: live is None, "the JobSet to be deleted")
    await cluster.api.delete(f"{maps}/gang-limits")
    assert path in policed.made


async def test_subresources_change_nothing_that_policies_are_about(policed: Policed) -> None:
    """Webhooks are not called for jobsets/status, and the API server takes nothing but the status there."""
    await policed.policy(
        "never", validations=[{"expression": "object.spec.?suspend.orValue(false) == true", "message": "no"}]
    )
    await policed.until(422, words="no")
    cluster = policed.cluster
    await cluster.create_jobset({**jobset("js", rj("w"), suspend=True)})
    path = cluster.path(JOBSETS, "jobsets", "js")
    before = await cluster.api.get(path)
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"suspend": False}, "status": {"restarts": 1}}
    await cluster.api.patch(f"{path}/status", change)
    after = await cluster.api.get(path)
    assert after["spec"] == before["spec"]
    assert after["metadata"].get("labels") == before["metadata"].get("labels")

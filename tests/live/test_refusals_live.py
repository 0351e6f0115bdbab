"""What people get wrong, as they meet it at the API server: one clear 422 each, and nothing created."""

from __future__ import annotations

import json

import pytest

from tests.controlplane.api import Object, path_of
from tests.controlplane.wait import read_until
from tests.jobsets import OPTIONS, jobset, rj
from tests.live.cluster import JOBSETS, Cluster, on, refused
from tests.live.observe import gang_of
from tests.rows import each

pytestmark = pytest.mark.controlplane

EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}

WRONG: dict[str, tuple[Object, str, str]] = {
    "unknown mode": (
        jobset("js", rj("w", 1, 1, 1, mode="All")),
        "spec.replicatedJobs[0].template.metadata.annotations[gangctl.dev/gang-mode]",
        '"ReplicatedGang"',
    ),
    "nine groups": (
        jobset("js", *(rj(f"r{i}", 1, 1, 1, mode="Gang") for i in range(9))),
        "spec.replicatedJobs",
        "at most 8",
    ),
    "exclusive topology with followers": (
        jobset("js", rj("w", 1, 2, 2, mode="Gang"), annotations=EXCLUSIVE),
        "metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]",
        "deadlocks",
    ),
    "unknown option": (
        jobset("js", rj("w", 1, 1, 1), mode="Gang", options='{"topology": "rack"}'),
        f"metadata.annotations[{OPTIONS}].topology",
        "allowed",
    ),
    "options that are no JSON": (
        jobset("js", rj("w", 1, 1, 1), mode="Gang", options="rack"),
        f"metadata.annotations[{OPTIONS}]",
        "JSON",
    ),
    "mixed schedulers": (
        jobset("js", rj("a", 1, 1, 1), rj("b", 1, 1, 1, pod={"schedulerName": "other"}), mode="Gang"),
        "spec.replicatedJobs[1].template.spec.template.spec.schedulerName",
        "same scheduler",
    ),
}


@each(("raw", "field", "words"), WRONG.values(), ids=WRONG)
async def test_invalid_jobsets_are_refused_with_one_error(
    raw: Object, field: str, words: str, cluster: Cluster
) -> None:
    failure = await refused(cluster.create_jobset(raw))
    assert failure.status == 422
    assert failure.reason == "Invalid"
    assert words in failure.message
    (cause,) = failure.body["details"]["causes"]
    assert cause["field"] == field
    assert await cluster.api.list(cluster.path(JOBSETS, "jobsets")) == []
    assert (await cluster.gangs()).names == set()


async def test_a_misspelt_key_is_stored_by_an_update_with_a_warning(cluster: Cluster) -> None:
    await cluster.asked()
    await cluster.create_jobset(jobset("js", rj("w", 1, 1, 1), mode="Gang"))
    for key, count in (("gangctl.dev/gang-mod", 1), ("example.com/gang-mod", 0)):
        answer = await cluster.api.exchange(
            "PATCH",
            cluster.path(JOBSETS, "jobsets", "js"),
            data=json.dumps({"metadata": {"annotations": {key: "Gang"}}}),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.status == 200, answer.text
        assert key in json.loads(answer.text)["metadata"]["annotations"]
        warnings = [text for text in answer.headers.getall("Warning", []) if key in text]
        assert len(warnings) == count, warnings


@pytest.mark.differs("1.36")
async def test_mixed_priorities_are_refused_on_1_37_and_a_warning_before(cluster: Cluster) -> None:
    for name in ("low", "high"):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}
        path = path_of("scheduling.k8s.io/v1", "priorityclasses", name=name)
        await cluster.api.patch(path, body, kind="apply", fieldManager="test")
    pods = [rj(name, 1, 1, 1, pod={"priorityClassName": name}) for name in ("low", "high")]
    request = cluster.create_jobset(jobset("js", *pods, mode="Gang"), dry_run=True)
    if cluster.minor == "1.37":
        failure = await refused(request)
        assert failure.status == 422
        assert "same priority class" in failure.message
    else:
        assert "gang-ref" in str(await request)
    separate = [rj(n, 1, 1, 1, mode="Gang", pod={"priorityClassName": n, **cluster.room}) for n in ("low", "high")]
    await cluster.create_jobset(jobset("js", *separate))
    groups = 2 if cluster.has_groups else 0
    gangs = await read_until(cluster.gangs, lambda gangs: gangs.workloads and len(gangs.groups) == groups, "both gangs")
    if cluster.minor == "1.37":
        assert {group["spec"]["priorityClassName"] for group in gangs.groups.values()} == {"low", "high"}


@pytest.mark.differs("1.36")
async def test_a_gang_with_a_system_class_is_refused_on_1_37(cluster: Cluster) -> None:
    critical = {"priorityClassName": "system-cluster-critical", **cluster.room}
    request = cluster.create_jobset(jobset("js", rj("w", 1, 1, 1, pod=critical), mode="Gang"))
    if cluster.minor == "1.37":
        failure = await refused(request)
        assert failure.status == 422
        (cause,) = failure.body["details"]["causes"]
        assert cause["field"] == "spec.replicatedJobs[0].template.spec.template.spec.priorityClassName"
    else:
        await request
        await gang_of(cluster, "js")


@pytest.mark.differs("1.35")
async def test_a_topology_is_refused_by_a_minor_without_it(cluster: Cluster) -> None:
    raw = jobset("js", rj("w", 1, 1, 1), mode="Gang", options='{"topologyKey": "rack"}')
    if cluster.minor == "1.35":
        failure = await refused(cluster.create_jobset(raw))
        assert "1.36 or later" in failure.message
        return
    assert "gang-ref" in str(await cluster.create_jobset(raw, dry_run=True))


async def test_a_forged_stamp_is_overwritten(cluster: Cluster) -> None:
    stamp = {"gangctl.dev/gang-ref": "jobset/stolen/js"}
    created = await cluster.create_jobset(jobset("js", rj("w", 1, 1, 1, annotations=stamp)))
    assert "stolen" not in str(created["spec"])


CLAIM = {"name": "net", "resourceClaimTemplateName": "channel"}


@on("1.37", "1.36", "1.35")
async def test_claims_and_composites_are_refused_where_the_cluster_lacks_them(cluster: Cluster) -> None:
    """These planes have the feature gates of gangs alone."""
    worker = rj("w", 1, 1, 1, pod={"resourceClaims": [CLAIM]})
    gang = {"name": "w", "replicatedJobs": ["w"]}
    sharing, own = (
        jobset("js", worker, annotations={"gangctl.dev/gangs": json.dumps([entry])})
        for entry in ({**gang, "resourceClaims": [CLAIM]}, gang)
    )
    together = jobset("js", rj("w", 2, 1, 1, mode="ReplicatedGang"), options='{"composite": true}')
    lacking = {"1.37": "DRAWorkloadResourceClaims", "1.36": "DRAWorkloadResourceClaims", "1.35": "1.36 or later"}
    assert lacking[cluster.minor] in (await refused(cluster.create_jobset(sharing))).message
    missing = "CompositePodGroup" if cluster.minor == "1.37" else "needs Kubernetes 1.37 or later"
    assert missing in (await refused(cluster.create_jobset(together))).message
    assert "gang-ref" in str(await cluster.create_jobset(own, dry_run=True))

"""gangctl in a cluster has the rights it needs, all of them and no others.

The process runs as the Deployment runs it (:mod:`tests.live.incluster`). A whole life of gangs uses every right that
is granted and is refused nothing; and of every verb of every rule a check says what happens without it: not what
should, which is told in words that name verb and resource, and then without a restart once the right is granted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from gangctl.api.scheduling import Owner, metadata
from gangctl.pathways.words import API_VERSION, PLURAL
from tests.cases import object_name
from tests.controlplane.api import ApiClient, ApiFailure
from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import HUNG_SECONDS, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live import admission as component
from tests.live import kueue
from tests.live import policy_rights_checks as policy_checks
from tests.live import queue_rights_checks as queue_checks
from tests.live import readiness_rights_checks as readiness_checks
from tests.live import rights_checks as checks
from tests.live.admission_rights import granted as component_rights
from tests.live.cluster import JOBSETS, Cluster, refused
from tests.live.definitions import serve
from tests.live.gangctl import Gangctl, create_namespaces, prepare, shared
from tests.live.incluster import ACCOUNT, InCluster, build, deployed_arguments
from tests.live.observe import foreign_workload, min_counts, no_gang, resize, running_pods, said
from tests.live.pathways_place import foreign_jobset, owner_of
from tests.live.rights import Right, granted, known, missing, not_in_a_loop, refusals, used
from tests.live.rights_checks import Check
from tests.live.rights_stage import COMPOSITES, Stage, together
from tests.manifests.definitions.pathwaysjobs import definitions as pathways_definitions
from tests.pathways.samples import pathways_job
from tests.policy.reportcrd import policy_report_definition
from tests.rows import short

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rights")]

HASTE: Final = ("--discovery-period=1", "--policy-scan-period=2", "--shutdown-delay=0")
"""Flags that the checks have beside the Deployment's: they wait for looks and scans, and start and stop gangctl."""

STRANGER: Final = "stranger"
LATER: Final = {(COMPOSITES, "patch")}
"""Rights that only Kubernetes 1.38 needs: on 1.37, an object with another minGroupCount is deleted and made again."""
UNUSED: Final = {("workloads", "get"), ("podgroups", "get"), (COMPOSITES, "get"), *LATER}
"""Rights that are used only where a name is taken by an object that no watch has delivered: these have checks below."""

Row = tuple[str, str, tuple[str, ...], str, Check]
_UNREGISTERED: Final = ("mutatingwebhookconfigurations:gangctl-gangs", "validatingwebhookconfigurations:gangctl-gangs")
_HOOKS: Final = ("mutatingwebhookconfigurations:gangctl-jobs", *_UNREGISTERED)
_POLICY_HOOKS: Final = (
    "mutatingwebhookconfigurations:gangctl-defaults",
    "validatingwebhookconfigurations:gangctl-policies",
)
_JOB_POLICY: Final = ("mutatingadmissionpolicies:gangctl-gangs", "mutatingadmissionpolicybindings:gangctl-gangs")
_ANY_HOOKS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_ANY_POLICY: Final = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
_POLICIES: Final = ("gangpolicies", "gangpolicyexceptions")
_EXPORTED: Final = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
_OURS: Final = "gangctl.dev"
_REPORTS: Final = "wgpolicyk8s.io"
_GANGS: Final = ("workloads", "podgroups")
_ALL: Final = (*_GANGS, COMPOSITES)
_ADMISSION: Final = "admissionregistration.k8s.io"
_SCHEDULING: Final = "scheduling.k8s.io"
_LEASES: Final = "coordination.k8s.io"
_KUEUE: Final = "kueue.x-k8s.io"
_QUEUES: Final = (
    "admissionchecks",
    "clusterqueues",
    "cohorts",
    "localqueues",
    "resourceflavors",
    "workloadpriorityclasses",
    "workloads",
)
_BESIDE_QUEUES: Final = (("", ("limitranges",)), ("node.k8s.io", ("runtimeclasses",)))
_CONFIG_MAPS: Final = ("configmaps", "configmaps:kueue-manager-config")
"""Parameters of policies, and Kueue's configuration, which may be read by either right."""

IN_CLUSTER: Final[tuple[Row, ...]] = (
    ("ClusterRole", "jobset.x-k8s.io", ("jobsets",), "list", policy_checks.finds_what_exists),
    ("ClusterRole", "jobset.x-k8s.io", ("jobsets",), "watch", checks.watches_jobsets),
    ("ClusterRole", "batch", ("jobs",), "list", checks.starts_unready),
    ("ClusterRole", "batch", ("jobs",), "watch", checks.watches_jobs),
    ("ClusterRole", "", ("pods",), "list", checks.retires),
    *(("ClusterRole", _SCHEDULING, (each,), "list", checks.starts_unready) for each in _ALL),
    ("ClusterRole", _SCHEDULING, _GANGS, "watch", checks.watches_gangs),
    ("ClusterRole", _SCHEDULING, (COMPOSITES,), "watch", checks.watches_composites),
    ("ClusterRole", _SCHEDULING, _ALL, "get", checks.looks_at_who_holds_its_name),
    *(("ClusterRole", _SCHEDULING, (each,), "create", checks.creates) for each in _ALL),
    *(("ClusterRole", _SCHEDULING, (each,), "patch", checks.resizes) for each in _GANGS),
    *(("ClusterRole", _SCHEDULING, (each,), "delete", checks.retires) for each in _ALL),
    ("ClusterRole", "events.k8s.io", ("events",), "create", checks.tells),
    *(("ClusterRole", _ADMISSION, (each,), "get", checks.starts_unready) for each in _HOOKS),
    ("ClusterRole", _ADMISSION, _HOOKS, "list", checks.watches_its_configurations),
    ("ClusterRole", _ADMISSION, _HOOKS, "watch", checks.watches_its_configurations),
    *(("ClusterRole", _ADMISSION, (each,), "update", checks.sets_the_authorities) for each in _HOOKS),
    *(("ClusterRole", _ADMISSION, (each,), "get", checks.starts_unready) for each in _POLICY_HOOKS),
    ("ClusterRole", _ADMISSION, _POLICY_HOOKS, "list", policy_checks.watches_its_configurations),
    ("ClusterRole", _ADMISSION, _POLICY_HOOKS, "watch", policy_checks.watches_its_configurations),
    *(("ClusterRole", _ADMISSION, (each,), "update", policy_checks.fills_its_configurations) for each in _POLICY_HOOKS),
    *(("ClusterRole", _OURS, (each,), "list", checks.starts_unready) for each in _POLICIES),
    ("ClusterRole", _OURS, _POLICIES, "watch", policy_checks.watches_policies),
    *(("ClusterRole", _OURS, (f"{each}/status",), "patch", policy_checks.tells) for each in _POLICIES),
    ("ClusterRole", _ADMISSION, _EXPORTED, "list", readiness_checks.reads_exported_policies),
    ("ClusterRole", _ADMISSION, _EXPORTED, "watch", readiness_checks.watches_exported_policies),
    ("ClusterRole", "", ("namespaces",), "list", checks.starts_unready),
    ("ClusterRole", "", ("namespaces",), "watch", policy_checks.watches_namespaces),
    ("ClusterRole", "", _CONFIG_MAPS, "list", queue_checks.reads_configurations),
    ("ClusterRole", "", _CONFIG_MAPS, "watch", queue_checks.watches_configurations),
    ("ClusterRole", _KUEUE, _QUEUES, "list", queue_checks.reads_queues),
    ("ClusterRole", _KUEUE, _QUEUES, "watch", queue_checks.watches_queues),
    *(("ClusterRole", *each, "list", queue_checks.reads_queues) for each in _BESIDE_QUEUES),
    *(("ClusterRole", *each, "watch", queue_checks.watches_queues) for each in _BESIDE_QUEUES),
    ("ClusterRole", "", ("pods",), "watch", readiness_checks.watches_pods),
    ("ClusterRole", "", ("nodes",), "list", readiness_checks.reads_nodes),
    ("ClusterRole", "", ("nodes",), "watch", readiness_checks.watches_nodes),
    ("ClusterRole", "events.k8s.io", ("events",), "list", readiness_checks.reads_events),
    ("ClusterRole", "events.k8s.io", ("events",), "watch", readiness_checks.watches_events),
    ("ClusterRole", _REPORTS, ("policyreports",), "list", policy_checks.looks_for_reports),
    ("ClusterRole", _REPORTS, ("policyreports",), "create", policy_checks.makes_reports),
    ("ClusterRole", _REPORTS, ("policyreports:gangctl",), "update", policy_checks.changes_reports),
    ("ClusterRole", _REPORTS, ("policyreports:gangctl",), "delete", policy_checks.withdraws_reports),
    ("Role", _LEASES, ("leases",), "get", checks.leads),
    ("Role", _LEASES, ("leases",), "update", checks.leads),
    ("Role", _LEASES, ("leases",), "create", checks.leads_first),
    ("Role", "", ("secrets",), "get", checks.starts_unready),
    ("Role", "", ("secrets",), "update", checks.repairs_its_secret),
    ("Role", "", ("secrets",), "create", checks.creates_its_secret),
    ("Role", "batch", ("jobs",), "create", checks.proves_the_reference),
)
REGISTRATION: Final[tuple[Row, ...]] = (
    *(("ClusterRole", _ADMISSION, (each,), "create", checks.starts_unready) for each in _ANY_HOOKS),
    *(("ClusterRole", _ADMISSION, (each,), "create", checks.creates_the_policy) for each in _ANY_POLICY),
    *(("ClusterRole", _ADMISSION, (each,), "get", checks.starts_unready) for each in _JOB_POLICY),
    *(("ClusterRole", _ADMISSION, (each,), "update", checks.repairs_the_policy) for each in _JOB_POLICY),
    *(("ClusterRole", _ADMISSION, (each,), "delete", checks.unregisters) for each in _UNREGISTERED),
    *(("ClusterRole", _ADMISSION, (each,), "delete", policy_checks.withdraws) for each in _POLICY_HOOKS),
    ("ClusterRole", "", ("namespaces",), "get", checks.finds_its_namespace),
)

SAMPLE: Final = frozenset(
    {
        *(("jobsets", "watch"), ("jobs", "list"), ("workloads", "create"), ("podgroups", "patch")),
        *(("workloads", "delete"), ("events", "create"), ("leases", "update"), ("secrets", "create")),
        *(("mutatingwebhookconfigurations:gangctl-gangs", "update"), ("gangpolicies/status", "patch")),
        *(("admissionchecks", "list"), ("policyreports", "create"), ("jobs", "create"), ("nodes", "watch")),
        ("mutatingwebhookconfigurations:gangctl-gangs", "delete"),
        ("mutatingwebhookconfigurations:gangctl-jobs", "update"),
        ("mutatingadmissionpolicies:gangctl-gangs", "update"),
        ("mutatingadmissionpolicies", "create"),
    }
)
"""Resource and verb of rights that are for different things: the first tier looks at these."""


def rights_of(row: Row, *, registration: bool = False) -> tuple[Right, ...]:
    """The rights in a row of the table, as the manifests grant them; RESOURCE:NAME is for one object only."""
    kind, group, resources, verb, _ = row
    found = [r for r in granted(registration=registration) if (r.kind, r.group, r.verb) == (kind, group, verb)]
    # Where a right is for all objects of a kind and another for one of them, the name is what tells them apart.
    return tuple(min((r for r in found if _is(r, resource)), key=lambda r: r.name) for resource in resources)


def _is(right: Right, resource: str) -> bool:
    resource, _, name = resource.partition(":")
    return right.resource == resource and name in {"", right.name}


def _rows(table: tuple[Row, ...]) -> Iterator[object]:
    """Parameters: one for each row, of which the first tier has a sample."""
    for row in table:
        sampled = (row[2][0], row[3]) in SAMPLE
        marks = [] if sampled else [pytest.mark.full("a sample of the rights is in the first tier")]
        yield pytest.param(row, marks=marks, id=short(f"{row[0]}-{'+'.join(row[2])}-{row[3]}"))


@pytest.mark.parametrize(("table", "registration"), [(IN_CLUSTER, False), (REGISTRATION, True)])
def test_every_right_has_a_check(table: tuple[Row, ...], registration: bool) -> None:
    checked = [right for row in table for right in rights_of(row, registration=registration)]
    needed = [right for right in granted(registration=registration) if (right.resource, right.verb) not in LATER]
    assert sorted(checked) == sorted(needed)


@pytest.fixture(scope="module")
def rights_plane() -> Iterator[ControlPlane]:
    """A cluster that also asks who may name an owner that waits for its dependents, as some distributions do.

    It has CompositePodGroups, Kueue, the definition of PathwaysJobs, and that of PolicyReports.
    """
    flags = ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]

    async def start() -> ControlPlane:
        crds = [*pathways_definitions().values()]
        started = await ControlPlane.start(
            "1.37",
            ("jobset", "kueue"),
            server_flags=flags,
            crds=crds,
            gates={"TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True},
            runtime_config={"scheduling.k8s.io/v1alpha3": True},
        )
        await kueue.configure(started)
        await serve(started.api, [policy_report_definition()])
        return started

    yield from shared(start)


@pytest.fixture(scope="module")
def pod(rights_plane: ControlPlane) -> Iterator[InCluster]:
    """The manifests applied, and their process, not started."""

    async def install() -> InCluster:
        process = InCluster(rights_plane, await build(rights_plane.directory))
        await process.install()
        return process

    process = asyncio.run(install())
    yield process
    asyncio.run(process.close())


@pytest.fixture
async def cluster(rights_plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A namespace of the test's own."""
    name = f"n{abs(hash(request.node.name)):x}"
    await create_namespaces(rights_plane, [name])
    yield Cluster(rights_plane, name)
    await remove_namespace(rights_plane.api, name)


async def test_every_right_is_used_and_no_request_is_refused(
    rights_plane: ControlPlane, pod: InCluster, cluster: Cluster
) -> None:
    await known(rights_plane.api, ACCOUNT, granted())
    since = rights_plane.audit_position
    assert len(pod.arguments) == len(deployed_arguments(await build(rights_plane.directory))) + 1
    await pod.process.start()
    await cluster.asked()
    nodes = await add_nodes(rights_plane.api, 1, cpu="8")
    async with Kubelet(rights_plane.api) as kubelet:
        await _live(cluster, kubelet)
        await _meet_others(cluster, pod)
        await policy_checks.live(Stage(cluster, pod))
        await pod.process.stop()
        # A Secret that somebody broke is repaired at the start.
        await cluster.api.patch(checks.SECRET, {"data": {"tls.crt": None}})
        await pod.process.start()
        await cluster.asked()
        await cluster.create_jobset(jobset("after", rj("w", 1, 1, 1, mode="Gang")))
        await said(cluster, "WorkloadCreated", "after")
    await remove_nodes(rights_plane.api, nodes)
    await pod.process.stop()
    requests = [entry for entry in rights_plane.audit(since) if entry["user"].get("username") == ACCOUNT]
    assert [f"{e['verb']} {e['requestURI']}" for e in refusals(requests)] == []
    assert {e["responseStatus"]["code"] for e in requests} & {401, 403} == set()
    rights = granted()
    not_used = {(right.resource, right.verb) for right in rights - used(rights, requests)}
    assert not_used <= UNUSED
    # And every request is one of those rights, or a question about the API itself, which everybody may ask.
    others = [e for e in requests if e.get("objectRef") and not any(right.covers(e) for right in rights)]
    assert [f"{e['verb']} {e['requestURI']}" for e in others] == []


async def _live(cluster: Cluster, kubelet: Kubelet) -> None:
    """Created, resized, at its tail, suspended, resumed, finished, deleted."""
    created = await cluster.create_jobset(jobset("js", rj("w", 1, 3, 3, mode="Gang")))
    workload, group = (object_name("js", created["metadata"]["uid"], scope) for scope in ("workload", "rj/w"))
    await running_pods(cluster, 3)
    await resize(cluster, await cluster.jobset("js"), 0, 4)
    await min_counts(cluster, workload, group, 4)
    await running_pods(cluster, 4)
    await cluster.patch_jobset("js", {"spec": {"suspend": True}})
    await no_gang(cluster)
    await cluster.patch_jobset("js", {"spec": {"suspend": False}})
    pods = await running_pods(cluster, 4)
    await kubelet.finish(pods[0])

    await read_until(cluster.gangs, lambda gangs: gangs.group_min_count(group) == 3, "minCount to follow")
    for pod in pods[1:]:
        await kubelet.finish(pod)
    await no_gang(cluster)
    await cluster.api.delete(cluster.path(JOBSETS, "jobsets", "js"), propagation="Background")
    await cluster.create_jobset(together("two"))
    await running_pods(cluster, 2)
    await cluster.patch_jobset("two", {"spec": {"suspend": True}})
    await no_gang(cluster)


async def _meet_others(cluster: Cluster, pod: InCluster) -> None:
    """A Workload that somebody else made for a JobSet, and a name that somebody else has."""
    await cluster.api.create(cluster.scheduling("workloads"), foreign_workload(cluster, "theirs", "claimed"))

    async def seen() -> bool:
        answer = await cluster.create_jobset(jobset("claimed", rj("w", 1, 2, 2, mode="Gang")), dry_run=True)
        return "gang-ref" not in str(answer)

    await wait_for(seen, what="gangctl to know the foreign Workload")
    await cluster.create_jobset(jobset("claimed", rj("w", 1, 2, 2, mode="Gang")))
    await said(cluster, "ForeignWorkload", "claimed")
    taken = await cluster.create_jobset(jobset("taken", rj("w", 1, 2, 2, mode="Gang"), suspend=True))
    name = object_name("taken", taken["metadata"]["uid"], "workload")
    before = await _workloads_known(pod)
    await cluster.api.create(cluster.scheduling("workloads"), foreign_workload(cluster, name, "somebody-else"))

    # JobSets are told by another watch: who hears of them first finds the name taken, and has to ask by whom.
    await read_until(lambda: _workloads_known(pod), lambda known: known > before, "gangctl to know who has the name")
    await cluster.patch_jobset("taken", {"spec": {"suspend": False}})
    await said(cluster, "NameConflict", "taken")


async def _workloads_known(pod: InCluster) -> float:
    return await pod.metric("gangctl_informer_objects", {"resource": f"workloads.{_SCHEDULING}"})


@pytest.mark.parametrize("blocks", [False, True])
async def test_no_right_over_owners_is_needed(
    blocks: bool, rights_plane: ControlPlane, pod: InCluster, cluster: Cluster
) -> None:
    """A JobSet that is deleted need not wait for its gangs: else it would take a right over JobSets to name it."""
    created = await cluster.create_jobset(jobset("js", rj("w", 1, 1, 1), suspend=True))
    owner = metadata("", "gang", Owner("js", created["metadata"]["uid"]))["ownerReferences"][0]
    body = foreign_workload(cluster, "gang", "js")
    body["metadata"]["ownerReferences"] = [{**owner, "blockOwnerDeletion": blocks or owner["blockOwnerDeletion"]}]
    client = ApiClient(rights_plane.url, ca=rights_plane.ca, token=pod.token)
    request = client.create(cluster.scheduling("workloads"), body, dryRun="All")
    if not blocks:
        assert (await request)["metadata"]["ownerReferences"] == [owner]
        return
    failure = await refused(request)
    assert failure.status == 403
    assert "cannot set blockOwnerDeletion" in failure.message


async def test_the_finalizers_right_makes_pathwaysjobs_wait_for_their_jobsets(
    rights_plane: ControlPlane, pod: InCluster, cluster: Cluster
) -> None:
    """A PathwaysJob that is deleted in the foreground goes after its JobSet."""
    await component.install(cluster.api, "pathways", ACCOUNT)
    (needed,) = [each for each in component_rights("pathways") if each.resource == "pathwaysjobs/finalizers"]
    raw = pathways_job()
    raw["metadata"]["namespace"] = cluster.namespace
    job = await cluster.api.create(cluster.path(API_VERSION, PLURAL), raw)
    body = foreign_jobset(owner={**owner_of(job), "blockOwnerDeletion": True})
    client = ApiClient(rights_plane.url, ca=rights_plane.ca, token=pod.token)

    async def taken() -> bool:
        # The API server asks for the right once it has heard of the definition.
        return bool(await client.create(cluster.path(JOBSETS, "jobsets"), body, dryRun="All"))

    await wait_for(taken, "the owner to be accepted", tolerate=(ApiFailure,))
    async with missing(cluster.api, ACCOUNT, [needed]):
        failure = await refused(client.create(cluster.path(JOBSETS, "jobsets"), body, dryRun="All"))
        assert failure.status == 403
        assert (
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set" in failure.message
        )


@pytest.fixture
async def inside(rights_plane: ControlPlane, pod: InCluster, cluster: Cluster) -> AsyncIterator[Stage]:
    """The process in the cluster, ready."""
    if not pod.process.running:
        await pod.register()
        pod.process.command = [part for part in pod.process.command if part not in HASTE] + [*HASTE]
        await pod.start()
    yield Stage(cluster, pod)
    assert pod.process.running
    assert rights_plane.process("kube-apiserver").running


@pytest.mark.parametrize("row", list(_rows(IN_CLUSTER)))
async def test_a_missing_right_has_its_documented_effect(row: Row, inside: Stage) -> None:
    await _without(inside, rights_of(row), row[4])


@pytest.fixture
async def outside(rights_plane: ControlPlane, pod: InCluster, cluster: Cluster) -> AsyncIterator[Stage]:
    """A process outside of the cluster, which registers itself."""
    if pod.process.running:
        await pod.process.stop()
    for path in checks.CONFIGURATIONS:
        if await _exists(cluster, path):
            await cluster.api.delete(path)
    await prepare(rights_plane, STRANGER)
    process = Gangctl(rights_plane, *HASTE, "--unregister-on-exit", name=STRANGER, user=STRANGER)
    await process.start()
    yield Stage(cluster, process, f":{STRANGER}")
    # Time enough: killed it would leave behind what the next one has to create.
    await process.process.stop(grace=HUNG_SECONDS)
    await process.close()


async def _exists(cluster: Cluster, path: str) -> bool:
    collection, _, name = path.rpartition("/")
    return any(each["metadata"]["name"] == name for each in await cluster.api.list(collection))


@pytest.mark.parametrize("row", list(_rows(REGISTRATION)))
async def test_a_missing_right_outside_of_the_cluster_has_its_documented_effect(row: Row, outside: Stage) -> None:
    await _without(outside, rights_of(row, registration=True), row[4])


async def _without(stage: Stage, rights: tuple[Right, ...], check: Check) -> None:
    steps = check(stage, rights)
    await anext(steps)
    async with missing(stage.api, stage.gangctl.user, rights, stage.suffix):
        stage.mark()
        await anext(steps)
        for right in rights:
            await stage.reported(right)
            not_in_a_loop(stage.refused(right), stage.audited())
    async for _ in steps:
        raise AssertionError("a check has three parts")

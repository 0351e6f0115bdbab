"""Where Kueue places gangs is where gangctl expects them: random topologies with what runs on their nodes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from gangctl.client.resources import NODES, PODS
from gangctl.cluster import kinds
from gangctl.cluster.stock import Stock
from gangctl.fit.clusterstate import ClusterSnapshot
from gangctl.fit.report import FitReport
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.topology import with_placements
from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.fit.topologies import HOST, PRIORITIES, Site, canary, site
from tests.fit.trees import API_VERSION, kueue
from tests.live.accounts import Account, Accounts
from tests.live.cluster import JOBSETS
from tests.live.quotatrees import CHECK, NAMESPACE, all_of, hold_back, path

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(1800),
    pytest.mark.full("a search; test_kueue_cli_live shows each answer once"),
]

SITES = 200
SEED = 20_261_200
EQUAL = 0.95
ROUNDS = 20
ADMITTED = {"Fits", "FitsReordered", "NeedsPreemption"}
READ = (
    *(kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES, kinds.RESOURCE_FLAVORS, kinds.TOPOLOGIES, kinds.QUEUED_WORKLOADS),
    *(kinds.ADMISSION_CHECKS, kinds.PRIORITY_CLASSES, NODES, PODS),
)


@dataclass(frozen=True)
class Ground:
    """A Kueue with the sites on it."""

    plane: ControlPlane
    accounts: Accounts
    sites: Sequence[Site]

    async def install(self) -> None:
        """Everything but the JobSets, and wait until Kueue has it; a check lets nothing start that has quota."""
        api = self.plane.api
        await hold_back(api)
        for name, value in PRIORITIES.items():
            body = {"kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
            await api.create(path("workloadpriorityclasses"), {"apiVersion": API_VERSION, **body})
        await all_of(api.create(path("topologies"), each.topology) for each in self.sites)
        await all_of(api.create(path("resourceflavors"), flavor) for each in self.sites for flavor in each.flavors)
        await all_of(api.create(path_of("v1", "nodes"), node) for each in self.sites for node in each.nodes)
        pods = [pod for each in self.sites for pod in each.pods]
        await all_of(api.create(path_of("v1", "pods", namespace=NAMESPACE), pod) for pod in pods)
        await all_of(api.create(path("clusterqueues"), each.queue) for each in self.sites)
        await all_of(api.create(path("localqueues", namespace=NAMESPACE), _door(each)) for each in self.sites)
        await self._active()
        await self._counted(len(pods))
        await self._canary()

    async def _active(self) -> None:
        await read_until(
            lambda: self.plane.api.list(path("clusterqueues")),
            lambda queues: all(map(_current, queues)),
            "all ClusterQueues to be active",
            interval=0.5,
        )

    async def _counted(self, pods: int) -> None:
        """Wait until Kueue has counted so many changes of pods that it does not place."""

        async def counted() -> bool:
            now = await self.accounts.ask()
            seen = now.total("controller_runtime_reconcile_total", controller="tas-non-tas-usage-controller")
            if seen < pods or not now.idle:
                raise NotYet(f"{seen:.0f} of {pods} pods counted")
            return True

        await wait_for(counted, "Kueue to count the pods", interval=0.5)

    async def _canary(self) -> None:
        """Wait until Kueue has the last node, and with it all before it: a JobSet that needs it gets quota."""
        made, api = canary(CHECK), self.plane.api
        await api.create(path("topologies"), made.topology)
        await api.create(path("resourceflavors"), made.flavors[0])
        await api.create(path("clusterqueues"), made.queue)
        await api.create(path("localqueues", namespace=NAMESPACE), _door(made))
        await self._active()
        await api.create(path_of("v1", "nodes"), made.nodes[0])
        await api.create(path_of(JOBSETS, "jobsets", namespace=NAMESPACE), made.gang)

        async def placed() -> bool:
            return (await self.accounts.ask()).reserving == 1

        await wait_for(placed, "Kueue to know the last node", interval=0.5)
        await self.delete([made.gang])
        await self.decided(0)

    async def decided(self, expected: int) -> dict[str, QueuedWorkload]:
        """The Workloads by name of their JobSet, once Kueue can decide none of so many otherwise.

        Kueue evaluates some again and again, with one flavor after the other: those get several rounds.
        """

        async def counted() -> Account:
            now = await self.accounts.ask()
            if now.known != expected or not now.idle:
                raise NotYet(f"Kueue knows {now.known:.0f} of {expected} Workloads")
            return now

        before = await wait_for(counted, "Kueue to know every Workload", interval=0.5)

        async def settled() -> tuple[dict[str, QueuedWorkload]]:
            now = await counted()
            if now.waiting and now.cycles < before.cycles + ROUNDS:
                raise NotYet(f"{now.waiting:.0f} are to be evaluated")
            found = await self.workloads()
            reserving = sum(each.holds("QuotaReserved") for each in found.values())
            if len(found) != expected or reserving != now.reserving:
                raise NotYet(f"{len(found)} Workloads, {reserving} of {now.reserving:.0f} have quota")
            return (found,)

        (found,) = await wait_for(settled, "Kueue to have decided", interval=1)
        return found

    async def workloads(self) -> dict[str, QueuedWorkload]:
        """By name of their JobSet."""
        read = map(with_placements, await self.plane.api.list(path("workloads", namespace=NAMESPACE)))
        return {each.owner_name: each for each in read}

    async def create(self, jobsets: Iterable[Object]) -> None:
        jobs = path_of(JOBSETS, "jobsets", namespace=NAMESPACE)
        await all_of(self.plane.api.create(jobs, each) for each in jobsets)

    async def delete(self, jobsets: Iterable[Object]) -> None:
        jobs = [path_of(JOBSETS, "jobsets", namespace=NAMESPACE, name=each["metadata"]["name"]) for each in jobsets]
        await all_of(self.plane.api.delete(each) for each in jobs)

    async def stock(self) -> Stock:
        """What ``gangctl fit`` reads."""
        stock = Stock()
        for resource in READ:
            for raw in await self.plane.api.list(path_of(resource.api_version, resource.plural)):
                stock.take_raw({**raw, "apiVersion": resource.api_version, "kind": resource.kind})
        stock.nodes_known = stock.topologies_known = True
        stock.take_runtime_classes([])
        stock.pods = stock.pods or []
        stock.note_presence(True, 18)
        stock.snapshot.take_configuration((self.plane.directory / "kueue.yaml").read_text(encoding="utf-8"))
        return stock

    async def empty(self, holders: Iterable[Object]) -> None:
        """Delete what runs, and have Kueue evaluate anew what waits."""
        api = self.plane.api
        pods = [pod["metadata"]["name"] for each in self.sites for pod in each.pods]
        await all_of(api.delete(path_of("v1", "pods", namespace=NAMESPACE, name=name)) for name in pods)
        await self._counted(2 * len(pods))
        await self.delete(holders)
        await self.decided(len(self.sites))
        # Kueue evaluates again what waits in a queue whose quotas have changed.
        await all_of(api.patch(path("clusterqueues", each.name), {"spec": _enlarged(each)}) for each in self.sites)
        await self._active()


def _current(queue: Object) -> bool:
    """Whether Kueue has processed the last change of a ClusterQueue, and it is active."""
    found = [each for each in queue.get("status", {}).get("conditions", []) if each["type"] == "Active"]
    return any(
        each["status"] == "True" and each.get("observedGeneration") == queue["metadata"]["generation"] for each in found
    )


def _door(made: Site) -> Object:
    return kueue("LocalQueue", made.name, {"clusterQueue": made.name})


def _enlarged(made: Site) -> Object:
    groups: list[Object] = made.queue["spec"]["resourceGroups"]
    for flavor in groups[-1]["flavors"]:
        flavor["resources"][-1]["nominalQuota"] = "501Gi"
    return {"resourceGroups": groups}


def domains_of(made: Site, workload: QueuedWorkload, podset: str, level: str) -> dict[str, int]:
    """Pods of a podset by domain of a level, as Kueue assigned them."""
    depth = made.levels.index(level) + 1
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in made.nodes}
    found: Counter[str] = Counter()
    for assignment, placement in zip(workload.assignments, workload.placements, strict=True):
        if assignment.name != podset:
            continue
        for values, pods in placement.domains.items():
            full = [labels[values[0]][each] for each in made.levels] if made.levels[-1] == HOST else list(values)
            found["/".join(full[:depth])] += pods
    return dict(found)


def expected_domains(report: FitReport) -> dict[tuple[str, str], dict[str, int]]:
    """The same, as gangctl expects them, by podset and level."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in report["domains"]:
        found.setdefault((row["podSet"], row["level"]), {})[row["domain"]] = row["assigned"]
    return found


def evaluate(sites: Sequence[Site], snapshot: ClusterSnapshot, *, fixed_nodes: bool) -> dict[str, FitReport]:
    """The verdict on the gang of each site."""
    return {
        each.name: fit(FitRequest(each.gang, NAMESPACE, {}, each.name, fixed_nodes=fixed_nodes), snapshot)
        for each in sites
    }


def _leaves_a_rest(report: FitReport) -> bool:
    """Whether it has quota, and nothing is unknown but how its pods beyond whole slices start."""
    return report["verdict"] == "unknown" and all("whole slices" in doubt for doubt in report["unknown"])


def table(reports: Mapping[str, FitReport], has: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Predicted and happened, and the names of those that differ."""
    count = Counter((report["verdict"], report["reason"], has(name)) for name, report in reports.items())
    lines = [
        f"  {verdict:8} {reason:24} {'quota' if quota else 'waits':6} {number}"
        for (verdict, reason, quota), number in sorted(count.items())
    ]
    admitted = {name for name, report in reports.items() if report["reason"] in ADMITTED or _leaves_a_rest(report)}
    return lines, [name for name in reports if (name in admitted) != has(name)]


async def test_kueue_places_gangs_where_they_are_expected() -> None:
    sites = [site(SEED + index, check=CHECK) for index in range(SITES)]
    holders = [holder for each in sites for holder in each.holders]
    async with ControlPlane.start("1.37", ("jobset", "kueue"), scheduler=False, kueue_metrics=True) as plane:
        ground = Ground(plane, await Accounts.of(plane), sites)
        await ground.install()
        await ground.create(holders)
        held = await ground.decided(len(holders))
        # Kueue may evaluate one that waits so often that it evaluates none behind it.
        idle = [each for each in holders if not held[each["metadata"]["name"]].holds("QuotaReserved")]
        running = [each for each in holders if each not in idle]
        await ground.delete(idle)
        await ground.decided(len(running))
        stock = await ground.stock()
        fixed = evaluate(sites, stock.completed(stock.snapshot), fixed_nodes=True)
        reports = evaluate(sites, stock.completed(stock.snapshot), fixed_nodes=False)
        empty = evaluate(sites, stock.completed(stock.unused, lambda _: True), fixed_nodes=False)
        await ground.create(each.gang for each in sites)
        now = await ground.decided(len(running) + SITES)
        await ground.empty(running)
        later = await ground.decided(SITES)

    lines, wrong = table(reports, lambda name: now[name].holds("QuotaReserved"))
    empty_lines, wrong_empty = table(empty, lambda name: later[name].holds("QuotaReserved"))
    fixed_lines, _ = table(fixed, lambda name: later[name].holds("QuotaReserved"))
    fitting = [each for each in sites if reports[each.name]["verdict"] == "fits" and each.name not in wrong]
    elsewhere = [
        f"{each.name}: {podset} expected in {domains}, is in {there}"
        for each in fitting
        for (podset, level), domains in expected_domains(reports[each.name]).items()
        if (there := domains_of(each, now[each.name], podset, level)) != domains
    ]
    lines = [
        f"seeds {SEED} to {SEED + SITES - 1}; {len(running)} of {len(holders)} other JobSets have quota",
        "beside them, predicted and happened:",
        *lines,
        f"of {len(fitting)} gangs with quota, {len({each.split(':')[0] for each in elsewhere})} in other domains",
        "after the others have ended:",
        *empty_lines,
        "the same with fixed nodes:",
        *fixed_lines,
        *(f"  {name}: {reports[name]['message']}" for name in wrong),
        *(f"  {name}: {empty[name]['message']}" for name in wrong_empty),
        *(f"  {each}" for each in elsewhere),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    never = [name for name, report in fixed.items() if report["verdict"] == "never"]
    admitted = {name: fixed[name]["message"] for name in never if later[name].holds("QuotaReserved")}
    assert admitted == {}, "refused what Kueue admits"
    assert not [name for name in never if now[name].holds("QuotaReserved")], "refused what Kueue admits"
    unsure = [name for name, report in reports.items() if report["verdict"] == "unknown"]
    assert all(_leaves_a_rest(reports[name]) for name in unsure)
    assert len(wrong) <= (1 - EQUAL) * SITES, "Kueue decides otherwise"
    assert len(wrong_empty) <= (1 - EQUAL) * SITES, "Kueue decides otherwise"
    assert len(elsewhere) <= (1 - EQUAL) * len(fitting), "Kueue places pods elsewhere"
    reasons = Counter(report["reason"] for report in [*fixed.values(), *reports.values()])
    few = SITES / 20
    assert all(reasons[each] >= few for each in ("Fits", "WaitsForTopology", "NeedsNodes", "NeverExceedsTopology"))

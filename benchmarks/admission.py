"""Twenty policies and a 20 KB JobSet, created twenty times a second: what admission costs on a real API server.

The same policies are native ValidatingAdmissionPolicies in one phase, what ``gangctl policy export`` writes in another,
GangPolicies in a third, and ValidatingPolicies of Kyverno, where that is at hand (``benchmarks/kyverno.py``). In one
more, twenty GangPolicies read ``gang``, which no other can. All phases run one after the other on one control plane, in
several rounds, each of which begins with another phase: what is run later, on a machine and a control plane that have
been at work, is not always the same. What the webhook takes is read from the API server's own histogram; what a phase
adds is the mean time of a create less that without policies.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from benchmarks import kyverno
from benchmarks.budgets import limit_of
from benchmarks.chart import Axis, Chart, distribution
from benchmarks.result import Figure, Findings, Observed, percentile
from benchmarks.table import Table
from gangctl.policy.export import export
from gangctl.policy.load import load_policy
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.gangctl import Gangctl, create_namespaces
from tests.live.observe import webhooks_noticed
from tests.manifests.definitions.policies import definitions
from tests.policies.native import BINDINGS, POLICIES, policy_of
from tests.policies.pack import Shipped, native, shipped

POLICY_COUNT: Final = 20
PACE: Final = 20.0
NAMESPACE: Final = "admission"
DEFINITIONS: Final = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
GANG_POLICIES: Final = path_of("gangctl.dev/v1alpha1", "gangpolicies")
REGISTRATIONS: Final = path_of("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations")
HISTOGRAM: Final = "apiserver_admission_webhook_admission_duration_seconds"
SLOW_SECONDS: Final = 0.025
"""What few requests may exceed in the webhook: a bucket of the API server's histogram."""
ALLOWED_PERCENT: Final = limit_of("admission-slow").limit
KYVERNO: Final = ("kyverno", "kyverno-1")
"""As the policies are, with a webhook for each that has matchConditions; and with these in the rules."""
SLOWER: Final = {KYVERNO[0]: 10}
"""With a webhook for each policy, Kyverno does not keep the pace on two cores, and calls time out: so much slower."""
PHASES: Final = ("none", "native", "exported", "gangctl", "reading-gang", *(KYVERNO if kyverno.source() else ()))
ADDED_FACTOR, ADDED_SECONDS = 2.0, 0.005


@dataclass(frozen=True, slots=True)
class Size:
    """Creates of a phase in one round, and rounds."""

    creates: int
    rounds: int


FULL, QUICK = Size(300, 3), Size(10, 1)


@dataclass
class Phase:
    """Seconds of every create, and what the API server counted of the policies' webhook."""

    seconds: list[float] = field(default_factory=list)
    webhook: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean seconds of a create."""
        return statistics.fmean(self.seconds)

    def above(self, limit: float) -> float:
        """Percent of the webhook's calls that took longer than a bucket's limit; raises if there was no call."""
        return 100 * (1 - self.webhook[f"{limit:g}"] / self.webhook["+Inf"])


Round = dict[str, Phase]
"""One of each phase, by its name."""


def specs() -> list[tuple[str, Object]]:
    """Twenty policies by name: those of the pack that read native variables only and need no parameters, then again."""
    return _twenty(native())


def gang_specs() -> list[tuple[str, Object]]:
    """The same of those that read ``gang``; they audit, because the JobSet breaks some of them."""
    reading = _twenty(policy for policy in shipped() if policy.reads("gang"))
    return [(name, {**spec, "validationActions": ["Audit"]}) for name, spec in reading]


def _twenty(policies: Iterable[Shipped]) -> list[tuple[str, Object]]:
    plain = [policy for policy in policies if not policy.spec.keys() & {"paramRef", "paramKind"}]
    return [(f"{plain[n % len(plain)].name}-{n}", plain[n % len(plain)].spec) for n in range(POLICY_COUNT)]


def gang_policy(name: str, spec: Object) -> Object:
    """The GangPolicy with this spec."""
    return {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": name}, "spec": spec}


def big_jobset(name: str) -> Object:
    """A JobSet of about 20 KB that breaks none of the policies."""
    replicated = []
    for number in range(6):
        entry = rj(f"workers-{number}", 2, 4, 4)
        spec = entry["template"]["spec"]
        spec["activeDeadlineSeconds"] = 86400
        container = spec["template"]["spec"]["containers"][0]
        container["image"] = f"registry.example/trainer@sha256:{'0' * 64}"
        container["env"] = [{"name": f"SETTING_{index}", "value": "x" * 60} for index in range(28)]
        container["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
        replicated.append(entry)
    made = jobset(name, *replicated, namespace=NAMESPACE)
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    made["spec"] |= {
        "suspend": True,
        "ttlSecondsAfterFinished": 3600,
        "failurePolicy": {"maxRestarts": 3},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [entry["name"] for entry in replicated]},
        "coordinator": {"replicatedJob": "workers-0", "jobIndex": 0, "podIndex": 0},
    }
    return made


async def drive(plane: ControlPlane, creates: int, label: str, pace: float = PACE) -> Phase:
    """Create at the pace, whatever answers take: dry runs, which are admitted like others and leave nothing to do."""
    path = path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace=NAMESPACE)
    before, phase = await webhook_buckets(plane), Phase()

    async def create(number: int) -> None:
        body = big_jobset(f"{label}-{number}")
        began = time.perf_counter()
        await plane.api.create(path, body, dryRun="All")
        phase.seconds.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        began = time.monotonic()
        for number in range(creates):
            await asyncio.sleep(max(0.0, began + number / pace - time.monotonic()))
            group.create_task(create(number))
    after = await webhook_buckets(plane)
    for bucket, value in after.items():
        phase.webhook[bucket] = value - before.get(bucket, 0.0)
    return phase


async def webhook_buckets(plane: ControlPlane) -> dict[str, float]:
    """Cumulative counts by bucket of the validating policies' webhook."""
    counts: dict[str, float] = {}
    for line in (await plane.api.text("/metrics")).splitlines():
        if line.startswith(f"{HISTOGRAM}_bucket{{") and ".policies.gangctl.dev" in line:
            bucket = line.partition('le="')[2].partition('"')[0]
            counts[bucket] = counts.get(bucket, 0.0) + float(line.rpartition(" ")[2])
    return counts


@asynccontextmanager
async def native_policies(plane: ControlPlane, *, exported: bool = False) -> AsyncIterator[None]:
    """The policies as ValidatingAdmissionPolicies, in force."""
    for name, spec in specs():
        binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
        if exported:
            own = load_policy(gang_policy(name, {**spec, "validationActions": ["Deny"]}))
            policy, binding = map(dict, export(own).objects)
        else:
            policy = policy_of(spec, name)
        await plane.api.create(POLICIES, policy)
        await plane.api.create(BINDINGS, binding)
    try:
        await refuses(plane)
        yield
    finally:
        for name, _ in specs():
            await plane.api.delete(f"{BINDINGS}/{name}")
            await plane.api.delete(f"{POLICIES}/{name}")


@asynccontextmanager
async def gang_policies(plane: ControlPlane, chosen: list[tuple[str, Object]]) -> AsyncIterator[None]:
    """These GangPolicies, in force."""
    for name, spec in chosen:
        await plane.api.create(GANG_POLICIES, gang_policy(name, spec))
    try:
        async with Gangctl(plane, "--unregister-on-exit", "--log-level", "info"):
            await in_force(plane, chosen)
            await webhooks_noticed(plane)
            yield
    finally:
        for name, _ in chosen:
            await plane.api.delete(f"{GANG_POLICIES}/{name}")


@asynccontextmanager
async def kyverno_policies(plane: ControlPlane, *, conditions: bool) -> AsyncIterator[None]:
    """The policies as Kyverno's, in force."""
    chosen = [(name, spec if conditions else kyverno.without_conditions(spec)) for name, spec in specs()]
    async with kyverno.running(plane, chosen):
        await refuses(plane)
        yield


def policies(plane: ControlPlane, phase: str) -> AbstractAsyncContextManager[None]:
    """Those of a phase, in force."""
    if phase == "none":
        return nullcontext()
    if phase in {"native", "exported"}:
        return native_policies(plane, exported=phase == "exported")
    if phase in KYVERNO:
        return kyverno_policies(plane, conditions=phase == KYVERNO[0])
    # As the bindings of the native ones; those of the pack warn.
    denying = [(name, {**spec, "validationActions": ["Deny"]}) for name, spec in specs()]
    return gang_policies(plane, denying if phase == "gangctl" else gang_specs())


def order(phases: Sequence[str], number: int) -> list[str]:
    """The phases of a round: each begins with the one that the round before had second."""
    begin = number % len(phases)
    return [*phases[begin:], *phases[:begin]]


async def in_force(plane: ControlPlane, chosen: list[tuple[str, Object]]) -> None:
    """Wait until gangctl evaluates all of them, and has its webhook."""

    async def ready() -> bool:
        for name, _ in chosen:
            status = (await plane.api.get(f"{GANG_POLICIES}/{name}")).get("status") or {}
            if [condition["reason"] for condition in status.get("conditions", ())] != ["InForce"]:
                raise NotYet(f"{name}: {status}")
        live = await plane.api.get(f"{REGISTRATIONS}/gangctl-policies")
        return bool(live.get("webhooks"))

    await wait_for(ready, "the policies to be in force", tolerate=(ApiFailure,))


async def refuses(plane: ControlPlane) -> None:
    """Wait until the last of the policies refuses what breaks all of them."""
    path = path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace=NAMESPACE)

    async def refused() -> bool:
        try:
            await plane.api.create(path, jobset("bad", rj("w"), namespace=NAMESPACE), dryRun="All")
        except ApiFailure as failure:
            if failure.status in {400, 403, 422} and "denied" in failure.message:
                return True
            raise NotYet(failure.message) from failure
        raise NotYet("it was created")

    await wait_for(refused, "the policies to be in force")
    await plane.api.create(path, big_jobset("good"), dryRun="All")


async def measure(minor: str, size: Size) -> list[Round]:
    """All phases, several rounds."""
    rounds: list[Round] = []
    async with ControlPlane.start(minor, ("jobset",), audit=False) as plane:
        await create_namespaces(plane, [NAMESPACE])
        for definition in definitions().values():
            await plane.api.create(DEFINITIONS, definition)
        if kyverno.source():
            await kyverno.install(plane)
        for number in range(size.rounds):
            phases: Round = {}
            for name in order(PHASES, number):
                async with policies(plane, name):
                    slower = SLOWER.get(name, 1)
                    creates = max(1, size.creates // slower)
                    phases[name] = await drive(plane, creates, f"{name}-{number}", PACE / slower)
            rounds.append(phases)
            means = ", ".join(f"{name} {phase.mean * 1e3:.1f} ms" for name, phase in phases.items())
            print(f"round {number + 1}: {means}", flush=True)
    return rounds


def main(quick: bool = False, minor: str = NEWEST) -> Findings:
    """Run it, and hold the figures against the budgets."""
    size = QUICK if quick else FULL
    rounds = asyncio.run(measure(minor, size))
    chart = Chart("admission", "Creates of a 20 KB JobSet under 20 policies", Axis("ms"), Axis("% of creates"))
    for name in rounds[0]:
        every = [seconds * 1e3 for phases in rounds for seconds in phases[name].seconds]
        chart.lines.append(distribution(name, every))
    return Findings(_table(rounds, minor, size), _figures(rounds), [chart])


def _figures(rounds: list[Round]) -> list[Figure]:
    added = tuple((phases["gangctl"].mean - phases["none"].mean) * 1e3 for phases in rounds)
    allowed = tuple(_allowed(phases) * 1e3 for phases in rounds)
    every = [seconds * 1e3 for phases in rounds for seconds in phases["gangctl"].seconds]
    return [
        Figure("admission-slow", tuple(phases["gangctl"].above(SLOW_SECONDS) for phases in rounds)),
        Figure("admission-added", added, allowed, Observed.of(every)),
    ]


def _allowed(phases: Round) -> float:
    """Seconds that may be added to a create."""
    return max(ADDED_FACTOR * (phases["native"].mean - phases["none"].mean), ADDED_SECONDS)


def _table(rounds: list[Round], minor: str, size: Size) -> Table:
    table = Table(
        "admission", ["policies", "create p50", "create p99", "mean", "mean added", "webhook above", "budget"]
    )
    bare = statistics.fmean(phases["none"].mean for phases in rounds)
    for name in rounds[0]:
        every = [seconds for phases in rounds for seconds in phases[name].seconds]
        asked = name == "gangctl"
        above = statistics.fmean(phases[name].above(SLOW_SECONDS) for phases in rounds) if asked else 0.0
        table.add(
            name,
            *(f"{percentile(every, share) * 1e3:.1f} ms" for share in (0.5, 0.99)),
            f"{statistics.fmean(every) * 1e3:.1f} ms",
            f"{(statistics.fmean(every) - bare) * 1e3:+.1f} ms",
            f"{above:.2f}% above {SLOW_SECONDS * 1e3:g} ms" if asked else "",
            f"{ALLOWED_PERCENT:g}%" if asked else "",
        )
    native = statistics.fmean(phases["native"].mean for phases in rounds) - bare
    allowed = statistics.median(_allowed(phases) for phases in rounds)
    kilobytes = len(json.dumps(big_jobset("x"))) / 1024
    setting = (
        f"{POLICY_COUNT} policies of the pack that need native variables only, or that read gang, a JobSet of "
        f"{kilobytes:.1f} KB, "
        f"{PACE:g} creates/s, {size.creates} creates a phase and round, {size.rounds} rounds, Kubernetes {minor} with "
        "JobSet, everything on this machine."
    )
    if kyverno.source() is not None:
        setting += (
            " Kyverno 1.19, ValidatingPolicies: kyverno has a webhook for each policy with matchConditions, at a tenth "
            "of the pace, because it does not keep the whole one here; kyverno-1 has the conditions in the rules."
        )
    verdict = (
        f"Mean added by native policies: {native * 1e3:.1f} ms; budget with gangctl: {allowed * 1e3:.1f} ms "
        "(twice that, or 5 ms if that is more; median of the rounds)."
    )
    table.remarks = [setting, verdict]
    return table

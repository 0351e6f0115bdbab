"""What one user's large JobSets cost another one's small ones, under a policy that searches a text too long for it.

Six clients create JobSets with an argument of 400,000 letters in a loop, a seventh small ones at a steady pace: first
without the six, then with them. Measured twice: asking the policy evaluator directly, and through a real API server,
where the same flood without the policy says what it costs the API server and this machine by itself. All creates are
dry runs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from benchmarks.result import Figure, Findings, Observed, percentile
from benchmarks.table import Table
from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.policy.loaded import PolicySet
from tests.controlplane.api import path_of
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.evaluation.evaluators import document, until_warm
from tests.evaluation.scripted import review
from tests.jobsets import jobset, rj
from tests.live.gangctl import Gangctl, create_namespaces
from tests.manifests.definitions.policies import definitions

CLIENTS: Final = 6
LETTERS: Final = 400_000
PACE_SECONDS: Final = 0.05
SECONDS, QUICK_SECONDS = 20.0, 2.0
NAMESPACE: Final = "flood"
JOBSETS: Final = path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace=NAMESPACE)
POLICIES: Final = path_of("gangctl.dev/v1alpha1", "gangpolicies")
DEFINITIONS: Final = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
_CONTAINERS: Final = "object.spec.replicatedJobs.map(r, r.template.spec.template.spec.containers).flatten()"
POLICY: Final = document(
    "searching",
    f"{_CONTAINERS}.all(c, c.?args.orValue([]).all(a, a.findAll('a.*z|a').size() >= 0))",
    "!has(object.metadata.labels)",
)

Ask = Callable[[], Awaitable[bool]]
"""Creates a JobSet; whether it was allowed."""


@dataclass
class Phase:
    """Seconds of the small creates, how many were denied, and how many large ones were answered beside them."""

    name: str
    seconds: list[float] = field(default_factory=list)
    denied: int = 0
    large: int = 0

    @property
    def p99(self) -> float:
        """Seconds."""
        return percentile(self.seconds, 0.99)


def created(*args: str, **metadata: Any) -> dict[str, Any]:
    """A JobSet whose container has these arguments."""
    made = jobset("js", rj("w"), namespace=NAMESPACE)
    made["metadata"] |= metadata
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["args"] = list(args)
    return made


async def measure(name: str, small: Ask, large: Ask | None, seconds: float) -> Phase:
    """One phase: small creates at a steady pace, whether the last one is answered or not."""
    phase, end = Phase(name), time.monotonic() + seconds

    async def flood(ask: Ask) -> None:
        while time.monotonic() < end:
            await ask()
            phase.large += 1

    async def once() -> None:
        began = time.perf_counter()
        phase.denied += not await small()
        phase.seconds.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS if large is not None else 0):
            group.create_task(flood(large))  # type: ignore[arg-type] # there are none without it
        due = time.monotonic()
        while due < end:
            group.create_task(once())
            due += PACE_SECONDS
            await asyncio.sleep(max(0.0, due - time.monotonic()))
    return phase


async def directly(seconds: float) -> list[Phase]:
    """Both phases on a policy evaluator in this process."""
    options = EvaluatorOptions()
    async with PolicyEvaluator(options) as evaluator:
        await evaluator.install(PolicySet(1, (await evaluator.load(POLICY),)))
        await until_warm(evaluator)

        def asking(obj: dict[str, Any]) -> Ask:
            about = replace(review(), object=obj)

            async def ask() -> bool:
                (outcome,) = await evaluator.evaluate(about)
                return not outcome.violations

            return ask

        small, large = asking(created("small")), asking(created("a" * LETTERS))
        calm = await measure("directly, calm", small, None, seconds)
        return [calm, await measure("directly, flood", small, large, seconds)]


@asynccontextmanager
async def policed(plane: ControlPlane) -> AsyncIterator[None]:
    """gangctl with the policy in force."""
    await plane.api.create(POLICIES, POLICY)
    async with Gangctl(plane, "--unregister-on-exit", "--log-level", "info"):

        async def refused() -> bool:
            if await asking(plane, created("small", labels={"a": "b"}))():
                raise NotYet("it was created")
            return True

        await wait_for(refused, "the policy to be in force")
        yield
    await plane.api.delete(f"{POLICIES}/{POLICY['metadata']['name']}")


def asking(plane: ControlPlane, obj: dict[str, Any]) -> Ask:
    """Creates of one JobSet; the bytes are made once."""
    data = json.dumps(obj)

    async def ask() -> bool:
        headers = {"Content-Type": "application/json"}
        answer = await plane.api.exchange("POST", JOBSETS, data=data, parameters={"dryRun": "All"}, headers=headers)
        return answer.status == 201

    return ask


async def through_a_server(minor: str, seconds: float) -> list[Phase]:
    """The phases with the policy, and the flood without it."""
    async with ControlPlane.start(minor, ("jobset",), scheduler=False, audit=False) as plane:
        await create_namespaces(plane, [NAMESPACE])
        for definition in definitions().values():
            await plane.api.create(DEFINITIONS, definition)
        small, large = asking(plane, created("small")), asking(plane, created("a" * LETTERS))
        await measure("warming up", small, large, min(seconds, QUICK_SECONDS))
        bare = await measure("API server, flood without the policy", small, large, seconds)
        async with policed(plane):
            calm = await measure("API server, calm", small, None, seconds)
            flood = await measure("API server, flood", small, large, seconds)
        return [calm, flood, bare]


def main(quick: bool = False, minor: str = NEWEST) -> Findings:
    """Both ways."""
    seconds = QUICK_SECONDS if quick else SECONDS
    alone = asyncio.run(directly(seconds))
    served = asyncio.run(through_a_server(minor, seconds))
    table = Table("flood", ["phase", "small creates", "denied", "p50", "p99", "large creates answered"])
    for phase in (*alone, *served):
        quantiles = (f"{percentile(phase.seconds, share) * 1e3:.1f} ms" for share in (0.5, 0.99))
        table.add(phase.name, len(phase.seconds), phase.denied, *quantiles, phase.large)
        print(table.markdown().splitlines()[-1], flush=True)
    table.remarks = [
        (
            f"{CLIENTS} clients in a loop with a text of {LETTERS:,} letters, a small JobSet every "
            f"{PACE_SECONDS * 1e3:.0f} ms for {seconds:.0f} s, Kubernetes {minor}, everything on this machine."
        )
    ]
    return Findings(table, figures_of(alone, served))


def figures_of(alone: Sequence[Phase], served: Sequence[Phase]) -> list[Figure]:
    """Denied in both floods, and the slowest of the small creates."""
    (calm, flood), (_, server_flood, bare) = alone, served
    return [
        Figure("flood-denied", (float(flood.denied), float(server_flood.denied))),
        Figure(
            "flood-direct", (flood.p99 * 1e3,), (calm.p99 * 1e3,), Observed.of([each * 1e3 for each in flood.seconds])
        ),
        Figure(
            *("flood-server", (server_flood.p99 * 1e3,), (bare.p99 * 1e3,)),
            Observed.of([each * 1e3 for each in server_flood.seconds]),
        ),
    ]

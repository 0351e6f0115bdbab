"""The conformance cases P01 to P25, as data that the pure tests and the control plane's tests share.

Expected groups are written as scopes (``jobset``, ``rj/w``, ``job/w/0``); :func:`object_name`
turns them into names, written here a second time on purpose: it is the oracle.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from tests.jobsets import jobset, rj


def object_name(jobset_name: str, uid: str, scope: str, attempt: int = 0) -> str:
    """Name of the object for a scope: a base of at most 32 characters, digits of the UID, index and attempt."""
    kind, _, rest = scope.partition("/")
    if kind == "workload":
        return f"{jobset_name[:49].rstrip('-')}-{uid[:13]}"
    replicated_job, _, index = rest.partition("/") if kind == "job" else (rest, "", "")
    base = f"{jobset_name}-{replicated_job}" if replicated_job else jobset_name
    if len(base) > 32:
        of = f"{jobset_name}/{replicated_job}" if replicated_job else jobset_name
        base = f"{base[:23].rstrip('-')}-{hashlib.sha256(of.encode()).hexdigest()[:8]}"
    return "-".join([base, uid[:13], *([index] if index else []), str(attempt)])


@dataclass(frozen=True)
class Case:
    """Input, and what it becomes on every generation."""

    id: str
    jobset: dict[str, Any]
    templates: dict[str, int] = field(default_factory=dict)
    """minCount by template name, in order."""
    groups: dict[str, str] = field(default_factory=dict)
    """Template name by scope."""
    references: dict[str, str | None] = field(default_factory=dict)
    """Scope by Job name; None for a Job without a reference."""
    rejected: tuple[str, ...] = ()
    """Words that the 422's message holds; empty when the JobSet is accepted."""
    reasons: frozenset[str] = frozenset()
    """Reasons of events beside WorkloadCreated."""


def _jobs(name: str, replicas: int, scope: str | None) -> dict[str, str | None]:
    return {f"js-{name}-{i}": scope.replace("#", str(i)) if scope else None for i in range(replicas)}


def _name_limits(mode: str) -> Case:
    name, worker = "distributed-training-exp-aaaa", "parameter-servers-group"
    scopes = [f"job/{worker}/{i}" for i in range(2)] if mode == "ReplicatedGang" else [f"rj/{worker}"] * 2
    return Case(
        "P24" if mode == "ReplicatedGang" else "P24-gang",
        jobset(name, rj(worker, 2, 2, 2, mode=mode)),
        {worker: 2 if mode == "ReplicatedGang" else 4},
        dict.fromkeys(scopes, worker),
        {f"{name}-{worker}-{i}": scope for i, scope in enumerate(scopes)},
    )


SPLIT = frozenset({"GangSplitSequencedStartup"})
IN_ORDER = {"startupPolicyOrder": "InOrder"}

CASES: tuple[Case, ...] = (
    Case(
        "P01",
        jobset("js", rj("rj1", 2, 4, 4), rj("rj2", 2, 4, 4), mode="Gang"),
        {"jobset": 16},
        {"jobset": "jobset"},
        _jobs("rj1", 2, "jobset") | _jobs("rj2", 2, "jobset"),
    ),
    Case(
        "P02",
        jobset("js", rj("a", 1, 1, 1), rj("b", 3, 4, 4), mode="Gang"),
        {"jobset": 13},
        {"jobset": "jobset"},
        _jobs("a", 1, "jobset") | _jobs("b", 3, "jobset"),
    ),
    Case(
        "P03",
        jobset("js", rj("rj1", 2, 4, 4, mode="Gang"), rj("rj2", 1, 3, 3, mode="Gang")),
        {"rj1": 8, "rj2": 3},
        {"rj/rj1": "rj1", "rj/rj2": "rj2"},
        _jobs("rj1", 2, "rj/rj1") | _jobs("rj2", 1, "rj/rj2"),
    ),
    Case(
        "P04",
        jobset("js", rj("rj1", 2, 4, 4, mode="ReplicatedGang"), rj("rj2", 3, 3, 3, mode="ReplicatedGang")),
        {"rj1": 4, "rj2": 3},
        {f"job/rj1/{i}": "rj1" for i in range(2)} | {f"job/rj2/{i}": "rj2" for i in range(3)},
        _jobs("rj1", 2, "job/rj1/#") | _jobs("rj2", 3, "job/rj2/#"),
    ),
    Case(
        "P05",
        jobset("js", rj("leader", 1, 1, 1), rj("workers", 2, 4, 4, mode="Gang")),
        {"workers": 8},
        {"rj/workers": "workers"},
        _jobs("leader", 1, None) | _jobs("workers", 2, "rj/workers"),
    ),
    Case(
        "P06",
        jobset("js", rj("leader", 1, 1, 1, mode="Gang"), rj("workers", 4, 2, 2, mode="ReplicatedGang")),
        {"leader": 1, "workers": 2},
        {"rj/leader": "leader"} | {f"job/workers/{i}": "workers" for i in range(4)},
        _jobs("leader", 1, "rj/leader") | _jobs("workers", 4, "job/workers/#"),
    ),
    Case("P07", jobset("js", rj("a", 2, 2, 2)), references=_jobs("a", 2, None)),
    Case("P08", jobset("js", rj("a", 2, 2, 2, mode="Off"), mode="Off"), references=_jobs("a", 2, None)),
    Case(
        "P09",
        jobset("js", rj("a", 2, 2, 2, mode="Gang"), rj("b", 1, 1, 1), mode="Off"),
        {"a": 4},
        {"rj/a": "a"},
        _jobs("a", 2, "rj/a") | _jobs("b", 1, None),
    ),
    Case(
        "P10",
        jobset("js", rj("a", 1, 2, 2, mode="Gang"), mode="Gang"),
        rejected=("metadata.annotations[gangctl.dev/gang-mode]", '"a"', "spec.replicatedJobs[0]"),
    ),
    Case(
        "P10-replicated",
        jobset("js", rj("a", 1, 2, 2, mode="ReplicatedGang"), mode="Gang"),
        rejected=("metadata.annotations[gangctl.dev/gang-mode]", '"a"'),
    ),
    Case("P11", jobset("js", rj("a"), mode="ReplicatedGang"), rejected=('"Off"', '"Gang"', "gang-mode")),
    Case("P11-case", jobset("js", rj("a"), mode="gang"), rejected=('"Off"', '"Gang"', "case-sensitive")),
    Case("P12", jobset("js", rj("w", 3, mode="Gang")), {"w": 3}, {"rj/w": "w"}, _jobs("w", 3, "rj/w")),
    Case("P13", jobset("js", rj("w", 2, 8, 3, mode="Gang")), {"w": 6}, {"rj/w": "w"}, _jobs("w", 2, "rj/w")),
    Case(
        "P13-replicated",
        jobset("js", rj("w", 2, 8, 3, mode="ReplicatedGang")),
        {"w": 3},
        {"job/w/0": "w", "job/w/1": "w"},
        _jobs("w", 2, "job/w/#"),
    ),
    Case("P14", jobset("js", rj("w", 1, 4, 10, mode="Gang")), {"w": 4}, {"rj/w": "w"}, _jobs("w", 1, "rj/w")),
    Case(
        "P14-queue",
        jobset("js", rj("w", 1, 5, None, mode="Gang", non_indexed=True)),
        {"w": 5},
        {"rj/w": "w"},
        _jobs("w", 1, "rj/w"),
    ),
    Case(
        "P15",
        jobset("js", rj("a", 2, 2, 2), rj("b", 0, 9, 9), mode="Gang"),
        {"jobset": 4},
        {"jobset": "jobset"},
        _jobs("a", 2, "jobset"),
    ),
    Case(
        "P15-empty",
        jobset("js", rj("a", 2, 2, 2), rj("b", 0, 9, 9, mode="Gang")),
        references=_jobs("a", 2, None),
        reasons=frozenset({"GangEmpty"}),
    ),
    Case(
        "P16",
        jobset("js", rj("w", 2, 0, 0, mode="Gang")),
        references=_jobs("w", 2, None),
        reasons=frozenset({"GangEmpty"}),
    ),
    Case(
        "P17",
        jobset("js", rj("leader", 1, 1, 1), rj("worker", 2, 2, 2, depends_on="leader"), mode="Gang"),
        {"leader": 1, "worker": 4},
        {"rj/leader": "leader", "rj/worker": "worker"},
        _jobs("leader", 1, "rj/leader") | _jobs("worker", 2, "rj/worker"),
        reasons=SPLIT,
    ),
    Case(
        "P17-reject",
        jobset(
            "js",
            rj("leader", 1, 1, 1),
            rj("worker", 2, 2, 2, depends_on="leader"),
            mode="Gang",
            options='{"sequenced":"reject"}',
        ),
        rejected=("sequenced",),
    ),
    Case(
        "P18",
        jobset("js", rj("a", 1, 2, 2), rj("b", 1, 3, 3), mode="Gang", startupPolicy=IN_ORDER),
        {"a": 2, "b": 3},
        {"rj/a": "a", "rj/b": "b"},
        _jobs("a", 1, "rj/a") | _jobs("b", 1, "rj/b"),
        reasons=SPLIT,
    ),
    _name_limits("ReplicatedGang"),
    _name_limits("Gang"),
)
"""P01 to P18 and P24: what creation alone shows. P19 to P23 and P25 are whole lives, in separate tests."""

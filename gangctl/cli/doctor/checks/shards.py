"""Checks of the leaders of gangctl's shards. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gangctl.cli.doctor.facts import Deployment, Fact, Facts, Lease, Unseen, seen
from gangctl.cli.doctor.outcome import Outcome, failed, ok, unknown
from gangctl.runtime.election import lease_names

LEASE: Final = "gangctl"
"""Name of the first shard's Lease."""
_OTHERS: Final = re.compile(rf"{LEASE}-shard-([1-9][0-9]?)")


def is_ours(name: str) -> bool:
    """Whether a Lease in gangctl's namespace is one of a shard."""
    return name == LEASE or _OTHERS.fullmatch(name) is not None


def shards_of(deployments: Fact[tuple[Deployment, ...]], namespace: str) -> int | None:
    """The number of shards of the gangctl in a namespace; None if no Deployment has it."""
    if isinstance(deployments, Unseen):
        return None
    own = [each.shards for each in deployments if each.namespace == namespace and "gangctl" in each.name]
    return max(own, default=None)


def leader(facts: Facts) -> Outcome:
    """Whether every shard has a leader that writes Workloads and PodGroups."""
    leases, namespace = seen(facts.leases), seen(facts.gangctl_namespace)
    if not leases:
        return unknown(
            f"there is no Lease gangctl in namespace {namespace}: gangctl runs elsewhere, without --leader-elect, or "
            "not at all",
            command=f"kubectl -n {namespace} get lease gangctl -o yaml",
            remedy="--gangctl-namespace says where it runs",
        )
    total = shards_of(facts.deployments, namespace) or _by_leases(leases)
    found = [leases.get(name) for name in lease_names(LEASE, total)]
    return _of_one(found[0], namespace, facts.now) if total == 1 else _of_several(found, namespace, facts.now)


def _by_leases(leases: Mapping[str, Lease]) -> int:
    """The number of shards in the last Lease; Leases of an earlier, higher number may remain."""
    return 1 + max(int(other[1]) if (other := _OTHERS.fullmatch(name)) else 0 for name in leases)


def _of_one(lease: Lease | None, namespace: str, now: float) -> Outcome:
    if lease is not None and _leads(lease, now):
        return ok(f"{lease.holder} leads", _lease_text(lease, now))
    vacant = lease is None or not lease.holder
    return failed(
        "no replica leads: groups of new gangs are not made" if vacant else "the leader does not renew its Lease",
        [_lease_text(lease, now)],
        remedy="see whether gangctl runs, and reaches the API server: runbook GangctlNoLeader",
        command=f"kubectl -n {namespace} get lease gangctl -o yaml",
    )


def _of_several(leases: list[Lease | None], namespace: str, now: float) -> Outcome:
    evidence = [f"shard {number}: {_lease_text(lease, now)}" for number, lease in enumerate(leases)]
    missing = [str(number) for number, lease in enumerate(leases) if lease is None or not _leads(lease, now)]
    if not missing:
        return ok(f"each of {len(leases)} shards has a leader", *evidence)
    which = f"shard {missing[0]} has" if len(missing) == 1 else f"shards {', '.join(missing)} have"
    return failed(
        f"{which} no leader: groups of new gangs are not made in a part of the namespaces",
        evidence,
        remedy="there have to be as many ready replicas as shards, and the Role has to name each Lease: runbook "
        "GangctlShardWithoutLeader",
        command=f"kubectl -n {namespace} get leases",
    )


def _leads(lease: Lease, now: float) -> bool:
    return bool(lease.holder) and _age(lease, now) <= max(lease.seconds, 1)


def _age(lease: Lease, now: float) -> int:
    return max(0, int(now) - lease.renewed)


def _lease_text(lease: Lease | None, now: float) -> str:
    if lease is None:
        return "there is no Lease"
    return f'holder "{lease.holder}", renewed {_age(lease, now)} s ago, good for {lease.seconds} s'

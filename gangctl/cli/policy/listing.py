"""``gangctl policy list``: policies, their rules and their state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from gangctl.api.meta import API_VERSION
from gangctl.api.objects import Object, condition_of, object_at, ready_condition
from gangctl.cli import options
from gangctl.cli.output import Listing, ListItem
from gangctl.cli.policy.bundle import kubernetes, name_of, no_policies, read_bundle
from gangctl.cli.policy.loading import try_to_load

KIND: Final = "PolicySummary"
_KNOWN: Final = {"True": "yes", "False": "no"}


@click.command("list")
@click.argument("files", nargs=-1, metavar="[FILE|DIR|URL|-]...", type=click.Path(allow_dash=True))
@options.listing("table", "wide", "json", "yaml", "name")
@options.cluster
@kubernetes
@options.colour
def command(
    *,
    files: tuple[str, ...],
    listing: Listing,
    cluster: options.ClusterFlags,
    kube: str,
) -> None:
    """List policies, their rules and their state.

    With files: the policies in them, READY when they can be loaded. Without: the GangPolicies
    of the cluster, READY as gangctl says in their status (unknown until it has loaded their
    present generation), and how many violations the last scan of existing JobSets found.

    \b
    Examples:
      gangctl policy list policies/
      gangctl policy list --context production
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if files and cluster.given:
        raise click.UsageError("give files, or a cluster")
    if not files:
        options.refuse_given("kube", "is about files: a cluster says itself which policies are ready")
    summaries = _of_files(files, kube) if files else _of_cluster(cluster)
    listing.print(_HEADERS, list(map(_entry, summaries)), wide=_WIDE, nothing="No GangPolicies found.")


def _of_files(files: Sequence[str], kube: str) -> list[dict[str, Any]]:
    bundle = read_bundle(files)
    if not bundle.rules:
        raise no_policies(bundle)
    loaded = try_to_load(bundle, kube)
    summaries = []
    for policy in loaded.policies:
        document = loaded.documents[policy.name]
        summary = _summary(document.value, policy.name, document.where(), "yes")
        summaries.append({**summary, "rules": list(policy.rules), "actions": list(policy.spec.validation_actions)})
    for document in bundle.rules:
        wrong = [remark for remark in loaded.remarks if remark.document is document]
        if wrong:
            reason = wrong[0].message if len(wrong) == 1 else f"{wrong[0].message} (and {len(wrong) - 1} more)"
            summaries.append(_summary(document.value, name_of(document.value), document.where(), "no", reason))
    return sorted(summaries, key=_name)


def _of_cluster(cluster: options.ClusterFlags) -> list[dict[str, Any]]:
    from gangctl.cli.cluster import ask_cluster  # noqa: PLC0415 -- half a second that files do without
    from gangctl.cli.policy.cluster import policies_of  # noqa: PLC0415

    policies: list[Object] = ask_cluster(cluster, lambda client, _: policies_of(client))
    summaries = []
    for policy in policies:
        status = policy.get("status") or {}
        ready = ready_condition(policy)
        state = _KNOWN.get(str(ready.get("status")), "unknown")
        reason = str(ready.get("message") or ("" if ready else _not_loaded(policy))) if state != "yes" else ""
        results = status.get("results")
        violations = int(results.get("fail", 0)) + int(results.get("error", 0)) if results else None
        summaries.append(_summary(policy, name_of(policy), "", state, reason, violations=violations))
    return sorted(summaries, key=_name)


def _not_loaded(policy: Mapping[str, Any]) -> str:
    """The reason of a policy whose status is absent, or of an earlier generation."""
    before, generation = condition_of(policy, "Ready"), object_at(policy, "metadata").get("generation", 1)
    word = "ready" if before.get("status") == "True" else "not ready"
    last = f" (generation {before.get('observedGeneration')}: {word})" if before else ""
    return f"gangctl has not loaded generation {generation} yet{last}: if it stays so, see whether gangctl runs"


def _summary(
    policy: Mapping[str, Any],
    name: str,
    source: str,
    ready: str,
    reason: str = "",
    *,
    violations: int | None = None,
) -> dict[str, Any]:
    spec = object_at(policy, "spec")
    validations = spec.get("validations")
    rules = [rule for rule in validations if isinstance(rule, dict)] if isinstance(validations, list) else []
    actions = spec.get("validationActions")
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "policy": {"apiVersion": str(policy.get("apiVersion")), "kind": str(policy.get("kind"))},
        "rules": [str(rule.get("name") or index) for index, rule in enumerate(rules)],
        "actions": list(map(str, actions)) if isinstance(actions, list) else ["Deny"],
        "failurePolicy": str(spec.get("failurePolicy") or "Fail"),
        "failurePolicyWritten": bool(spec.get("failurePolicy")),
        "ready": ready,
        "reason": reason,
        "violations": violations,
        "source": source,
    }


def _name(summary: Mapping[str, Any]) -> str:
    return str(summary["metadata"]["name"])


_HEADERS: Final = ("NAME", "ACTIONS", "FAILUREPOLICY", "READY", "VIOLATIONS", "RULES", "MESSAGE")
_WIDE: Final = ("KIND", "SOURCE", "RULE-NAMES")


def _entry(summary: Mapping[str, Any]) -> ListItem:
    row = (
        _name(summary),
        ",".join(summary["actions"]),
        # The default counts for less than a written Fail where the policy cannot be loaded.
        summary["failurePolicy"] if summary["failurePolicyWritten"] else f"{summary['failurePolicy']} (unset)",
        summary["ready"],
        "" if summary["violations"] is None else str(summary["violations"]),
        str(len(summary["rules"])),
        summary["reason"],
        summary["policy"]["kind"],
        summary["source"],
        ",".join(summary["rules"]),
    )
    return ListItem(summary, row, {**summary["policy"], "metadata": summary["metadata"]})

"""Checks of the user's rights. Pure."""

from __future__ import annotations

from collections import defaultdict

from gangctl.cli.doctor.facts import Facts, seen
from gangctl.cli.doctor.outcome import Outcome, ok, warning


def rights(facts: Facts) -> Outcome:
    """Missing rights, each with the commands that need it."""
    asked = seen(facts.rights)
    missing: dict[str, list[str]] = defaultdict(list)
    for each in asked:
        if not each.allowed:
            missing[each.wanted_by].append(each.title)
    if not missing:
        return ok("you may do all of it", f"{len(asked)} rights asked for")
    return warning(
        f"{sum(map(len, missing.values()))} of {len(asked)} rights are missing: these commands know less",
        [f"{commands}: {', '.join(titles)}" for commands, titles in missing.items()],
        remedy="manifests/tenants gives tenants what commands about their own gangs need; the rest is an operator's",
        command=f"kubectl auth can-i --list -n {facts.namespace}",
    )

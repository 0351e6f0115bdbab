"""``gangctl policy``: its verbs."""

from __future__ import annotations

from typing import Final

import click

from gangctl.cli.lazy import LazyGroup

VERBS: Final[dict[str, tuple[str, str]]] = {
    "eval": ("gangctl.cli.policy.eval", "Evaluate objects in files: allowed or denied, and why."),
    "test": ("gangctl.cli.policy.test", "Run the test files of policies."),
    "lint": ("gangctl.cli.policy.lint", "Find mistakes in policies, with their places."),
    "bench": ("gangctl.cli.policy.bench", "Measure what policies cost."),
    "scan": ("gangctl.cli.policy.scan", "Evaluate the JobSets of a cluster."),
    "list": ("gangctl.cli.policy.listing", "List policies, their rules and their state."),
}
"""Module and one-line help by name."""


class Verbs(LazyGroup):
    """The verbs, each imported when it is asked for."""

    table = VERBS


@click.group(cls=Verbs)
def policy() -> None:
    """Evaluate JobSets by CEL policies, and test the policies.

    Policies are GangPolicies, or ValidatingAdmissionPolicies with their bindings, unchanged.
    eval, test and scan call the functions that admission calls: the answer in an editor, in
    CI and in a cluster is the same.

    \b
    Examples:
      gangctl policy eval --policy policy.yaml -f jobset.yaml
      gangctl policy test policies/ --coverage
      gangctl policy lint policies/
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart

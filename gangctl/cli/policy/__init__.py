"""``gangctl policy``: CEL policies in an editor, in CI and against what runs, by the functions that admission calls.

One module per verb (``eval``, ``test``, ``lint``, ``export``, ``list``, ``scan``); the others are what the verbs share.
"""

from __future__ import annotations

from typing import Final

import click

from gangctl.cli.program import Commands, LazyGroup

VERBS: Final[Commands] = {
    "eval": ("gangctl.cli.policy.eval", "Evaluate objects in files: allowed or denied, and why."),
    "test": ("gangctl.cli.policy.test", "Run the test files of policies."),
    "lint": ("gangctl.cli.policy.lint", "Find mistakes in policies, with their places."),
    "scan": ("gangctl.cli.policy.scan", "Evaluate the JobSets of a cluster."),
    "export": ("gangctl.cli.policy.export", "Write policies as ValidatingAdmissionPolicies with their bindings."),
    "list": ("gangctl.cli.policy.listing", "List policies, their rules and their state."),
}


@click.group(cls=LazyGroup, table=VERBS)
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

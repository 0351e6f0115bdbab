"""Flags that several verbs of ``gangctl policy`` share."""

from __future__ import annotations

from typing import Any

import click

from gangctl.cli import options
from gangctl.cli.options import Decorator, F


def policies(*, required: bool = True) -> Decorator[Any]:
    """``--policy``: where to read policies."""
    return options.paths(
        "-p",
        "--policy",
        "policy_files",
        required=required,
        about="Policies, and what belongs to them: bindings, exceptions, parameters, Namespaces. Can be repeated.",
    )


def files_of_policies(command: F) -> F:
    """``FILE...``: policies as arguments."""
    paths = click.Path(allow_dash=True)
    return click.argument("files", nargs=-1, required=True, metavar="FILE|DIR|URL|-...", type=paths)(command)


def kubernetes(command: F) -> F:
    """``--kube``: whose gangs, and whose CEL in native policies."""
    return click.option(
        "--kube",
        type=click.Choice(options.KUBERNETES),
        default=options.RELEASED,
        show_default=True,
        help="Kubernetes minor whose gangs are planned and whose CEL native policies have; GangPolicies have 1.37's.",
    )(command)

"""The command line: ``gangctl`` and ``kubectl gang``.

Every command is composition: read input, call the pure functions that the controller and
the webhooks call too, print. Start-up is part of the interface, so nothing heavier than
click is imported before the command that was asked for is known (``program``).
"""

from __future__ import annotations

import sys

from gangctl.cli.program import program, program_name


def main() -> None:
    """Entry point of ``gangctl`` and ``kubectl-gang``."""
    program.main(prog_name=program_name(sys.argv[0]))


def complete() -> None:
    """Entry point of ``kubectl_complete-gang``, which kubectl calls to complete ``kubectl gang ...``."""
    from gangctl.cli.completion import complete_for_kubectl  # noqa: PLC0415 -- not needed by any other command

    complete_for_kubectl(sys.argv[1:])

"""The command line: ``gangctl`` and ``kubectl gang``.

Every command reads input, calls the pure functions that the controller and the webhooks
also call, and prints the result. For a fast start-up, only click is imported before the
command is known (``program``).
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

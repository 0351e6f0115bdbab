"""What a typical change can break: `make test-for WHAT=NAME` runs these tests and no others.

python -m tests.changes NAME

CONTRIBUTING.md has a row for each name. Tests of a real control plane are left out and counted: `make test` runs them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = ("tests/docs/test_site.py", "tests/test_words.py")
_COMMANDS: Final = ("tests/cli/test_reference.py", "tests/cli/test_names.py", "tests/cli/test_completion.py")
_MANIFESTS: Final = ("tests/manifests/test_installation.py", "tests/manifests/test_components.py")
_REASONS: Final = ("tests/docs/test_events.py", "tests/test_causes_doc.py")

TESTS: Final[Mapping[str, Sequence[str]]] = {
    "refusal": (
        *("tests/gang/test_report.py", "tests/gang/test_conformance_cases.py", "tests/webhooks/test_gangs.py"),
        *("tests/gang/test_bounds.py", "tests/gang/test_assess.py"),
    ),
    "annotation": (
        *("tests/gang/test_config.py", "tests/gang/test_keys.py", "tests/gang/test_conformance_cases.py"),
        *("tests/docs/test_annotations.py", "tests/api"),
    ),
    "cause": (
        *("tests/readiness/causes", "tests/cli/gangs/test_why.py", "tests/cli/gangs/test_suggestions.py"),
        *(*_REASONS, "tests/monitoring/test_files.py", "tests/monitoring/test_runbooks.py"),
        "tests/test_readiness_doc.py",
    ),
    "metric": (
        *("tests/manager/test_families.py", "tests/manager/test_metricspage.py", "tests/manager/test_metrics.py"),
        *("tests/manager/test_readinessmetrics.py", "tests/manager/test_gangmetrics.py", "tests/docs/test_site.py"),
    ),
    "alert": (
        *("tests/monitoring/test_files.py", "tests/monitoring/test_runbooks.py", "tests/monitoring/test_rules.py"),
        *("tests/monitoring/test_scaled.py", "tests/monitoring/test_expressions.py"),
        "tests/monitoring/test_monitoring_doc.py",
    ),
    "column": ("tests/cli/gangs/test_get.py", "tests/cli/test_queue.py", "tests/cli/test_fit.py"),
    "cel-function": ("tests/cel", "tests/test_cel_doc.py", "tests/parity"),
    "machine-type": ("tests/pathways/accelerators", "tests/cli/pathways/test_accelerators.py"),
    "api-version": ("tests/api", "tests/gang/test_generation.py", "tests/docs/test_compatibility.py"),
    "chart-value": ("tests/manifests/test_chart.py", "tests/manifests/test_chart_values.py", *_PAGES),
    "command": (*_COMMANDS, *_PAGES),
    "setting": (
        *("tests/manager/test_settings.py", "tests/manager/test_wiring.py", "tests/manifests/test_base.py"),
        *_COMMANDS,
        "tests/docs/test_site.py",
    ),
    "component": (*_MANIFESTS, "tests/manifests/test_chart.py", "tests/cli/test_install.py", *_PAGES),
    "gang-option": (
        *("tests/gang/test_options.py", "tests/gang/test_config.py", "tests/api", "tests/docs/test_annotations.py"),
    ),
    "pathways-rule": ("tests/pathways/checks", "tests/manifests/test_pathways.py"),
    "pathways-option": ("tests/pathways/flags", "tests/test_pathways_doc.py", *_COMMANDS),
    "pathways-flag": ("tests/pathways/flags", "tests/cli/pathways/test_render.py", *_COMMANDS),
    "pathways-field": ("tests/pathways/rendering", "tests/cli/pathways/test_examples.py"),
    "reason": (*_REASONS, "tests/gang/test_report.py", "tests/monitoring/test_files.py"),
    "projection": (
        "tests/controllers/test_caches.py",
        "tests/controllers/test_projections.py",
        "tests/manifests/test_rbac.py",
    ),
    "controller": ("tests/manager/test_wiring.py", "tests/manager/test_process.py", "tests/manifests/test_rbac.py"),
    "webhook": ("tests/webhooks", "tests/manifests/test_base.py"),
    "simulated-controller": ("tests/sandbox",),
    "scheduler": ("tests/migration", "tests/cli/test_convert_from.py", "tests/test_migration_doc.py"),
    "check": ("tests/cli/doctor", "tests/test_doctor_doc.py"),
    "policy-field": ("tests/policy", "tests/test_policies_doc.py"),
    "phase": ("tests/readiness/test_phases.py", "tests/test_readiness_doc.py", "tests/grafana/test_generated.py"),
    "policy": ("tests/policies/test_pack.py", "tests/policies/test_verdicts.py", "tests/policies/test_kustomize.py"),
    "panel": ("tests/grafana/test_generated.py", "tests/grafana/test_lint.py", "tests/grafana/test_doc.py"),
    "minor": ("tests/controlplane/selftest/test_binaries.py", "tests/docs/test_compatibility.py"),
    "page": (*_PAGES, "tests/test_readme.py"),
}
"""Directories and files by the name of the change."""


def main(names: Sequence[str]) -> int:
    """Exit code of pytest, 2 for a name that is none."""
    if unknown := [name for name in names if name not in TESTS] or [""][: not names]:
        sys.stderr.write(f"error: WHAT={unknown[0]} is none of {', '.join(TESTS)}\n")
        return 2
    paths = sorted({path for name in names for path in TESTS[name]})
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--without-controlplane", *paths]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The CustomResourceDefinition of GangAdmissionParameters, from its model."""

from __future__ import annotations

from typing import Any

from gangctl.kueue.checks import PLURAL, GangAdmissionParameters
from tests.manifests.definitions.policies import definition
from tests.manifests.definitions.resource import column


def definitions() -> dict[str, dict[str, Any]]:
    """The definition by file name."""
    return {
        f"{PLURAL}.yaml": definition(
            GangAdmissionParameters,
            PLURAL,
            short_names=["gangparams"],
            columns=[
                column("Timeout", ".spec.timeoutSeconds", "How long quota is held for a gang.", "integer"),
                column("On failure", ".spec.onFailure", "What follows a timeout or a denial."),
                column("Retries", ".spec.maxRetries", "Retries in a row.", "integer"),
                column("Age", ".metadata.creationTimestamp", "", "date"),
            ],
            status=False,
        )
    }

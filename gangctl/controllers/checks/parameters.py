"""The GangAdmissionParameters of the cluster: few and small, so all of them are watched.

Their definition may be missing, or be installed later. gangctl accepts that it is missing only after a delay: an API
server that starts may deny for a moment what it serves, and an inactive AdmissionCheck stops whole queues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gangctl.client.client import Client
from gangctl.client.resources import Resource
from gangctl.controllers.caches import Observer
from gangctl.controllers.source import CONFIRM_SECONDS, RETRY_SECONDS, Source
from gangctl.errors import FieldError
from gangctl.kueue.names import PARAMETERS_KIND
from gangctl.kueue.parameters import (
    API_VERSION,
    PLURAL,
    GangAdmissionParameters,
    GangAdmissionParametersSpec,
    read_parameters,
)
from gangctl.policy.crd import column, definition
from gangctl.runtime.informer import InformerObserver, InformerOptions


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


_GROUP, _VERSION = API_VERSION.split("/")
GANG_ADMISSION_PARAMETERS: Final = Resource(_GROUP, _VERSION, PLURAL, PARAMETERS_KIND, namespaced=False)

Read = GangAdmissionParametersSpec | tuple[FieldError, ...]
"""The parameters of one object, or its errors."""


def parameter_source(
    client: Client,
    on_change: Callable[[], None],
    *,
    observer: Observer = lambda _: InformerObserver(),
    options: InformerOptions | None = None,
    confirm_seconds: float = CONFIRM_SECONDS,
) -> Source[Read]:
    """Parameters by name; ``on_change`` is called whenever what is known of one of them changes."""
    source: Source[Read] = Source(
        client,
        GANG_ADMISSION_PARAMETERS,
        _project,
        observer=observer(GANG_ADMISSION_PARAMETERS),
        on_change=on_change,
        confirm_seconds=confirm_seconds,
        options=options or InformerOptions(cap_delay_seconds=RETRY_SECONDS),
    )
    source.informer.subscribe(lambda _old, _new: on_change())
    return source


def _project(raw: dict[str, Any]) -> Read:
    return read_parameters(raw)

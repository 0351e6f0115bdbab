"""The GangAdmissionParameters that there are: few and small, so all of them are watched.

Their definition may be missing, or come later. That it is missing is believed only after a while: an API server
that starts may deny for a moment what it serves, and an AdmissionCheck that turns inactive stops whole queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from gangctl.client.client import Client
from gangctl.client.resources import Resource
from gangctl.controllers.caches import Observer
from gangctl.controllers.policy_sources import DOUBT_SECONDS, LOOK_SECONDS
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
from gangctl.runtime.informer import Informer, InformerObserver, InformerOptions


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
"""The parameters of one object, or what is wrong with them."""


class ParameterSource:
    """Parameters by name; ``on_change`` is called whenever something else can be said of any of them."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], None],
        *,
        observer: Observer = lambda _: InformerObserver(),
        options: InformerOptions | None = None,
        doubt_seconds: float = DOUBT_SECONDS,
    ) -> None:
        """Watch nothing yet."""
        self._on_change = on_change
        self._doubt_seconds = doubt_seconds
        self._missing = False
        self.informer: Informer[Read] = Informer(
            client,
            GANG_ADMISSION_PARAMETERS,
            _project,
            on_absent=self._absent,
            on_synced=self._synced,
            observer=observer(GANG_ADMISSION_PARAMETERS),
            options=options or InformerOptions(cap_delay_seconds=LOOK_SECONDS),
        )
        self.informer.subscribe(lambda _old, _new: on_change())

    @property
    def known(self) -> bool:
        """Whether it can be said which there are."""
        return self._missing or self.informer.synced.is_set()

    @property
    def defined(self) -> bool:
        """Whether the cluster has their definition, as far as is known."""
        return not self._missing

    def find(self, name: str) -> Read | None:
        """The parameters of this name, or what is wrong with them; None where there are none."""
        return None if self._missing else self.informer.store.get("", name)

    async def run(self) -> None:
        """Keep them current until cancelled."""
        await self.informer.run()

    def _absent(self) -> None:
        asyncio.get_running_loop().call_later(self._doubt_seconds, self._believe)

    def _believe(self) -> None:
        if not self.informer.synced.is_set() and not self._missing:
            self._missing = True
            self._on_change()

    def _synced(self) -> None:
        self._missing = False
        self._on_change()


def _project(raw: dict[str, Any]) -> Read:
    return read_parameters(raw)

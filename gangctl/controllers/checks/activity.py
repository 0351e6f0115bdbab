"""Which AdmissionChecks are gangctl's, their parameters, and their condition Active.

A ClusterQueue with a check that is not Active admits nothing at all. So gangctl writes the condition as soon as it
leads, leaves it unchanged while it is down, and sets it to False only for a configuration error of the user.

GangAdmissionParameters are few and small, so all of them are watched. Their definition may be missing, or be installed
later. gangctl accepts that it is missing only after a delay: an API server that starts may deny for a moment what it
serves, and an inactive AdmissionCheck stops whole queues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api.meta import API_VERSION
from gangctl.api.store import Store
from gangctl.client.client import Client
from gangctl.client.resources import Resource
from gangctl.cluster.kinds import ADMISSION_CHECKS
from gangctl.controllers.caches import Observer
from gangctl.controllers.source import CONFIRM_SECONDS, RETRY_SECONDS, InformerSource
from gangctl.controllers.status import CONFLICT_RETRY_SECONDS, difference, write_status
from gangctl.errors import FieldError, NotFoundError, one_line
from gangctl.kueue.checks import DEFAULTS, PLURAL, GangAdmissionParametersSpec, is_ours, read_parameters
from gangctl.kueue.names import PARAMETERS_KIND
from gangctl.kueue.objects import AdmissionCheck
from gangctl.runtime.controller import Action, await_change, requeue
from gangctl.runtime.informer import InformerObserver, InformerOptions

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
) -> InformerSource[Read]:
    """Parameters by name; ``on_change`` is called whenever what is known of one of them changes."""
    source: InformerSource[Read] = InformerSource(
        client,
        GANG_ADMISSION_PARAMETERS,
        read_parameters,
        observer=observer(GANG_ADMISSION_PARAMETERS),
        on_change=on_change,
        confirm_seconds=confirm_seconds,
        options=options or InformerOptions(cap_delay_seconds=RETRY_SECONDS),
    )
    source.informer.subscribe(lambda _old, _new: on_change())
    return source


ACTIVE: Final = "Active"
BAD_PARAMETERS: Final = "BadParametersRef"

_MESSAGE_CHARACTERS: Final = 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a check cannot be active, as text for users."""

    message: str


class Checks:
    """gangctl's AdmissionChecks of a cluster, and ``reconcile(name) -> Action`` for each."""

    def __init__(
        self,
        reader: Client,
        writer: Client,
        checks: Store[AdmissionCheck],
        parameters: InformerSource[Read],
    ) -> None:
        """Write through ``writer``, whose guard stops a replica that lost the lease."""
        self._reader = reader
        self._writer = writer
        self._checks = checks
        self._parameters = parameters

    def names(self) -> list[str]:
        """Names of gangctl's checks."""
        return [check.name for check in self._checks.values() if is_ours(check.controller)]

    def ours(self, name: str) -> bool:
        """Whether the check of this name is gangctl's."""
        return self._observe(name) is not None

    def parameters(self, name: str) -> GangAdmissionParametersSpec | None:
        """The parameters of one of gangctl's checks; None while it is not active, or they are not known."""
        check = self._observe(name)
        outcome = None if check is None else self._resolve(check)
        return outcome if isinstance(outcome, GangAdmissionParametersSpec) else None

    async def reconcile(self, name: str) -> Action:
        """Bring the condition of one check up to date."""
        check = self._observe(name)
        outcome = None if check is None else self._resolve(check)
        if check is None or outcome is None:
            return await_change()
        try:
            # From the API server: the cache has neither the conditions of other owners nor the resourceVersion.
            live = await self._reader.get(ADMISSION_CHECKS, name)
        except NotFoundError:
            return await_change()
        metadata = live.get("metadata") or {}
        if metadata.get("generation") != check.generation:
            # The cache does not have this one yet; its arrival triggers another reconcile.
            return requeue(CONFLICT_RETRY_SECONDS)
        wanted = {"conditions": [_condition(outcome, check.generation)]}
        status = difference(live.get("status") or {}, wanted, datetime.now(UTC))
        return (
            await_change() if status is None else await write_status(self._writer, ADMISSION_CHECKS, metadata, status)
        )

    def _observe(self, name: str) -> AdmissionCheck | None:
        check = self._checks.get("", name)
        return check if check is not None and is_ours(check.controller) else None

    def _resolve(self, check: AdmissionCheck) -> GangAdmissionParametersSpec | Fault | None:
        """The parameters of a check, or its fault; None while neither is known."""
        if check.parameters is None:
            return DEFAULTS
        group, kind, name = check.parameters
        if (group, kind) != (_GROUP, PARAMETERS_KIND):
            return Fault(
                f"spec.parameters names a {kind} of {group}, but only {PARAMETERS_KIND} of {_GROUP} is supported"
            )
        if self._parameters.missing:
            return Fault(f"the cluster has no definition of {PARAMETERS_KIND}: apply the one of gangctl")
        if not self._parameters.known:
            return None
        stored = self._parameters.store.get("", name)
        if stored is None:
            return Fault(f'there is no {PARAMETERS_KIND} "{name}"')
        if isinstance(stored, GangAdmissionParametersSpec):
            return stored
        return Fault(f'{PARAMETERS_KIND} "{name}": ' + "; ".join(str(error) for error in stored))


def _condition(found: GangAdmissionParametersSpec | Fault, generation: int) -> dict[str, Any]:
    fault = found.message if isinstance(found, Fault) else ""
    message = fault or "gangctl says Ready of each JobSet once its gang is there."
    return {
        "type": ACTIVE,
        "status": str(not fault),
        "reason": BAD_PARAMETERS if fault else ACTIVE,
        "message": one_line(message, _MESSAGE_CHARACTERS),
        "observedGeneration": generation,
    }

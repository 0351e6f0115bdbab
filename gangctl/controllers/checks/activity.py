"""Which AdmissionChecks are gangctl's, by what parameters they go, and the condition Active that says so.

A ClusterQueue with a check that is not Active admits nothing at all. So the condition is written as soon as
gangctl leads, stays what it is while gangctl is away, and says False only of what somebody wrote wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.client.client import Client
from gangctl.controllers.checks.parameters import Read
from gangctl.controllers.queues.kinds import ADMISSION_CHECKS
from gangctl.controllers.source import Source
from gangctl.controllers.status import CONFLICT_RETRY_SECONDS, difference, write_status
from gangctl.errors import NotFoundError, one_line
from gangctl.kueue.checks import is_ours
from gangctl.kueue.names import PARAMETERS_KIND
from gangctl.kueue.objects import AdmissionCheck
from gangctl.kueue.parameters import API_VERSION, DEFAULTS, GangAdmissionParametersSpec
from gangctl.runtime.controller import Action, await_change, requeue
from gangctl.runtime.store import Store

ACTIVE: Final = "Active"
BAD_PARAMETERS: Final = "BadParametersRef"
_GROUP: Final = API_VERSION.partition("/")[0]
_MESSAGE_CHARACTERS: Final = 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a check cannot be active, in words for people."""

    message: str


class Checks:
    """The AdmissionChecks of a cluster, as far as they are gangctl's, and ``reconcile(name) -> Action`` for each."""

    def __init__(
        self,
        reader: Client,
        writer: Client,
        checks: Store[AdmissionCheck],
        parameters: Source[Read],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Write through ``writer``, whose guard stops a replica that lost the lease."""
        self._reader = reader
        self._writer = writer
        self._checks = checks
        self._parameters = parameters
        self._now = now

    def names(self) -> list[str]:
        """Names of those that are gangctl's."""
        return [each.name for each in self._checks.values() if is_ours(each.controller)]

    def ours(self, name: str) -> bool:
        """Whether the check of this name is gangctl's."""
        return self._observe(name) is not None

    def parameters(self, name: str) -> GangAdmissionParametersSpec | None:
        """What one of gangctl's checks goes by; None while it is not active, or nobody can say."""
        check = self._observe(name)
        found = None if check is None else self._resolve(check)
        return found if isinstance(found, GangAdmissionParametersSpec) else None

    async def reconcile(self, name: str) -> Action:
        """Bring the condition of one check up to date."""
        check = self._observe(name)
        found = None if check is None else self._resolve(check)
        if check is None or found is None:
            return await_change()
        try:
            live = await self._reader.get(ADMISSION_CHECKS, name)
        except NotFoundError:
            return await_change()
        metadata = live.get("metadata") or {}
        if metadata.get("generation") != check.generation:
            # The cache has not seen this one yet, and looks when it has.
            return requeue(CONFLICT_RETRY_SECONDS)
        wanted = {"conditions": [_condition(found, check.generation)]}
        status = difference(live.get("status") or {}, wanted, self._now())
        return (
            await_change() if status is None else await write_status(self._writer, ADMISSION_CHECKS, metadata, status)
        )

    def _observe(self, name: str) -> AdmissionCheck | None:
        check = self._checks.get("", name)
        return check if check is not None and is_ours(check.controller) else None

    def _resolve(self, check: AdmissionCheck) -> GangAdmissionParametersSpec | Fault | None:
        """The parameters of a check, or what is wrong with them; None while that is not known."""
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
        found = self._parameters.store.get("", name)
        if found is None:
            return Fault(f'there is no {PARAMETERS_KIND} "{name}"')
        if isinstance(found, GangAdmissionParametersSpec):
            return found
        return Fault(f'{PARAMETERS_KIND} "{name}": ' + "; ".join(str(error) for error in found))


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

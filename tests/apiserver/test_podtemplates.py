"""What the API server refuses of the pods of Jobs, gangctl says before a JobSet is created, and no more than that."""

from __future__ import annotations

from typing import ClassVar

from gangctl.apiserver.metadata import Causes
from gangctl.apiserver.mounts import validate_mounts
from tests.apiserver.containers import PROBES, SOURCES
from tests.apiserver.podrows import listed, refusals
from tests.apiserver.pods import AFFINITIES, CONTEXTS, PODS
from tests.apiserver.volumes import VOLUMES
from tests.controlplane.api import Object
from tests.rows import each


@each(("refused", "fields", "accepted"), [*SOURCES, *PROBES, *VOLUMES, *AFFINITIES, *CONTEXTS, *PODS])
def test_pods_of_a_jobset_are_those_that_can_be(refused: Object, fields: str | list[str], accepted: Object) -> None:
    assert refusals(refused) == listed(fields)
    assert refusals(accepted) == []


class Counted(str):
    """A path that counts what it is compared with."""

    __slots__ = ()
    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_each_mount_is_not_compared_with_each_device() -> None:
    many = 200
    uses = {
        "volumeMounts": [{"name": f"m{number}", "mountPath": Counted(f"/m{number}")} for number in range(many)],
        "volumeDevices": [{"name": f"d{number}", "devicePath": Counted(f"/d{number}")} for number in range(many)],
    }
    causes = Causes()
    validate_mounts(uses, {f"{kind}{number}": "ephemeral" for kind in "md" for number in range(many)}, "", causes)
    assert causes == []
    assert Counted.compared < 4 * many

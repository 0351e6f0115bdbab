"""The OpenAPI document of a real API server passes the comparison that v1 of Kubernetes 1.38 has to pass."""

from __future__ import annotations

import pytest

from gangctl.api.scheduling import Generation
from gangctl.gang.generation import differences
from tests.controlplane.api import Object
from tests.controlplane.plane import ControlPlane

pytestmark = [pytest.mark.controlplane]


async def document(plane: ControlPlane, generation: Generation) -> Object:
    return await plane.api.get(f"/openapi/v3/apis/{generation.api_version}")


async def test_v1beta1_has_every_field_as_gangctl_writes_and_reads_it(plane_1_37: ControlPlane) -> None:
    found = await document(plane_1_37, Generation.V1BETA1)
    assert differences(Generation.V1BETA1, found) == differences(Generation.V1BETA1, found, composite=True) == ()


async def test_v1_of_1_37_has_no_gangs(plane_1_37: ControlPlane) -> None:
    found = differences(Generation.V1, await document(plane_1_37, Generation.V1))
    assert found == ("Workload does not exist", "PodGroup does not exist")

"""The condition Active of AdmissionChecks follows the parameters, and stays while they are unknown."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gangctl.cluster.kinds import ADMISSION_CHECKS
from gangctl.controllers.checks.activity import GANG_ADMISSION_PARAMETERS, Checks, parameter_source
from gangctl.kueue.checks import DEFAULTS, GangAdmissionParametersSpec
from gangctl.runtime.controller import await_change
from tests.controllers.checks.world import World, condition, world_of
from tests.controlplane.wait import wait_for

OURS = {"apiGroup": "gangctl.dev", "kind": "GangAdmissionParameters", "name": "slow"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with world_of() as found:
        yield found


async def test_a_check_without_parameters_is_active_at_once(world: World) -> None:
    await world.check()
    found = await world.active()
    assert (found["status"], found["reason"], found["observedGeneration"]) == ("True", "Active", 1)
    assert world.activity.parameters("gang") == DEFAULTS


async def test_checks_of_other_controllers_are_left_alone(world: World) -> None:
    await world.check("other", controller="example.com/other")
    assert await world.activity.reconcile("other") == await_change()
    assert "status" not in await world.client.get(ADMISSION_CHECKS, "other")
    assert not world.activity.ours("other")
    assert world.activity.parameters("other") is None


@pytest.mark.parametrize("key", ["apiGroup", "kind"])
async def test_parameters_of_another_kind_make_a_check_inactive(world: World, key: str) -> None:
    await world.check(parameters={**OURS, key: "other"})
    found = await world.active()
    assert (found["status"], found["reason"]) == ("False", "BadParametersRef")
    assert world.activity.parameters("gang") is None


async def test_a_missing_definition_is_reported_after_a_delay(world: World) -> None:
    await world.check(parameters=OURS)
    await world.known()
    assert "no definition of GangAdmissionParameters" in (await world.active())["message"]


async def test_created_and_changed_parameters_are_followed(world: World) -> None:
    await world.define_parameters()
    await world.check(parameters=OURS)
    # They are known as well while their definition is believed to be missing, as it is after some time without it.
    await world.parameters.informer.synced.wait()
    found = await world.active()
    assert (found["reason"], found["message"]) == ("BadParametersRef", 'there is no GangAdmissionParameters "slow"')
    await world.create(GANG_ADMISSION_PARAMETERS, "slow", spec={"timeoutSeconds": 600})

    async def taken() -> bool:
        return world.activity.parameters("gang") == GangAdmissionParametersSpec(timeout_seconds=600)

    await wait_for(taken, what="the parameters to be seen", interval=0.01)
    found = await world.active()
    assert (found["status"], found["reason"]) == ("True", "Active")


async def test_an_unchanged_condition_is_not_written_again(world: World) -> None:
    await world.check()
    await world.active()
    before = (await world.client.get(ADMISSION_CHECKS, "gang"))["metadata"]["resourceVersion"]
    again = Checks(world.client, world.client, world.checks.store, world.parameters)
    await again.reconcile("gang")
    assert (await world.client.get(ADMISSION_CHECKS, "gang"))["metadata"]["resourceVersion"] == before


async def test_no_condition_is_written_while_the_parameters_are_unknown(world: World) -> None:
    await world.check(parameters=OURS)
    unread = parameter_source(world.client, lambda: None)
    checks = Checks(world.client, world.client, world.checks.store, unread)
    assert await checks.reconcile("gang") == await_change()
    assert "status" not in await world.client.get(ADMISSION_CHECKS, "gang")
    assert checks.parameters("gang") is None
    assert checks.ours("gang")


async def test_conditions_of_other_controllers_are_kept(world: World) -> None:
    await world.check()
    other = condition("Fancy")
    await world.client.merge_patch(ADMISSION_CHECKS, "gang", {"status": {"conditions": [other]}}, subresource="status")
    await world.activity.reconcile("gang")
    live = await world.client.get(ADMISSION_CHECKS, "gang")
    assert {each["type"] for each in live["status"]["conditions"]} == {"Active", "Fancy"}

"""Registrations of webhooks: what is filled in, and what cannot be registered."""

from tests.conformance.answers import invalid
from tests.conformance.webhooks import (
    CONFIGMAPS,
    CONFIGURATIONS,
    KINDS,
    Hooks,
    Phase,
    allow,
    deny,
)
from tests.rows import each

PHASES: list[Phase] = ["mutating", "validating"]


async def test_webhook_configurations_are_defaulted(hooks: Hooks) -> None:
    entry = hooks.entry("hook")
    del entry["timeoutSeconds"]
    body = hooks.configuration("mutating", entry)
    created = await hooks.server.api.create(CONFIGURATIONS["mutating"], body, dryRun="All")
    (entry,) = created["webhooks"]
    expected = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "objectSelector": {},
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    assert {key: entry.get(key) for key in expected} == expected
    assert entry["rules"] == [{**CONFIGMAPS, "scope": "*"}]
    assert created["metadata"]["generation"] == 1


@each("phase", PHASES)
async def test_webhook_configurations_are_validated(hooks: Hooks, phase: Phase) -> None:
    body = hooks.configuration(phase, hooks.entry("hook", timeoutSeconds=31))
    await invalid(
        hooks.server.api.create(CONFIGURATIONS[phase], body),
        f'{KINDS[phase]}.admissionregistration.k8s.io "{body["metadata"]["name"]}" is invalid: '
        "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
    )


async def test_conditions_are_compiled_when_they_are_registered(hooks: Hooks) -> None:
    entry = hooks.entry("hook", matchConditions=[{"name": "c", "expression": "object.metadata.name =="}])
    await invalid(
        hooks.server.api.create(CONFIGURATIONS["mutating"], hooks.configuration("mutating", entry)),
        saying="webhooks[0].matchConditions[0].expression: Invalid value: ",
        causes=[("FieldValueInvalid", "webhooks[0].matchConditions[0].expression")],
    )


async def test_a_deleted_webhook_configuration_calls_no_webhook(hooks: Hooks) -> None:
    """A registration may be taken away; what calls it then is over at once, or soon."""
    entry = hooks.entry("hook", deny(code=403, message="no"))
    body = hooks.configuration("validating", entry)
    await hooks.server.api.create(CONFIGURATIONS["validating"], body)
    await hooks.server.api.delete(f"{CONFIGURATIONS['validating']}/{body['metadata']['name']}")
    # A later one is in force only when the server has seen this one go.
    await hooks.register("validating", hooks.entry("other", allow), name="b")
    assert await hooks.create()

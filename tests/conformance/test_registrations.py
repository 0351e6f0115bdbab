"""Registrations of webhooks: what is filled in, and what cannot be registered."""

from tests.conformance.answers import invalid
from tests.conformance.webhooks import CONFIGMAPS, CONFIGURATIONS, KINDS, Hooks, Phase, allow, deny
from tests.controlplane.api import Object
from tests.rows import each

PHASES: list[Phase] = ["mutating", "validating"]


def selector(operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": "k", "operator": operator, "values": list(values)}]}


@each("phase", PHASES)
async def test_webhook_configurations_are_defaulted(hooks: Hooks, phase: Phase) -> None:
    entry = hooks.entry("hook")
    del entry["timeoutSeconds"], entry["namespaceSelector"]
    created = await hooks.server.api.create(CONFIGURATIONS[phase], hooks.configuration(phase, entry), dryRun="All")
    assert created["webhooks"] == [
        {
            **entry,
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10,
            "rules": [{**CONFIGMAPS, "scope": "*"}],
            **({"reinvocationPolicy": "Never"} if phase == "mutating" else {}),
        }
    ]
    assert created["metadata"]["generation"] == 1


async def test_a_put_of_a_webhook_configuration_has_a_version(hooks: Hooks) -> None:
    body = hooks.configuration("mutating")
    path = f"{CONFIGURATIONS['mutating']}/{body['metadata']['name']}"
    await hooks.server.api.create(CONFIGURATIONS["mutating"], body)
    await invalid(
        hooks.server.api.update(path, body),
        saying="metadata.resourceVersion: Invalid value: 0: must be specified for an update",
    )
    await hooks.server.api.delete(path)


@each("phase", PHASES)
async def test_webhook_configurations_are_validated(hooks: Hooks, phase: Phase) -> None:
    body = hooks.configuration(phase, hooks.entry("hook", timeoutSeconds=31))
    await invalid(
        hooks.server.api.create(CONFIGURATIONS[phase], body),
        f'{KINDS[phase]}.admissionregistration.k8s.io "{body["metadata"]["name"]}" is invalid: '
        "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
    )

    # A selector that cannot be read would be an error in every request.
    entry = hooks.entry("hook", namespaceSelector={"matchLabels": {"a b": "c"}}, objectSelector=selector("Odd", "x"))
    where = "webhooks[0].objectSelector.matchExpressions[0]"
    await invalid(
        hooks.server.api.create(CONFIGURATIONS[phase], hooks.configuration(phase, entry), dryRun="All"),
        saying=f'{where}.operator: Invalid value: "Odd": not a valid selector operator',
        causes=[
            ("FieldValueInvalid", "webhooks[0].namespaceSelector.matchLabels"),
            ("FieldValueInvalid", f"{where}.operator"),
        ],
    )
    for term, cause, words in (
        (selector("In"), "Required", "values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        (
            selector("Exists", "x"),
            "Forbidden",
            "values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
    ):
        entry = hooks.entry("hook", objectSelector=term)
        await invalid(
            hooks.server.api.create(CONFIGURATIONS[phase], hooks.configuration(phase, entry), dryRun="All"),
            saying=f"{where}.{words}",
            causes=[(f"FieldValue{cause}", f"{where}.values")],
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

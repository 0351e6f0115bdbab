"""The policies in force follow the cluster: definitions are added and removed, sets are swapped as a whole."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gangctl.api.meta import API_VERSION
from gangctl.api.objects import Object
from gangctl.client.client import Client
from gangctl.client.resources import NAMESPACES
from gangctl.controllers import policies
from gangctl.controllers.exported import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from gangctl.controllers.policies import EVALUATION_UNAVAILABLE, policy_status
from gangctl.controllers.policy_sources import (
    GANG_POLICIES,
    GANG_POLICY_EXCEPTIONS,
)
from gangctl.errors import NotFoundError
from gangctl.policy.export import export
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedException
from gangctl.policy.reports import SEVERITY, severity_of
from gangctl.runtime.controller import WorkQueue
from tests.controllers.policycontext import RULE, Context, names, running
from tests.controlplane.wait import wait_for
from tests.manifests.definitions.policies import definitions
from tests.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.rows import each


async def test_definitions_can_be_removed_and_restored(context: Context) -> None:
    async with running(context):
        assert context.keeper.current.policies == ()
        assert context.bench.loads == []
        await context.define()
        await context.policy("p")
        await context.in_force(lambda current: names(current) == ["p"])
        await context.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "gangpolicies.gangctl.dev")
        await context.in_force(lambda current: not current.policies)
        for name, definition in definitions().items():
            if name == "gangpolicies.yaml":
                await wait_for(
                    lambda definition=definition: _created(context.client, definition)  # type: ignore[misc]  # bound on purpose
                )
        await wait_for(lambda: _listed(context.client), tolerate=(NotFoundError,))
        await context.policy("q")
        await context.in_force(lambda current: names(current) == ["q"])


async def _created(client: Client, definition: Object) -> bool:
    """Whether the one before is gone altogether."""
    try:
        await client.get(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
    except NotFoundError:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        return True
    return False


async def _listed(client: Client) -> bool:
    await client.list(GANG_POLICIES)
    return True


async def test_changes_swap_the_whole_set_and_load_only_what_changed(context: Context) -> None:
    await context.define()
    await context.policy("a")
    await context.policy("b", failurePolicy="Ignore")
    async with running(context):
        before = await context.in_force(lambda current: names(current) == ["a", "b"])
        await context.client.merge_patch(GANG_POLICIES, "b", {"spec": {"failurePolicy": "Fail"}})
        after = await context.in_force(lambda current: len(current.policies) == 2 and current.policies[1].fail_closed)
        assert after.generation == before.generation + 1
        assert not before.policies[1].fail_closed, "a set that is in use never changes"
        assert after.policies[0] is before.policies[0]
        assert context.bench.loads == ["a", "b", "b"]
        await context.client.delete(GANG_POLICIES, "a")
        await context.in_force(lambda current: names(current) == ["b"])
    assert [each.generation for each in context.bench.sets] == list(range(1, len(context.bench.sets) + 1))


async def test_a_broken_policy_is_reported_with_its_location_and_reloaded_when_fixed(context: Context) -> None:
    await context.define()
    await context.policy("p", validations=[RULE, {"expression": "true &&\n  objet.spec.x"}])
    await context.policy("good")
    async with running(context):
        current = await context.in_force(lambda current: names(current) == ["good"])
        assert [each.name for each in current.broken] == ["p"]
        reported = await context.condition(GANG_POLICIES, "p", "InvalidExpression")
        assert (reported["type"], reported["status"], reported["observedGeneration"]) == ("Ready", "False", 1)
        assert "spec.validations[1].expression, line 2, column 3" in reported["message"]
        assert reported["message"].endswith("pass without it, because failurePolicy: Fail is not written in it.")
        good = await context.condition(GANG_POLICIES, "good", "InForce")
        assert (good["status"], good["message"]) == ("True", "In force with 1 rule.")
        await context.client.merge_patch(GANG_POLICIES, "p", {"spec": {"validations": [RULE]}})
        repaired = await context.condition(GANG_POLICIES, "p", "InForce")
        assert repaired["observedGeneration"] == 2
        assert names(context.keeper.current) == ["good", "p"]


@each(
    ("actions", "reason", "refused"),
    [
        (["Deny"], EVALUATION_UNAVAILABLE, True),
        (["Warn", "Audit"], EVALUATION_UNAVAILABLE, False),
        (["Warn", "Audit"], "ParametersUnavailable", True),
    ],
)
def test_a_status_reports_whether_requests_are_refused_meanwhile(
    actions: list[str], reason: str, refused: bool
) -> None:
    document = {"apiVersion": API_VERSION, "kind": "GangPolicy", "metadata": {"name": "p"}}
    policy = load_policy({**document, "spec": {"validations": [RULE], "validationActions": actions}})
    (condition,) = policy_status(policy, 1, (reason, "why"))["conditions"]
    assert ("are refused" in condition["message"]) is refused


async def test_a_policy_with_an_internal_error_does_not_hide_the_others(context: Context) -> None:
    await context.define()
    for name in ("poison", "good"):
        await context.policy(name)
    async with running(context):
        current = await context.in_force(lambda current: names(current) == ["good"])
        (broken,) = current.broken
        assert (broken.name, broken.fail_closed) == ("poison", False)
        reported = await context.condition(GANG_POLICIES, "poison", "InternalError")
        assert "RecursionError" in reported["message"]


async def test_an_exception_with_an_internal_error_does_not_hide_policies(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: Object) -> LoadedException:
        raise RecursionError("deep")

    monkeypatch.setattr(policies, "load_exception", load)
    await context.define()
    await context.policy("good")
    await context.create(GANG_POLICY_EXCEPTIONS, {**exception(datetime.now(UTC)), "metadata": {"name": "poison"}})
    async with running(context):
        current = await context.in_force(lambda current: names(current) == ["good"])
        assert current.exceptions == ()
        reported = await context.condition(GANG_POLICY_EXCEPTIONS, "poison", "InvalidField")
        assert "RecursionError" in reported["message"]


def loose(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A definition that accepts anything, as after an edit."""
    changed: dict[str, Any] = copy.deepcopy(dict(definition))
    for version in changed["spec"]["versions"]:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"] = {"openAPIV3Schema": anything}
    return changed


BAD_SPECS: tuple[tuple[Any, str], ...] = (
    ({}, "InvalidField"),
    ({"validations": RULE}, "InvalidField"),
    ({"validations": [None, 1, "x", []]}, "InvalidField"),
    ({"validations": [{"expression": 1}]}, "InvalidField"),
    ({"validations": [{"expression": "x" * 500_000}]}, "InvalidField"),
    ({"validations": [RULE] * 1000}, "InvalidField"),
    ({"validations": [RULE], "validationActions": ["Denny"]}, "InvalidField"),
    ({"validations": [RULE], "unknown": {"\u202e": "ü\n" * 1000}}, "InvalidField"),
    ({"validations": [RULE], "matchConstraints": {"resourceRules": [{"resources": ["pods"]}]}}, "InvalidField"),
    ({"validations": [RULE], "variables": [{"name": "a", "expression": "1"}] * 2}, "InvalidField"),
    (
        {"validations": [{"expression": "'\U0001d518' é +"}, {"expression": "(("}, {"expression": "objekt"}]},
        "InvalidExpression",
    ),
)


async def test_any_invalid_policy_is_reported_and_does_not_hide_the_others(context: Context) -> None:
    for definition in definitions().values():
        await context.client.create(CUSTOM_RESOURCE_DEFINITIONS, loose(definition))
    for resource in (GANG_POLICIES, GANG_POLICY_EXCEPTIONS):
        await wait_for(lambda resource=resource: context.client.list(resource), tolerate=(NotFoundError,))  # type: ignore[misc]  # bound on purpose
    await context.policy("good")
    for number, (spec, _) in enumerate(BAD_SPECS):
        body = {"metadata": {"name": f"bad-{number}"}, "spec": spec, "status": {"conditions": 7}}
        await context.create(GANG_POLICIES, body)
        await context.create(GANG_POLICY_EXCEPTIONS, body)
    without_end = {"policies": [{"name": "good"}], "owner": "team-a", "reason": "because"}
    await context.create(GANG_POLICY_EXCEPTIONS, {"metadata": {"name": "without-end"}, "spec": without_end})
    async with running(context):
        current = await context.in_force(lambda current: names(current) == ["good"])
        assert {each.name for each in current.broken} == {f"bad-{number}" for number in range(len(BAD_SPECS))}
        assert not current.exceptions
        for number, (_, reason) in enumerate(BAD_SPECS):
            await context.condition(GANG_POLICIES, f"bad-{number}", reason)
            await context.condition(GANG_POLICY_EXCEPTIONS, f"bad-{number}", "InvalidField")
        reported = await context.condition(GANG_POLICY_EXCEPTIONS, "without-end", "InvalidField")
        assert "spec.expiresAt: is required" in reported["message"]


async def test_reports_have_the_current_annotations(context: Context) -> None:
    await context.define()
    await context.policy("p")
    async with running(context):
        await context.in_force(lambda current: names(current) == ["p"])
        note = {"metadata": {"annotations": {SEVERITY: "high"}}}
        await context.client.merge_patch(GANG_POLICIES, "p", note)
        await context.in_force(lambda current: severity_of(current.policies[0].source) == "high")


async def idle(queue: WorkQueue[tuple[str, str]]) -> None:
    """Wait until every key that has come into line is dealt with."""
    await asyncio.sleep(0)
    while queue._queued or queue._parked or queue._processing:  # noqa: ASYNC110 - a queue has no event for idle
        await asyncio.sleep(0)


async def test_an_unchanged_status_is_not_written(context: Context) -> None:
    await context.define()
    await context.policy("p")
    async with running(context):
        await context.condition(GANG_POLICIES, "p", "InForce")
    assert context.writes() == ["patch gangpolicies.gangctl.dev/status"]
    again = Context(context.sandbox, context.client)
    async with running(again):
        await again.in_force(lambda current: names(current) == ["p"])
        await idle(again.statuses.queue)
        for _ in range(3):
            again.keeper.wake()
            await idle(again.statuses.queue)
    assert len(context.writes()) == 1


async def test_a_status_written_by_another_client_is_corrected(context: Context) -> None:
    await context.define()
    await context.policy("p")
    async with running(context):
        since = (await context.condition(GANG_POLICIES, "p", "InForce"))["lastTransitionTime"]
        other = {"type": "Liked", "status": "True", "reason": "x", "message": "", "lastTransitionTime": since}
        status = {"conditions": [other], "results": {"pass": 3}}
        await context.client.merge_patch(GANG_POLICIES, "p", {"status": status}, subresource="status")
        await context.condition(GANG_POLICIES, "p", "InForce")
        live = (await context.client.get(GANG_POLICIES, "p"))["status"]
        assert {each["type"] for each in live["conditions"]} == {"Ready", "Liked"}
        assert live["results"]["pass"] == 3


def exception(until: datetime, **spec: Any) -> dict[str, Any]:
    spec = {"policies": [{"name": "p"}], "owner": "team", "reason": "moving", "expiresAt": until.isoformat(), **spec}
    return {"metadata": {"name": "e"}, "spec": spec}


async def test_an_exception_expires_and_its_status_reports_it(context: Context) -> None:
    await context.define()
    await context.policy("p")
    async with running(context):
        await context.create(GANG_POLICY_EXCEPTIONS, exception(datetime.now(UTC) + timedelta(days=1)))
        active = await context.condition(GANG_POLICY_EXCEPTIONS, "e", "InForce")
        assert (active["type"], active["status"]) == ("Active", "True")
        (held,) = (await context.in_force(lambda current: current.exceptions)).exceptions
        assert not held.expired(datetime.now(UTC))
        # So soon only now: the look at it in force may take longer on a busy machine.
        end = datetime.now(UTC) + timedelta(seconds=1.5)
        await context.client.merge_patch(GANG_POLICY_EXCEPTIONS, "e", {"spec": {"expiresAt": end.isoformat()}})
        ended = await context.condition(GANG_POLICY_EXCEPTIONS, "e", "Expired")
        assert ended["status"] == "False"
        assert datetime.now(UTC) >= end


async def test_an_exception_without_its_policy_reports_it_until_it_exists(context: Context) -> None:
    await context.define()
    async with running(context):
        await context.create(GANG_POLICY_EXCEPTIONS, exception(datetime.now(UTC) + timedelta(days=1)))
        lost = await context.condition(GANG_POLICY_EXCEPTIONS, "e", "NoSuchPolicy")
        assert lost["status"] == "False"
        assert lost["message"] == 'spec.policies[0].name: there is no GangPolicy "p".'
        await context.policy("p")
        assert (await context.condition(GANG_POLICY_EXCEPTIONS, "e", "InForce"))["status"] == "True"


async def test_an_exception_from_a_rule_that_does_not_exist_is_not_active_until_it_does(context: Context) -> None:
    await context.define()
    await context.policy("p", validations=[{**RULE, "name": "size"}, {**RULE, "name": "owner"}])
    async with running(context):
        of_rule = exception(datetime.now(UTC) + timedelta(days=1), policies=[{"name": "p", "rules": ["sise"]}])
        await context.create(GANG_POLICY_EXCEPTIONS, of_rule)
        lost = await context.condition(GANG_POLICY_EXCEPTIONS, "e", "NoSuchRule")
        assert lost["status"] == "False"
        assert lost["message"] == (
            'spec.policies[0].rules[0]: GangPolicy "p" has no rule "sise" (did you mean size? Its rules: owner, size).'
        )
        both = {"spec": {"policies": [{"name": "p", "rules": ["sise", "owner"]}]}}
        await context.client.merge_patch(GANG_POLICY_EXCEPTIONS, "e", both)
        partly = await context.condition(GANG_POLICY_EXCEPTIONS, "e", "NoSuchRule", "The rest is in force until ")
        assert partly["status"] == "True"
        renamed = [{**RULE, "name": "sise"}, {**RULE, "name": "owner"}]
        await context.client.merge_patch(GANG_POLICIES, "p", {"spec": {"validations": renamed}})
        assert (await context.condition(GANG_POLICY_EXCEPTIONS, "e", "InForce"))["status"] == "True"


async def test_an_exception_from_what_api_servers_evaluate_is_not_active(context: Context) -> None:
    await context.define()
    policy = await context.policy("p")
    kinds = (VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS)
    for resource, native in zip(kinds, export(load_policy(policy)).objects, strict=True):
        # The sandbox has neither kind.
        definition = loose(definitions()["gangpolicies.yaml"])
        names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind}
        definition["metadata"]["name"] = resource.qualified_name
        definition["spec"] |= {"group": resource.group, "names": {**names, "listKind": f"{resource.kind}List"}}
        definition["spec"]["versions"][0]["name"] = resource.version
        await context.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await wait_for(lambda resource=resource: context.client.list(resource), tolerate=(NotFoundError,))  # type: ignore[misc]  # bound on purpose
        await context.client.create(resource, native)
    async with running(context):
        await context.create(GANG_POLICY_EXCEPTIONS, exception(datetime.now(UTC) + timedelta(days=1)))
        assert (await context.condition(GANG_POLICY_EXCEPTIONS, "e", "Exported"))["status"] == "False"
        await context.client.delete(VALIDATING_ADMISSION_POLICY_BINDINGS, "p")
        assert (await context.condition(GANG_POLICY_EXCEPTIONS, "e", "InForce"))["status"] == "True"


async def test_rules_of_a_policy_that_cannot_be_loaded_are_not_missed(context: Context) -> None:
    await context.define()
    await context.policy("p", validations=[{"name": "size", "expression": "objet"}])
    async with running(context):
        of_rule = exception(datetime.now(UTC) + timedelta(days=1), policies=[{"name": "p", "rules": ["any"]}])
        await context.create(GANG_POLICY_EXCEPTIONS, of_rule)
        assert (await context.condition(GANG_POLICY_EXCEPTIONS, "e", "InForce"))["status"] == "True"


# Parameters


async def test_evaluation_waits_for_a_new_namespace(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangctl.controllers.policy_sources.NEW_NAMESPACE_SECONDS", 60)
    async with running(context):
        waiting = asyncio.create_task(context.sources.namespace("new"))
        body = {"metadata": {"name": "new", "labels": {"team": "a"}}}
        await context.client.create(NAMESPACES, body)
        found = await waiting
        assert found is not None
        assert found["metadata"]["labels"]["team"] == "a"
        assert found["kind"] == "Namespace"


async def test_a_namespace_that_does_not_appear_is_unknown(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangctl.controllers.policy_sources.NEW_NAMESPACE_SECONDS", 0.01)
    async with running(context):
        assert await context.sources.namespace("nowhere") is None


async def test_the_status_of_each_policy_has_why_no_worker_works(context: Context) -> None:
    await context.define()
    await context.policy("p", validations=[RULE])
    async with running(context):
        await context.in_force(lambda current: names(current) == ["p"])
        await context.condition(GANG_POLICIES, "p", "InForce", "In force with 1 rule.")
        context.bench.problem = "no policy-worker works since today: it exited"
        context.statuses.enqueue(("GangPolicy", "p"))
        await context.condition(GANG_POLICIES, "p", "EvaluationUnavailable", "no policy-worker works since today")

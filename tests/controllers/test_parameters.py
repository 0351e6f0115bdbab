"""Parameters of policies are followed while a policy takes them, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gangctl.client.resources import Resource
from gangctl.controllers.policy_sources import (
    GANG_POLICIES,
    wanted_by,
)
from gangctl.policy.loaded import PolicySet
from gangctl.policy.variables import ParamsError
from tests.controllers.policycontext import CONFIG_MAPS, Context, names, running
from tests.controlplane.wait import wait_for
from tests.resources import CUSTOM_RESOURCE_DEFINITIONS


def with_params(name: str = "limits", kind: str = "ConfigMap", api_version: str = "v1", **ref: Any) -> dict[str, Any]:
    reference = {"name": name, "namespace": "default", "parameterNotFoundAction": "Deny", **ref}
    return {"paramKind": {"apiVersion": api_version, "kind": kind}, "paramRef": reference}


async def config_map(context: Context, name: str, value: str) -> None:
    body = {"metadata": {"name": name, "namespace": "default"}, "data": {"max": value}}
    await context.client.create(CONFIG_MAPS, body)


async def test_only_named_parameters_are_watched(context: Context) -> None:
    await context.define()
    await config_map(context, "limits", "3")
    await config_map(context, "secret-things", "x")
    await context.policy("p", **with_params())
    async with running(context):
        await context.in_force(lambda current: names(current) == ["p"])
        found = context.parameters.find("v1", "ConfigMap", "default", name="limits")
        assert [each["data"]["max"] for each in found] == ["3"]
        with pytest.raises(ParamsError, match="not looked for"):
            context.parameters.find("v1", "ConfigMap", "default", name="secret-things")
        patch = {"data": {"max": "4"}}
        await context.client.merge_patch(CONFIG_MAPS, "limits", patch, "default")

        async def swapped() -> bool:
            (one,) = context.parameters.find("v1", "ConfigMap", "default", name="limits")
            return bool(one["data"]["max"] == "4")

        await wait_for(swapped, interval=0.01)
        await context.client.delete(GANG_POLICIES, "p")
        await context.in_force(lambda current: not current.policies)
        with pytest.raises(ParamsError, match="not looked for"):
            context.parameters.find("v1", "ConfigMap", "default", name="limits")


@pytest.mark.parametrize(("action", "words"), [("Deny", "are refused"), ("Allow", "it applies to no request")])
async def test_a_status_reports_that_there_are_no_parameters(context: Context, action: str, words: str) -> None:
    await context.define()
    await context.policy("p", **with_params(parameterNotFoundAction=action))
    async with running(context):
        missing = await context.condition(GANG_POLICIES, "p", "InForce", "There is no ConfigMap default/limits. ")
        assert words in missing["message"]
        await config_map(context, "limits", "3")

        async def there() -> bool:
            condition = await context.condition(GANG_POLICIES, "p", "InForce")
            return bool(condition["message"] == "In force with 1 rule.")

        await wait_for(there, what="the status to be that of a policy with parameters", interval=0.02)
        await context.client.delete(CONFIG_MAPS, "limits", "default")
        await context.condition(GANG_POLICIES, "p", "InForce", words)


async def test_parameters_are_read_again_after_an_unexpected_error(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They must not stay as they were, with nothing in the log."""
    await context.define()
    await config_map(context, "limits", "3")
    await context.policy("p", **with_params())

    def fail(_: object) -> None:
        raise ZeroDivisionError

    async with running(context):
        await context.in_force(lambda current: names(current) == ["p"])
        (source,) = context.parameters._sources.values()
        failing = source._informer
        monkeypatch.setattr(failing, "_notify", fail)

        async def again() -> bool:
            (one,) = context.parameters.find("v1", "ConfigMap", "default", name="limits")
            return source._informer is not failing and bool(one["data"]["max"] == "4")

        with capture_logs() as logs:
            await context.client.merge_patch(CONFIG_MAPS, "limits", {"data": {"max": "4"}}, "default")
            await wait_for(again, what="the parameters to be read again", tolerate=(ParamsError,), interval=0.01)
    assert "parameters are read again" in [entry["event"] for entry in logs]


async def test_parameters_are_read_until_no_policy_in_force_takes_them(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    await context.define()
    for name in ("limits", "others"):
        await config_map(context, name, "3")
    await context.policy("p", **with_params())
    async with running(context):
        await context.in_force(lambda current: names(current) == ["p"])
        seen: list[str] = []

        async def install(_: PolicySet) -> None:
            # Until this returns, requests are evaluated by the policy as it was.
            (read,) = context.parameters.find("v1", "ConfigMap", "default", name="limits")
            seen.append(read["metadata"]["name"])

        monkeypatch.setattr(context.bench, "install", install)
        await context.client.merge_patch(GANG_POLICIES, "p", {"spec": {"paramRef": {"name": "others"}}})
        await context.in_force(lambda _: seen)
        assert seen == ["limits"]

        async def dropped() -> bool:
            return [source.name for source in context.parameters._sources] == ["others"]

        await wait_for(dropped, what="parameters that no policy takes to be dropped")


async def test_parameters_by_label_are_listed_by_label(context: Context) -> None:
    await context.define()
    for name, labels in (("a", {"limits": "yes"}), ("b", {}), ("c", {"limits": "yes", "old": "x"})):
        metadata = {"name": name, "namespace": "default", "labels": labels}
        await context.client.create(CONFIG_MAPS, {"metadata": metadata})
    terms = [{"key": "limits", "operator": "In", "values": ["yes", "no"]}, {"key": "old", "operator": "DoesNotExist"}]
    selector = {"matchExpressions": terms}
    reference = {"selector": selector, "parameterNotFoundAction": "Deny"}
    await context.policy("p", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}, paramRef=reference)
    async with running(context):
        (policy,) = (await context.in_force(lambda current: names(current) == ["p"])).policies
        wanted = wanted_by(policy.spec)
        assert wanted is not None
        assert wanted.labels == "limits in (yes,no),!old"
        assert policy.spec.param_ref is not None
        by_label = policy.spec.param_ref.selector
        found = context.parameters.find("v1", "ConfigMap", "default", selector=by_label)
        assert [each["metadata"]["name"] for each in found] == ["a"]
        assert not context.parameters.find("v1", "ConfigMap", "elsewhere", selector=by_label)


LIMITS: dict[str, Any] = {
    "metadata": {"name": "limits.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


async def test_parameters_of_a_kind_defined_later_are_followed(context: Context) -> None:
    await context.define()
    await context.policy("p", **with_params("big", "Limit", "example.com/v1", namespace=""))
    async with running(context):
        await context.in_force(lambda current: names(current) == ["p"])
        words = "Limit of example.com/v1 is not served"
        await context.condition(GANG_POLICIES, "p", "ParametersUnavailable", words)
        assert context.parameters.scope("example.com/v1", "Limit") is None
        await context.client.create(CUSTOM_RESOURCE_DEFINITIONS, LIMITS)
        await context.condition(GANG_POLICIES, "p", "InForce")
        assert context.parameters.scope("example.com/v1", "Limit") == "Cluster"
        limits = Resource("example.com", "v1", "limits", "Limit", namespaced=False)
        await context.create(limits, {"metadata": {"name": "big"}, "max": 7})
        await wait_for(lambda: _found(context), interval=0.01)


async def _found(context: Context) -> bool:
    return [each["max"] for each in context.parameters.find("example.com/v1", "Limit", "", name="big")] == [7]


# Namespaces


async def test_a_kind_that_comes_back_with_another_scope_is_discovered_again(context: Context) -> None:
    """The scope of a definition cannot change: who means another one deletes it, and creates it again."""
    await context.define()
    await context.policy("p", **with_params("big", "Limit", "example.com/v1", namespace=""))
    await context.client.create(CUSTOM_RESOURCE_DEFINITIONS, LIMITS)
    async with running(context):
        await context.condition(GANG_POLICIES, "p", "InForce")
        await context.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "limits.example.com")
        await context.condition(GANG_POLICIES, "p", "ParametersUnavailable", "Limit of example.com/v1 is not served")
        again = {**LIMITS, "spec": {**LIMITS["spec"], "scope": "Namespaced"}}
        await context.client.create(CUSTOM_RESOURCE_DEFINITIONS, again)
        await context.condition(GANG_POLICIES, "p", "InForce")
        assert context.parameters.scope("example.com/v1", "Limit") == "Namespaced"
        limits = Resource("example.com", "v1", "limits", "Limit")
        body = {"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": "big"}, "max": 7}
        await context.client.create(limits, body, "default")

        async def followed() -> bool:
            return bool(context.parameters.find("example.com/v1", "Limit", "default", name="big"))

        await wait_for(followed, interval=0.01)

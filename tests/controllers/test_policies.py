"""The policies in force follow the cluster: definitions are added and removed, sets are swapped as a whole."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gangctl.api.objects import Object
from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from gangctl.client.transport import Transport
from gangctl.controllers import policies
from gangctl.controllers.exported import ExportedPolicies
from gangctl.controllers.policies import Key, PolicyKeeper, PolicyStatusWriter
from gangctl.controllers.policy_sources import (
    GANG_POLICIES,
    GANG_POLICY_EXCEPTIONS,
    Parameters,
    PolicySources,
    wanted_by,
)
from gangctl.errors import NotFoundError
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedException, LoadedPolicy, PolicySet
from gangctl.policy.reports import SEVERITY, severity_of
from gangctl.policy.variables import ParamsError
from gangctl.runtime.controller import Controller, ControllerOptions, WorkQueue
from gangctl.runtime.informer import InformerOptions
from gangctl.sandbox.server import SandboxOptions
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.definitions.policies import definitions
from tests.sandbox.faults import FaultySandbox

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
QUICK = InformerOptions(base_delay_seconds=0.02, cap_delay_seconds=0.05)
RULE = {"expression": "has(object.metadata.labels)", "message": "labels are needed"}


class Bench:
    """Loads policies for real and keeps the sets that are put in force."""

    def __init__(self) -> None:
        self.sets: list[PolicySet] = []
        self.loads: list[str] = []
        self.problem = ""

    async def load(self, document: Object) -> LoadedPolicy:
        self.loads.append(document["metadata"]["name"])
        if document["metadata"]["name"] == "poison":
            raise RecursionError("deep")
        return load_policy(document)

    async def install(self, policies: PolicySet) -> None:
        self.sets.append(policies)


class Context:
    """Everything about policies but webhooks, beside a sandbox."""

    def __init__(self, sandbox: FaultySandbox, client: Client) -> None:
        self.sandbox = sandbox
        self.client = client
        self.bench = Bench()
        self.sources = PolicySources(client, self._wake, options=QUICK, confirm_seconds=0.3)
        self.parameters = Parameters(client, self._wake, retry_seconds=0.05)
        self.exported = ExportedPolicies(client, self._wake, options=QUICK)
        self.keeper = PolicyKeeper(
            self.sources, self.parameters, self.exported, self.bench, on_status_change=self._enqueue
        )
        writer = PolicyStatusWriter(client, self.sources, self.keeper, self.parameters)
        self.statuses: Controller[Key] = Controller("policies", writer.reconcile, options=ControllerOptions(workers=1))
        self.sources.subscribe(self._enqueue)

    def _wake(self) -> None:
        self.keeper.wake()

    def _enqueue(self, key: Key) -> None:
        self.statuses.enqueue(key)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for each in (self.sources.run(), self.exported.run(), self.keeper.run(), self.statuses.run()):
                group.create_task(each)

    async def define(self) -> None:
        for definition in definitions().values():
            await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        for resource in (GANG_POLICIES, GANG_POLICY_EXCEPTIONS):
            await wait_for(lambda resource=resource: self.client.list(resource), tolerate=(NotFoundError,))  # type: ignore[misc]  # bound on purpose

    async def policy(self, name: str = "p", **spec: Any) -> Object:
        spec = {"validations": [RULE], **spec}
        return await self.create(GANG_POLICIES, {"metadata": {"name": name}, "spec": spec})

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create a custom resource, which needs its type."""
        return await self.client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})

    async def in_force(self, condition: Callable[[PolicySet], object]) -> PolicySet:
        async def met() -> bool:
            current = self.keeper.current
            if not condition(current):
                names = [each.name for each in current.policies], [each.name for each in current.broken]
                raise NotYet(f"set {current.generation}: {names}")
            return True

        await wait_for(met, what="the policies to be in force", interval=0.01)
        return self.keeper.current

    async def condition(self, resource: Resource, name: str, reason: str, words: str = "") -> dict[str, Any]:
        """The only condition of a policy or an exception, once it has this reason, and these words in its message."""

        async def recorded() -> dict[str, Any]:
            status = (await self.client.get(resource, name)).get("status") or {}
            found = [each for each in status.get("conditions", []) if each["reason"] == reason]
            if not found or words not in found[0]["message"]:
                raise NotYet(str(status))
            assert status["observedGeneration"] == found[0]["observedGeneration"]
            return dict(found[0])

        return await wait_for(recorded, what=f"the status of {name} to say {reason}", interval=0.02)

    def writes(self) -> list[str]:
        return [f"{each.verb} {each.resource}/{each.subresource}" for each in self.sandbox.audit if each.subresource]


@pytest.fixture
async def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Context]:
    # No policy is in force before its parameters are read, or cannot be.
    monkeypatch.setattr("gangctl.controllers.policy_sources.SETTLE_SECONDS", 300.0)
    async with FaultySandbox(SandboxOptions(tls=False)) as sandbox:
        path = tmp_path / "kubeconfig"
        path.write_text(sandbox.kubeconfig())
        async with Transport(await load_cluster(kubeconfig=str(path))) as transport:
            yield Context(sandbox, Client(transport))


@asynccontextmanager
async def running(context: Context) -> AsyncIterator[None]:
    task = asyncio.create_task(context.run())
    try:
        await asyncio.wait_for(context.keeper.synced.wait(), 300)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def names(policies: PolicySet) -> list[str]:
    return [each.name for each in policies.policies]


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
        assert reported["message"].endswith("pass without it, because its failurePolicy is not Fail.")
        good = await context.condition(GANG_POLICIES, "good", "InForce")
        assert (good["status"], good["message"]) == ("True", "In force with 1 rule.")
        await context.client.merge_patch(GANG_POLICIES, "p", {"spec": {"validations": [RULE]}})
        repaired = await context.condition(GANG_POLICIES, "p", "InForce")
        assert repaired["observedGeneration"] == 2
        assert names(context.keeper.current) == ["good", "p"]


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
        await context.policy("p")
        assert (await context.condition(GANG_POLICY_EXCEPTIONS, "e", "InForce"))["status"] == "True"


# Parameters


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

"""MutatingAdmissionPolicies and their bindings: when they apply, what they change, in which order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from tests.conformance.answers import Refusal, invalid
from tests.conformance.grounds import Server, grounds
from tests.conformance.objects import NAMESPACES, configmap, configmaps, job, jobs
from tests.conformance.webhooks import CONFIGMAPS, Hooks, allow, note, patch
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.rows import each

# In 1.35 they are beta, and off.
pytestmark = pytest.mark.parametrize("server", grounds("1.36", "1.37"), indirect=True, scope="session")

VERSION = "admissionregistration.k8s.io/v1"
POLICIES = path_of(VERSION, "mutatingadmissionpolicies")
BINDINGS = path_of(VERSION, "mutatingadmissionpolicybindings")
JOBS: Object = {
    "apiGroups": ["batch"],
    "apiVersions": ["v1"],
    "resources": ["jobs"],
    "operations": ["CREATE", "UPDATE"],
}


def applied(expression: str) -> Object:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> Object:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def added(value: str = "'1'", key: str = "added") -> Object:
    """Add an entry to the data of a ConfigMap."""
    return patched(f"[JSONPatch{{op: 'add', path: '/data/{key}', value: {value}}}]")


def policy(name: str, *mutations: Object, **spec: Any) -> Object:
    return {
        "apiVersion": VERSION,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [CONFIGMAPS, JOBS]},
            "reinvocationPolicy": "Never",
            "mutations": list(mutations),
            **spec,
        },
    }


@dataclass
class Policies:
    """The policies of a test, which are for its namespace only."""

    server: Server
    namespace: str
    _registered: list[str] = field(default_factory=list)

    def name(self, name: str) -> str:
        return f"{name}-{self.namespace}"

    async def register(self, *mutations: Object, name: str = "a", bind: bool = True, **spec: Any) -> None:
        """Create a policy, with a binding, and wait until both are in effect."""
        await self.store(*mutations, added(key=f"in-effect-{name}"), name=name, **spec)
        if bind:
            await self.bind(name)
            await self.until(lambda data: f"in-effect-{name}" in data, f"the policy {name}")

    async def store(self, *mutations: Object, name: str = "a", **spec: Any) -> None:
        """Create a policy."""
        await self.server.api.create(POLICIES, policy(self.name(name), *mutations, **spec))
        self._registered.append(f"{POLICIES}/{self.name(name)}")

    async def unbind(self, name: str = "a") -> None:
        path = f"{BINDINGS}/{self.name(name)}"
        await self.server.api.delete(path)
        self._registered.remove(path)

    async def bind(self, name: str = "a", **resources: Any) -> None:
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        body = {
            "metadata": {"name": self.name(name)},
            "spec": {
                "policyName": self.name(name),
                "matchResources": {"namespaceSelector": selector, **resources},
            },
        }
        await self.server.api.create(BINDINGS, body)
        self._registered.append(f"{BINDINGS}/{self.name(name)}")

    async def until(self, holds: Callable[[Object], bool], what: str) -> None:
        """Wait for what a dry run of a ConfigMap shows: its data, or what it is refused with."""

        async def so() -> bool:
            try:
                data = (await self.server.api.create(configmaps(self.namespace), probe(), dryRun="All"))["data"]
            except ApiFailure as failure:
                data = {"refused": failure.message}
            if not holds(data):
                raise NotYet(str(data))
            return True

        await wait_for(so, what)

    async def create(self, name: str = "a", **metadata: Any) -> Object:
        """The data of a new ConfigMap, without the marks of policies."""
        body = configmap(name, {"k": "v"}, **metadata)
        made = await self.server.api.create(configmaps(self.namespace), body)
        return {key: value for key, value in made["data"].items() if not key.startswith("in-effect")}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for path in reversed(self._registered):
            await self.server.api.delete(path)


def probe() -> Object:
    return configmap("probe", {"k": "v"})


@pytest.fixture
async def policies(server: Server, namespace: str) -> AsyncIterator[Policies]:
    async with Policies(server, namespace) as policies:
        yield policies


@each(
    ("mutation", "value"),
    [
        (added(), "1"),
        (applied("Object{data: {'added': '1'}}"), "1"),
        (added("object.data.k + variables.second"), "vab"),
        (added("request.operation + string(namespaceObject.metadata.name == request.namespace)"), "CREATEtrue"),
        (patched("object.data.k == 'v' ? [JSONPatch{op: 'add', path: '/data/added', value: 'c'}] : []"), "c"),
    ],
)
async def test_a_policy_changes_an_object(hooks: Hooks, mutation: Object, value: str) -> None:
    variables = [{"name": "first", "expression": "'a'"}, {"name": "second", "expression": "variables.first + 'b'"}]
    async with hooks.elsewhere() as others, Policies(hooks.server, others.namespace) as policies:
        await policies.register(mutation, variables=variables)
        assert await policies.create() == {"k": "v", "added": value}


async def test_mutations_see_what_those_before_them_have_made(policies: Policies) -> None:
    failing = patched(
        "[JSONPatch{op: 'test', path: '/data/k', value: 'other'}, JSONPatch{op: 'remove', path: '/data'}]"
    )
    await policies.register(added("'x'"), added("object.data.added + 'y'"), failing)
    # A patch whose test fails changes nothing, and is no error.
    assert await policies.create() == {"k": "v", "added": "xy"}


async def test_a_policy_needs_a_binding(policies: Policies) -> None:
    await policies.register(added(), bind=False)
    await policies.register(added(key="other"), name="b")
    assert await policies.create() == {"k": "v", "other": "1"}
    await policies.bind(objectSelector={"matchLabels": {"mine": "1"}})
    await policies.unbind("b")
    await policies.until(lambda data: "other" not in data, "the end of a binding")

    async def bound() -> bool:
        body = configmap("probe", {"k": "v"}, labels={"mine": "1"})
        made = await policies.server.api.create(configmaps(policies.namespace), body, dryRun="All")
        return "added" in made["data"]

    await wait_for(bound, "the binding")
    assert await policies.create("b") == {"k": "v"}
    # A binding that is edited.
    change = {"spec": {"matchResources": {"objectSelector": {"matchLabels": {"mine": None, "yours": "1"}}}}}
    await policies.server.api.patch(f"{BINDINGS}/{policies.name('a')}", change)

    await read_until(bound, lambda pods: not pods, "the change of the binding")
    assert await policies.create("c", labels={"yours": "1"}) == {"k": "v", "added": "1"}


async def test_conditions_decide_whether_a_policy_applies(policies: Policies) -> None:
    conditions = [
        {"name": "named", "expression": "object.metadata.name.startsWith('a') || object.metadata.name == 'probe'"},
        {"name": "new", "expression": "oldObject == null"},
    ]
    await policies.register(added(), matchConditions=conditions)
    assert await policies.create("b") == {"k": "v"}
    assert await policies.create("a") == {"k": "v", "added": "1"}
    path = configmaps(policies.namespace, "a")
    replaced = await policies.server.api.patch(path, {"data": {"added": None}})
    assert "added" not in replaced["data"]


MISSING = (
    "expression '[JSONPatch{op: 'add', path: '/data/added', value: object.data.none}]' resulted in error: no such key"
)


async def test_an_error_refuses_an_object_unless_it_is_ignored(policies: Policies) -> None:
    await policies.register(added("object.data.none"), name="ignored", failurePolicy="Ignore")
    assert await policies.create() == {"k": "v"}
    name = policies.name("a")
    await policies.store(added("object.data.none"))
    await policies.bind()
    await policies.until(lambda data: "refused" in data, "the policy to refuse")
    failure = await Refusal(403, "Invalid")(
        policies.server.api.create(configmaps(policies.namespace), configmap("b", {"k": "v"})),
        saying=f"policy '{name}' with binding '{name}' denied request: {MISSING}",
    )
    assert failure.body["details"]["kind"] == "configmaps"
    assert [cause["message"] for cause in failure.body["details"]["causes"]] == [failure.message]


@each(
    ("conditions", "mutation", "words"),
    [
        (
            [{"name": "c", "expression": "object.data.none == 'x'"}],
            added(),
            "expression 'object.data.none == 'x'' resulted in error: no such key: none",
        ),
        ([], patched("[JSONPatch{op: 'remove', path: '/data/none'}]"), "JSON Patch: "),
    ],
)
async def test_the_error_of_a_policy_names_what_failed(
    server: Server, namespace: str, conditions: list[Object], mutation: Object, words: str
) -> None:
    async with Policies(server, namespace) as policies:
        await policies.store(mutation, matchConditions=conditions)
        await policies.bind()
        said = f"policy '{policies.name('a')}' with binding '{policies.name('a')}' denied request: {words}"
        await policies.until(lambda data: str(data.get("refused")).startswith(said), said)


async def test_a_namespace_has_no_namespace_object(policies: Policies) -> None:
    null = "{'null': string(namespaceObject == null)}"
    noted = patched(f"[JSONPatch{{op: 'add', path: '/metadata/annotations', value: {null}}}]")
    rule = {**CONFIGMAPS, "resources": ["namespaces"]}
    await policies.store(noted, matchConstraints={"resourceRules": [rule]})
    await policies.bind()

    async def annotations() -> Object | None:
        change = {"metadata": {"labels": {"l": "1"}}}
        changed = await policies.server.api.patch(f"{NAMESPACES}/{policies.namespace}", change, dryRun="All")
        found: Object | None = changed["metadata"].get("annotations")
        return found

    assert await wait_for(annotations, "the policy") == {"null": "true"}


ONLY_JOBS = [{"name": "jobs", "expression": "request.kind.kind == 'Job'"}]
GROUP = "'g-' + object.metadata.name"
SPEC = "Object.spec.template.spec"
NAMED = f"{SPEC}.schedulingGroup{{podGroupName: {GROUP}}}"
REFERENCES = {
    "apply": applied(
        f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {SPEC}{{schedulingGroup: {NAMED}}}}}}}}}"
    ),
    "patch": patched(f"[JSONPatch{{op: 'add', path: '/spec/template/spec/schedulingGroup', value: {NAMED}}}]"),
}


@each("kind", [*REFERENCES])
async def test_a_policy_names_the_group_of_a_job(server: Server, namespace: str, kind: str) -> None:
    async with Policies(server, namespace) as policies:
        await policies.store(REFERENCES[kind], matchConditions=ONLY_JOBS)
        await policies.bind()

        async def named() -> bool:
            made = await server.api.create(jobs(namespace), job(kind), dryRun="All")
            return bool(made["spec"]["template"]["spec"].get("schedulingGroup") == {"podGroupName": f"g-{kind}"})

        await wait_for(named, "the policy")
        await server.api.create(jobs(namespace), job(kind))
        # An update that drops it is restored.
        read = await server.api.get(jobs(namespace, kind))
        del read["spec"]["template"]["spec"]["schedulingGroup"], read["metadata"]["resourceVersion"]
        put = await server.api.update(jobs(namespace, kind), read)
        assert put["spec"]["template"]["spec"]["schedulingGroup"] == {"podGroupName": f"g-{kind}"}


async def test_atomic_lists_cannot_be_applied(policies: Policies) -> None:
    tolerations = f"[{SPEC}.tolerations{{key: 'k'}}]"
    pod = f"{SPEC}{{tolerations: {tolerations}}}"
    expression = f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {pod}}}}}}}"
    await policies.store(applied(expression), matchConditions=ONLY_JOBS)
    await policies.bind()
    name = policies.name("a")

    async def said() -> str:
        try:
            await policies.server.api.create(jobs(policies.namespace), job(), dryRun="All")
        except ApiFailure as failure:
            return failure.message
        return ""

    assert await wait_for(said, "the policy") == (
        f"policy '{name}' with binding '{name}' denied request: error applying patch: invalid ApplyConfiguration: "
        "may not mutate atomic arrays, maps or structs: .spec.template.spec.tolerations"
    )


async def test_policies_come_before_webhooks(policies: Policies, hooks: Hooks) -> None:
    await policies.register(added())
    await hooks.register("mutating", hooks.entry("w", allow))
    await policies.create()
    assert hooks.requests("w")[-1]["object"]["data"]["added"] == "1"


@each(("reinvocation", "count"), [("Never", "1"), ("IfNeeded", "2")])
async def test_a_policy_is_applied_again_if_it_asks_for_it(hooks: Hooks, reinvocation: str, count: str) -> None:
    counted = added("'count' in object.data ? string(int(object.data.count) + 1) : '1'", "count")
    async with hooks.elsewhere() as others, Policies(hooks.server, others.namespace) as policies:
        await policies.register(counted, reinvocationPolicy=reinvocation)
        await others.register("mutating", others.entry("w", note("by", "webhook")))
        data = await policies.create()
    assert (data["by"], data["count"]) == ("webhook", count)


async def test_a_webhook_is_called_again_after_a_later_one_has_changed_an_object(hooks: Hooks) -> None:
    missing = [{"name": "missing", "expression": "!('kept' in object.data)"}]
    restores = hooks.entry("restores", note("kept", "again"), reinvocationPolicy="IfNeeded", matchConditions=missing)
    never = hooks.entry("never", note("once", "1"))
    removes = hooks.entry("removes", patch({"op": "remove", "path": "/data/kept"}))
    await hooks.register("mutating", restores, never, removes)
    assert (await hooks.create())["data"] == {"k": "v", "once": "1", "kept": "again"}
    assert [hooks.names(name) for name in ("restores", "never", "removes")] == [["a", "a"], ["a"], ["a"]]

    # The second time no webhook is called for the first time: its conditions did not hold.
    made = await hooks.server.api.create(configmaps(hooks.namespace), configmap("b", {"k": "v", "kept": "1"}))
    assert made["data"] == {"k": "v", "once": "1"}
    assert "b" not in hooks.names("restores")


ODD = {"matchExpressions": [{"key": "k", "operator": "Odd"}]}
ODD_WORDS = 'matchExpressions[0].operator: Invalid value: "Odd": not a valid selector operator'


@each(
    ("change", "words"),
    [
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules: Required value"),
        ({"mutations": []}, "spec.mutations: Required value: mutations must contain at least one item"),
        (
            {"mutations": [{"patchType": "JSONPatch"}]},
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
        ),
        (
            {"mutations": [{"patchType": "Odd"}]},
            (
                'spec.mutations[0].patchType: Unsupported value: "Odd": supported values: "ApplyConfiguration", '
                '"JSONPatch"'
            ),
        ),
        ({"mutations": [added("nothing")]}, "spec.mutations[0].jsonPatch.expression: Invalid value: "),
        ({"variables": [{"expression": "1"}]}, "spec.variables[0].name: Required value: name is not specified"),
        ({"variables": [{"name": "a", "expression": "variables.b"}]}, "spec.variables[0].expression: Invalid value: "),
        (
            {"matchConditions": [{"name": "a", "expression": "1"}]},
            "spec.matchConditions[0].expression: Invalid value: ",
        ),
        ({"reinvocationPolicy": ""}, "spec.reinvocationPolicy: Required value"),
        (
            {"matchConstraints": {"resourceRules": [CONFIGMAPS], "namespaceSelector": ODD}},
            f"spec.matchConstraints.namespaceSelector.{ODD_WORDS}",
        ),
        (
            {"matchConstraints": {"resourceRules": [{**CONFIGMAPS, "operations": ["DELETE"]}]}},
            (
                'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", '
                '"CONNECT", "CREATE", "UPDATE"'
            ),
        ),
    ],
)
async def test_an_invalid_policy_is_refused(server: Server, change: Object, words: str) -> None:
    body = policy("invalid", added())
    body["spec"] |= change
    message = f'MutatingAdmissionPolicy.admissionregistration.k8s.io "invalid" is invalid: {words}'
    await invalid(server.api.create(POLICIES, body, dryRun="All"), saying=message)


async def test_an_invalid_binding_is_refused(server: Server) -> None:
    body = {"metadata": {"name": "invalid"}, "spec": {"policyName": "p", "matchResources": {"objectSelector": ODD}}}
    message = 'MutatingAdmissionPolicyBinding.admissionregistration.k8s.io "invalid" is invalid: '
    words = f"{message}spec.matchResources.objectSelector.{ODD_WORDS}"
    await invalid(server.api.create(BINDINGS, body, dryRun="All"), words)


async def test_a_policy_and_its_binding_are_defaulted(server: Server) -> None:
    spec = (await server.api.create(POLICIES, policy("defaulted", added()), dryRun="All"))["spec"]
    assert (spec["failurePolicy"], spec["reinvocationPolicy"]) == ("Fail", "Never")
    constraints = spec["matchConstraints"]
    assert constraints["matchPolicy"] == "Equivalent"
    assert (constraints["namespaceSelector"], constraints["objectSelector"]) == ({}, {})
    assert {rule["scope"] for rule in constraints["resourceRules"]} == {"*"}
    body = {"metadata": {"name": "defaulted"}, "spec": {"policyName": "p", "matchResources": {}}}
    resources = (await server.api.create(BINDINGS, body, dryRun="All"))["spec"]["matchResources"]
    assert resources == {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}

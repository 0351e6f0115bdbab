"""Admission webhooks: who is asked about what."""

import pytest

from tests.conformance.answers import refused
from tests.conformance.objects import configmap, configmaps, create_pod, jobset, jobsets, pod, pods
from tests.conformance.webhooks import (
    CONFIGMAPS,
    Hooks,
    note,
    patch,
)


async def test_a_review_of_a_create(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook"))
    created = await hooks.create()
    (request,) = hooks.requests("hook")
    assert request.pop("uid") != created["metadata"]["uid"]
    user = request.pop("userInfo")
    assert "system:masters" in user["groups"]
    sent = request.pop("object")
    assert (sent["kind"], sent["metadata"]["name"], sent["data"]) == ("ConfigMap", "a", {"k": "v"})
    options = request.pop("options")
    assert options["kind"] == "CreateOptions"
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request == {
        "kind": kind,
        "requestKind": kind,
        "resource": resource,
        "requestResource": resource,
        "name": "a",
        "namespace": hooks.namespace,
        "operation": "CREATE",
        "oldObject": None,
        "dryRun": False,
    }


async def test_a_review_of_an_update_has_both_objects(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook"))
    await hooks.create()
    await hooks.server.api.patch(configmaps(hooks.namespace, "a"), {"data": {"k": "w"}})
    request = hooks.requests("hook")[-1]
    assert request["operation"] == "UPDATE"
    assert (request["oldObject"]["data"], request["object"]["data"]) == ({"k": "v"}, {"k": "w"})
    # A patch is an update by the time it is reviewed.
    assert request["options"]["kind"] == "UpdateOptions"


async def test_a_review_of_a_delete_has_the_old_object(hooks: Hooks) -> None:
    await hooks.register("validating", hooks.entry("hook", rules=[{**CONFIGMAPS, "operations": ["DELETE"]}]))
    await hooks.create()
    await hooks.server.api.delete(configmaps(hooks.namespace, "a"), propagation="Background")
    (request,) = hooks.requests("hook")
    assert request["operation"] == "DELETE"
    assert (request["object"], request["oldObject"]["data"]) == (None, {"k": "v"})
    assert request["options"]["kind"] == "DeleteOptions"
    assert request["options"]["propagationPolicy"] == "Background"


async def test_a_generated_name_is_not_known_before_validation(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("mutate"))
    await hooks.register("validating", hooks.entry("validate"))
    created = await hooks.server.api.create(configmaps(hooks.namespace), {"metadata": {"generateName": "gen-"}})
    (before,), (after,) = hooks.requests("mutate"), hooks.requests("validate")
    assert "name" not in before["object"]["metadata"]
    assert after["object"]["metadata"]["name"] == created["metadata"]["name"]


async def test_a_dry_run_says_so(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", note("n", "1")))
    answer = await hooks.server.api.create(configmaps(hooks.namespace), configmap("a", {"k": "v"}), dryRun="All")
    assert answer["data"] == {"k": "v", "n": "1"}
    (request,) = hooks.requests("hook")
    assert request["dryRun"] is True
    assert request["options"]["dryRun"] == ["All"]


async def test_custom_resources_are_reviewed_too(hooks: Hooks) -> None:
    rule = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    labels = patch({"op": "add", "path": "/metadata/labels", "value": {"l": "1"}})
    await hooks.register("mutating", hooks.entry("hook", labels, rules=[rule]))
    created = await hooks.server.api.create(jobsets(hooks.namespace), jobset())
    assert created["metadata"]["labels"] == {"l": "1"}
    assert hooks.requests("hook")[0]["kind"] == {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"}


# Who is asked


async def test_only_the_operations_of_a_rule(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", rules=[{**CONFIGMAPS, "operations": ["UPDATE"]}]))
    await hooks.create()
    assert hooks.requests("hook") == []
    await hooks.server.api.patch(configmaps(hooks.namespace, "a"), {"data": {"k": "w"}})
    assert hooks.names("hook") == ["a"]


async def test_subresources_have_rules_of_their_own(hooks: Hooks) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"]}
    await hooks.register(
        "validating",
        hooks.entry("pods", rules=[{**rule, "resources": ["pods"]}]),
        hooks.entry("statuses", rules=[{**rule, "resources": ["pods/status"]}]),
        hooks.entry("everything", rules=[{**rule, "resources": ["pods/*"]}]),
    )
    await create_pod(hooks.server, hooks.namespace, pod())
    # A namespace that is new may have refused the pod a few times.
    created = hooks.requests("pods")[-1]
    for name in ("pods", "statuses", "everything"):
        hooks.requests(name).clear()
    await hooks.server.api.patch(f"{pods(hooks.namespace, 'a')}/status", {"status": {"phase": "Running"}})
    assert (created["operation"], "subResource" in created) == ("CREATE", False)
    assert hooks.requests("pods") == []
    for name in ("statuses", "everything"):
        (request,) = hooks.requests(name)
        assert (request["operation"], request["subResource"]) == ("UPDATE", "status")
        assert request["resource"]["resource"] == "pods"


async def test_objects_are_selected_by_their_labels(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", objectSelector={"matchLabels": {"l": "1"}}))
    await hooks.create("a")
    await hooks.create("b", labels={"l": "1"})
    assert hooks.names("hook") == ["b"]


async def test_an_update_is_selected_by_the_old_labels_too(hooks: Hooks) -> None:
    rule = {**CONFIGMAPS, "operations": ["UPDATE"]}
    await hooks.register("mutating", hooks.entry("hook", rules=[rule], objectSelector={"matchLabels": {"l": "1"}}))
    await hooks.create("a", labels={"l": "1"})
    await hooks.server.api.patch(configmaps(hooks.namespace, "a"), {"metadata": {"labels": {"l": None}}})
    assert hooks.names("hook") == ["a"]


async def test_namespaces_are_selected_by_their_labels(hooks: Hooks) -> None:
    await hooks.register(
        "mutating",
        hooks.entry("here"),
        hooks.entry("elsewhere", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}),
    )
    await hooks.create()
    assert hooks.names("here") == ["a"]
    assert hooks.requests("elsewhere") == []


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        pytest.param("object.metadata.name == 'b'", ["b"], id="object"),
        pytest.param("has(object.data.k) && object.metadata.name.startsWith('a')", ["a"], id="functions"),
        pytest.param("request.operation == 'CREATE' && request.name != 'a'", ["b"], id="request"),
        pytest.param("oldObject == null", ["a", "b"], id="old-object"),
        pytest.param("'system:masters' in request.userInfo.groups", ["a", "b"], id="user"),
        pytest.param("has(object.metadata.labels) && 'l' in object.metadata.labels", ["b"], id="labels"),
        pytest.param("false", [], id="false"),
    ],
)
async def test_conditions_select(hooks: Hooks, expression: str, names: list[str]) -> None:
    conditions = [{"name": "c", "expression": expression}]
    await hooks.register("mutating", hooks.entry("hook", matchConditions=conditions))
    await hooks.create("a")
    await hooks.create("b", labels={"l": "1"})
    assert hooks.names("hook") == names


async def test_every_condition_must_hold(hooks: Hooks) -> None:
    conditions = [
        {"name": "one", "expression": "true"},
        {"name": "two", "expression": "object.metadata.name == 'b'"},
    ]
    await hooks.register("mutating", hooks.entry("hook", matchConditions=conditions))
    await hooks.create("a")
    await hooks.create("b")
    assert hooks.names("hook") == ["b"]


BROKEN = [{"name": "broken", "expression": "object.data.nothing == 'x'"}]


async def test_a_condition_that_fails_refuses(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", matchConditions=BROKEN))
    await refused(hooks.create(), 403, "Forbidden", saying=["no such key: nothing"])
    assert hooks.requests("hook") == []


async def test_a_condition_that_fails_may_be_ignored(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", matchConditions=BROKEN, failurePolicy="Ignore"))
    await hooks.create()
    assert hooks.requests("hook") == []


async def test_a_condition_that_is_false_outweighs_one_that_fails(hooks: Hooks) -> None:
    conditions = [*BROKEN, {"name": "false", "expression": "false"}]
    await hooks.register("mutating", hooks.entry("hook", matchConditions=conditions))
    await hooks.create()
    assert hooks.requests("hook") == []

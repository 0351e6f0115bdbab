"""Admission webhooks: which requests are sent to which webhook, and with which fields."""

from tests.conformance.answers import forbidden
from tests.conformance.objects import (
    NAMESPACES,
    configmap,
    configmaps,
    create_pod,
    jobset,
    jobsets,
    pod,
    pod_spec,
    pods,
)
from tests.conformance.webhooks import CONFIGMAPS, Hooks, note, patch
from tests.controlplane.api import Object


async def test_reviews_of_a_create_and_an_update_have_all_fields(hooks: Hooks) -> None:
    # A review of a create.
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

    # A review of an update has both objects.
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


async def test_webhooks_see_what_the_servers_own_plugins_made_of_a_pod(hooks: Hooks) -> None:
    rule = {**CONFIGMAPS, "resources": ["pods"]}
    await hooks.register("mutating", hooks.entry("hook", rules=[rule]))
    await create_pod(hooks.server, hooks.namespace, pod())
    spec = hooks.requests("hook")[-1]["object"]["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert spec["serviceAccountName"] == "default"
    assert {toleration["key"] for toleration in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }

    # They refuse a pod before it has a name, and before webhooks get it.
    hooks.requests("hook").clear()
    unknown = pod("", pod_spec(priorityClassName="none"), generateName="gen-")
    await forbidden(
        hooks.server.api.create(pods(hooks.namespace), unknown),
        'pods "gen-" is forbidden: no PriorityClass with name none was found',
    )
    assert hooks.requests("hook") == []


async def test_a_review_of_a_dry_run_has_the_flag(hooks: Hooks) -> None:
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


async def test_webhooks_are_selected_by_operation_and_old_labels(hooks: Hooks) -> None:
    # Only the operations of a rule.
    await hooks.register("mutating", hooks.entry("hook", rules=[{**CONFIGMAPS, "operations": ["UPDATE"]}]))
    await hooks.create()
    assert hooks.requests("hook") == []
    await hooks.server.api.patch(configmaps(hooks.namespace, "a"), {"data": {"k": "w"}})
    assert hooks.names("hook") == ["a"]

    # An update is selected by the old labels too.
    rule = {**CONFIGMAPS, "operations": ["UPDATE"]}
    labelled = hooks.entry("labelled", rules=[rule], objectSelector={"matchLabels": {"l": "1"}})
    await hooks.register("mutating", labelled, name="b")
    await hooks.create("b", labels={"l": "1"})
    await hooks.server.api.patch(configmaps(hooks.namespace, "b"), {"metadata": {"labels": {"l": None}}})
    assert hooks.names("labelled") == ["b"]


async def test_a_namespace_is_selected_by_its_own_new_labels(hooks: Hooks) -> None:
    rule = {**CONFIGMAPS, "resources": ["namespaces"]}
    mine = {"selected": hooks.namespace}
    await hooks.register("validating", hooks.entry("hook", rules=[rule], namespaceSelector={"matchLabels": mine}))
    for name, labels in (("a", {}), ("b", mine)):
        await hooks.server.api.create(NAMESPACES, {"metadata": {"name": f"{hooks.namespace}-{name}", "labels": labels}})
    for value in (hooks.namespace, None):
        patch = {"metadata": {"labels": {"selected": value}}}
        await hooks.server.api.patch(f"{NAMESPACES}/{hooks.namespace}-a", patch)
    asked = [(request["operation"], request["name"], request["namespace"]) for request in hooks.requests("hook")]
    a, b = f"{hooks.namespace}-a", f"{hooks.namespace}-b"
    assert asked == [("CREATE", b, b), ("UPDATE", a, a)]


async def test_subresources_are_matched_by_separate_rules(hooks: Hooks) -> None:
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


BROKEN = [{"name": "broken", "expression": "object.data.nothing == 'x'"}]
FALSE = {"name": "false", "expression": "false"}
# Which of the ConfigMaps a, without labels, and b, with the label l, a webhook is asked about.
SELECTED: list[tuple[str, Object, list[str]]] = [
    ("namespace", {}, ["a", "b"]),
    ("other-namespace", {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}}, []),
    ("labels", {"objectSelector": {"matchLabels": {"l": "1"}}}, ["b"]),
    *(
        (f"condition-{name}", {"matchConditions": [{"name": "c", "expression": expression}]}, names)
        for name, expression, names in (
            ("object", "object.metadata.name == 'b'", ["b"]),
            ("functions", "has(object.data.k) && object.metadata.name.startsWith('a')", ["a"]),
            ("request", "request.operation == 'CREATE' && request.name != 'a'", ["b"]),
            ("old-object", "oldObject == null", ["a", "b"]),
            ("user", "'system:masters' in request.userInfo.groups", ["a", "b"]),
            ("labels", "has(object.metadata.labels) && 'l' in object.metadata.labels", ["b"]),
            ("false", "false", []),
        )
    ),
    (
        "every-condition",
        {
            "matchConditions": [
                {"name": "one", "expression": "true"},
                {"name": "two", "expression": "object.metadata.name == 'b'"},
            ]
        },
        ["b"],
    ),
    # One that fails refuses, or its webhook is ignored; one that is false outweighs it.
    ("broken-ignored", {"matchConditions": BROKEN, "failurePolicy": "Ignore"}, []),
    ("broken-and-false", {"matchConditions": [*BROKEN, FALSE]}, []),
]


async def test_webhooks_are_selected_by_selectors_and_conditions(hooks: Hooks) -> None:
    await hooks.register("mutating", *(hooks.entry(name, **fields) for name, fields, _ in SELECTED))
    await hooks.create("a")
    await hooks.create("b", labels={"l": "1"})
    assert {name: hooks.names(name) for name, _, _ in SELECTED} == {name: names for name, _, names in SELECTED}


async def test_a_match_condition_with_an_error_refuses_the_request(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", matchConditions=BROKEN))
    await forbidden(hooks.create(), saying=["no such key: nothing"])
    assert hooks.requests("hook") == []

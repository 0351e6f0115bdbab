"""Admission webhooks: who is called with what, in which order, and what becomes of the answer."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conformance.answers import details_of, refused, send, warnings_of
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, create_pod, jobset, jobsets, pod, pods
from tests.conformance.webhooks import (
    CONFIGMAPS,
    CONFIGURATIONS,
    DOMAIN,
    KINDS,
    Hooks,
    Phase,
    Respond,
    allow,
    deny,
    note,
    patch,
    raw,
    warn,
)
from tests.controlplane.api import Object
from tests.controlplane.pki import Authority

PHASES: list[Phase] = ["mutating", "validating"]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority("webhooks-ca", tmp_path_factory.mktemp("webhooks"))


@pytest.fixture
async def hooks(server: Server, namespace: str, authority: Authority) -> AsyncIterator[Hooks]:
    hooks = Hooks(server, namespace, authority.certificate.read_bytes())
    await hooks.open(authority.server(namespace))
    yield hooks
    await hooks.close()


async def create(hooks: Hooks, name: str = "a", **metadata: Any) -> Object:
    return await hooks.server.api.create(configmaps(hooks.namespace), configmap(name, {"k": "v"}, **metadata))


# What is asked


async def test_a_review_of_a_create(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook"))
    created = await create(hooks)
    (request,) = hooks.requests["hook"]
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
    await create(hooks)
    await hooks.server.api.patch(configmaps(hooks.namespace, "a"), {"data": {"k": "w"}})
    request = hooks.requests["hook"][-1]
    assert request["operation"] == "UPDATE"
    assert (request["oldObject"]["data"], request["object"]["data"]) == ({"k": "v"}, {"k": "w"})
    # A patch is an update by the time it is reviewed.
    assert request["options"]["kind"] == "UpdateOptions"


async def test_a_review_of_a_delete_has_the_old_object(hooks: Hooks) -> None:
    await hooks.register("validating", hooks.entry("hook", rules=[{**CONFIGMAPS, "operations": ["DELETE"]}]))
    await create(hooks)
    await hooks.server.api.delete(configmaps(hooks.namespace, "a"), propagation="Background")
    (request,) = hooks.requests["hook"]
    assert request["operation"] == "DELETE"
    assert (request["object"], request["oldObject"]["data"]) == (None, {"k": "v"})
    assert request["options"]["kind"] == "DeleteOptions"
    assert request["options"]["propagationPolicy"] == "Background"


async def test_a_generated_name_is_not_known_before_validation(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("mutate"))
    await hooks.register("validating", hooks.entry("validate"))
    created = await hooks.server.api.create(configmaps(hooks.namespace), {"metadata": {"generateName": "gen-"}})
    (before,), (after,) = hooks.requests["mutate"], hooks.requests["validate"]
    assert "name" not in before["object"]["metadata"]
    assert after["object"]["metadata"]["name"] == created["metadata"]["name"]


async def test_a_dry_run_says_so(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", note("n", "1")))
    answer = await hooks.server.api.create(configmaps(hooks.namespace), configmap("a", {"k": "v"}), dryRun="All")
    assert answer["data"] == {"k": "v", "n": "1"}
    (request,) = hooks.requests["hook"]
    assert request["dryRun"] is True
    assert request["options"]["dryRun"] == ["All"]


async def test_custom_resources_are_reviewed_too(hooks: Hooks) -> None:
    rule = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    labels = patch({"op": "add", "path": "/metadata/labels", "value": {"l": "1"}})
    await hooks.register("mutating", hooks.entry("hook", labels, rules=[rule]))
    created = await hooks.server.api.create(jobsets(hooks.namespace), jobset())
    assert created["metadata"]["labels"] == {"l": "1"}
    assert hooks.requests["hook"][0]["kind"] == {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"}


# Who is asked


async def test_only_the_operations_of_a_rule(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", rules=[{**CONFIGMAPS, "operations": ["UPDATE"]}]))
    await create(hooks)
    assert hooks.requests["hook"] == []
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
    created = hooks.requests["pods"][-1]
    for requests in hooks.requests.values():
        requests.clear()
    await hooks.server.api.patch(f"{pods(hooks.namespace, 'a')}/status", {"status": {"phase": "Running"}})
    assert (created["operation"], "subResource" in created) == ("CREATE", False)
    assert hooks.requests["pods"] == []
    for name in ("statuses", "everything"):
        (request,) = hooks.requests[name]
        assert (request["operation"], request["subResource"]) == ("UPDATE", "status")
        assert request["resource"]["resource"] == "pods"


async def test_objects_are_selected_by_their_labels(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", objectSelector={"matchLabels": {"l": "1"}}))
    await create(hooks, "a")
    await create(hooks, "b", labels={"l": "1"})
    assert hooks.names("hook") == ["b"]


async def test_an_update_is_selected_by_the_old_labels_too(hooks: Hooks) -> None:
    rule = {**CONFIGMAPS, "operations": ["UPDATE"]}
    await hooks.register("mutating", hooks.entry("hook", rules=[rule], objectSelector={"matchLabels": {"l": "1"}}))
    await create(hooks, "a", labels={"l": "1"})
    await hooks.server.api.patch(configmaps(hooks.namespace, "a"), {"metadata": {"labels": {"l": None}}})
    assert hooks.names("hook") == ["a"]


async def test_namespaces_are_selected_by_their_labels(hooks: Hooks) -> None:
    await hooks.register(
        "mutating",
        hooks.entry("here"),
        hooks.entry("elsewhere", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}),
    )
    await create(hooks)
    assert hooks.names("here") == ["a"]
    assert hooks.requests["elsewhere"] == []


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
    await create(hooks, "a")
    await create(hooks, "b", labels={"l": "1"})
    assert hooks.names("hook") == names


async def test_every_condition_must_hold(hooks: Hooks) -> None:
    conditions = [
        {"name": "one", "expression": "true"},
        {"name": "two", "expression": "object.metadata.name == 'b'"},
    ]
    await hooks.register("mutating", hooks.entry("hook", matchConditions=conditions))
    await create(hooks, "a")
    await create(hooks, "b")
    assert hooks.names("hook") == ["b"]


BROKEN = [{"name": "broken", "expression": "object.data.nothing == 'x'"}]


async def test_a_condition_that_fails_refuses(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", matchConditions=BROKEN))
    await refused(create(hooks), 403, "Forbidden", saying=["no such key: nothing"])
    assert hooks.requests["hook"] == []


async def test_a_condition_that_fails_may_be_ignored(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", matchConditions=BROKEN, failurePolicy="Ignore"))
    await create(hooks)
    assert hooks.requests["hook"] == []


async def test_a_condition_that_is_false_outweighs_one_that_fails(hooks: Hooks) -> None:
    conditions = [*BROKEN, {"name": "false", "expression": "false"}]
    await hooks.register("mutating", hooks.entry("hook", matchConditions=conditions))
    await create(hooks)
    assert hooks.requests["hook"] == []


# What becomes of the answer


async def test_a_patch_changes_what_is_stored(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", note("n", "1")))
    created = await create(hooks)
    assert created["data"] == {"k": "v", "n": "1"}
    assert (await hooks.server.api.get(configmaps(hooks.namespace, "a")))["data"] == {"k": "v", "n": "1"}


async def test_webhooks_are_called_in_the_order_of_their_configurations(hooks: Hooks) -> None:
    async def register(name: str) -> None:
        operations = [{"op": "add", "path": "/data/last", "value": name}]
        await hooks.register("mutating", hooks.entry(f"hook-{name}", patch(*operations)), name=name)

    for name in ("b", "a", "c"):
        await register(name)
    created = await create(hooks)
    assert created["data"]["last"] == "c"
    seen = [hooks.requests[f"hook-{name}"][0]["object"]["data"].get("last") for name in "abc"]
    assert seen == [None, "a", "b"]


async def test_webhooks_of_one_configuration_are_called_in_its_order(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("two", note("last", "two")), hooks.entry("one", note("last", "one")))
    assert (await create(hooks))["data"]["last"] == "one"


@pytest.mark.parametrize(("policy", "calls"), [("IfNeeded", 2), ("Never", 1)])
async def test_a_webhook_is_called_again_if_another_changed_something(hooks: Hooks, policy: str, calls: int) -> None:
    await hooks.register(
        "mutating",
        hooks.entry("first", reinvocationPolicy=policy),
        hooks.entry("second", note("n", "1")),
    )
    await create(hooks)
    assert len(hooks.requests["first"]) == calls
    assert hooks.requests["first"][-1]["object"]["data"].get("n") == ("1" if calls == 2 else None)


async def test_validation_sees_what_mutation_made(hooks: Hooks) -> None:
    await hooks.register("validating", hooks.entry("validate"))
    await hooks.register("mutating", hooks.entry("mutate", note("n", "1")))
    await create(hooks)
    assert hooks.requests["validate"][0]["object"]["data"] == {"k": "v", "n": "1"}


async def test_what_mutation_made_is_validated_by_the_server(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", note("bad key", "1")))
    await refused(
        create(hooks),
        422,
        "Invalid",
        saying='data[bad key]: Invalid value: "bad key": ',
        causes=[("FieldValueInvalid", "data[bad key]")],
    )


async def test_a_patch_that_fails_is_an_error(hooks: Hooks) -> None:
    operations = patch({"op": "replace", "path": "/nothing/here", "value": 1})
    await hooks.register("mutating", hooks.entry("hook", operations))
    await refused(create(hooks), 500, "InternalError", saying="Internal error occurred: ")


@pytest.mark.parametrize("phase", PHASES)
async def test_a_refusal_is_passed_on(hooks: Hooks, phase: Phase) -> None:
    status = {
        "code": 418,
        "reason": "Teapot",
        "message": "not today",
        "details": {"name": "other", "causes": [{"reason": "C", "field": "spec.x", "message": "why"}]},
    }
    await hooks.register(phase, hooks.entry("hook", deny(**status)))
    failure = await refused(
        create(hooks),
        418,
        "Teapot",
        f'admission webhook "hook.{DOMAIN}" denied the request: not today',
        causes=[("C", "spec.x")],
    )
    assert details_of(failure) == {"name": "other"}
    await refused(hooks.server.api.get(configmaps(hooks.namespace, "a")), 404, "NotFound")


@pytest.mark.parametrize(
    ("respond", "code", "reason", "words"),
    [
        pytest.param(deny(), 400, "", " without explanation", id="nothing"),
        pytest.param(deny(message="no"), 400, "", ": no", id="message"),
        pytest.param(deny(reason="Because"), 400, "Because", ": Because", id="reason"),
        pytest.param(deny(code=200, message="no"), 400, "", ": no", id="code-of-success"),
        pytest.param(deny(code=403, message="no"), 403, "", ": no", id="code"),
    ],
)
async def test_a_refusal_says_what_it_can(hooks: Hooks, respond: Respond, code: int, reason: str, words: str) -> None:
    await hooks.register("validating", hooks.entry("hook", respond))
    await refused(create(hooks), code, reason, f'admission webhook "hook.{DOMAIN}" denied the request{words}')


async def test_a_dry_run_can_be_refused(hooks: Hooks) -> None:
    await hooks.register("validating", hooks.entry("hook", deny(code=403, message="no")))
    await refused(
        hooks.server.api.create(configmaps(hooks.namespace), configmap("a"), dryRun="All"), 403, "", saying=": no"
    )


@pytest.mark.parametrize("phase", PHASES)
async def test_warnings_are_passed_on(hooks: Hooks, phase: Phase) -> None:
    await hooks.register(phase, hooks.entry("hook", warn("careful", "very careful")))
    answer = await send(hooks.server.api, "POST", configmaps(hooks.namespace), configmap("a"))
    assert answer.status == 201
    assert warnings_of(answer) == ["careful", "very careful"]


async def test_a_delete_can_be_refused(hooks: Hooks) -> None:
    rule = {**CONFIGMAPS, "operations": ["DELETE"]}
    await hooks.register("validating", hooks.entry("hook", deny(code=403, message="stay"), rules=[rule]))
    await create(hooks)
    await refused(hooks.server.api.delete(configmaps(hooks.namespace, "a")), 403, "", saying=": stay")
    assert await hooks.server.api.get(configmaps(hooks.namespace, "a"))


# Webhooks that do not answer, or not well


DOWN: Object = {"clientConfig": {"url": "https://127.0.0.1:1/down"}}


@pytest.mark.parametrize("phase", PHASES)
async def test_a_webhook_that_is_down_refuses(hooks: Hooks, phase: Phase) -> None:
    await hooks.register(phase, hooks.entry("hook", **DOWN))
    await refused(
        create(hooks),
        500,
        "InternalError",
        saying=[
            f'Internal error occurred: failed calling webhook "hook.{DOMAIN}": failed to call webhook: ',
            'Post "https://127.0.0.1:1/down?timeout=10s": ',
            "connection refused",
        ],
    )


@pytest.mark.parametrize("phase", PHASES)
async def test_a_webhook_that_is_down_may_be_ignored(hooks: Hooks, phase: Phase) -> None:
    await hooks.register(phase, hooks.entry("hook", failurePolicy="Ignore", **DOWN))
    assert (await create(hooks))["data"] == {"k": "v"}


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_has_its_time(hooks: Hooks, policy: str, code: int) -> None:
    await hooks.register("validating", hooks.entry("hook", None, timeoutSeconds=1, failurePolicy=policy))
    answer = await send(hooks.server.api, "POST", configmaps(hooks.namespace), configmap("a"))
    assert answer.status == code
    if policy == "Fail":
        assert answer.body["reason"] == "InternalError"
        assert f'failed calling webhook "hook.{DOMAIN}": ' in answer.body["message"]
        assert "?timeout=1s" in answer.body["message"]
        assert "context deadline exceeded" in answer.body["message"]


@pytest.mark.parametrize(
    ("respond", "words"),
    [
        pytest.param(raw("nonsense"), "", id="not-json"),
        pytest.param(raw("{}", 404), "", id="not-found"),
        pytest.param(raw("{}"), "", id="no-review"),
        pytest.param(
            lambda _: {"uid": "other", "allowed": True}, 'expected response.uid="', id="answer-to-another-question"
        ),
    ],
)
async def test_an_answer_that_is_none_refuses(hooks: Hooks, respond: Respond, words: str) -> None:
    await hooks.register("validating", hooks.entry("hook", respond))
    await refused(
        create(hooks),
        500,
        "InternalError",
        saying=[f'Internal error occurred: failed calling webhook "hook.{DOMAIN}": ', words],
    )


async def test_an_authority_that_nobody_knows_refuses(hooks: Hooks) -> None:
    entry = hooks.entry("hook")
    del entry["clientConfig"]["caBundle"]
    await hooks.register("validating", entry)
    await refused(create(hooks), 500, "InternalError", saying=f'failed calling webhook "hook.{DOMAIN}": ')


# What can be registered


async def test_a_registration_is_filled_in(hooks: Hooks) -> None:
    body = hooks.configuration("mutating", hooks.entry("hook"))
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


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        pytest.param(
            {"name": "short"},
            "name",
            'Invalid value: "short": should be a domain with at least three segments separated by dots',
            id="name",
        ),
        pytest.param(
            {"sideEffects": "Some"},
            "sideEffects",
            'Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
            id="side-effects",
        ),
        pytest.param(
            {"timeoutSeconds": 31},
            "timeoutSeconds",
            "Invalid value: 31: the timeout value must be between 1 and 30 seconds",
            id="timeout",
        ),
        pytest.param(
            {"failurePolicy": "Odd"},
            "failurePolicy",
            'Unsupported value: "Odd": supported values: "Fail", "Ignore"',
            id="failure-policy",
        ),
    ],
)
@pytest.mark.parametrize("phase", PHASES)
async def test_a_registration_is_validated(hooks: Hooks, phase: Phase, fields: Object, field: str, words: str) -> None:
    body = hooks.configuration(phase, {**hooks.entry("hook"), **fields})
    await refused(
        hooks.server.api.create(CONFIGURATIONS[phase], body),
        422,
        "Invalid",
        f'{KINDS[phase]}.admissionregistration.k8s.io "{body["metadata"]["name"]}" is invalid: '
        f"webhooks[0].{field}: {words}",
    )


async def test_conditions_are_compiled_when_they_are_registered(hooks: Hooks) -> None:
    entry = hooks.entry("hook", matchConditions=[{"name": "c", "expression": "object.metadata.name =="}])
    await refused(
        hooks.server.api.create(CONFIGURATIONS["mutating"], hooks.configuration("mutating", entry)),
        422,
        "Invalid",
        saying="webhooks[0].matchConditions[0].expression: Invalid value: ",
        causes=[("FieldValueInvalid", "webhooks[0].matchConditions[0].expression")],
    )


async def test_a_registration_that_is_gone_calls_nobody(hooks: Hooks) -> None:
    """A registration may be taken away; what calls it then is over at once, or soon."""
    entry = hooks.entry("hook", deny(code=403, message="no"))
    body = hooks.configuration("validating", entry)
    await hooks.server.api.create(CONFIGURATIONS["validating"], body)
    await hooks.server.api.delete(f"{CONFIGURATIONS['validating']}/{body['metadata']['name']}")
    # A later one is in force only when the server has seen this one go.
    await hooks.register("validating", hooks.entry("other", allow), name="b")
    assert await create(hooks)

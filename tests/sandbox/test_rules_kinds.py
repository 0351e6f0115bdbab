"""Secrets, Leases, events, nodes, webhooks and the rest, in the words of real API servers."""

from __future__ import annotations

from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object
from tests.rows import each
from tests.sandbox.asking import create, messages, refused

EVENTS: Object = {
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "a/b",
    "reportingInstance": "i",
    "action": "A",
    "reason": "R",
    "type": "Normal",
}


async def test_string_data_of_a_secret_is_encoded() -> None:
    created = await create(Api(), "secrets", stringData={"a": "b"}, data={"c": "ZA=="})
    assert (created["data"], created["type"], "stringData" in created) == ({"a": "Yg==", "c": "ZA=="}, "Opaque", False)


async def test_a_lease_without_a_duration_is_refused() -> None:
    spec = {"leaseDurationSeconds": 0, "leaseTransitions": -1}
    assert messages(await refused(Api(), "leases.coordination.k8s.io", spec=spec)) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]


async def test_an_event_is_in_the_namespace_of_its_object() -> None:
    for namespace, good in (("default", True), ("other", False)):
        about = {"kind": "Pod", "name": "p", "namespace": namespace}
        if good:
            assert await create(Api(), "events.events.k8s.io", regarding=about, **EVENTS)
        else:
            error = await refused(Api(), "events.events.k8s.io", regarding=about, **EVENTS)
            assert messages(error) == [
                'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
            ]


async def test_a_new_namespace_has_its_name_label_and_finalizer() -> None:
    created = await create(Api(), "namespaces", "n")
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert (created["spec"], created["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


async def test_a_headless_service_has_no_address() -> None:
    created = await create(Api(), "services", spec={"clusterIP": "None", "selector": {"a": "b"}})
    assert created["spec"].items() >= {"clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP"}.items()


async def test_ports_of_a_service_are_filled_in() -> None:
    created = await create(Api(), "services", spec={"ports": [{"port": 80}]})
    assert created["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


async def test_allocatable_defaults_to_capacity() -> None:
    created = await create(Api(), "nodes", status={"capacity": {"cpu": "4000m"}})
    assert created["status"]["allocatable"] == {"cpu": "4"}


async def test_a_role_may_have_any_name_of_a_path() -> None:
    assert await create(Api(), "clusterroles.rbac.authorization.k8s.io", "a:B")


WEBHOOK: Object = {
    "name": "a.b.c",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
}
MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"


@each(("resource", "own"), [(MUTATING, {"reinvocationPolicy": "Never"}), (VALIDATING, {})])
async def test_a_webhook_configuration_is_defaulted(resource: str, own: Object) -> None:
    created = await create(Api(), resource, webhooks=[WEBHOOK])
    assert created["webhooks"] == [
        {
            **WEBHOOK,
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10,
            "rules": [{**WEBHOOK["rules"][0], "scope": "*"}],
            **own,
        }
    ]


async def test_an_invalid_webhook_configuration_is_refused() -> None:
    webhook = {**WEBHOOK, "timeoutSeconds": 31, "clientConfig": {"url": "http://127.0.0.1:1/x"}}
    seconds, scheme = messages(await refused(Api(), MUTATING, webhooks=[webhook]))
    assert seconds == (
        "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"
    )
    assert scheme.startswith("webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed")


async def test_a_webhook_needs_a_unique_name_and_conditions_that_compile() -> None:
    assert messages(await refused(Api(), MUTATING, webhooks=[WEBHOOK, WEBHOOK])) == [
        'webhooks[1].name: Duplicate value: "a.b.c"'
    ]
    conditions = [{"name": "c", "expression": "1 +"}]
    (words,) = messages(await refused(Api(), MUTATING, webhooks=[{**WEBHOOK, "matchConditions": conditions}]))
    path = "webhooks[0].matchConditions[0].expression"
    assert words.startswith(f'{path}: Invalid value: "1 +": compilation failed: ')
